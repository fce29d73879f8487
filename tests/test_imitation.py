"""The vector environment: rewards in time, ends of episodes, masks, resets and statistics."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from puppets import fall_below, pose_beside
from skillfield.clips import Clip
from skillfield.evaluation.plan import starts_at
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.outcome import StepResult
from skillfield.imitation.termination import Termination, floor_of_falls, lost_objects
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from strolling import missing

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]

NEVER = Termination(min_root_height=None)


def ended(result: StepResult) -> list[int]:
    """Environments whose episode is over."""
    assert result.finals is not None
    return result.finals.envs.tolist()


def test_a_fallen_root_is_a_failure() -> None:
    """The limit is the rule's, or a decimetre under demonstrations that are lower; without a rule nobody falls."""
    demonstrated = torch.tensor([0.9, math.inf, 0.35, 0.11])
    floor = floor_of_falls(Termination(min_root_height=0.3), demonstrated)
    assert floor.tolist() == pytest.approx([0.3, 0.3, 0.3, 0.01])  # who gets up begins on the floor
    assert floor_of_falls(NEVER, demonstrated).tolist() == [-math.inf] * 4


def test_who_lies_as_demonstrated_has_not_fallen(
    make_clip: Callable[..., Clip], make_env: Callable[..., ImitationEnv]
) -> None:
    """Nor has who begins there and is to stand up: it can fall once it has risen."""
    high = make_clip(20)
    low = replace(high, name="low", skill="low", root_pos=high.root_pos - np.array([0, 0, 0.45], dtype=np.float32))
    rules = EnvConfig(termination=Termination(min_root_height=float(high.root_pos[:, 2].min())))
    env = make_env([high, low], num_envs=4, config=rules, puppet=True)
    frame = torch.tensor([0, 5, 0, 5])
    starts = starts_at(env.motion, torch.tensor([0, 0, 1, 1]), frame)
    for clip, down in (([0, 0, 1, 1], [False] * 4), ([0, 0, 0, 0], [False, False, True, True])):
        env.start(torch.arange(4), replace(starts, clip=torch.tensor(clip)))
        assert env.down().tolist() == down
        assert not env.fallen().any()
        assert not env.score()[2].any()
    for height, fallen in ((0.0, False), (-0.45, True)):  # it stands up, and lies down again
        pose_beside(env, hand=(0.0, 0.0, height))
        env.advance(idle(env))
        assert env.fallen().tolist() == [fallen] * 4


def test_an_object_lost_is_a_failure() -> None:
    """Any one object further from its reference than allowed ends the episode, if the rule says so."""
    things, reference = torch.zeros(3, 2, 3), torch.zeros(3, 2, 3)
    things[1, 1, 0], things[2, 0, 2] = 0.49, 0.51
    rule = Termination(min_root_height=None, max_object_distance=0.5)
    assert lost_objects(rule, things, reference).tolist() == [False, False, True]
    assert lost_objects(rule, things[:, :0], reference[:, :0]).tolist() == [False, False, False]
    assert lost_objects(NEVER, things, reference).tolist() == [False, False, False]


def steer(env: ImitationEnv, pose: Callable[[], tuple[Tensor, Tensor]]) -> None:
    """Decide where the worlds of a puppet environment are after each step."""
    engine: Any = env.engine
    engine.pose = pose


def follow(env: ImitationEnv) -> None:
    """Make a puppet environment show, after each step, exactly the reference frame that the step is compared with."""

    def pose() -> tuple[Tensor, Tensor]:
        frame = env.frame + (env.progress + 1 - env.masked).clamp_min(0)  # progress moves on after the engine
        row = env.motion.row(env.clip, frame)
        return env.motion.qpos[row], env.motion.qvel[row]

    steer(env, pose)


def idle(env: ImitationEnv) -> Tensor:
    """No action."""
    return torch.zeros(env.num_envs, env.num_actions)


