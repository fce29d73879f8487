"""The ε-neighbourhood of a state: a box around it, per field, sampled uniformly (paper, ε-NSI)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.configuration import NOT_NEGATIVE, check

__all__ = ["Neighbourhood", "neighbour"]


@dataclass(frozen=True)
class Neighbourhood:
    """Half widths ε of the box (paper, table of augmentation hyper-parameters; BallPlay-M column)."""

    root_pos: float = 0.1
    """Metres."""
    root_vel: float = 0.1
    """Metres per second."""
    root_rot: float = 0.1
    """Radians."""
    root_rot_vel: float = 0.1
    """Radians per second."""
    joint: float = 0.1
    """Radians; metres where a joint slides."""
    joint_vel: float = 0.1
    """The same per second."""
    object_pos: float = 0.1
    """Metres."""
    object_vel: float = 0.1
    """Metres per second."""
    object_rot: float = 0.1
    """Radians."""
    object_rot_vel: float = 0.1
    """Radians per second."""

    def __post_init__(self) -> None:
        check("neighbourhood", self, NOT_NEGATIVE, *vars(self))


_VELOCITY = {
    "root_pos": "root_vel",
    "root_rot": "root_rot_vel",
    "joint": "joint_vel",
    "object_pos": "object_vel",
    "object_rot": "object_rot_vel",
}


def neighbour(
    qpos: Tensor, qvel: Tensor, box: Neighbourhood, layout: Layout, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """A state drawn uniformly from the box around each given one.  [n, Q], [n, D]"""
    width, speed = torch.zeros_like(qvel[0]), torch.zeros_like(qvel[0])
    for field, dofs in layout.fields.items():
        width[dofs] = getattr(box, field)
        speed[dofs] = getattr(box, _VELOCITY[field])
    change = width * (2 * torch.rand(qvel.shape, generator=generator, device=qvel.device) - 1)
    # an object is not pushed into the floor: the part of the box below its own height is folded up
    height = layout.fields["object_pos"][2::3]
    change[:, height] = change[:, height].abs()
    faster = speed * (2 * torch.rand(qvel.shape, generator=generator, device=qvel.device) - 1)
    return layout.integrate(qpos, change), qvel + faster
