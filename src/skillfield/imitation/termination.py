"""When an episode has failed. Pure functions of tensors; a time limit is no failure and lives in the environment."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.configuration import AT_LEAST_ONE, FINITE, NOT_NEGATIVE, POSITIVE, check

__all__ = ["Termination", "failed"]


@dataclass(frozen=True)
class Termination:
    """What counts as a failure. The released code ends an episode only when the root falls under 0.3 m."""

    min_root_height: float | None = 0.3
    """Metres; None never ends an episode for it."""
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


def failed(
    rule: Termination,
    root_pos_w: Tensor,  # [E, 3]
    object_pos_w: Tensor,  # [E, O, 3]
    reference_object_pos_w: Tensor,  # [E, O, 3]
    scored: Tensor,  # [E] bool: where there is a reference to be far from
) -> Tensor:
    """Which environments have failed.  [E] bool"""
    result = torch.zeros(len(root_pos_w), dtype=torch.bool, device=root_pos_w.device)
    if rule.min_root_height is not None:
        result |= root_pos_w[:, 2] < rule.min_root_height
    if rule.max_object_distance is not None and object_pos_w.shape[1]:
        far = (object_pos_w - reference_object_pos_w).norm(dim=-1) > rule.max_object_distance
        result |= far.any(dim=1) & scored
    return result
