"""Kinematic similarity S_k = r^b · r^o · r^rel between many states at once (paper, connection rules).

Every term of the exponent is a weighted squared distance, so a state becomes one feature vector and S_k one distance
matrix; only orientations are compared by their angle instead.
Shape letters: n and m states, F features, G orientations.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.reference.kinematics import Kinematics, TrackingWeights, relative

__all__ = [
    "LOG_10",
    "STITCHABLE",
    "Features",
    "earliest_best",
    "in_nearest_clip",
    "masked_states",
    "similarity_exponent",
    "similarity_features",
]

LOG_10 = 2.302585092994046
STITCHABLE = 3 * LOG_10
"""-ln β under which one demonstration may go on as another: β > 0.001, three masked states at most."""


class Features(NamedTuple):
    """A state, scaled so that the exponent of S_k is a plain squared distance."""

    vector: Tensor  # [..., F]
    quats: Tensor  # [..., G, 4]
    quat_weights: Tensor  # [G]

    def rows(self, rows: Tensor) -> "Features":
        """Some of the states."""
        return Features(self.vector[rows], self.quats[rows], self.quat_weights)


def similarity_features(state: Kinematics, weights: TrackingWeights, layout: Layout) -> Features:
    """Features of states.  Leading axes stay."""
    angles, quats = layout.rotations(state.qpos)
    rotations = angles.shape[-1] + 3 * quats.shape[-2]
    parts = [
        (weights.position, state.key_pos_w.flatten(-2)),
        (weights.velocity, state.key_vel_w.flatten(-2)),
        (weights.rotation_velocity, state.joint_vel),
        (weights.object_position, state.object_pos_w.flatten(-2)),
        (weights.object_velocity, state.object_lin_vel_w.flatten(-2)),
        (weights.object_rotation_velocity, state.object_ang_vel_w.flatten(-2)),
        (weights.relative, relative(state).flatten(-3)),
    ]
    vectors = [(weight / max(part.shape[-1], 1)) ** 0.5 * part for weight, part in parts if weight]
    vectors.append((weights.rotation / max(rotations, 1)) ** 0.5 * angles)
    turned = [quats]
    quat_weights = [weights.rotation / max(rotations, 1)] * quats.shape[-2]
    if weights.object_rotation:
        objects = state.object_quat_w.shape[-2]
        turned.append(state.object_quat_w)
        quat_weights += [weights.object_rotation / max(3 * objects, 1)] * objects
    return Features(torch.cat(vectors, dim=-1), torch.cat(turned, dim=-2), quats.new_tensor(quat_weights))


def similarity_exponent(first: Features, second: Features) -> Tensor:
    """-ln S_k of every state of `first` with every state of `second`.  [n], [m] → [n, m]; [e, n], [e, m] → [e, n, m]"""
    # from a common centre: far from the origin |a|² + |b|² - 2ab would lose its decimals
    centre = second.vector.mean(dim=-2, keepdim=True)
    a, b = first.vector - centre, second.vector - centre
    exponent = (a @ b.transpose(-1, -2)).mul_(-2.0)
    exponent += a.square().sum(-1, keepdim=True)
    exponent += b.square().sum(-1).unsqueeze(-2)
    exponent.clamp_min_(0.0)
    for number, weight in enumerate(second.quat_weights.tolist()):
        cosine = first.quats[..., number, :] @ second.quats[..., number, :].transpose(-1, -2)
        half = cosine.abs_().clamp_max_(1.0).acos_()  # in place: with many joints this is where the time goes
        exponent.add_(half.square_(), alpha=4 * weight)
    return exponent


def in_nearest_clip(exponent: Tensor, clip: Tensor) -> Tensor:
    """Exponents, infinite in every clip but that of the most similar column: "the earliest of equals" means something
    within one clip only.  [n, m], [m] clip of each column"""
    nearest = clip[exponent.argmin(dim=-1)].unsqueeze(-1)
    return exponent.masked_fill(clip != nearest, torch.inf)


def earliest_best(exponent: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The most similar column of each row; among those within `margin` of it, the first.  [n, m] → [n], [n]

    While a demonstration stands still its frames are alike but for noise, and which of them is most similar means
    nothing. From the earliest, everything that follows can still be reached.
    """
    best = exponent.min(dim=-1, keepdim=True).values
    first = (exponent <= best + margin).float().argmax(dim=-1)
    return first, exponent.gather(-1, first.unsqueeze(-1)).squeeze(-1)


def masked_states(exponent: Tensor, most: int) -> Tensor:
    """N = min(-⌊log10 β⌋, N_max) for β = exp(-exponent): how many masked states bridge a connection."""
    return torch.ceil(exponent / LOG_10 - 1e-6).clamp(0, most).long()
