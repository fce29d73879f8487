"""What the critic is told and nobody else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from puppets import idle, pose_beside
from skillfield.clips import Clip
from skillfield.errors import CheckpointError
from skillfield.experiments.run import build_ppo, preset
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.learning.checkpoint import Counters, load_model, resume, save_checkpoint
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]
AWAY, WAITING, SILENT, TIME = range(4)


def told(make_env: MakeEnv, clip: Clip, num_envs: int, **config: Any) -> ImitationEnv:
    """Puppets 0.1 m beside their reference, the ball 0.3 m over its own."""
    settings: dict[str, Any] = {"termination": Termination(None, lost_after=10), "insight": True}
    env = make_env([clip], num_envs=num_envs, config=EnvConfig(**(settings | config)), puppet=True)
    pose_beside(env, hand=(0.1, 0.0, 0.0), ball=[(0.0, 0.0, 0.3)] * num_envs)
    return env


@pytest.mark.parametrize("by_mask", [False, True])
def test_it_is_told_where_in_the_reference_and_how_far_from_it(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """By hand, after two steps: the second waits for a third masked one, the third has no ball."""
    env = told(make_env, make_clip(60), 3)
    env.masked_resets = by_mask
    begin(env, [0, 0, 0], [5, 5, 12], masked=[0, 3, 0], away=[False, False, True])
    for _ in range(2):
        env.step(idle(env))
    assert env.insight.shape == (3, env.insight_size) == (3, 4 + 3 + 3)
    torch.testing.assert_close(env.insight[:, AWAY], torch.tensor([0.0, 0.0, 1.0]))
    torch.testing.assert_close(env.insight[:, WAITING], torch.tensor([0.0, 1 / 60, 0.0]))
    torch.testing.assert_close(env.insight[:, TIME], torch.tensor([7.0, 5.0, 14.0]) / 60)
    expected = torch.tensor([-0.1, 0.0, 0.0, 0.0, 0.0, -0.3]).expand(3, -1)
    torch.testing.assert_close(env.insight[:, 4:], expected, atol=1e-4, rtol=0)


def test_it_is_told_how_long_nothing_was_earned(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """As a share of the patience; and offsets end at a metre."""
    env = told(make_env, make_clip(60), 1)
    begin(env, [0], [5])
    env.engine.pose = lambda: (env.motion.qpos[:1] + 4.0, env.motion.qvel[:1])  # type: ignore[attr-defined]
    for _ in range(3):
        env.step(idle(env))
    assert float(env.insight[0, SILENT]) == pytest.approx(0.3)
    assert env.insight[0, 4:].abs().max() == 1.0


def test_the_new_episode_is_told_of_at_once_and_the_old_one_is_not_forgotten(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """After a reset `insight` is that of the new start; what was told last goes along with what was seen last."""
    env = told(make_env, make_clip(60), 2, episode_length=50)
    begin(env, [0, 0], [56, 20])  # three frames before the clip's last one, and in the middle
    for _ in range(3):
        result = env.step(idle(env))
    assert result.finals is not None
    assert result.finals.envs.tolist() == [0]
    assert float(result.finals.insight[0, TIME]) == pytest.approx(59 / 60)
    assert float(env.insight[0, TIME]) == pytest.approx(float(env.frame[0]) / 60)
    assert env.insight[0, 4:].abs().max() < 1e-4  # it stands on its demonstration
    assert float(env.insight[1, TIME]) == pytest.approx(23 / 60)


def test_a_policy_sees_nothing_of_it(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """Observations are as long as without, and only the critic has room for more."""
    with_it, without = told(make_env, make_clip(60), 1), told(make_env, make_clip(60), 1, insight=False)
    assert with_it.observation_size == without.observation_size
    assert without.insight_size == 0
    assert without.insight.shape == (1, 0)
    model = ActorCritic(7, 2, (8,), insight=3)
    assert model.policy[0].in_features == 7
    assert model.critic[0].in_features == 10


def test_the_critic_learns_what_only_it_is_told(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """Two worlds that look the same and earn differently, because one has no ball to be compared with: their values
    part. Without insight they cannot."""
    parted = {}
    for insight in (True, False):
        torch.manual_seed(0)
        env = told(make_env, make_clip(200), 2, insight=insight, episode_length=200)
        model = ActorCritic(env.observation_size, env.num_actions, (16,), insight=env.insight_size)
        config = PPOConfig(hidden=(16,), horizon=8, minibatch=16, epochs=4, learning_rate=1e-2, gamma=0.5)
        learner = PPO(env, model, config)
        begin(env, [0, 0], [5, 5], away=[True, False])
        learner.observation = env.observe()
        for _ in range(15):
            learner.update(0.0)
        observation = model.normaliser(env.observe())
        observation[1] = observation[0]
        with torch.no_grad():
            value = model.value(observation, env.insight)
        parted[insight] = float(value[0] - value[1])
    assert parted[False] == 0.0
    assert parted[True] > 0.1


def test_a_checkpoint_knows_of_it(tmp_path: Path) -> None:
    """It comes back with the same networks; a run that tells its critic something else refuses it."""
    config = preset("starter")
    small = PPOConfig(hidden=(8,), horizon=2, minibatch=8, epochs=1)
    config = replace(config, env=replace(config.env, insight=True), num_envs=4, ppo=small)
    ppo = build_ppo(config)
    ppo.update(0.0)
    path = save_checkpoint(tmp_path, ppo, Counters(), {})
    model, state = load_model(path)
    assert state.insight == model.insight == ppo.env.insight_size > 0
    again = build_ppo(config)
    resume(path, again, {})
    torch.testing.assert_close(again.env.insight, ppo.env.insight)
    plain = build_ppo(replace(config, env=replace(config.env, insight=False)))
    with pytest.raises(CheckpointError, match=r"\(observations, actions, insight, hidden\) of the checkpoint are"):
        resume(path, plain, {})
