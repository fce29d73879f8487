"""Episodes that begin where another one ended."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from puppets import BY, Begin, MakeClip, MakeEnv, carrying, fall_below, has_lived, idle, pose_beside
from skillfield.characters import Character
from skillfield.imitation import EnvConfig
from skillfield.imitation.carrying import onward
from skillfield.imitation.termination import Termination
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, TrackingWeights
from skillfield.reference.motion import Tail
from skillfield.reference.states import StateKinematics
from strolling import places


@BY
def test_who_is_out_of_time_goes_on(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool) -> None:
    """To the learner nothing has ended; the clock begins anew at the frame that was reached, and the world stays."""
    env = carrying(make_env, make_clip(100), 2, by_mask)
    begin(env, [0, 0], [5, 7], masked=[0, 3])
    for _ in range(9):
        env.step(idle(env))
    result = env.step(idle(env))
    assert not (result.terminated | result.truncated).any()
    assert env.frame.tolist() == [15, 14]  # three of the second's ten steps were masked
    assert env.progress.tolist() == env.masked.tolist() == [0, 0]
    torch.testing.assert_close(env.engine.state.qpos, env.motion.qpos[[15, 14]])
    torch.testing.assert_close(result.observation, env.observe())
    assert env.step(idle(env)).reward.tolist() == pytest.approx([1.0, 1.0], abs=1e-3)
    assert not env.away.any()


@BY
def test_who_has_lost_its_object_goes_on_without_it(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """The old episode has failed; the next one earns what the body earns, where the old one stood."""
    env = carrying(make_env, make_clip(100), 2, by_mask, termination=Termination(None, lost_after=4))
    pose_beside(env, ball=[(5.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    begin(env, [0, 0], [5, 5])
    has_lived(env)
    for _ in range(3):
        assert not env.step(idle(env)).terminated.any()
    result = env.step(idle(env))
    assert result.terminated.tolist() == [True, False]
    assert env.away.tolist() == [True, False]
    assert env.frame.tolist() == [9, 5]
    torch.testing.assert_close(env.engine.state.qpos[0, :3], env.motion.qpos[9, :3])
    result = env.step(idle(env))
    assert result.reward.tolist() == pytest.approx([1.0, 1.0], abs=1e-3)
    assert result.scored.tolist() == [False, True]
    assert result.trained.tolist() == [True, True]


@BY
def test_who_is_out_of_time_keeps_its_object_wherever_that_is(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """Only who has lost its demonstration goes on without: the ball may come back."""
    env = carrying(make_env, make_clip(100), 2, by_mask)
    pose_beside(env, ball=[(5.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    begin(env, [0, 0], [5, 5])
    has_lived(env)
    for _ in range(10):
        result = env.step(idle(env))
    assert not (result.terminated | result.truncated).any()
    assert env.frame.tolist() == [15, 15]
    assert env.away.tolist() == [False, False]


@BY
def test_who_follows_nothing_any_more_is_reset(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """Without its object already, and with its body nowhere near: it starts anew on a demonstration; so does a fallen
    one."""
    env = carrying(make_env, make_clip(100), 2, by_mask, termination=Termination(0.3, lost_after=4))
    engine: Any = env.engine
    ball, _ = places(engine.character, "ball")

    def pose() -> tuple[Tensor, Tensor]:
        row = env.motion.row(env.clip, env.frame + env.progress + 1)
        qpos = env.motion.qpos[row].clone()
        qpos[:, 2] += torch.tensor([3.0, -3.0])
        qpos[:, ball.start] += 5.0
        return qpos, env.motion.qvel[row]

    engine.pose = pose
    begin(env, [0, 0], [5, 5], away=[True, False])
    assert env.step(idle(env)).terminated.tolist() == [False, True]
    assert not env.away[1]
    assert env.engine.state.qpos[1, 2] > 0.5  # on its clip again
    for _ in range(2):
        env.step(idle(env))
    assert env.step(idle(env)).terminated[0]
    assert not env.away[0]
    assert env.engine.state.qpos[0, 2] < 2.0


@BY
def test_who_has_moved_with_its_object_keeps_it(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """Hand and ball together 1.5 m beside the demonstration have lost it; compared from where they stand they have not,
    so the next episode follows both."""
    env = carrying(make_env, make_clip(100), 1, by_mask, termination=Termination(None, lost_after=4))
    pose_beside(env, hand=(1.5, 0.0, 0.0), ball=[(1.5, 0.0, 0.0)])
    begin(env, [0], [5])
    has_lived(env)
    for _ in range(4):
        result = env.step(idle(env))
    assert result.terminated.tolist() == [True]
    assert env.frame.tolist() == [9]
    assert not env.away.any()
    result = env.step(idle(env))
    assert result.scored.tolist() == [True]
    assert result.reward.tolist() == pytest.approx([1.0], abs=1e-3)


@BY
def test_a_life_without_the_object_goes_on_without_it(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """Out of time, it stays away, and no sampler hears of it; the patience with a lost body begins anew."""
    env = carrying(make_env, make_clip(100), 1, by_mask, termination=Termination(None, lost_after=4))
    sampler = AugmentedSampler(env.motion, env.engine.character, TrackingWeights(), Augmentation(adapt=True))
    env.sampler = sampler
    pose_beside(env, ball=[(5.0, 0.0, 0.0)])
    begin(env, [0], [5], away=[True])
    has_lived(env)
    env._silent[:] = 3
    for _ in range(20):
        result = env.step(idle(env))
        assert not (result.terminated | result.continues).any()
    assert env.away.tolist() == [True]
    assert env.frame.tolist() == [25]
    assert not sampler.adaptive.mean_reward.any()
    statistics = env.take_statistics()
    assert statistics.episodes.tolist() == [2.0]
    assert statistics.failures.tolist() == [0.0]


@BY
def test_who_loses_and_falls_in_one_step_has_fallen(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """It is reset onto a demonstration."""
    env = carrying(make_env, make_clip(100), 1, by_mask, termination=Termination(None, lost_after=1))
    pose_beside(env, ball=[(5.0, 0.0, 0.0)])
    fall_below(env, 5.0)
    begin(env, [0], [5])
    assert env.step(idle(env)).terminated.tolist() == [True]
    assert not env.away.any()
    assert env.engine.state.qpos[0, 7:].abs().max() < 3.0  # its ball is back


def test_who_has_no_object_cannot_lose_it(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A lost body is then a lost body, and is reset."""
    env = carrying(make_env, make_clip(100), 1, by_mask=False, termination=Termination(None, lost_after=1))
    env._has_objects = False
    pose_beside(env, ball=[(5.0, 0.0, 0.0)])
    begin(env, [0], [5])
    assert env.step(idle(env)).terminated.tolist() == [True]
    assert not env.away.any()
    assert not env._carried.any()


