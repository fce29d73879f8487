"""Masked steps: what they are worth, and that they teach nothing."""

from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from skillfield.clips import Clip
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.learning.rollout import Rollout
from strolling import NEVER, follow_first_clip, missing

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]


def masked_env(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, treatment: str) -> ImitationEnv:
    """Five puppets on the first clip's frames: masked twice, right, late, right on another clip, and masked there."""
    clips = [make_clip(30), make_clip(30, skill="swing")]
    config = EnvConfig(termination=NEVER, masked=treatment)  # type: ignore[arg-type]
    env = make_env(clips, num_envs=5, config=config, puppet=True)
    engine: Any = env.engine

    def pose() -> tuple[Tensor, Tensor]:
        late = torch.tensor([0, 0, 4, 0, 0])
        row = env.motion.row(torch.zeros_like(env.clip), env.frame + env.progress + 1 - env.masked - late)
        return env.motion.qpos[row.clamp_min(0)], env.motion.qvel[row.clamp_min(0)]

    engine.pose = pose
    begin(env, [0, 0, 0, 1, 1], [5, 5, 5, 5, 5], masked=[2, 0, 0, 0, 1])
    return env


@pytest.mark.parametrize("treatment", ["zero", "mean", "skip"])
def test_the_three_treatments_of_a_masked_step(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, treatment: str
) -> None:
    """Zero; the mean of those scored on the same clip; or zero and left out of training. Scored steps never differ."""
    env = masked_env(make_clip, make_env, begin, treatment)
    result = env.step(torch.zeros(5, env.num_actions))
    assert result.scored.tolist() == [False, True, True, True, False]
    right, late = result.reward[1:3].tolist()
    assert right == pytest.approx(1.0, abs=1e-4)
    assert late < 0.99
    expected = {"zero": [0.0, 0.0], "mean": [(right + late) / 2, 1.0], "skip": [0.0, 0.0]}[treatment]
    assert result.reward[[0, 4]].tolist() == pytest.approx(expected, abs=1e-4)
    left_out = [False, True, True, True, False] if treatment == "skip" else [True] * 5
    assert result.trained.tolist() == left_out


@pytest.mark.parametrize("treatment", ["zero", "mean", "skip"])
def test_no_treatment_enters_the_figures(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch, treatment: str
) -> None:
    """Neither the reported mean per skill, nor the mean of the rollout, nor what the sampler hears."""
    env = masked_env(make_clip, make_env, begin, treatment)
    learner = PPO(env, ActorCritic(env.observation_size, env.num_actions, (4,)), PPOConfig(hidden=(4,), horizon=2))
    learner.observation = env.observe()
    rollout = learner.collect(learner.observation, 0.1)
    scored = torch.tensor([[False, True, True, True, False], [False, True, True, True, True]])
    mean = float(rollout.reward[scored].mean())
    assert learner.improve(rollout, 0.1, 1e-4)["reward"] == pytest.approx(mean, abs=1e-5)
    statistics = env.take_statistics()
    assert statistics.steps.tolist() == [4.0, 3.0]
    assert float(statistics.reward.sum() / 7) == pytest.approx(mean, abs=1e-5)
    heard: list[float] = []
    monkeypatch.setattr(env.sampler, "record", lambda clip, frame, reward, ended: heard.extend(reward[ended].tolist()))
    env.motion.length[:] = 9  # the episodes end three steps after frame 5
    begin(env, [0] * 5, [5] * 5, masked=[2] * 5)
    for _ in range(5):
        env.step(torch.zeros(5, env.num_actions))
    assert heard[0] == pytest.approx(1.0, abs=1e-4)


