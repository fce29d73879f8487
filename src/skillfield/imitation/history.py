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
    """The last k frames of every environment, not counting the present one.

    They lie in a ring, so that a step writes one frame and moves none; the tensors stay where they are.
    """

    def __init__(self, motion: ReferenceMotion, character: Character, envs: int, length: int) -> None:
        self._motion, self.length = motion, length
        self.reference = reference_features(motion, character)
        self._clip = motion.clip_of_row
        self._slots = torch.arange(length, device=motion.device)
        self._ring = torch.zeros(envs, length, self.reference.shape[1], device=motion.device)
        self._oldest = torch.zeros(1, dtype=torch.long, device=motion.device)  # slot of the ring

    @property
    def features(self) -> int:
        """F."""
        return self._ring.shape[2]

    def window(self, envs: Tensor | None = None) -> Tensor:
        """What some environments remember, or all of them, oldest frame first.  [n, k, F]"""
        ring = self._ring if envs is None else self._ring[envs]
        return ring.index_select(1, (self._slots + self._oldest) % self.length)

    def restore(self, window: Tensor) -> None:
        """Remember what `window` gave.  [E, k, F]"""
        self._ring.copy_(window)
        self._oldest.zero_()

    def past_of(self, row: Tensor) -> Tensor:
        """What led to reference frames; before a clip's first frame there is that frame, again and again.  [n, k, F]"""
        return self._frames_before(row, self._slots)

    def reset(self, envs: Tensor, row: Tensor) -> None:
        """These environments have come from these reference frames."""
        self._ring[envs] = self._frames_before(row, self._places())

    def reset_where(self, ended: Tensor, row: Tensor) -> None:
        """The same for those that ended, given a row for everyone.  [E] bool, [E]"""
        torch.where(ended[:, None, None], self._frames_before(row, self._places()), self._ring, out=self._ring)

    def push(self, features: Tensor) -> None:
        """The present frame becomes the past.  [E, F]"""
        self._ring.index_copy_(1, self._oldest, features.unsqueeze(1))
        self._oldest.add_(1).remainder_(self.length)

    def _places(self) -> Tensor:
        """Which frame of a window each slot of the ring holds, 0 for the oldest.  [k]"""
        return (self._slots - self._oldest) % self.length

    def _frames_before(self, row: Tensor, places: Tensor) -> Tensor:
        first = self._motion.start[self._clip[row]]
        return self.reference[torch.maximum(row.unsqueeze(1) + places - self.length, first.unsqueeze(1))]
