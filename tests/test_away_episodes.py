"""Episodes with the object out of reach: what they earn, and who hears of it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from puppets import fall_below, idle, pose_beside
from skillfield.clips import Clip
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.reference import Augmentation, AugmentedSampler, Starts, TrackingWeights
from strolling import NEVER

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]


@pytest.mark.parametrize("reward", ["sm", "dm"])
def test_an_episode_without_its_object_earns_what_the_body_earns(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, reward: Any
) -> None:
    """A hand 0.1 m too high, in a clip that says that it touches the ball, which nobody does: with the ball away only
    the first counts, wherever the ball is; otherwise the ball, its relation to the hand and the contact do too."""
    clip = make_clip(30, contacts=np.ones((30, 1), dtype=np.float32))
    env = make_env([clip], num_envs=4, config=EnvConfig(reward=reward, termination=NEVER), puppet=True)
    pose_beside(env, hand=(0.0, 0.0, 0.1), ball=[(2.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (2.0, 0.0, 0.0)])
    begin(env, [0] * 4, [5] * 4, away=[True, True, False, False])
    result = env.step(idle(env))
    high = 0.1**2 / 3  # mean square: one of three coordinates
    if reward == "dm":
        expected = [math.exp(-40 * high) + 2] * 2 + [math.exp(-40 * high) + 3, math.exp(-40 * high) + 2]
    else:
        beside = (0.1**2 + 2.0**2) / 3
        whole = [20 * high + 20 * high + 5, 20 * high + 20 * beside + 2.0**2 / 3 + 5]
        expected = [math.exp(-20 * high)] * 2 + [math.exp(-each) for each in whole]
    assert result.reward.tolist() == pytest.approx(expected, rel=1e-3, abs=1e-12)


def test_an_object_away_may_be_as_far_as_it_likes(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """Its distance ends no episode; everywhere else it does. A fall ends both."""
    rule = EnvConfig(termination=Termination(None, 0.5))
    for floor, ends in ((0.0, [False, True, False]), (5.0, [True, True, True])):
        env = make_env([make_clip(30)], num_envs=3, config=rule, puppet=True)
        fall_below(env, floor)
        pose_beside(env, ball=[(2.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
        begin(env, [0] * 3, [5] * 3, away=[True, False, False])
        assert env.step(idle(env)).terminated.tolist() == ends


def test_an_episode_without_its_object_teaches_and_is_not_reported(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """The learner trains on it; neither the reward per skill nor that of the rollout contains it."""
    clips = [make_clip(30), make_clip(30, skill="swing")]
    env = make_env(clips, num_envs=3, puppet=True)
    pose_beside(env, ball=[(2.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)])
    learner = PPO(env, ActorCritic(env.observation_size, env.num_actions, (4,)), PPOConfig(hidden=(4,), horizon=2))
    begin(env, [0, 0, 1], [5] * 3, away=[True, False, False])
    rollout = learner.collect(env.observe(), 0.1)
    assert rollout.trained.all()
    assert rollout.scored.tolist() == [[False, True, True]] * 2
    late = math.exp(-(20 + 1) * 0.1**2 / 3)  # a ball 0.1 m off, and so is its relation to the hand
    torch.testing.assert_close(rollout.reward, torch.tensor([[1.0, late, 1.0]] * 2), rtol=0, atol=1e-4)
    statistics = env.take_statistics()
    assert statistics.steps.tolist() == [2.0, 2.0]
    assert statistics.reward.tolist() == pytest.approx([2 * late, 2.0], abs=1e-3)
    assert learner.improve(rollout, 0.1, 1e-4)["reward"] == pytest.approx((late + 1) / 2, abs=1e-4)


def test_a_masked_step_is_not_filled_with_it(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """The mean of the scored environments is that of whole demonstrations; its own steps keep their reward."""
    env = make_env([make_clip(30)], num_envs=4, config=EnvConfig(termination=NEVER, masked="mean"), puppet=True)
    pose_beside(env, ball=[(0.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)])
    begin(env, [0] * 4, [5] * 4, masked=[3, 0, 0, 0], away=[False, True, False, False])
    late = math.exp(-(20 + 1) * 0.1**2 / 3)
    expected = [(late + 1) / 2, 1.0, late, 1.0]
    assert env.step(idle(env)).reward.tolist() == pytest.approx(expected, abs=1e-4)


def adaptive_env(make_clip: MakeClip, make_env: MakeEnv, masked: bool) -> tuple[ImitationEnv, AugmentedSampler]:
    """Two puppets on a clip of ten frames, with hard starts more often, reset by mask or by number."""
    env = make_env([make_clip(10)], puppet=True)
    sampler = AugmentedSampler(env.motion, env.engine.character, TrackingWeights(), Augmentation(adapt=True))
    env.sampler, env.masked_resets = sampler, masked
    pose_beside(env)
    return env, sampler


@pytest.mark.parametrize("masked", [False, True])
def test_the_sampler_does_not_hear_of_it(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, masked: bool) -> None:
    """Of two perfect episodes that end, from frames 5 and 4, the one with its ball makes its start easier: 0 → 0.1."""
    env, sampler = adaptive_env(make_clip, make_env, masked)
    begin(env, [0, 0], [5, 4], masked=[0, 0], away=[True, False])
    env.config = replace(env.config, episode_length=4)
    for _ in range(4):
        env.step(idle(env))
    expected = torch.zeros(10)
    expected[4] = 0.1
    torch.testing.assert_close(sampler.adaptive.mean_reward, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_it_lasts_until_the_next_start(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, masked: bool) -> None:
    """Through the whole episode, and no longer: the next one is as its own start says."""
    env, sampler = adaptive_env(make_clip, make_env, masked)
    begin(env, [0, 0], [5, 5], away=[True, False])
    row = torch.tensor([2, 2])
    wait = torch.zeros_like(row)
    state = (env.motion.qpos[row], env.motion.qvel[row])
    starts = Starts(*state, wait, row, wait.clone(), row.clone(), torch.tensor([False, True]))
    sampler._drawn = sampler._pool = starts
    told = []
    for _ in range(4):  # from frame 5 to the last, 9
        told.append(env.away.tolist())
        result = env.step(idle(env))
    assert told == [[True, False]] * 4
    assert result.truncated.tolist() == [True, True]
    assert env.away.tolist() == [False, True]
    assert env.step(idle(env)).scored.tolist() == [True, False]


def test_it_goes_on_from_a_snapshot(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """An environment that goes on from it earns the same, to the bit; a later one leaves the snapshot as it was."""
    env, resumed = (make_env([make_clip(30)], num_envs=3, puppet=True) for _ in range(2))
    for each in (env, resumed):
        pose_beside(each, hand=(0.0, 0.0, 0.1), ball=[(2.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    begin(env, [0] * 3, [5] * 3, away=[True, False, False])
    begin(resumed, [0] * 3, [1] * 3, away=[False, True, True])
    env.step(idle(env))
    kept = env.snapshot()
    resumed.restore(kept)
    assert resumed.away.tolist() == [True, False, False]
    ours, theirs = env.step(idle(env)), resumed.step(idle(resumed))
    assert torch.equal(ours.reward, theirs.reward)
    assert torch.equal(ours.scored, theirs.scored)
    begin(env, [0] * 3, [5] * 3)
    assert kept["away"].tolist() == [True, False, False]


def test_a_snapshot_of_an_older_version_has_nobody_away(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """It knew of no such starts and of no seams, and its episodes go on."""
    env = make_env([make_clip(30)], puppet=True)
    begin(env, [0, 0], [5, 6])
    old = env.snapshot()
    home = old.pop("place")
    del old["away"], old["_lived"]
    begin(env, [0, 0], [1, 1], away=[True, True])
    env.anchor.place += 1.0
    env._lived.fill_(True)
    env.restore(old)
    assert env.away.tolist() == env._lived.tolist() == [False, False]
    assert torch.equal(env.anchor.place, home)
    assert env.frame.tolist() == [5, 6]
