"""Velocities of demonstrations, which only have positions. Pure functions of tensors.

Shape letters: T frames, Q, D as in MuJoCo.
"""

import math

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.characters.physics import POLICY_HZ

__all__ = ["differences", "velocities"]

_FREE = 0.5
"""An object whose vertical velocity changes by less than this from frame to frame is touched by nothing hard (m/s)."""


def differences(steps: Tensor, valid: Tensor) -> Tensor:
    """From steps between frames to velocities: a frame's is the one that led to it.

    Nothing that was seen has led to the first frame, nor to the first after a gap: these take the next one's.
    steps: [T - 1, …]; valid: frames that are not missing, [T] → [T, …]
    """
    velocity = torch.cat((steps[:1], steps)) * POLICY_HZ
    after_gap = torch.nonzero(valid[1:-1] & ~valid[:-2] & valid[2:]).squeeze(1) + 1
    velocity[after_gap] = velocity[after_gap + 1]
    return velocity


def velocities(layout: Layout, qpos: Tensor, valid: Tensor, recorded_fps: float) -> Tensor:
    """Backward differences, but for gaps and hard bounces.

    An object that bounces between two frames, as a captured ball does, has in the later one the velocity that leads on
    from there: the difference across a bounce is something between falling and rising, and a ball that starts with it
    lies dead. A bounce that takes several frames, as a soft ball's does, is seen from frame to frame and stays.
    recorded_fps: of the recording, which was resampled to 60. [T, Q], [T] → [T, D]
    """
    velocity = differences(layout.difference(qpos[:-1], qpos[1:]), valid)
    places, turns = (layout.fields[name].unflatten(0, (-1, 3)) for name in ("object_pos", "object_rot"))
    for dofs in torch.cat((places, turns), dim=1):  # of one object
        for count in range(1, _smeared_over(recorded_fps) + 1):
            first = _hard_bounces(velocity[:, dofs[2]], count)
            for frame in range(count):
                velocity[first + frame, dofs] = velocity[first + count, dofs]
    return velocity


def _smeared_over(recorded_fps: float) -> int:
    """How many differences one between two recorded frames is spread over, at most."""
    ratio = POLICY_HZ / recorded_fps
    aligned = ratio.is_integer() or (1 / ratio).is_integer()
    return math.ceil(ratio) + (0 if aligned else 1)


def _hard_bounces(rise: Tensor, count: int) -> Tensor:
    """Where a vertical velocity is for so many frames neither that of the free fall before nor of the free rise after.

    [T] → [n, 1] the first frame of each
    """
    if len(rise) < count + 4:
        return torch.zeros(0, 1, dtype=torch.long)
    seen = rise.unfold(0, count + 4, 1)  # [T - count - 3, count + 4]
    before, falls, mixed, rises, after = seen[:, 0], seen[:, 1], seen[:, 2:-2], seen[:, -2], seen[:, -1]
    free = ((falls - before).abs() < _FREE) & ((after - rises).abs() < _FREE)
    between = ((falls + _FREE).unsqueeze(1) < mixed) & (mixed < rises.unsqueeze(1))
    return 2 + torch.nonzero(free & (falls < -_FREE) & (rises > 0) & between.all(dim=1))
