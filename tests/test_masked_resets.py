"""Resets by mask: what a GPU does, which is never asked how many episodes ended. Here on the CPU, both ways."""

from collections.abc import Callable

import pytest
import torch

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, Starts, TrackingWeights
from skillfield.simulation import CpuEngine

MakeClip = Callable[..., Clip]
Begin = Callable[..., None]


@pytest.fixture
def make(make_clip: MakeClip, hand_character: Character) -> Callable[[bool], ImitationEnv]:
    """Three environments with stacked histories, reset by mask or by number."""

    def make(masked: bool) -> ImitationEnv:
        clips = [make_clip(30), make_clip(24, skill="swing", name="swing")]
        motion = ReferenceMotion(clips, hand_character, ("sway", "swing"))
        sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), Augmentation(adapt=True))
        config = EnvConfig(termination=Termination(min_root_height=None), history="stacked", history_length=4)
        env = ImitationEnv(CpuEngine(hand_character, 3, 1), sampler, config)
        env.masked_resets = masked
        return env

    return make


def hand_out(env: ImitationEnv, starts: Starts) -> None:
    """Make these the next starts of an environment, whichever way it asks."""
    sampler = env.sampler
    assert isinstance(sampler, AugmentedSampler)
    sampler._drawn = sampler._pool = starts
    sampler._pool_next, sampler._pool_age = torch.zeros((), dtype=torch.long), -100


def test_both_ways_give_the_same_episodes(make: Callable[[bool], ImitationEnv], begin: Begin) -> None:
    """The same starts are handed out, so clocks, worlds, memories, observations and statistics agree to the bit."""
    by_number, by_mask = make(False), make(True)
    starts = by_number.sampler.draw(64)  # type: ignore[attr-defined]
    for env in (by_number, by_mask):
        begin(env, [0, 1, 0], [5, 20, 25])
        hand_out(env, starts)
    finished = 0
    for step in range(40):
        actions = 0.2 * torch.sin(torch.arange(3 * by_mask.num_actions).reshape(3, -1) + step)
        ours, theirs = by_mask.step(actions), by_number.step(actions)
        ended = theirs.terminated | theirs.truncated
        assert ours.finals is None
        assert theirs.finals is not None
        assert torch.equal(ours.observation, theirs.observation)
        for name in ("reward", "truncated", "terminated", "continues", "scored"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
        finished += int(ended.sum())
    assert finished > 4
    for name, value in by_number.snapshot().items():
        assert torch.equal(value, by_mask.snapshot()[name]), name
    assert torch.equal(by_mask.sampler.state_dict()["mean_reward"], by_number.sampler.state_dict()["mean_reward"])


def test_a_learner_cuts_an_episode_one_step_earlier_where_it_cannot_see_the_last(
    make: Callable[[bool], ImitationEnv], begin: Begin
) -> None:
    """By number the last step is worth its reward and what follows; by mask it is left out, and worth no surprise."""
    rollouts = []
    for masked in (False, True):
        env = make(masked)
        torch.manual_seed(4)
        model = ActorCritic(env.observation_size, env.num_actions, (8,))
        ppo = PPO(env, model, PPOConfig(hidden=(8,), horizon=3, minibatch=4))
        begin(env, [0, 1, 0], [5, 21, 27])
        hand_out(env, env.sampler.sample(64))
        torch.manual_seed(5)
        rollouts.append(ppo.collect(env.observe(), 0.05))
    by_number, by_mask = rollouts
    assert by_number.done[1].tolist() == [False, True, True]
    assert by_number.bootstrap[1, 1:].abs().max() > 0
    assert not by_number.cut.any()
    assert torch.equal(by_mask.done, by_number.done)
    assert by_mask.cut[1].tolist() == [False, True, True]
    assert torch.equal(by_mask.trained, by_number.trained & ~by_mask.cut)
