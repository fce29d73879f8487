"""From positions and velocities to what a demonstration would show of them."""

from functools import cached_property

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.reference.kinematics import Kinematics
from skillfield.rotations import quat_rotate

__all__ = ["StateKinematics"]

_SHORT = 1e-3  # seconds over which body velocities are measured


class StateKinematics:
    """Kinematics of states that no demonstration and no engine has shown yet."""

    def __init__(self, character: Character, device: torch.device | str = "cpu") -> None:
        self._character, self._device = character, device
        self.layout = character.layout(device)
        self._key = torch.tensor(character.key_body_index, device=device)
        self._bodies = len(character.body_ids)

    @cached_property
    def _forward(self) -> ForwardKinematics:
        ids = [*self._character.body_ids, *self._character.object_ids]
        return ForwardKinematics(self._character.model, ids, self._device)

    def __call__(self, qpos: Tensor, qvel: Tensor) -> Kinematics:
        """What these states look like.  [..., Q], [..., D]"""
        pos, quat = self._forward(qpos)
        later, _ = self._forward(self.layout.integrate(qpos, _SHORT * qvel))
        things = slice(self._bodies, None)
        turning = qvel[..., self.layout.fields["object_rot"]].unflatten(-1, (-1, 3))  # in each object's own frame
        return Kinematics(
            key_pos_w=pos[..., self._key, :],
            key_vel_w=(later - pos)[..., self._key, :] / _SHORT,
            qpos=qpos,
            joint_vel=qvel[..., self.layout.joint_dofs],
            object_pos_w=pos[..., things, :],
            object_quat_w=quat[..., things, :],
            object_lin_vel_w=qvel[..., self.layout.fields["object_pos"]].unflatten(-1, (-1, 3)),
            object_ang_vel_w=quat_rotate(quat[..., things, :], turning),
        )
