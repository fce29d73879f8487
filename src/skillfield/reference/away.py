"""States in which the object is out of reach: lost, thrown away, rolling somewhere.

Demonstrations never show them, and a reward that multiplies body and object is blind in them: everything earns nothing.
Yet every ball is lost once. An episode that starts with its object away follows the body of its demonstration alone,
so the character learns to keep its feet without the ball.
"""

import math

import torch
from torch import Tensor

from skillfield.characters.layout import Layout

__all__ = ["out_of_reach"]

_NEAREST, _FARTHEST = 1.0, 3.0  # metres from the root, over the ground
_HIGHEST = 1.5  # metres over the lowest place
_FASTEST = 2.0  # m/s over the ground, in x and in y


def out_of_reach(
    qpos: Tensor, qvel: Tensor, lowest: Tensor, layout: Layout, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """The same states with every object somewhere around, half of them on the floor.  [n, Q], [n, D]

    lowest: height of each object's centre when it lies.  [O]
    """

    def draw(*shape: int) -> Tensor:
        return torch.rand(len(qpos), len(lowest), *shape, generator=generator, device=qpos.device)

    turn, distance = 2 * math.pi * draw(), _NEAREST + (_FARTHEST - _NEAREST) * draw()
    around = distance.unsqueeze(-1) * torch.stack((turn.cos(), turn.sin()), dim=-1)
    root = layout.place(qpos)
    height = lowest + _HIGHEST * (2 * draw() - 1).clamp_min(0.0)
    speed = _FASTEST * (2 * draw(2) - 1)
    return layout.with_objects(
        qpos,
        qvel,
        torch.cat((root.unsqueeze(1) + around, height.unsqueeze(-1)), dim=-1),
        torch.cat((speed, torch.zeros_like(speed[..., :1])), dim=-1),
    )
