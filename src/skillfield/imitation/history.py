"""What the policy remembers: a window of past states, the same for pre-training, for resets and while running.

Shape letters: E environments, k frames of history, F features of a frame, W numbers remembered of it, B bodies,
J joints, O objects.
"""

from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.reference.motion import ReferenceMotion
from skillfield.rotations import heading_cos_sin, rotate_heading_inverse

__all__ = ["Embedding", "History", "HistoryKind", "history_features", "reference_features"]

HistoryKind = Literal["none", "encoder", "stacked", "time"]


class Embedding(Protocol):
    """What turns a window [E, k, F] into a few numbers [E, size], a frame at a time.

    Whatever depends on one frame alone is computed once, when the frame is remembered, and not again in each of the k
    steps in which it is part of the window. That leaves P pieces of a frame, C numbers each.
    """

    size: int
    num_pieces: int
    frames: Tensor  # [m] which frames of the window are read; -1 and k are none
    pieces: Tensor  # [m] which piece of each

    def project(self, features: Tensor) -> Tensor:
        """What is remembered of frames.  [..., F] → [..., P·C]"""

    def embed(self, read: Tensor) -> Tensor:
        """The embedding, from those pieces; none is zero.  [E, m, C] → [E, size]"""


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
    W numbers are remembered of a frame: its features, or what an embedding makes of them.
    """

    def __init__(
        self,
        motion: ReferenceMotion,
        character: Character,
        envs: int,
        length: int,
        embedding: Embedding | None = None,
    ) -> None:
        self._motion, self.length, self._embedding = motion, length, embedding
        self.reference = reference_features(motion, character)  # [N, F]
        self.features = self.reference.shape[1]
        self._clip = motion.clip_of_row
        self._slots = torch.arange(length, device=motion.device)
        self._oldest = torch.zeros(1, dtype=torch.long, device=motion.device)  # slot of the ring
        self._remembered = functional.pad(self._project(self.reference), (0, 0, 0, 1))  # [N + 1, W] zeros in the last
        # one slot more, of zeros, for what is read beyond the ends
        self._ring = torch.zeros(envs, length + 1, self._remembered.shape[1], device=motion.device)

    @property
    def size(self) -> int:
        """Numbers that `recall` gives."""
        return self.length * self.features if self._embedding is None else self._embedding.size

    def recall(self, envs: Tensor | None = None) -> Tensor:
        """What some environments know of their past, or all of them: its embedding, or all of it.  [n, size]"""
        embedding = self._embedding
        if embedding is None:
            return self.window(envs).flatten(1)
        frames, pieces = embedding.frames, embedding.pieces
        slots = torch.where((frames < 0) | (frames >= self.length), self.length, (frames + self._oldest) % self.length)
        ring = (self._ring if envs is None else self._ring[envs]).unflatten(2, (embedding.num_pieces, -1))
        return embedding.embed(ring.flatten(1, 2).index_select(1, slots * ring.shape[2] + pieces))

    def window(self, envs: Tensor | None = None) -> Tensor:
        """What is remembered, oldest frame first.  [n, k, W]"""
        ring = self._ring if envs is None else self._ring[envs]
        return ring.index_select(1, (self._slots + self._oldest) % self.length)

    def restore(self, window: Tensor) -> None:
        """Remember what `window` gave.  [E, k, W]"""
        self._ring[:, : self.length].copy_(window)
        self._oldest.zero_()

    def past_of(self, row: Tensor) -> Tensor:
        """Features of what led to reference frames.  [n, k, F]

        Before a clip's first frame there is that frame, again and again.
        """
        return self.reference[self._rows_before(row, self._slots)]

    def reset(self, envs: Tensor, row: Tensor) -> None:
        """These environments have come from these reference frames."""
        self._ring[envs, : self.length] = self._remembered[self._rows_before(row, self._places())]

    def reset_where(self, ended: Tensor, row: Tensor) -> None:
        """The same for those that ended, given a row for everyone.  [E] bool, [E]"""
        rows = functional.pad(self._rows_before(row, self._places()), (0, 1), value=len(self.reference))
        torch.where(ended[:, None, None], self._remembered[rows], self._ring, out=self._ring)

    def push(self, features: Tensor) -> None:
        """The present frame becomes the past.  [E, F]"""
        self._ring.index_copy_(1, self._oldest, self._project(features).unsqueeze(1))
        self._oldest.add_(1).remainder_(self.length)

    def refresh(self) -> None:
        """The embedding has learned something else: what is remembered of the demonstrations changes with it."""
        self._remembered[:-1] = self._project(self.reference)

    def _project(self, features: Tensor) -> Tensor:
        return features if self._embedding is None else self._embedding.project(features)

    def _places(self) -> Tensor:
        """Which frame of a window each slot of the ring holds, 0 for the oldest.  [k]"""
        return (self._slots - self._oldest) % self.length

    def _rows_before(self, row: Tensor, places: Tensor) -> Tensor:
        first = self._motion.start[self._clip[row]]
        return torch.maximum(row.unsqueeze(1) + places - self.length, first.unsqueeze(1))
