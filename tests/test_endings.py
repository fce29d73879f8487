"""What follows a clip's last frame: a motion that returns goes on, one that does not is over."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.reference import ReferenceMotion, TrackingWeights
from skillfield.reference.endings import return_exponent, returns
from skillfield.reference.looping import looped
from skillfield.reference.motion import Detour
from skillfield.reference.states import StateKinematics

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]


def moving(make_clip: MakeClip, height: np.ndarray, skill: str, ahead: float = 0.0) -> Clip:
    """A hand that goes up and down as told, with its ball under it, both travelling ahead.  height: [T]"""
    still = make_clip(len(height), name=skill, skill=skill)
    x = ahead * np.arange(len(height)) / 60
    root = np.stack((x, 0 * x, height), axis=1).astype(np.float32)
    return replace(
        still,
        root_pos=root,
        root_quat=np.tile(np.array([1, 0, 0, 0], np.float32), (len(x), 1)),
        joint_pos=np.full_like(still.joint_pos, 0.3),
        object_pos=(root - np.array([0, 0, 0.5], np.float32))[:, None],
        object_quat=np.tile(np.array([1, 0, 0, 0], np.float32), (len(x), 1, 1)),
    )


def bob(frames: int = 60, period: int = 25) -> np.ndarray:
    """Up and down, more than twice."""
    return 1.2 + 0.2 * np.sin(2 * np.pi * np.arange(frames) / period)


def climb(frames: int = 60) -> np.ndarray:
    """Up, ever faster."""
    return 0.9 + 2.5 * (np.arange(frames) / frames) ** 2


@pytest.fixture(scope="module")
def both(make_clip: MakeClip, hand_character: Character) -> ReferenceMotion:
    """One clip that returns to itself, travelling, and one that does not."""
    clips = [moving(make_clip, bob(), "bob", ahead=0.8), moving(make_clip, climb(), "climb")]
    return ReferenceMotion(clips, hand_character, ("bob", "climb"))


def test_a_motion_that_repeats_itself_goes_on(both: ReferenceMotion, hand_character: Character) -> None:
    """However far it has travelled meanwhile."""
    states, weights = StateKinematics(hand_character), TrackingWeights()
    exponent = return_exponent(both, states, weights)
    assert exponent[0] < 0.2
    assert exponent[1] > 3.0
    assert returns(both, states, weights).tolist() == [True, False]


@pytest.mark.parametrize(("stops", "goes_on"), [(50, True), (60, False)])
def test_what_was_cut_off_goes_on(stops: int, goes_on: bool, both: ReferenceMotion, hand_character: Character) -> None:
    """A detour follows a demonstration of another skill, here a climb: only with its last frame all is over."""
    states, climbing = StateKinematics(hand_character), both.frames(torch.arange(60, 60 + stops))
    motion = both.with_detours([Detour("from climb to bob", 0, climbing, entries=1)], states)
    assert return_exponent(motion, states, TrackingWeights())[2] > 3.0  # no frame of bob is like its last one
    assert returns(motion, states, TrackingWeights()).tolist() == [True, False, goes_on]


def test_passing_the_same_place_the_other_way_is_no_return(make_clip: MakeClip, hand_character: Character) -> None:
    """One arch: the last state is where the first was, but falls where that one rose."""
    arch = moving(make_clip, 0.9 + 1.2 * np.sin(np.linspace(0.1, np.pi - 0.1, 40)), "arch")
    motion = ReferenceMotion([arch], hand_character, ("arch",))
    height = motion.kinematics(torch.tensor([0, 39])).key_pos_w[:, 0, 2]
    torch.testing.assert_close(height[0], height[1])
    assert returns(motion, StateKinematics(hand_character), TrackingWeights()).tolist() == [False]


def test_a_slow_end_is_no_return_to_the_moment_before(make_clip: MakeClip, hand_character: Character) -> None:
    """A climb that comes to rest is for a sixth of a second like its own last frame, and has been nowhere before."""
    height = 2.0 - 1.5 * np.cos(np.pi * np.minimum(np.arange(75), 63) / 63)
    assert (height[63:] == height[-1]).all()
    motion = ReferenceMotion([moving(make_clip, height, "climb")], hand_character, ("climb",))
    assert returns(motion, StateKinematics(hand_character), TrackingWeights()).tolist() == [False]


def test_a_short_clip_may_come_back_too(make_clip: MakeClip, hand_character: Character) -> None:
    """Half of it is far enough apart."""
    motion = ReferenceMotion([moving(make_clip, bob(28), "bob")], hand_character, ("bob",))
    assert returns(motion, StateKinematics(hand_character), TrackingWeights()).tolist() == [True]


def test_another_clip_of_the_skill_may_show_how_it_goes_on(make_clip: MakeClip, hand_character: Character) -> None:
    """The end of a short clip lies in the middle of a longer one."""
    short, long = moving(make_clip, climb()[:30], "climb"), moving(make_clip, climb(), "climb")
    alone = ReferenceMotion([short], hand_character, ("climb",))
    together = ReferenceMotion([short, replace(long, name="long")], hand_character, ("climb",))
    states, weights = StateKinematics(hand_character), TrackingWeights()
    assert return_exponent(together, states, weights)[0] < 1e-3 < return_exponent(alone, states, weights)[0]


def test_what_follows_a_clip_does_not_move_its_end(make_clip: MakeClip, hand_character: Character) -> None:
    """A short clip stops in the midst of what a longer one shows in its last half second alone; that the longer one
    comes round changes nothing for the short one."""
    frame = np.arange(150)
    leap = np.where((frame >= 122) & (frame <= 146), 1.5 * np.sin(np.pi * (frame - 122) / 24) ** 2, 0.0)
    whole = moving(make_clip, 1.2 + 0.02 * np.sin(2 * np.pi * frame / 60) + leap, "sway")
    arrays = {name: value for name, value in vars(whole).items() if isinstance(value, np.ndarray)}
    columns: dict[str, Any] = {name: value[:135] for name, value in arrays.items()}
    motion = ReferenceMotion([whole, replace(whole, name="short", **columns)], hand_character, ("sway",))
    states, weights = StateKinematics(hand_character), TrackingWeights()
    assert returns(motion, states, weights).tolist() == [True, False]
    motion = looped(motion, states, weights, 60)
    assert (motion.length > motion.demonstrated_length()).tolist() == [True, False]
    assert returns(motion, states, weights).tolist() == [True, False]


def test_what_comes_round_is_never_over(both: ReferenceMotion, hand_character: Character) -> None:
    """Where the frames that follow it stop is no end, not even if they repeat the last frame of a climb."""
    states, none = StateKinematics(hand_character), both.frames(torch.arange(0))
    motion = both.followed_by([none, both.frames(torch.arange(60, 120))], states)
    assert return_exponent(motion, states, TrackingWeights())[1] > 3.0
    assert returns(motion, states, TrackingWeights()).tolist() == [True, True]


@pytest.mark.parametrize(
    ("clip_end", "expected"), [("auto", [True, False]), ("continue", [True, True]), ("stop", [False, False])]
)
def test_what_a_learner_may_expect_after_the_last_frame(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, clip_end: str, expected: list[bool]
) -> None:
    """Both episodes are cut off at the end of their clips; the configuration says which have a future."""
    config = EnvConfig(termination=Termination(min_root_height=None), clip_end=clip_end)  # type: ignore[arg-type]
    env = make_env([moving(make_clip, bob(), "bob"), moving(make_clip, climb(), "climb")], config=config)
    begin(env, [0, 1], [57, 57])
    assert not env.step(torch.zeros(2, env.num_actions)).continues.any()
    result = env.step(torch.zeros(2, env.num_actions))
    assert result.truncated.all()
    assert result.continues.tolist() == expected


def test_an_episode_cut_off_in_mid_clip_always_has_a_future(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """Its time is up, not its motion; masked steps do not bring the end nearer."""
    config = EnvConfig(termination=Termination(min_root_height=None), episode_length=3)
    env = make_env([moving(make_clip, climb(), "climb")], config=config)
    begin(env, [0, 0], [20, 57], masked=[0, 2])
    for _ in range(2):
        env.step(torch.zeros(2, env.num_actions))
    result = env.step(torch.zeros(2, env.num_actions))
    assert result.truncated.all()
    assert result.continues.tolist() == [True, True]


def test_only_what_goes_on_is_bootstrapped(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """The rollout's bootstrap holds the critic's value at the end of the one clip and nothing at that of the other."""
    env = make_env([moving(make_clip, bob(), "bob"), moving(make_clip, climb(), "climb")])
    model = ActorCritic(env.observation_size, env.num_actions, (8,))
    with torch.no_grad():
        model.value_scale.mean.fill_(7.0)
    ppo = PPO(env, model, PPOConfig(hidden=(8,), horizon=2, minibatch=4))
    begin(env, [0, 1], [57, 57])
    rollout = ppo.collect(env.observe(), 0.05)
    assert rollout.done[1].all()
    assert rollout.bootstrap[1, 0] > 1.0
    assert rollout.bootstrap[1, 1] == 0.0
