"""What the policy sees: the state in the character's own heading frame, as the paper lists it.

Pure functions of tensors. Shape letters: E environments, B bodies, O objects, F force bodies, S skills.
"""

import torch
from torch import Tensor

from skillfield.rotations import axes_xz, heading_cos_sin, rotate_heading_inverse

__all__ = ["observation_size", "observe"]


def observe(
    *,
    root_pos_w: Tensor,  # [E, 3]
    root_quat_w: Tensor,  # [E, 4]
    body_pos_w: Tensor,  # [E, B, 3] the root first
    body_quat_w: Tensor,  # [E, B, 4]
    body_lin_vel_w: Tensor,  # [E, B, 3]
    body_ang_vel_w: Tensor,  # [E, B, 3]
    contact_force_w: Tensor,  # [E, F, 3] newtons
    object_pos_w: Tensor,  # [E, O, 3]
    object_quat_w: Tensor,  # [E, O, 4]
    object_lin_vel_w: Tensor,  # [E, O, 3]
    object_ang_vel_w: Tensor,  # [E, O, 3]
    condition: Tensor,  # [E, S] one-hot skill
) -> Tensor:
    """Root height, bodies, contact forces and objects in the heading frame, then the condition.

    Turning or moving the whole scene in the ground plane does not change it. An object's height stays absolute: the
    floor is where it is, whatever the character does.
    """
    origin = root_pos_w.unsqueeze(1)
    on_ground = torch.cat((origin[..., :2], torch.zeros_like(origin[..., 2:])), dim=-1)
    body_x, body_z = axes_xz(body_quat_w)
    object_x, object_z = axes_xz(object_quat_w)
    vectors = torch.cat(
        (
            body_pos_w[:, 1:] - origin,
            body_x,
            body_z,
            body_lin_vel_w,
            body_ang_vel_w,
            contact_force_w,
            object_pos_w - on_ground,
            object_x,
            object_z,
            object_lin_vel_w,
            object_ang_vel_w,
        ),
        dim=1,
    )
    local = rotate_heading_inverse(heading_cos_sin(root_quat_w), vectors)
    return torch.cat((root_pos_w[:, 2:], local.flatten(1), condition), dim=1)


def observation_size(bodies: int, force_bodies: int, objects: int, skills: int) -> int:
    """Width of `observe`."""
    return 1 + 3 * ((bodies - 1) + 4 * bodies + force_bodies + 5 * objects) + skills
