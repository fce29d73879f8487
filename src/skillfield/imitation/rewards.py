"""How well a step imitates: the SkillMimic and the DeepMimic reward. Pure functions of tensors.

Shape letters: E environments, K contact pairs.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.reference.kinematics import Kinematics, tracking_error

__all__ = ["DeepMimicWeights", "contact_graph_error", "deepmimic_reward", "skillmimic_reward"]


@dataclass(frozen=True)
class DeepMimicWeights:
    """Sensitivities of the additive reward (paper, table of DM reward weights)."""

    position: float = 40.0
    """Of key body positions."""
    rotation: float = 2.0
    """Of the rotations of root and joints."""
    rotation_velocity: float = 0.1
    """Of joint velocities."""
    object_position: float = 40.0
    """Of object positions."""


def contact_graph_error(pairs: Tensor, reference_pairs: Tensor, weights: tuple[float, ...]) -> Tensor:
    """Σ λ^cg·|s^cg - ŝ^cg| over the contact pairs.  [E]"""
    difference = (pairs - reference_pairs).abs()
    # one by one: a tensor made of host numbers would stall a GPU at every step
    return sum((weight * difference[:, pair] for pair, weight in enumerate(weights)), torch.zeros_like(pairs[:, 0]))


def skillmimic_reward(tracking: Tensor, contact_error: Tensor) -> Tensor:
    """r^b · r^o · r^rel · r^cg: 1 at the reference, and small as soon as any one term is bad.  [E]

    tracking: Σ λ·MSE of the body, object and relative terms (`tracking_exponent`).
    """
    return torch.exp(-tracking - contact_error)


def deepmimic_reward(
    state: Kinematics,
    reference: Kinematics,
    weights: DeepMimicWeights,
    layout: Layout,
    away: Tensor | None = None,
) -> Tensor:
    """Sum of four exponentials, at most 4, of three where there are no objects; blind to contacts and relative motion.

    [E]
    away: where objects are out of reach, so that theirs is left out.  [E] bool
    """
    terms = {
        field.name: torch.exp(-getattr(weights, field.name) * tracking_error(field.name, state, reference, layout))
        for field in fields(weights)
        if state.object_pos_w.shape[-2] or field.name != "object_position"
    }
    if away is not None and "object_position" in terms:
        terms["object_position"] = terms["object_position"].masked_fill(away, 0.0)
    return torch.stack(list(terms.values())).sum(dim=0)
