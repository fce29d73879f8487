"""Resets of both engines: worlds that leave each other alone, and a past that is forgotten."""

import numpy as np
import pytest
import torch

from engines import AWAY, PRESSED, Differing, MakeEngine, carrying, either_engine, hold, poses, reset_all
from skillfield.characters import Character
from skillfield.simulation import CpuEngine

make_engine = either_engine
"""Tests that make engines are run with both."""


def test_resetting_some_worlds_leaves_the_others_alone(make_engine: MakeEngine) -> None:
    """Worlds that are not reset keep every bit of their state, and go on exactly as if nothing had happened."""
    disturbed, untouched = make_engine(4), make_engine(4)
    for engine in (disturbed, untouched):
        reset_all(engine, poses(PRESSED, 4), torch.linspace(0, 1, 52).reshape(4, 13))
        for _ in range(5):
            engine.step(hold(4))
    before = disturbed.state.rows(torch.arange(4))
    disturbed.reset(torch.tensor([1, 3]), poses(AWAY, 2), torch.ones(2, 13))
    others = torch.tensor([0, 2])
    for name, value in vars(before).items():
        assert torch.equal(value[others], getattr(disturbed.state, name)[others]), name
    assert torch.equal(disturbed.state.qpos[[1, 3]], poses(AWAY, 2))
    for _ in range(5):
        disturbed.step(hold(4))
        untouched.step(hold(4))
    for name, value in vars(disturbed.state).items():
        assert torch.equal(value[others], getattr(untouched.state, name)[others]), name


@pytest.mark.parametrize("chosen", [(), (1,), (0, 2, 3), (0, 1, 2, 3)], ids=["none", "one", "three", "all"])
def test_a_masked_reset_is_a_reset(make_engine: MakeEngine, differing: Differing, chosen: tuple[int, ...]) -> None:
    """Worlds named by a mask or by their numbers end up in the same bits, and go on in the same bits."""
    masked, numbered = make_engine(4), make_engine(4)
    for engine in (masked, numbered):
        reset_all(engine, poses(PRESSED, 4), torch.linspace(0, 1, 52).reshape(4, 13))
        wild = hold(4)
        wild[2] = 1e8
        engine.step(wild)
    envs, mask = torch.tensor(chosen, dtype=torch.long), torch.zeros(4, dtype=torch.bool)
    mask[envs] = True
    qpos, qvel = poses(PRESSED, 4) + 0.001 * torch.arange(4)[:, None], torch.linspace(-1, 1, 52).reshape(4, 13)
    qpos[~mask], qvel[~mask] = float("nan"), float("nan")  # never looked at
    masked.reset_where(mask, qpos, qvel)
    if chosen:
        numbered.reset(envs, qpos[envs], qvel[envs])
    assert masked.state.diverged.tolist() == [False, False, 2 not in chosen, False]
    assert differing(masked.state, numbered.state) == []
    for engine in (masked, numbered):
        engine.step(hold(4))
    assert differing(masked.state, numbered.state) == []
    assert torch.equal(masked.snapshot()["integration_state"], numbered.snapshot()["integration_state"])


def test_a_reset_forgets_the_past_of_a_world(make_engine: MakeEngine) -> None:
    """The same start and the same targets give the same bits, whatever the world did before."""
    used, fresh = make_engine(2), make_engine(2)
    start = carrying(2)
    reset_all(used, start)
    for _ in range(30):
        used.step(start[:, :7] + 0.05 * torch.randn(2, 7))
    positions = []
    for engine in (used, fresh):
        reset_all(engine, start)
        engine.step(start[:, :7])
        positions.append(engine.snapshot()["integration_state"][:, 1:])  # all but the time
    assert torch.equal(*positions)


def test_a_reset_slackens_the_muscles(make_engine: MakeEngine, walker_xml: str) -> None:
    """A drive with a state of its own, here a slow muscle, starts anew as well."""
    slow = '<general name="elbow" joint="elbow" dyntype="filter" dynprm="0.5" gainprm="5"/>'
    who = Character.from_mjcf(
        walker_xml.replace('<position name="elbow" joint="elbow" kp="5"/>', slow), objects=("box",)
    )
    used, fresh = make_engine(1, who), make_engine(1, who)
    rest, targets = torch.tensor(who.model.qpos0).float()[None], torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    for _ in range(10):
        used.step(targets)
    for engine in (used, fresh):
        reset_all(engine, rest)
        engine.step(targets)
    assert torch.equal(used.state.qvel, fresh.state.qvel)
    assert float(used.state.qvel.abs().max()) > 0.0


@pytest.mark.parametrize("masked", [False, True], ids=["numbered", "masked"])
def test_a_reset_ends_a_push(hand_character: Character, masked: bool) -> None:
    """A world that is reset after a push has nothing of it; the others still are pushed."""
    engine = CpuEngine(hand_character, 2, 1)
    reset_all(engine, poses(AWAY, 2))
    engine.push(hand_character.object_ids[0], np.array([0.6, 0.0, 0.0]))
    if masked:
        engine.reset_where(torch.tensor([True, False]), poses(AWAY, 2), torch.zeros(2, 13))
    else:
        engine.reset(torch.tensor([0]), poses(AWAY), torch.zeros(1, 13))
    engine.step(hold(2))
    assert engine.state.object_lin_vel_w[:, 0, 0].tolist() == pytest.approx([0.0, 1.0], abs=1e-3)  # 0.6 Ns, 0.6 kg
