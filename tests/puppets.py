"""Environments whose worlds go where they are told: an engine without physics, posed beside its reference."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from skillfield.clips import Clip
from skillfield.imitation import EnvConfig, ImitationEnv
from strolling import NEVER, places

Offset = tuple[float, float, float]
MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]
BY = pytest.mark.parametrize("by_mask", [False, True])
"""Whether worlds are reset by number, as on a CPU, or by mask, as on a GPU."""


def idle(env: ImitationEnv) -> Tensor:
    """No action."""
    return torch.zeros(env.num_envs, env.num_actions)


def pose_beside(env: ImitationEnv, hand: Offset = (0.0, 0.0, 0.0), ball: Sequence[Offset] = ()) -> None:
    """From now on every hand is so far from its reference, to the frame, and every ball so far from its own.

    ball: one for each environment.
    """
    where, _ = places(env.engine.character, "ball")
    shift = torch.tensor(ball or [(0.0, 0.0, 0.0)] * env.num_envs)

    def pose() -> tuple[Tensor, Tensor]:
        row = env.motion.row(env.clip, env.frame + (env.progress + 1 - env.masked).clamp_min(0))
        qpos = env.motion.qpos[row].clone()
        qpos[:, :3] += torch.tensor(hand)
        qpos[:, where.start : where.start + 3] += shift
        return qpos, env.motion.qvel[row]

    engine: Any = env.engine
    engine.pose = pose


def carrying(make_env: MakeEnv, clip: Clip, num_envs: int, by_mask: bool, **config: Any) -> ImitationEnv:
    """Puppets of which none is reset that can go on, unless the configuration says so."""
    usual: dict[str, Any] = {"termination": NEVER, "episode_length": 10, "p_carry": 1.0, "p_lost": 1.0}
    env = make_env([clip], num_envs=num_envs, config=EnvConfig(**(usual | config)), puppet=True)
    env.masked_resets = by_mask
    pose_beside(env)
    return env


def fall_below(env: ImitationEnv, height: float) -> None:
    """From now on a root under this has fallen, in every skill, wherever it began."""
    env._floor.fill_(height)
    env.fallen = env.down  # type: ignore[method-assign]


def has_lived(env: ImitationEnv) -> None:
    """These are not the first episodes in their worlds."""
    env._lived.fill_(True)
