"""Success rules of the basketball skills, as the released metrics judge them (10 s, no reset).

They look at the root's height and at the ball only. The release asks that the ball's vertical speed is never exactly
zero, which tells a live ball from one that lies; here a ball lies when it has not moved for a quarter of a second, so
that the top of a bounce is no accident.
Shape letters: T steps, N trials.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.evaluation.rollout import Trials
from skillfield.evaluation.success import SuccessRule, longest_run

__all__ = ["CourtDribbleRule", "LayupRule", "ShotRule"]

_STANDING = 0.5
"""Metres of the root over the floor."""
_RESTING_SPEED = 0.01
_RESTING_SECONDS = 0.25


@dataclass(frozen=True)
class CourtDribbleRule(SuccessRule):
    """Stands, stays with a live ball, from some point on to the end."""

    settle_seconds: float = 100 / 60
    """Time to get going: the rule must hold once in it, and always after it."""
    max_distance: float = 1.5
    """Metres between root and ball."""

    def judge(self, trials: Trials) -> Tensor:
        settle = round(self.settle_seconds * trials.fps)
        near = (trials.object_pos_w - trials.root_pos_w).norm(dim=-1) < self.max_distance
        dribbling = _standing(trials) & near
        return dribbling[:settle].any(dim=0) & dribbling[settle:].all(dim=0) & _ball_lives(trials, settle)


@dataclass(frozen=True)
class LayupRule(SuccessRule):
    """Brings the ball up to the basket in the first half, then stands while the ball lives."""

    min_height: float = 1.8
    """Metres of the ball."""
    half_seconds: float = 5.0

    def judge(self, trials: Trials) -> Tensor:
        half = round(self.half_seconds * trials.fps)
        standing = _standing(trials)
        up = standing & (trials.object_pos_w[..., 2] > self.min_height)
        return up[:half].any(dim=0) & standing[half:].all(dim=0) & _ball_lives(trials, half)


@dataclass(frozen=True)
class ShotRule(SuccessRule):
    """Throws the ball about as high as demonstrated in the first half, then stands."""

    apex: float
    """Metres of the ball at the top of the demonstrated throw."""
    tolerance: float = 0.2
    half_seconds: float = 5.0

    def judge(self, trials: Trials) -> Tensor:
        half = round(self.half_seconds * trials.fps)
        standing = _standing(trials)
        there = standing & ((trials.object_pos_w[..., 2] - self.apex).abs() < self.tolerance)
        return there[:half].any(dim=0) & standing[half:].all(dim=0)


def _standing(trials: Trials) -> Tensor:
    return (trials.root_pos_w[..., 2] > _STANDING) & trials.alive


def _ball_lives(trials: Trials, first: int) -> Tensor:
    """From step `first` on the ball never lies still.  [N]"""
    height = trials.object_pos_w[max(first - 1, 0) :, :, 2]
    still = height.diff(dim=0).abs() * trials.fps < _RESTING_SPEED
    if not len(still):
        return torch.ones_like(trials.alive[-1])
    return longest_run(still) < _RESTING_SECONDS * trials.fps
