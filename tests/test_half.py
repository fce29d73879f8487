"""Hidden layers in bfloat16: on a GPU, and while a policy learns on a CPU that multiplies in it."""

from collections.abc import Callable

import pytest
import torch

from skillfield.clips import Clip
from skillfield.imitation import ImitationEnv
from skillfield.learning import networks
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig

MakeModel = Callable[[bool, bool], ActorCritic]


@pytest.fixture
def make_model(monkeypatch: pytest.MonkeyPatch) -> MakeModel:
    """The same networks, asked to be half precise or not, on a CPU that can or cannot."""

    def make(half: bool, able: bool) -> ActorCritic:
        monkeypatch.setattr(networks, "_cpu_has_bfloat16", lambda: able)
        torch.manual_seed(0)
        return ActorCritic(5, 2, (64, 64), half=half)

    return make


@pytest.fixture
def seen() -> torch.Tensor:
    return torch.randn(32, 5, generator=torch.Generator().manual_seed(1))


def test_only_on_a_cpu_that_can_and_only_if_asked(make_model: MakeModel, seen: torch.Tensor) -> None:
    precise = make_model(False, False)
    sigma = torch.zeros(())
    for half, able in ((True, False), (False, True), (True, True)):
        model = make_model(half, able)
        apart = (model.distribution(seen, sigma)[0] - precise.distribution(seen, sigma)[0]).abs().max()
        values_apart = (model.value(seen) - precise.value(seen)).abs().max()
        if half and able:  # eight bits of mantissa in two layers
            assert 1e-6 < apart < 1e-2
            assert 1e-6 < values_apart < 2e-2
        else:
            assert apart == values_apart == 0


def test_what_is_tested_is_precise_on_every_cpu(make_model: MakeModel, seen: torch.Tensor) -> None:
    assert torch.equal(make_model(True, True).act(seen), make_model(False, False).act(seen))


def test_weights_and_their_gradients_stay_precise(make_model: MakeModel, seen: torch.Tensor) -> None:
    model = make_model(True, True)
    mean, _ = model.distribution(seen, torch.zeros(()))
    mean.square().sum().backward()
    for weight in model.policy.parameters():
        assert weight.dtype == torch.float32
        assert weight.grad is not None
        assert weight.grad.dtype == torch.float32
        assert weight.grad.abs().max() > 0


def test_a_rollout_and_its_lesson_are_equally_precise(
    make_clip: Callable[..., Clip], make_env: Callable[..., ImitationEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that did not move has no divergence from itself; one that acted more precisely than it learns would."""
    monkeypatch.setattr(networks, "_cpu_has_bfloat16", lambda: True)
    torch.manual_seed(0)
    env = make_env([make_clip(60)], num_envs=16)
    model = ActorCritic(env.observation_size, env.num_actions, (64, 64), half=True)
    config = PPOConfig(hidden=(64, 64), horizon=4, minibatch=64, epochs=1, learning_rate=1e-30, sigma=1e-3)
    learner = PPO(env, model, config)
    metrics = learner.update(0.0)
    assert abs(metrics["kl"]) < 1e-5
    assert metrics["clipped"] == 0

    monkeypatch.setattr(model, "_half", {"cpu": False})
    rollout = learner.collect(env.observe(), config.sigma)
    monkeypatch.setattr(model, "_half", {"cpu": True})
    assert learner.improve(rollout, config.sigma, 1e-30)["kl"] > 1e-3
