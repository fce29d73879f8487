"""What a trial records: worlds that go where they are told, step by step."""

from typing import Any

import torch
from torch import Tensor

from engines import PRESSED, poses
from puppets import MakeClip, MakeEnv
from skillfield.evaluation.plan import starts_at
from skillfield.evaluation.rollout import run_trials
from skillfield.imitation import EnvConfig
from skillfield.imitation.termination import Termination
from skillfield.learning.networks import ActorCritic

TOUCHES, FALLS, RISES, DIVERGES, STEPS = 4, 8, 12, 10, 16


def test_who_falls_or_diverges_is_not_alive_from_then_on(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """Also once it has got up again, or its engine has put it back; its neighbour is alive throughout. Positions are
    those of their own step although the engine writes each state over the one before; so are touches."""
    rules = EnvConfig(termination=Termination(min_root_height=0.5))
    env = make_env([make_clip(40)], num_envs=3, config=rules, puppet=True)
    engine: Any = env.engine
    go = engine.step

    def pose() -> tuple[Tensor, Tensor]:
        row = env.motion.row(env.clip, env.progress)
        qpos = env.motion.qpos[row].clone()
        if env.progress[0] == TOUCHES:
            qpos[0] = poses(PRESSED)[0]
        qpos[0, 2] -= float(FALLS <= env.progress[0] < RISES)
        return qpos, env.motion.qvel[row]

    def step(targets: Tensor) -> None:
        go(targets)
        engine.state.diverged[1] = env.progress[1] == DIVERGES

    engine.pose, engine.step = pose, step
    model = ActorCritic(env.observation_size, env.num_actions, (4,))
    zero = torch.zeros(3, dtype=torch.long)
    trials = run_trials(env, model, starts_at(env.motion, zero, zero), STEPS)
    now = torch.arange(STEPS)
    assert torch.equal(trials.alive, torch.stack((now < FALLS, now < DIVERGES, now >= 0), dim=1))
    assert torch.nonzero(trials.touching).tolist() == [[TOUCHES, 0]]
    low = trials.root_pos_w[:, 0, 2] < 0.5
    assert torch.equal(low, (now >= FALLS) & (now < RISES))
    shown = env.motion.qpos[:STEPS, :3]
    torch.testing.assert_close(trials.root_pos_w[:, 1:], shown.unsqueeze(1).expand(-1, 2, -1))
    torch.testing.assert_close(trials.object_pos_w[:, 1:], trials.root_pos_w[:, 1:] - torch.tensor([0.0, 0.0, 0.5]))


def test_who_has_never_stood_up_is_not_alive_in_the_end(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """Who begins under the limit has not fallen, and may rise until the trial is over."""
    env = make_env([make_clip(40)], num_envs=2, puppet=True)
    env._floor.fill_(0.5)
    engine: Any = env.engine

    def pose() -> tuple[Tensor, Tensor]:
        row = env.motion.row(env.clip, env.progress)
        qpos = env.motion.qpos[row].clone()
        qpos[:, 2] -= torch.tensor([1.0, float(env.progress[1] < RISES)])
        return qpos, env.motion.qvel[row]

    engine.pose = pose
    model = ActorCritic(env.observation_size, env.num_actions, (4,))
    zero = torch.zeros(2, dtype=torch.long)
    starts = starts_at(env.motion, zero, zero)
    starts.qpos[:, 2] -= 1.0
    alive = run_trials(env, model, starts, STEPS).alive
    assert alive[:-1].all()
    assert alive[-1].tolist() == [False, True]
