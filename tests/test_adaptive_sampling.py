"""Hard starts and hard skills more often."""

import math
from collections.abc import Callable

import pytest
import torch

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.imitation import ImitationEnv
from skillfield.reference import (
    Augmentation,
    AugmentedSampler,
    ReferenceMotion,
    TrackingWeights,
)
from skillfield.reference.adaptive import AdaptiveSampling, skill_weights, start_weights
from strolling import (
    everyone,
    follow_first_clip,
    lifted,
    motion_of,
)

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]


def test_frame_probabilities_by_hand() -> None:
    """p_i = exp(-λ_s r̄_i) / Σ_j exp(-λ_s r̄_j) within each clip; the last frame of a clip is no start."""
    mean_reward = torch.tensor([0.1, 0.2, 0.3, 0.9, 0.5, 0.0])
    possible = torch.tensor([True, True, True, False, True, False])
    clip = torch.tensor([0, 0, 0, 0, 1, 1])
    total = math.exp(-1) + math.exp(-2) + math.exp(-3)
    expected = [math.exp(-1) / total, math.exp(-2) / total, math.exp(-3) / total, 0.0, 1.0, 0.0]
    weights = start_weights(mean_reward, clip, possible, 2, 10.0)
    torch.testing.assert_close(weights, torch.tensor(expected))


@pytest.mark.parametrize("sharpness", [10.0, 100.0, 200.0, 1e4])
def test_however_sharp_the_hardest_frames_are_drawn(sharpness: float) -> None:
    """Of well-learned clips too, whose factors exp(-λ_s r̄) are all nothing to a computer."""
    mean_reward = torch.tensor([0.9, 0.91, 0.0, 0.5, 0.5, 0.0, 0.3])
    clip, possible = torch.tensor([0, 0, 0, 1, 1, 1, 2]), torch.tensor([True, True, False, True, True, False, False])
    weights = start_weights(mean_reward, clip, possible, 3, sharpness)
    ratio = math.exp(-0.01 * sharpness)
    expected = [1 / (1 + ratio), ratio / (1 + ratio), 0.0, 0.5, 0.5, 0.0, 0.0]
    torch.testing.assert_close(weights, torch.tensor(expected), rtol=1e-4, atol=1e-6)


def test_ordinary_sharpness_is_the_plain_formula_to_the_bit() -> None:
    """So that trainings repeat."""
    mean_reward, clip = torch.rand(500), torch.arange(500) // 100
    possible = torch.rand(500) < 0.9
    plain = torch.exp(-10.0 * mean_reward) * possible
    total = torch.zeros(5).index_add_(0, clip, plain)
    assert torch.equal(start_weights(mean_reward, clip, possible, 5, 10.0), plain / total[clip])


def test_skill_probabilities_by_hand() -> None:
    """The same over skills with λ_c."""
    first, second = math.exp(-5 * 0.2), math.exp(-5 * 0.6)
    expected = torch.tensor([first, second]) / (first + second)
    torch.testing.assert_close(skill_weights(torch.tensor([0.2, 0.6]), 5.0), expected)


def test_a_start_is_as_likely_as_its_skill_and_its_frame(make_clip: MakeClip, hand_character: Character) -> None:
    """A skill counts with the mean of its clips' means; its clips share alike; draws follow the probabilities."""
    motion = motion_of([make_clip(4), make_clip(3, skill="swing"), make_clip(3, skill="swing")], hand_character)
    hard = AdaptiveSampling(motion, 10.0, 5.0)
    hard.mean_reward.copy_(torch.tensor([0.1, 0.2, 0.3, 9.0, 0.4, 0.8, 9.0, 0.2, 0.2, 9.0]))
    skill = torch.softmax(torch.tensor([-5 * 0.2, -5 * (0.6 + 0.2) / 2]), 0)
    first = skill[0] * torch.softmax(torch.tensor([-1.0, -2.0, -3.0]), 0)
    second = skill[1] / 2 * torch.softmax(torch.tensor([-4.0, -8.0]), 0)
    third = skill[1] / 2 * torch.softmax(torch.tensor([-2.0, -2.0]), 0)
    none = torch.zeros(1)
    expected = torch.cat((first, none, second, none, third, none))
    torch.testing.assert_close(hard.weights(), expected)
    clip, frame = hard.sample(20000)
    share = torch.bincount(motion.row(clip, frame), minlength=10) / 20000
    torch.testing.assert_close(share, expected, rtol=0, atol=0.015)


