"""Work in few kernels: the same work, traced as a whole, or itself where it cannot be."""

import logging
import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from skillfield.errors import SkillfieldNote
from skillfield.experiments.run import RunConfig, build_ppo, preset
from skillfield.learning.ppo import PPO
from skillfield.recorded import fused

WORLDS = 16
TRACED = "aot_eager"  # traced and taken apart as for a GPU, then run by the same kernels as ever: equal to the bit


def everything() -> RunConfig:
    """The starter with all that the humanoid's last stage asks for."""
    config = preset("starter", "full")
    return replace(
        config,
        num_envs=WORLDS,
        device="cpu",
        threads=1,
        encoder=replace(config.encoder, steps=2),
        env=replace(config.env, clip_end="loop", p_carry=0.7, p_lost=0.5, insight=True, episode_length=8),
        augmentation=replace(config.augmentation, detours=True, p_away=0.3, p_external=0.3, p_neighbour=0.3),
        ppo=replace(config.ppo, by_skill=True, horizon=8, minibatch=32),
    )


def learner() -> PPO:
    """A fresh one, whose worlds are reset as on a GPU."""
    torch.manual_seed(0)
    ppo = build_ppo(everything())
    ppo.env.masked_resets = True
    return ppo


def traced(ppo: PPO) -> PPO:
    """The same, in the words of a compiler."""
    env = ppo.env
    for name in ("_aim", "_judge", "_renew", "_look"):
        setattr(env, name, fused(getattr(env, f"{name}_now"), TRACED))
    ppo._decide = fused(ppo._decide_now, TRACED)  # type: ignore[assignment]
    ppo._policy_loss = fused(ppo._policy_loss_now, TRACED)
    ppo._critic_loss = fused(ppo._critic_loss_now, TRACED)
    return ppo


def test_a_training_can_be_traced_as_a_whole() -> None:
    """Every function that a GPU would run fused, over resets, carried episodes and updates: to the bit the same."""
    plain, other = learner(), traced(learner())
    other._beside = plain._beside = None  # a compiler is no friend of threads
    ended = carried = 0
    for ppo in (plain, other):
        torch.manual_seed(1)
        ppo.observation = ppo.env.reset()
    for update in range(3):
        figures = []
        for ppo in (plain, other):
            torch.manual_seed(2 + update)
            with warnings.catch_warnings():
                warnings.simplefilter("error", SkillfieldNote)  # said where something cannot be traced
                figures.append(ppo.update(0.0))
        assert figures[0] == figures[1]
        rollout = plain._rollout
        assert rollout is not None
        ended += int(rollout.done.sum())
        carried += int(plain.env._lived.sum())
    assert ended > 10
    assert carried > 0
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name
    for name, value in plain.env.snapshot().items():
        assert torch.equal(value, other.env.snapshot()[name]), name


def test_state_is_changed_where_it_is() -> None:
    """As a recording needs it: each call changes the very tensor, once."""
    level = torch.tensor([8.0])

    def leak(inflow: Tensor) -> Tensor:
        level.mul_(0.5).add_(inflow)
        return level.sum()

    work = fused(leak, TRACED)
    assert [float(work(torch.ones(1))) for _ in range(3)] == [5.0, 3.5, 2.75]
    assert float(level) == 2.75


def test_work_that_cannot_be_compiled_is_done_as_it_is() -> None:
    """One note that says why, and the right result, once per call."""
    calls = []

    def unclear(number: Tensor) -> Tensor:
        calls.append(1)
        return number if number.item() > 0 else -number

    work = fused(unclear, TRACED)
    with pytest.warns(SkillfieldNote, match="kernels of unclear are not fused, which is slower: "):
        assert float(work(torch.tensor(-2.0))) == 2.0
    assert float(work(torch.tensor(3.0))) == 3.0
    assert len(calls) == 2
    assert logging.root.manager.disable == logging.NOTSET  # only the compiler was told to be quiet
