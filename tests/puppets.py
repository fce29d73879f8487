"""Environments whose worlds go where they are told: an engine without physics, posed beside its reference."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from skillfield.imitation import ImitationEnv
from strolling import places

Offset = tuple[float, float, float]


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
