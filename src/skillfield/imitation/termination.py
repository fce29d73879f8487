"""When an episode has failed. Pure functions of tensors; a time limit is no failure and lives in the environment."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.configuration import AT_LEAST_ONE, FINITE, NOT_NEGATIVE, POSITIVE, check

__all__ = ["Termination", "floor_of_falls", "lost_objects"]

_MARGIN = 0.1
"""Metres that the root may be lower than its skill ever has it."""


@dataclass(frozen=True)
class Termination:
    """What counts as a failure. The released code ends an episode only when the root falls under 0.3 m."""

    min_root_height: float | None = 0.3
    """Metres; None never ends an episode for it. Where a skill's demonstrations have the root lower themselves, as
    those of getting up, the limit of that skill is a decimetre under their lowest."""
    max_object_distance: float | None = None
    """Metres between an object and where the demonstration has it; None never ends an episode for it."""
    lost_after: int | None = None
    """Steps in a row that earn nothing, after which the demonstration is lost; a start that is N masked states away
    from it has N more. None never ends an episode for it: the rest of it is then simulated for no reward."""
    lost_reward: float = 1e-3
    """What counts as nothing."""

    def __post_init__(self) -> None:
        check("env.termination", self, FINITE, "min_root_height")
        check("env.termination", self, POSITIVE, "max_object_distance")
        check("env.termination", self, AT_LEAST_ONE, "lost_after")
        check("env.termination", self, NOT_NEGATIVE, "lost_reward")


def floor_of_falls(rule: Termination, lowest_root: Tensor) -> Tensor:
    """Height under which a root has fallen, by skill. lowest_root: of the skill's demonstrations.  [S] → [S]"""
    if rule.min_root_height is None:
        return torch.full_like(lowest_root, -math.inf)
    return torch.where(lowest_root < rule.min_root_height, lowest_root - _MARGIN, rule.min_root_height)


def lost_objects(rule: Termination, object_pos_w: Tensor, reference_object_pos_w: Tensor) -> Tensor:
    """Where any object is too far from where the reference has it.  [E, O, 3] ×2 → [E] bool"""
    distance = (object_pos_w - reference_object_pos_w).norm(dim=-1)
    limit = math.inf if rule.max_object_distance is None else rule.max_object_distance
    return (distance > limit).any(dim=1)