def test_a_gap_in_the_clip_makes_no_start_hard(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A perfect episode over missing frames is reported with a mean of 1: they are no steps that could earn."""
    env = make_env([missing(make_clip(12), [4, 5, 6])], num_envs=1, puppet=True)
    follow_first_clip(env)
    heard: list[float] = []
    monkeypatch.setattr(env.sampler, "record", lambda clip, frame, reward, ended: heard.extend(reward[ended].tolist()))
    begin(env, [0], [1], masked=[2])
    for _ in range(12):
        env.step(torch.zeros(1, env.num_actions))
    assert heard[0] == pytest.approx(1.0, abs=1e-4)


def test_a_start_before_a_long_gap_is_no_hard_one(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the episode can be compared, so nothing can be learned: it counts as followed, not as failed."""
    config = EnvConfig(termination=NEVER, episode_length=5)
    env = make_env([missing(make_clip(30), list(range(6, 15)))], num_envs=1, config=config, puppet=True)
    follow_first_clip(env)
    heard: list[float] = []
    monkeypatch.setattr(env.sampler, "record", lambda clip, frame, reward, ended: heard.extend(reward[ended].tolist()))
    begin(env, [0], [5])
    for _ in range(5):
        assert not env.step(torch.zeros(1, env.num_actions)).scored.any()
    assert heard == [1.0]


@pytest.mark.parametrize("by_mask", [False, True])
def test_an_episode_as_short_as_its_masked_steps_says_nothing_of_its_start(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch, by_mask: bool
) -> None:
    """It never came to a frame, so it followed none; one that is a step longer is heard of."""
    config = EnvConfig(termination=NEVER, episode_length=3)
    env = make_env([make_clip(30)], num_envs=3, config=config, puppet=True)
    env.masked_resets = by_mask
    follow_first_clip(env)
    heard: list[int] = []
    monkeypatch.setattr(env.sampler, "record", lambda clip, frame, mean, ended: heard.extend(frame[ended].tolist()))
    begin(env, [0] * 3, [5, 6, 7], masked=[3, 2, 4])
    for _ in range(3):
        env.step(torch.zeros(3, env.num_actions))
    assert heard == [6]


def rollout_with_masks() -> Rollout:
    """Six steps of eight environments; the first two steps of four of them are masked."""
    torch.manual_seed(1)
    trained = torch.ones(6, 8, dtype=torch.bool)
    trained[:2, :4] = False
    action = torch.randn(6, 8, 2)
    values = {
        "raw": torch.zeros(6, 8, 3),
        "observation": torch.randn(6, 8, 3),
        "insight": torch.zeros(6, 8, 0),
        "action": action,
        "log_prob": -0.5 * action.square().sum(-1),
        "guide": action[..., :0],
        "reward": torch.rand(6, 8) * trained,
        "done": torch.zeros(6, 8, dtype=torch.bool),
        "trained": trained,
        "scored": trained.clone(),
        "earning": trained.clone(),
        "bootstrap": torch.zeros(6, 8),
        "cut": torch.zeros(6, 8, dtype=torch.bool),
        "skill": torch.zeros(6, 8, dtype=torch.long),
        "away": torch.zeros(6, 8, dtype=torch.bool),
        "last_observation": torch.randn(8, 3),
        "last_insight": torch.zeros(8, 0),
    }
    return Rollout(**{field.name: values[field.name] for field in fields(Rollout)})


def improved(rollout: Rollout, treatment: str) -> dict[str, Tensor]:
    """Networks after one round of updates from the same beginnings."""
    torch.manual_seed(2)
    env: Any = SimpleNamespace(config=EnvConfig(masked=treatment), device=torch.device("cpu"), num_envs=8, num_skills=1)  # type: ignore[arg-type]
    model = ActorCritic(3, 2, (8,))
    PPO(env, model, PPOConfig(hidden=(8,), minibatch=20, epochs=2)).improve(rollout, 0.5, 1e-2)
    return model.state_dict()


@pytest.mark.parametrize("changed", ["reward", "action", "log_prob", "observation"])
def test_skipped_samples_teach_nothing(changed: str) -> None:
    """Whatever is done or earned in them, policy, critic and the scale of values come out the same."""
    before, other = rollout_with_masks(), rollout_with_masks()
    values = getattr(other, changed)
    values[~other.trained] += 3.0
    ours, theirs = improved(before, "skip"), improved(other, "skip")
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def test_samples_that_are_not_skipped_teach() -> None:
    """The same change in a trained sample changes the networks."""
    before, other = rollout_with_masks(), rollout_with_masks()
    other.reward[:2, 4:] += 3.0
    assert not torch.equal(improved(before, "skip")["policy.0.weight"], improved(other, "skip")["policy.0.weight"])


def test_a_rollout_of_masked_steps_alone_teaches_nothing_and_breaks_nothing() -> None:
    """With no sample left, the networks stay as they are."""
    rollout = rollout_with_masks()
    rollout.trained[:] = False
    torch.manual_seed(2)
    fresh = ActorCritic(3, 2, (8,)).state_dict()
    for name, value in improved(rollout, "skip").items():
        assert torch.equal(value, fresh[name]), name
