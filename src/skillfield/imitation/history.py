"""What the policy remembers: a window of past states, the same for pre-training, for resets and while running.

Shape letters: E environments, k frames of history, F features of a frame, B bodies, J joints, O objects.
"""

from typing import Literal, Protocol

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.reference.motion import ReferenceMotion
from skillfield.rotations import heading_cos_sin, rotate_heading_inverse

__all__ = ["Embedding", "History", "HistoryKind", "history_features", "reference_features"]

HistoryKind = Literal["none", "encoder", "stacked", "time"]


class Embedding(Protocol):
    """What turns a window [E, k, F] into a few numbers [E, size]."""

    size: int

    def __call__(self, window: Tensor) -> Tensor: ...


def history_features(
    root_pos_w: Tensor,  # [..., 3]
    root_quat_w: Tensor,  # [..., 4]
    body_pos_w: Tensor,  # [..., B, 3] the root first
    joint_pos: Tensor,  # [..., J]
    object_pos_w: Tensor,  # [..., O, 3]
) -> Tensor:
    """Root height, bodies and objects in the heading frame, joint positions.  [..., F]"""
    origin = root_pos_w.unsqueeze(-2)
    places = torch.cat((body_pos_w[..., 1:, :], object_pos_w), dim=-2) - origin
    local = rotate_heading_inverse(heading_cos_sin(root_quat_w), places)
    return torch.cat((root_pos_w[..., 2:], local.flatten(-2), joint_pos), dim=-1)


def reference_features(motion: ReferenceMotion, character: Character) -> Tensor:
    """Features of every reference frame.  [N, F]"""
    ids = [*character.body_ids, *character.object_ids]
    pos, quat = ForwardKinematics(character.model, ids, motion.device)(motion.qpos)
    bodies, root = len(character.body_ids), character.body_names.index(character.root)
    joints = character.layout(motion.device).joint_qpos
    return history_features(pos[:, root], quat[:, root], pos[:, :bodies], motion.qpos[:, joints], pos[:, bodies:])


class History:
    """The last k frames of every environment, oldest first, not counting the present one."""

    def __init__(self, motion: ReferenceMotion, character: Character, envs: int, length: int) -> None:
        self._motion, self._length = motion, length
        self.reference = reference_features(motion, character)
        self._clip = motion.clip_of_row
        self._before = torch.arange(-length, 0, device=motion.device)
        self.window = torch.zeros(envs, length, self.reference.shape[1], device=motion.device)

    def past_of(self, row: Tensor) -> Tensor:
        """What led to reference frames; before a clip's first frame there is that frame, again and again.  [n, k, F]"""
        first = self._motion.start[self._clip[row]]
        return self.reference[torch.maximum(row.unsqueeze(1) + self._before, first.unsqueeze(1))]

    def reset(self, envs: Tensor, row: Tensor) -> None:
        """These environments have come from these reference frames."""
        self.window[envs] = self.past_of(row)

    def reset_where(self, ended: Tensor, row: Tensor) -> None:
        """The same for those that ended, given a row for everyone.  [E] bool, [E]"""
        self.window = torch.where(ended[:, None, None], self.past_of(row), self.window)

    def push(self, features: Tensor) -> None:
        """The present frame becomes the past.  [E, F]"""
        self.window = torch.cat((self.window[:, 1:], features.unsqueeze(1)), dim=1)