def test_following_the_reference_earns_one_per_step(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """r_t compares the state after the step with the reference one frame on; a puppet on the reference earns 1."""
    env = make_env([make_clip()], puppet=True)
    follow(env)
    begin(env, [0, 0], [0, 7])
    for _ in range(20):
        result = env.step(idle(env))
        torch.testing.assert_close(result.reward, torch.ones(2), rtol=0, atol=1e-6)
        assert result.scored.tolist() == [True, True]


def test_lagging_behind_the_reference_earns_less(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A puppet that stays at the start is compared with frames that move away from it."""
    env = make_env([make_clip()], puppet=True)
    steer(env, lambda: (env.motion.qpos[[0, 0]], env.motion.qvel[[0, 0]]))
    begin(env, [0, 0], [0, 0])
    rewards = torch.stack([env.step(idle(env)).reward for _ in range(8)])
    assert bool((rewards[1:] < rewards[:-1]).all())


def test_a_wrong_contact_label_costs_its_weight(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A reference that claims contact while the ball hovers apart leaves e^-5 of the reward."""
    clip = make_clip(contacts=np.ones((40, 1), dtype=np.float32))
    env = make_env([clip], puppet=True)
    follow(env)
    begin(env, [0, 0], [0, 0])
    torch.testing.assert_close(env.step(idle(env)).reward, torch.full((2,), math.exp(-5.0)), rtol=1e-4, atol=0)


def test_the_additive_reward_earns_four_per_step(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """With the DeepMimic reward a puppet on the reference earns 4."""
    env = make_env([make_clip()], config=EnvConfig(reward="dm", termination=NEVER), puppet=True)
    follow(env)
    begin(env, [0, 0], [0, 3])
    torch.testing.assert_close(env.step(idle(env)).reward, torch.full((2,), 4.0), rtol=0, atol=1e-4)


def test_the_environment_announces_its_observation(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """observation_size and num_actions are what reset and step use, and the condition is the skill's one-hot."""
    env = make_env([make_clip(), make_clip(skill="throw")], num_envs=16)
    seen = env.reset()
    assert seen.shape == (16, env.observation_size)
    assert env.step(idle(env)).observation.shape == (16, env.observation_size)
    assert torch.equal(seen[:, -2:], torch.eye(2)[env.motion.skill[env.clip]])


@pytest.mark.parametrize(
    ("frames", "start", "steps"), [(40, 0, 39), (40, 30, 9), (40, 38, 1), (100, 0, 60), (61, 0, 60)]
)
def test_time_ends_an_episode_as_a_truncation(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, frames: int, start: int, steps: int
) -> None:
    """After min(60, frames left) steps the episode is truncated, never terminated, and not one step earlier."""
    env = make_env([make_clip(frames)], num_envs=1)
    begin(env, [0], [start])
    for step in range(1, steps + 1):
        result = env.step(idle(env))
        assert result.truncated.tolist() == [step == steps]
        assert result.terminated.tolist() == [False]
        assert ended(result) == ([0] if step == steps else [])
    assert env.progress.tolist() == [0]


def test_masked_steps_earn_nothing_and_stop_the_clock(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """The reference waits for N steps that are not scored; then it goes on from where it stood."""
    env = make_env([make_clip()], puppet=True)
    follow(env)
    begin(env, [0, 0], [4, 4], masked=[3, 0])
    results = [env.step(idle(env)) for _ in range(6)]
    assert [bool(result.scored[0]) for result in results] == [False] * 3 + [True] * 3
    assert [bool(result.scored[1]) for result in results] == [True] * 6
    rewards = torch.stack([result.reward for result in results])
    assert rewards[:3, 0].tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(rewards[3:, 0], torch.ones(3), rtol=0, atol=1e-6)
    torch.testing.assert_close(env.engine.state.qpos[0], env.motion.qpos[4 + 3])


def test_masked_steps_prolong_the_episode(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """Ten frames before the end, with three masked steps, an episode lasts twelve steps: 3 + 9."""
    env = make_env([make_clip(40)], num_envs=1)
    begin(env, [0], [30], masked=[3])
    assert [bool(env.step(idle(env)).truncated[0]) for _ in range(12)] == [False] * 11 + [True]


def test_missing_frames_earn_nothing(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A step whose reference frame is missing is not scored, earns exactly 0, and the clock goes on."""
    env = make_env([missing(make_clip(), [3, 4])], num_envs=1)
    begin(env, [0], [0])
    results = [env.step(idle(env)) for _ in range(6)]
    assert [bool(result.scored[0]) for result in results] == [True, True, False, False, True, True]
    rewards = torch.cat([result.reward for result in results])
    assert bool(rewards.isfinite().all())
    assert rewards[2:4].tolist() == [0.0, 0.0]


def test_the_final_observation_is_of_the_episode_that_ended(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """At a reset, what was seen last belongs to the last state, and the observation to the new episode."""
    env = make_env([make_clip(10), make_clip(40)])
    begin(env, [0, 1], [0, 0])
    for _ in range(9):
        result = env.step(0.3 * torch.ones(2, env.num_actions))
    assert ended(result) == [0]
    assert result.finals is not None
    assert torch.equal(result.finals.observation[0], result.observation[1])  # the twin whose clip goes on
    assert not torch.equal(result.observation[0], result.observation[1])
    assert torch.equal(result.observation, env.observe())


def test_a_failure_terminates(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A root under the limit ends the episode as a termination, even when time is up in the same step."""
    env = make_env([make_clip(40)])
    fall_below(env, 5.0)
    begin(env, [0, 0], [0, 38])
    result = env.step(idle(env))
    assert result.terminated.tolist() == [True, True]
    assert result.truncated.tolist() == [False, False]


def test_a_diverged_world_terminates(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """An explosion is a failure of its own episode; it is reset, and no number in the result is NaN."""
    env = make_env([make_clip()], num_envs=3)
    begin(env, [0, 0, 0], [0, 0, 0])
    env.engine.reset(torch.tensor([1]), env.motion.qpos[:1], torch.full((1, 13), 1e5))
    result = env.step(idle(env))
    assert result.terminated.tolist() == [False, True, False]
    assert ended(result) == [1]
    assert result.finals is not None
    for tensor in (result.observation, result.reward, result.finals.observation):
        assert bool(tensor.isfinite().all())
    assert env.step(idle(env)).terminated.tolist() == [False, False, False]


def test_statistics_per_skill_add_up(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """Rewards, scored steps, failures and episodes of each skill are the sums of what the steps returned."""
    clips = [make_clip(12), make_clip(25, skill="throw"), make_clip(18, skill="throw")]
    env = make_env(clips, num_envs=12)
    fall_below(env, 1.15)
    env.reset()
    expected = torch.zeros(4, 2)
    for _ in range(40):
        skill = env.motion.skill[env.clip]
        result = env.step(torch.randn(12, env.num_actions))
        ended = result.terminated | result.truncated
        for row, value in enumerate((result.reward, result.scored, result.terminated, ended)):
            expected[row].index_add_(0, skill, value.float())
    taken = env.take_statistics()
    assert float(expected[2].min()) > 0
    for row, name in enumerate(("reward", "steps", "failures", "episodes")):
        torch.testing.assert_close(getattr(taken, name), expected[row])
    assert float(taken.steps.sum()) == 12 * 40
    assert float(env.take_statistics().steps.sum()) == 0


@pytest.mark.parametrize("reward", ["sm", "dm"])
def test_the_sampler_hears_how_each_episode_went(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch, reward: Any
) -> None:
    """Perfect episodes are reported with their clip, their start frame and 1, masked steps apart, by either reward."""
    config = EnvConfig(reward=reward, termination=NEVER)
    env = make_env([make_clip(10), make_clip(12)], puppet=True, config=config)
    follow(env)
    heard: dict[tuple[int, int], float] = {}

    def record(clip: Tensor, frame: Tensor, mean_reward: Tensor, ended: Tensor) -> None:
        told = (column[ended].tolist() for column in (clip, frame, mean_reward))
        for episode in zip(*told, strict=True):
            heard.setdefault(episode[:2], episode[2])

    monkeypatch.setattr(env.sampler, "record", record)
    begin(env, [0, 1], [3, 5], masked=[0, 4])
    for _ in range(10):
        env.step(idle(env))
    assert heard[0, 3] == pytest.approx(1.0, abs=1e-4)
    assert heard[1, 5] == pytest.approx(1.0, abs=1e-4)


def test_an_environment_goes_on_from_a_snapshot(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """The same observation at once, and the same rewards and resets afterwards, bit for bit."""
    clips = [make_clip(30), make_clip(20, skill="throw")]
    env, resumed = make_env(clips, num_envs=6), make_env(clips, num_envs=6)
    env.reset()
    actions = [torch.randn(6, env.num_actions) for _ in range(30)]
    for action in actions[:15]:
        env.step(action)
    resumed.restore(env.snapshot())
    resumed.sampler.load_state_dict(env.sampler.state_dict())
    assert torch.equal(resumed.observe(), env.observe())
    futures = []
    for each in (env, resumed):
        torch.manual_seed(5)
        futures.append([each.step(action) for action in actions[15:]])
    for ours, theirs in zip(*futures, strict=True):
        torch.testing.assert_close(vars(ours), vars(theirs), rtol=0, atol=0, equal_nan=True)


def test_a_demonstration_that_is_lost_for_long_enough_ends_the_episode(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """After so many steps in a row that earn nothing; a start that is N masked states away has N more."""
    lost = Termination(min_root_height=None, lost_after=4, lost_reward=2.0)  # nothing ever earns that much
    env = make_env([make_clip(40)], num_envs=2, config=EnvConfig(termination=lost))
    begin(env, [0, 0], [5, 5], masked=[0, 3])
    ended = [env.step(torch.zeros(2, env.num_actions)).terminated.tolist() for _ in range(10)]
    assert [pair[0] for pair in ended].index(True) == 3
    assert [pair[1] for pair in ended].index(True) == 3 + 4 + 3 - 1  # masked, allowed, allowed for being masked


def stray(env: ImitationEnv, off: list[bool]) -> list[bool]:
    """Follow the reference, three metres beside it in the steps that say so; gives whether each ended the episode."""
    follow(env)
    engine: Any = env.engine
    on = engine.pose
    steps = iter(off)

    def pose() -> tuple[Tensor, Tensor]:
        qpos, qvel = on()
        qpos[:, 0] += 3.0 * next(steps)
        return qpos, qvel

    steer(env, pose)
    return [bool(env.step(idle(env)).terminated) for _ in off]


@pytest.mark.parametrize("reward", ["sm", "dm"])
def test_earning_something_again_in_time_goes_on(
    reward: str, make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """The count begins anew with every step that earns something: two in a row are forgiven again and again, the third
    is not. DeepMimic's sum, which is never nothing, does not hide it."""
    lost = EnvConfig(termination=Termination(min_root_height=None, lost_after=3), reward=reward)  # type: ignore[arg-type]
    env = make_env([make_clip(40)], num_envs=1, config=lost, puppet=True)
    begin(env, [0], [5])
    off = [True, True, False, True, True, False, True, True, True]
    assert stray(env, off) == [False] * 8 + [True]


@pytest.mark.parametrize("reward", ["sm", "dm"])
def test_what_earns_is_told_by_one_product(reward: str, make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A ball three metres off earns nothing, whatever DeepMimic's sum says of the body, and neither does a masked step;
    the learner reports the share of the others."""
    config = EnvConfig(reward=reward, termination=NEVER)  # type: ignore[arg-type]
    env = make_env([make_clip(40)], num_envs=3, config=config, puppet=True)
    pose_beside(env, ball=[(0.0, 0.0, 0.0), (3.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    begin(env, [0] * 3, [5] * 3, masked=[0, 0, 1])
    learner = PPO(env, ActorCritic(env.observation_size, env.num_actions, (4,)), PPOConfig(hidden=(4,), horizon=1))
    rollout = learner.collect(env.observe(), 0.1)
    assert rollout.earning.tolist() == [[True, False, False]]
    assert learner.improve(rollout, 0.1, 1e-4)["earning"] == pytest.approx(1 / 3)


def test_missing_frames_neither_count_nor_begin_the_count_anew(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """Every third frame is missing: four steps that earned nothing are six steps. Three, one that earns something, and
    three more are forgiven."""
    lost = EnvConfig(termination=Termination(min_root_height=None, lost_after=4))
    clip = missing(make_clip(40), list(range(2, 39, 3)))
    env = make_env([clip], num_envs=1, config=lost, puppet=True)
    begin(env, [0], [4])  # 5, 8 and 11 are missing
    assert stray(env, [True] * 6) == [False] * 5 + [True]
    begin(env, [0], [4])
    assert not any(stray(env, [True] * 3 + [False] * 2 + [True] * 4))  # on the reference at 8 and 9


def test_worlds_of_another_number_are_not_restored(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """They begin anew instead."""
    some, same, others = (make_env([make_clip(40)], num_envs=number) for number in (4, 4, 6))
    some.reset()
    assert same.can_restore(some.snapshot())
    assert not others.can_restore(some.snapshot())
