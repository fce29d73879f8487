"""Rotations from positions: how a skeleton must be turned so that its joints lie where a capture saw them.

Shape letters: T frames, B bodies.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from skillfield.rotations import quat_conjugate, quat_from_matrix, quat_multiply, quat_rotate, quat_swing

__all__ = ["Skeleton", "refit"]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Bodies on ball joints, the root first and parents before children; no turn is the rest pose."""

    names: tuple[str, ...]
    parents: tuple[int, ...]  # -1 for the root
    offsets: Tensor  # [B, 3] where each body sits in its parent's frame

    @cached_property
    def children(self) -> list[list[int]]:
        """Numbers of the bodies that hang on each body."""
        return [[b for b, parent in enumerate(self.parents) if parent == body] for body in range(len(self.names))]

    def bone_lengths(self, body_pos: Tensor) -> Tensor:
        """Distance of each body from its parent, the root left out.  [T, B, 3] → [T, B - 1]"""
        return (body_pos[:, 1:] - body_pos[:, list(self.parents[1:])]).norm(dim=-1)


def refit(skeleton: Skeleton, body_pos: Tensor, turn: Tensor) -> Tensor:
    """Turns whose forward kinematics reproduce the positions, as near as possible to the given ones.  [T, B, 4]

    A body with one child is swung until it points at the child and keeps the twist it had: positions do not show it. A
    body with several is fitted to all of them at once. A body without any keeps its turn.

    body_pos: world.  [T, B, 3]
    turn: of each body against its parent, the root's against the world.  [T, B, 4]
    """
    world: list[Tensor] = []
    fitted: list[Tensor] = []
    for body, (parent, children) in enumerate(zip(skeleton.parents, skeleton.children, strict=True)):
        above = world[parent] if parent >= 0 else None
        guess = turn[:, body] if above is None else quat_multiply(above, turn[:, body])
        bones, seen = skeleton.offsets[children], body_pos[:, children] - body_pos[:, body : body + 1]
        if len(children) == 1:
            guess = quat_multiply(quat_swing(quat_rotate(guess, bones.expand(len(guess), 3)), seen[:, 0]), guess)
        elif children:
            guess = _rigid_turn(bones, seen)
        world.append(guess)
        fitted.append(guess if above is None else quat_multiply(quat_conjugate(above), guess))
    return torch.stack(fitted, dim=1)


def _rigid_turn(bones: Tensor, seen: Tensor) -> Tensor:
    """The rotation that brings vectors [K, 3] closest to those seen [T, K, 3] in least squares (Kabsch).  [T, 4]"""
    left, _, right = torch.linalg.svd(torch.einsum("tki,kj->tij", seen, bones))
    sign = torch.ones_like(seen[:, 0])
    sign[:, 2] = torch.det(left @ right).sign()  # a reflection would fit as well, but no body can do one
    return quat_from_matrix(left @ torch.diag_embed(sign) @ right)
