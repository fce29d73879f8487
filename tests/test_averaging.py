"""What is saved and tested is the mean of the policy's last weights; training goes on with the weights themselves."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from skillfield.errors import ConfigError
from skillfield.experiments.run import RunConfig, build_ppo, preset
from skillfield.learning.averaging import Average
from skillfield.learning.checkpoint import Counters, latest_checkpoint, load_model, resume, save_checkpoint
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.learning.training import Budget
from skillfield.learning.transfer import begin_with


def small_run(average_over: int | None) -> RunConfig:
    """The starter, small enough for a test."""
    config = preset("starter")
    ppo = replace(config.ppo, hidden=(16,), horizon=4, minibatch=64, epochs=1, average_over=average_over)
    return replace(config, num_envs=32, ppo=ppo, budget=Budget(samples=32 * 4 * 20))


def policy_of(learner: PPO) -> dict[str, Tensor]:
    """What it is now, as a copy."""
    return {name: value.clone() for name, value in learner.model.policy.state_dict().items()}


def saved(learner: PPO, run: Path) -> dict[str, Tensor]:
    """The policy as whoever loads the run gets it."""
    save_checkpoint(run, learner, Counters(samples=128, updates=1), {})
    return load_model(latest_checkpoint(run))[0].policy.state_dict()


def test_the_mean_is_plain_at_first_and_then_forgets() -> None:
    """Over two updates: 1; (1 + 3) / 2; then half of what was and half of what is."""
    network = torch.nn.Linear(1, 1, bias=False)
    average, means = Average(network, 2), []
    for weight in (1.0, 3.0, 6.0):
        torch.nn.init.constant_(network.weight, weight)
        average.follow()
        means.append(average.network(torch.ones(1)).item())
    assert means == [1.0, 2.0, 4.0]
    assert network.weight.item() == 6.0


def test_the_mean_is_saved_and_the_training_does_not_notice(tmp_path: Path) -> None:
    """The policy that acts and learns is the same to the bit, with and without; the one that is saved is its mean."""
    torch.manual_seed(0)
    alone = build_ppo(small_run(None))
    steps = []
    for _ in range(3):
        alone.update(0.0)
        steps.append(policy_of(alone))
    averaged = build_ppo(small_run(8))
    for _ in range(3):
        averaged.update(0.0)
    mean = saved(averaged, tmp_path / "averaged")
    for name, last in policy_of(averaged).items():
        assert torch.equal(last, steps[-1][name]), name
        torch.testing.assert_close(mean[name], torch.stack([step[name] for step in steps]).mean(dim=0))
        assert not torch.equal(mean[name], last), name
        assert torch.equal(saved(alone, tmp_path / "alone")[name], last), name


def test_a_resumed_training_has_both(tmp_path: Path) -> None:
    """Three updates and two more are five: the weights and their mean."""
    config = small_run(3)
    whole = build_ppo(config)
    for _ in range(5):
        whole.update(0.0)
    parts = build_ppo(config)
    for _ in range(3):
        parts.update(0.0)
    saved(parts, tmp_path)
    again = build_ppo(config, begun=True)
    resume(latest_checkpoint(tmp_path), again, {})
    for _ in range(2):
        again.update(0.0)
    assert whole.average is not None
    assert again.average is not None
    assert again.average.count == 5
    for name, value in policy_of(whole).items():
        assert torch.equal(value, policy_of(again)[name]), name
        assert torch.equal(whole.average.network.state_dict()[name], again.average.network.state_dict()[name]), name


@pytest.mark.parametrize(("before", "after"), [(3, None), (None, 3)])
def test_it_can_be_switched_between_two_sittings(tmp_path: Path, before: int | None, after: int | None) -> None:
    """Either way the training goes on with what it last was, and before its first update what is saved is that."""
    first = build_ppo(small_run(before))
    for _ in range(2):
        first.update(0.0)
    saved(first, tmp_path)
    second = build_ppo(small_run(after), begun=True)
    resume(latest_checkpoint(tmp_path), second, {})
    again = saved(second, tmp_path / "again")
    for name, value in policy_of(first).items():
        assert torch.equal(policy_of(second)[name], value), name
        assert torch.equal(again[name], value), name


def test_who_begins_with_an_averaged_policy_begins_with_the_mean(tmp_path: Path) -> None:
    """The one that was tested, and not what its training would have gone on with."""
    first = build_ppo(small_run(8))
    for _ in range(3):
        first.update(0.0)
    save_checkpoint(tmp_path, first, Counters(samples=128, updates=1), {"skills": list(first.env.motion.skills)})
    second = build_ppo(small_run(8))
    begin_with(latest_checkpoint(tmp_path), second)
    mean = load_model(latest_checkpoint(tmp_path))[0].policy.state_dict()
    again = saved(second, tmp_path / "again")
    for name, value in policy_of(second).items():
        assert torch.equal(value, mean[name]), name
        assert torch.equal(again[name], mean[name]), name


def test_a_mean_over_nothing_is_refused() -> None:
    """Before anything is trained."""
    with pytest.raises(ConfigError, match="average_over"):
        PPOConfig(average_over=0)
