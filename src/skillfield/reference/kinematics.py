"""How far a state is from a reference: the error terms that rewards and similarities are made of.

Pure functions of tensors. Leading axes broadcast, so the same code compares E states with E frames, or with all of T.
Shape letters: B key bodies, R rotational degrees of freedom, J joint degrees of freedom, O objects.
"""

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.rotations import rotvec_between

__all__ = ["Kinematics", "TrackingWeights", "relative", "tracking_error", "tracking_exponent"]


_BODY_TERMS = ("position", "rotation", "velocity", "rotation_velocity")


class Kinematics(NamedTuple):
    """The part of a state that a demonstration describes. World frame."""

    key_pos_w: Tensor  # [..., B, 3]
    key_vel_w: Tensor  # [..., B, 3]
    qpos: Tensor  # [..., Q]
    joint_vel: Tensor  # [..., J]
    object_pos_w: Tensor  # [..., O, 3]
    object_quat_w: Tensor  # [..., O, 4]
    object_lin_vel_w: Tensor  # [..., O, 3]
    object_ang_vel_w: Tensor  # [..., O, 3]


@dataclass(frozen=True)
class TrackingWeights:
    """Sensitivity λ of each term (paper, table of reward weights; BallPlay-M column)."""

    position: float = 20.0
    """λ^p: key body positions, metres."""
    rotation: float = 20.0
    """λ^r: root and joint rotations, radians."""
    velocity: float = 0.0
    """λ^pv: key body velocities."""
    rotation_velocity: float = 0.0
    """λ^rv: joint velocities."""
    object_position: float = 1.0
    """λ^op."""
    object_rotation: float = 0.0
    """λ^or."""
    object_velocity: float = 0.0
    """λ^opv."""
    object_rotation_velocity: float = 0.0
    """λ^orv."""
    relative: float = 20.0
    """λ^rel: vectors from the object to each key body."""

    def at_least(self, velocity: float, object_velocity: float) -> "TrackingWeights":
        """The same, in which velocities count at least so much: without them a falling ball is like a rising one."""
        return replace(
            self,
            velocity=max(self.velocity, velocity),
            object_velocity=max(self.object_velocity, object_velocity),
        )


def tracking_error(term: str, state: Kinematics, reference: Kinematics, layout: Layout) -> Tensor:
    """Mean squared error of one term of `TrackingWeights`, without the trailing axes of its quantity."""
    match term:
        case "position":
            return _mean_square(state.key_pos_w - reference.key_pos_w, 2)
        case "rotation":  # wrap-safe: root vectors cross π inside real clips
            return _mean_square(layout.rotation_difference(reference.qpos, state.qpos), 1)
        case "velocity":
            return _mean_square(state.key_vel_w - reference.key_vel_w, 2)
        case "rotation_velocity":
            return _mean_square(state.joint_vel - reference.joint_vel, 1)
        case "object_position":
            return _mean_square(state.object_pos_w - reference.object_pos_w, 2)
        case "object_rotation":
            return _mean_square(rotvec_between(state.object_quat_w, reference.object_quat_w), 2)
        case "object_velocity":
            return _mean_square(state.object_lin_vel_w - reference.object_lin_vel_w, 2)
        case "object_rotation_velocity":
            return _mean_square(state.object_ang_vel_w - reference.object_ang_vel_w, 2)
        case "relative":
            return _mean_square(relative(state) - relative(reference), 3)
    raise ValueError(f"no tracking term '{term}'")


def tracking_exponent(
    state: Kinematics,
    reference: Kinematics,
    weights: TrackingWeights,
    layout: Layout,
    away: Tensor | None = None,
) -> Tensor:
    """Σ λ·MSE over body, object and relative terms; exp(-this) is the paper's r^b · r^o · r^rel.

    away: where objects are out of reach, so that only the body is compared; bool.
    """
    total = torch.zeros((), device=state.qpos.device)
    for field in fields(weights):
        term, weight = field.name, getattr(weights, field.name)
        if weight:
            error = weight * tracking_error(term, state, reference, layout)
            total = total + (error if away is None or term in _BODY_TERMS else error.masked_fill(away, 0.0))
    return total


def relative(state: Kinematics) -> Tensor:
    """Vectors from each object to each key body.  [..., O, B, 3]"""
    return state.key_pos_w.unsqueeze(-3) - state.object_pos_w.unsqueeze(-2)


def _mean_square(difference: Tensor, axes: int) -> Tensor:
    """Mean of squares over the last axes; nothing to compare means no error."""
    flat = difference.flatten(-axes) if axes > 1 else difference
    return flat.square().mean(dim=-1) if flat.shape[-1] else flat.sum(dim=-1)