def test_without_sharpness_every_frame_is_alike(make_clip: MakeClip, hand_character: Character) -> None:
    """λ_s = λ_c = 0 is uniform, whatever was recorded."""
    motion = motion_of([make_clip(5)], hand_character)
    hard = AdaptiveSampling(motion, 0.0, 0.0)
    hard.record(torch.tensor([0]), torch.tensor([1]), torch.tensor([0.9]), everyone(1))
    torch.testing.assert_close(hard.weights(), torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0]))


def test_running_means_follow_the_episodes(make_clip: MakeClip, hand_character: Character) -> None:
    """Several episodes of one frame in one report weigh as several; other frames stay; nothing is lost in between."""
    motion = motion_of([make_clip(5), make_clip(4, skill="swing")], hand_character)
    hard = AdaptiveSampling(motion, 10.0, 5.0, rate=0.1)
    hard.record(torch.tensor([0, 0, 1]), torch.tensor([2, 2, 1]), torch.tensor([0.4, 0.8, 0.5]), everyone(3))
    twice, once = 0.6 * (1 - 0.9**2), 0.05
    expected = torch.tensor([0, 0, twice, 0, 0, 0, once, 0, 0])
    torch.testing.assert_close(hard.mean_reward, expected)
    hard.record(torch.tensor([0]), torch.tensor([2]), torch.tensor([1.0]), everyone(1))
    expected[2] += 0.1 * (1.0 - twice)
    torch.testing.assert_close(hard.mean_reward, expected)


def test_episodes_that_go_on_are_not_recorded(make_clip: MakeClip, hand_character: Character) -> None:
    """A report about everyone, with a mask, is the same as a report about those that ended."""
    motion = motion_of([make_clip(5), make_clip(4, skill="swing")], hand_character)
    some, all_of_them = (AdaptiveSampling(motion, 10.0, 5.0) for _ in range(2))
    clip, frame, reward = torch.tensor([0, 0, 1, 1]), torch.tensor([2, 2, 1, 0]), torch.tensor([0.4, 0.8, 0.5, 0.9])
    ended = torch.tensor([True, False, True, False])
    some.record(clip[ended], frame[ended], reward[ended], everyone(2))
    all_of_them.record(clip, frame, reward, ended)
    assert torch.equal(some.mean_reward, all_of_them.mean_reward)
    assert float(some.mean_reward.abs().sum()) > 0


def test_frames_never_tried_are_most_likely(make_clip: MakeClip, hand_character: Character) -> None:
    """Everything that has earned a reward is drawn less often than what has never been tried."""
    motion = motion_of([make_clip(12)], hand_character)
    hard = AdaptiveSampling(motion, 10.0, 5.0)
    tried = torch.tensor([0, 3, 5])
    hard.record(torch.zeros(3, dtype=torch.long), tried, torch.tensor([0.2, 0.9, 0.5]), everyone(3))
    weights = hard.weights()[:11]
    new = torch.ones(11, dtype=torch.bool).index_fill(0, tried, False)
    assert float(weights[new].min()) > float(weights[~new].max())


def test_statistics_of_starts_survive_a_checkpoint(sways: ReferenceMotion, hand_character: Character) -> None:
    """state_dict and load_state_dict give the same probabilities, also after the other has already drawn."""
    config = Augmentation(adapt=True)
    first, second = (AugmentedSampler(sways, hand_character, TrackingWeights(), config) for _ in range(2))
    clip, frame = first.adaptive.sample(200)
    first.record(clip, frame, torch.rand(200), everyone(200))
    second.sample(10)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.adaptive.weights(), second.adaptive.weights())
    torch.manual_seed(3)
    ours = first.sample(50).frame
    torch.manual_seed(3)
    assert torch.equal(ours, second.sample(50).frame)


def test_hard_starts_are_found(make_clip: MakeClip, make_env: MakeEnv, hand_character: Character) -> None:
    """An environment that rewards only the first clip comes to start in the second."""
    env = make_env([make_clip(20), lifted(make_clip(20, skill="soar"), 1.0)], num_envs=32, puppet=True)
    config = Augmentation(adapt=True)
    env.sampler = AugmentedSampler(env.motion, hand_character, TrackingWeights(), config)
    follow_first_clip(env)
    env.reset()
    for _ in range(60):
        env.step(torch.zeros(32, env.num_actions))
    starts = env.sampler.sample(2000)
    assert float((starts.clip == 1).float().mean()) > 0.6
