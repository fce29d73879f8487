"""How far an episode follows a clip that comes round: to its last demonstrated frame, and later in training beyond."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from puppets import BY, idle
from skillfield.characters import Character
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.ends import ClipEnds
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, TrackingWeights
from skillfield.reference.looping import looped
from skillfield.reference.states import StateKinematics
from skillfield.simulation import CpuEngine
from strolling import NEVER
from test_endings import Begin, MakeClip, moving

LOOP = EnvConfig(termination=NEVER, clip_end="loop", episode_length=20)
WAVE, LEAP = 80, 40


@pytest.fixture
def motion(make_clip: MakeClip, hand_character: Character) -> ReferenceMotion:
    """A wave that comes round, and a leap that is over with its last frame."""
    wave = moving(make_clip, 1.2 + 0.2 * np.sin(2 * np.pi * np.arange(WAVE) / 35), "wave")
    leap = moving(make_clip, 0.9 + 2.5 * (np.arange(LEAP) / LEAP) ** 2, "leap")
    plain = ReferenceMotion([wave, leap], hand_character, ("wave", "leap"))
    return looped(plain, StateKinematics(hand_character), TrackingWeights(), 60)


@pytest.fixture
def ends(motion: ReferenceMotion, hand_character: Character) -> ClipEnds:
    """Of the two."""
    return ClipEnds(motion, StateKinematics(hand_character), LOOP)


@pytest.fixture
def make_waves(motion: ReferenceMotion, hand_character: Character) -> Callable[..., ImitationEnv]:
    """Environments that follow the two, trained so far."""

    def make(num_envs: int, by_mask: bool, trained: float) -> ImitationEnv:
        sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), Augmentation())
        env = ImitationEnv(CpuEngine(hand_character, num_envs, 1), sampler, LOOP)
        env.masked_resets = by_mask
        env.training_done.fill_(trained)
        return env

    return make


def test_by_chance_it_follows_what_comes_after_the_demonstration(ends: ClipEnds, motion: ReferenceMotion) -> None:
    """Of 600 as many as the chance says, within four standard deviations of a coin; the others stop with the clip."""
    clip, frame, beyond = torch.zeros(600, dtype=torch.long), torch.full((600,), 5), int(motion.length[0]) - 1
    for chance in (0.0, 0.3, 1.0):
        last = ends.last(clip, frame, torch.tensor(chance))
        assert set(last.tolist()) <= {WAVE - 1, beyond}
        assert abs(int((last == beyond).sum()) - 600 * chance) <= 4 * math.sqrt(600 * chance * (1 - chance))


def test_who_begins_beyond_the_demonstration_stays_there(ends: ClipEnds, motion: ReferenceMotion) -> None:
    """And where nothing comes after it there is but one end."""
    clip, frame = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([WAVE - 2, WAVE - 1, WAVE + 9, 0, LEAP - 1])
    beyond = int(motion.length[0]) - 1
    assert ends.last(clip, frame, torch.zeros(())).tolist() == [WAVE - 1, beyond, beyond, LEAP - 1, LEAP - 1]


def test_both_ends_are_judged_by_themselves(motion: ReferenceMotion, hand_character: Character) -> None:
    """A clip that ends high in a leap does not go on; followed by a wave that has been seen, it does."""
    states = StateKinematics(hand_character)
    ends = ClipEnds(motion, states, LOOP)
    clip, last = torch.tensor([0, 0, 1]), torch.tensor([WAVE - 1, int(motion.length[0]) - 1, LEAP - 1])
    assert ends.goes_on(clip, last).tolist() == [True, True, False]
    motion.qpos[WAVE - 1, 2] += 2.0  # the wave's last demonstrated frame alone
    motion._table[WAVE - 1] += 2.0
    assert ClipEnds(motion, states, LOOP).goes_on(clip, last).tolist() == [False, True, False]


@BY
def test_in_the_first_half_of_the_training_episodes_stop_with_their_clip(
    make_waves: Callable[..., ImitationEnv], begin: Begin, by_mask: bool
) -> None:
    """Six frames before its end they are out of time after five steps, and have a future if the motion has; at the end
    of the training they last as long as any."""
    for trained, steps in ((0.0, 5), (0.5, 5), (1.0, 20)):
        env = make_waves(2, by_mask, trained)
        begin(env, [0, 1], [WAVE - 6, LEAP - 6])
        results = [env.step(idle(env)) for _ in range(steps)]
        ended = [[bool(result.truncated[world]) for result in results] for world in range(2)]
        assert ended[0].index(True) == steps - 1
        assert ended[1].index(True) == 4
        assert results[-1].continues[0]
        assert not results[4].continues[1]


@BY
def test_in_between_some_do(make_waves: Callable[..., ImitationEnv], begin: Begin, by_mask: bool) -> None:
    """Half of them in the middle of the third quarter."""
    env = make_waves(100, by_mask, 0.625)
    begin(env, [0] * 100, [WAVE - 2] * 100)
    stopped = int(env.step(idle(env)).truncated.sum())
    assert abs(stopped - 50) <= 20


def test_a_snapshot_knows_how_far_each_goes(make_waves: Callable[..., ImitationEnv], begin: Begin) -> None:
    """One of an older version followed everything to its end."""
    env = make_waves(2, False, 0.0)
    begin(env, [0, 1], [WAVE - 6, LEAP - 6])
    kept = env.snapshot()
    assert kept["_last"].tolist() == [WAVE - 1, LEAP - 1]
    env.training_done.fill_(1.0)
    begin(env, [1, 0], [3, 3])
    env.restore(kept)
    assert env._last.tolist() == [WAVE - 1, LEAP - 1]
    del kept["_last"]
    env.restore(kept)
    assert env._last.tolist() == [int(env.motion.length[0]) - 1, LEAP - 1]


def test_nothing_is_left_to_chance_where_no_clip_comes_round(make_clip: MakeClip, hand_character: Character) -> None:
    """So that figures measured without do not change."""
    leap = ReferenceMotion([moving(make_clip, np.linspace(0.9, 3.0, LEAP), "leap")], hand_character, ("leap",))
    ends = ClipEnds(leap, StateKinematics(hand_character), LOOP)
    before = torch.get_rng_state()
    ends.last(torch.tensor([0]), torch.tensor([3]), torch.tensor(0.5))
    assert torch.equal(torch.get_rng_state(), before)