@BY
def test_the_time_of_the_reference_is_seen_at_once(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """A policy that is told the time sees that of the new episode in the very observation that the step returns."""
    env = carrying(make_env, make_clip(100), 1, by_mask, history="time")
    env.motion.origin[15] = 12  # as if frame 15 repeated frame 12
    begin(env, [0], [5])
    for _ in range(10):
        result = env.step(idle(env))
    assert env.frame.tolist() == [12]
    assert float(result.observation[0, -1]) == pytest.approx(12 / 60)


@BY
def test_too_near_the_end_it_is_reset(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool) -> None:
    """Thirty steps must lie ahead: 100 frames leave room after frame 69 and none after 70."""
    env = carrying(make_env, make_clip(100), 2, by_mask)
    begin(env, [0, 0], [59, 60])
    for _ in range(9):
        env.step(idle(env))
    assert env.step(idle(env)).truncated.tolist() == [False, True]
    assert env.frame[0] == 69


@BY
def test_drift_is_forgiven(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool) -> None:
    """A puppet 30 cm beside its clip earns half, until it is compared from where it stands. A reset takes that back."""
    env = carrying(make_env, make_clip(60), 1, by_mask)
    pose_beside(env, hand=(0.3, 0.0, 0.0), ball=[(0.3, 0.0, 0.0)])
    begin(env, [0], [5])
    beside = math.exp(-(20 + 1) * 0.3**2 / 3)  # body and object, by their weights
    rewards = [float(env.step(idle(env)).reward) for _ in range(30)]
    assert rewards[:10] == pytest.approx([beside] * 10, abs=1e-3)
    assert rewards[10:30] == pytest.approx([1.0] * 20, abs=1e-3)  # frame 25 has room, and frame 35 has none
    assert float(env.step(idle(env)).reward) == pytest.approx(beside, abs=1e-3)


@BY
def test_the_sampler_hears_of_every_episode(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """Of one that goes on as of any other: two perfect ones in a row, from frames 5 and 15, make both easier."""
    env = carrying(make_env, make_clip(100), 1, by_mask)
    sampler = AugmentedSampler(env.motion, env.engine.character, TrackingWeights(), Augmentation(adapt=True))
    env.sampler = sampler
    begin(env, [0], [5])
    for _ in range(20):
        env.step(idle(env))
    expected = torch.zeros(100)
    expected[[5, 15]] = 0.1
    torch.testing.assert_close(sampler.adaptive.mean_reward, expected, rtol=0, atol=1e-4)


@BY
def test_a_rollout_runs_through_it(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool) -> None:
    """It has no end in it and nothing is cut, so what comes after counts."""
    env = carrying(make_env, make_clip(100), 2, by_mask, episode_length=3)
    learner = PPO(env, ActorCritic(env.observation_size, env.num_actions, (4,)), PPOConfig(hidden=(4,), horizon=8))
    begin(env, [0, 0], [5, 5])
    rollout = learner.collect(env.observe(), 0.1)
    assert not rollout.done.any()
    assert not rollout.cut.any()
    assert rollout.trained.all()
    torch.testing.assert_close(rollout.reward, torch.ones(8, 2), rtol=0, atol=1e-3)


@BY
def test_the_past_is_kept(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool) -> None:
    """What it remembers is what it has lived, beside its reference, whether the episode changed or not."""
    memories = []
    for chance, length in ((1.0, 4), (0.0, 60)):
        env = carrying(
            make_env,
            make_clip(100),
            1,
            by_mask,
            p_carry=chance,
            episode_length=length,
            history="stacked",
            history_length=12,
        )
        pose_beside(env, ball=[(0.2, 0.0, 0.0)])
        begin(env, [0], [5])
        for _ in range(10):
            env.step(idle(env))
        memories.append(env.observe())
    torch.testing.assert_close(*memories)


def test_another_round_goes_on_from_the_frame_that_it_repeats(make_clip: MakeClip, hand_character: Character) -> None:
    """Frames that follow a clip lead back into it, unless they are of another clip."""
    clips = [make_clip(40), make_clip(40, name="swing", skill="swing")]
    motion = ReferenceMotion(clips, hand_character, ("sway", "swing"))
    assert motion.origin.tolist() == list(range(80))

    def tail(first: int, last: int) -> Tail:
        return motion.frames(torch.arange(first, last))

    # the first goes on with its own frames 10 to 19, then with the other's last five; the second has its own again
    back, other = tail(10, 20), tail(75, 80)
    both = Tail(*(torch.cat((vars(back)[name], vars(other)[name])) for name in vars(back)))
    longer = motion.followed_by([both, tail(50, 60)], StateKinematics(hand_character))
    assert longer.length.tolist() == [55, 50]
    frames = torch.tensor([3, 40, 49, 50, 54, 99])
    assert onward(longer, torch.zeros_like(frames), frames)[1].tolist() == [3, 10, 19, 50, 54, 54]
    assert onward(longer, torch.ones_like(frames[:3]), torch.tensor([0, 40, 49]))[1].tolist() == [0, 10, 19]
    longer.valid[41] = False  # a masked state before the next round: whoever waits there waits on
    assert onward(longer, torch.zeros_like(frames[:3]), torch.tensor([40, 41, 42]))[1].tolist() == [10, 41, 12]


def test_both_ways_give_the_same_episodes(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """By number and by mask, with chances, losses, time-outs and resets mixed: everything agrees to the bit."""
    worlds = []
    for by_mask in (False, True):
        rule = Termination(None, lost_after=5, lost_reward=0.1)
        config = EnvConfig(
            termination=rule, episode_length=12, p_carry=0.5, p_lost=0.5, history="stacked", insight=True
        )
        env = make_env([make_clip(90), make_clip(90, name="swing", skill="swing")], num_envs=6, config=config)
        env.masked_resets = by_mask
        worlds.append(env)
    sampler = worlds[0].sampler
    starts = sampler.draw(200)  # type: ignore[attr-defined]
    for env in worlds:
        env.sampler._drawn = env.sampler._pool = starts  # type: ignore[attr-defined]
        env.sampler._pool_age = -100  # type: ignore[attr-defined]
        begin(env, [0, 1, 0, 1, 0, 1], [5, 20, 25, 40, 2, 3])
        env.observe()
    seen = torch.zeros(3)
    for step in range(120):
        results = []
        for env in worlds:
            torch.manual_seed(step)
            results.append(env.step(0.5 * torch.sin(torch.arange(6.0 * env.num_actions).reshape(6, -1) + step)))
        for name in ("observation", "reward", "scored", "terminated", "truncated", "continues"):
            assert torch.equal(getattr(results[0], name), getattr(results[1], name)), name
        assert torch.equal(worlds[0].insight, worlds[1].insight)
        ended, carried = results[0].terminated | results[0].truncated, worlds[0]._carried
        seen += torch.stack(((carried & ended).sum(), (carried & ~ended).sum(), (ended & ~carried).sum()))
    assert (seen > 5).all()  # each of them has happened
    for name, value in worlds[0].snapshot().items():
        assert torch.equal(value, worlds[1].snapshot()[name]), name
