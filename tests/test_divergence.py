"""Worlds that explode in either engine: contained, counted, recorded, and started anew."""

from pathlib import Path

import pytest
import torch

from engines import AWAY, PRESSED, Differing, MakeEngine, either_engine, hold, poses, reset_all

make_engine = either_engine
"""Tests that make engines are run with both."""


def test_a_world_that_explodes_is_contained(make_engine: MakeEngine, differing: Differing) -> None:
    """A drive told to go a hundred thousand kilometres: flagged, counted, put back; the others never notice."""
    engine, calm = make_engine(3), make_engine(3)
    for each in (engine, calm):
        reset_all(each, poses(PRESSED, 3))
        each.step(hold(3))
    before = engine.state.rows(torch.arange(3))
    wild = hold(3)
    wild[1] = 1e8
    engine.step(wild)
    calm.step(hold(3))
    assert engine.state.diverged.tolist() == [False, True, False]
    assert engine.num_diverged == 1
    assert float(before.contact_force_w[1].norm()) > 0.1
    for name in set(vars(before)) - {"diverged"}:
        torch.testing.assert_close(getattr(engine.state, name)[1], getattr(before, name)[1], rtol=0, atol=1e-6)
    others = torch.tensor([0, 2])
    assert differing(engine.state.rows(others), calm.state.rows(others)) == []
    engine.step(hold(3))
    assert engine.state.diverged.tolist() == [False, False, False]
    assert engine.num_diverged == 1


def test_an_explosion_leaves_no_file(
    make_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """MuJoCo's own log of warnings appears neither where the user stands nor on the screen."""
    monkeypatch.chdir(tmp_path)
    engine = make_engine(2)
    reset_all(engine, poses(AWAY, 2), torch.full((2, 13), float("nan")))
    engine.step(torch.full((2, 7), 1e30))
    assert engine.num_diverged == 2
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("speed", [5e3, 1e12, float("nan"), float("inf")])
def test_an_impossible_velocity_is_a_divergence(make_engine: MakeEngine, differing: Differing, speed: float) -> None:
    """A world given an absurd or undefined velocity is flagged and counted, and every tensor of it is finite again."""
    engine, calm = make_engine(3), make_engine(3)
    qvel = torch.zeros(3, 13)
    reset_all(calm, poses(PRESSED, 3), qvel)
    qvel[2, 4] = speed
    reset_all(engine, poses(PRESSED, 3), qvel)
    engine.step(hold(3))
    calm.step(hold(3))
    assert engine.state.diverged.tolist() == [False, False, True]
    assert engine.num_diverged == 1
    assert len(engine.take_diverged()) == 1
    others = torch.tensor([0, 1])
    assert differing(engine.state.rows(others), calm.state.rows(others)) == []
    unfinished = [name for name, value in vars(engine.state).items() if not bool(value.isfinite().all())]
    assert unfinished == []


@pytest.mark.parametrize("coordinate", [0, 3, 5, 7, 10])
def test_an_undefined_position_is_a_divergence(make_engine: MakeEngine, coordinate: int) -> None:
    """A world given NaN in any position, a freely falling ball's included, is flagged, and finite afterwards."""
    engine = make_engine(2)
    qpos = poses(AWAY, 2)
    qpos[1, coordinate] = float("nan")
    reset_all(engine, qpos)
    engine.step(hold(2))
    assert engine.state.diverged.tolist() == [False, True]
    unfinished = [name for name, value in vars(engine.state).items() if not bool(value.isfinite().all())]
    assert unfinished == []


def test_undefined_targets_are_a_divergence(make_engine: MakeEngine) -> None:
    """A policy that says NaN is noticed; its world does not quietly go on with other targets."""
    engine = make_engine(2)
    reset_all(engine, poses(AWAY, 2))
    targets = hold(2)
    targets[1, 2] = float("nan")
    engine.step(targets)
    assert engine.state.diverged.tolist() == [False, True]


@pytest.mark.parametrize("masked", [False, True], ids=["numbered", "masked"])
def test_the_last_states_of_an_exploded_world_can_be_replayed(make_engine: MakeEngine, masked: bool) -> None:
    """The record begins at the last reset, ends with the fatal targets, and replays step by step to the explosion."""
    engine = make_engine(2)
    reset_all(engine, poses(PRESSED, 2))
    engine.step(hold(2))
    if masked:
        engine.reset_where(torch.tensor([False, True]), poses(PRESSED, 2), torch.zeros(2, 13))
    else:
        engine.reset(torch.tensor([1]), poses(PRESSED), torch.zeros(1, 13))
    for step in range(4):
        wild = hold(2) + 0.1 * torch.randn(2, 7)
        wild[1] = 1e8 if step == 3 else wild[1]
        engine.step(wild)
    (record,) = engine.take_diverged()
    assert engine.take_diverged() == []
    assert record.env == 1
    assert (record.qpos.shape, record.qvel.shape, record.targets.shape) == ((4, 14), (4, 13), (4, 7))
    torch.testing.assert_close(record.qpos[0].float(), poses(PRESSED)[0])
    torch.testing.assert_close(record.targets[-1].float(), torch.full((7,), 1e8))
    replay = make_engine(1)
    for step in range(4):
        replay.reset(torch.tensor([0]), record.qpos[step : step + 1], record.qvel[step : step + 1])
        replay.step(record.targets[step : step + 1])
        if step < 3:
            torch.testing.assert_close(replay.state.qpos[0], record.qpos[step + 1].float(), rtol=0, atol=1e-4)
    assert replay.state.diverged.tolist() == [True]


def test_records_of_explosions_are_few(make_engine: MakeEngine) -> None:
    """All explosions are counted, but only a handful is kept."""
    engine = make_engine(40)
    reset_all(engine, poses(AWAY, 40))
    engine.step(torch.full((40, 7), 1e8))
    assert engine.num_diverged == 40
    assert 1 <= len(engine.take_diverged()) <= 16


def test_a_reset_clears_the_flag(make_engine: MakeEngine) -> None:
    """A world that is started anew has not diverged."""
    engine = make_engine(2)
    reset_all(engine, poses(AWAY, 2))
    engine.step(torch.full((2, 7), 1e8))
    engine.reset(torch.tensor([0]), poses(AWAY), torch.zeros(1, 13))
    assert engine.state.diverged.tolist() == [False, True]
