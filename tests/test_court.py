"""Rules of the basketball skills, on trials drawn by hand."""

import math

import pytest
import torch
from torch import Tensor

from skillfield.evaluation.court import CourtDribbleRule, LayupRule, ShotRule
from skillfield.evaluation.rollout import Trials
from skillfield.evaluation.success import longest_run

FPS, STEPS = 60.0, 600
TIME = torch.arange(STEPS) / FPS


def trial(root_height: Tensor, ball: Tensor, alive: Tensor | None = None) -> Trials:
    """One execution. root_height: [T]; ball: [T, 3]."""
    root = torch.stack((torch.zeros(STEPS), torch.zeros(STEPS), root_height), dim=1)
    living = torch.ones(STEPS, dtype=torch.bool) if alive is None else alive
    return Trials(FPS, root.unsqueeze(1), ball.unsqueeze(1), torch.zeros(STEPS, 1, dtype=torch.bool), living[:, None])


def standing() -> Tensor:
    """A root that stays up."""
    return torch.full((STEPS,), 0.9)


def bouncing(away: float = 0.5) -> Tensor:
    """A ball that bounces beside the root.  [T, 3]"""
    height = 0.12 + 0.7 * (math.pi * 1.5 * TIME).sin().abs()
    return torch.stack((torch.full_like(height, away), torch.zeros_like(height), height), dim=1)


def test_a_dribble_stands_beside_a_live_ball() -> None:
    """To the end of the trial."""
    assert CourtDribbleRule().judge(trial(standing(), bouncing())).tolist() == [True]


@pytest.mark.parametrize("step", [100, 350, 599])
def test_one_fallen_step_after_the_settling_time_fails_a_dribble(step: int) -> None:
    """Before it, a stumble is allowed."""
    fallen = standing()
    fallen[step] = 0.49
    assert CourtDribbleRule().judge(trial(fallen, bouncing())).tolist() == [False]
    early = standing()
    early[:99] = 0.2
    assert CourtDribbleRule().judge(trial(early, bouncing())).tolist() == [True]
    early[:100] = 0.2  # nowhere in it has the rule held
    assert CourtDribbleRule().judge(trial(early, bouncing())).tolist() == [False]


def test_a_ball_that_rolls_away_or_lies_is_no_dribble() -> None:
    """Distance counts in space; a ball lies after a quarter of a second without moving, wherever it lies."""
    assert not CourtDribbleRule().judge(trial(standing(), bouncing(away=1.5))).any()
    lying = bouncing()
    lying[300:318, 2] = 0.12
    assert not CourtDribbleRule().judge(trial(standing(), lying)).any()
    pausing = bouncing()
    pausing[300:312, 2] = 0.12
    assert CourtDribbleRule().judge(trial(standing(), pausing)).all()


def test_a_layup_goes_up_in_the_first_half() -> None:
    """A ball that gets there later, or while the player lies, does not count."""
    ball = bouncing()
    assert not LayupRule().judge(trial(standing(), ball)).any()
    ball[200, 2] = 1.85
    assert LayupRule().judge(trial(standing(), ball)).all()
    lying = standing()
    lying[200] = 0.3
    assert not LayupRule().judge(trial(lying, ball)).any()
    late = bouncing()
    late[310, 2] = 1.85
    assert not LayupRule().judge(trial(standing(), late)).any()
    falls = standing()
    falls[450] = 0.3
    assert not LayupRule().judge(trial(falls, ball)).any()


def test_a_shot_reaches_the_demonstrated_height() -> None:
    """Within the tolerance, not above it; afterwards the ball may do what it likes."""
    rule = ShotRule(apex=2.9)
    ball = bouncing()
    ball[320:, 2] = 0.12
    assert not rule.judge(trial(standing(), ball)).any()
    ball[150, 2] = 2.75
    assert rule.judge(trial(standing(), ball)).all()
    ball[150, 2] = 3.15
    assert not rule.judge(trial(standing(), ball)).any()


def test_a_world_that_blew_up_is_not_standing() -> None:
    """Whatever its root's height says."""
    alive = torch.ones(STEPS, dtype=torch.bool)
    alive[400:] = False
    assert not CourtDribbleRule().judge(trial(standing(), bouncing(), alive)).any()


def test_longest_run() -> None:
    """By hand."""
    holds = torch.tensor([[0, 1, 1], [1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0]], dtype=torch.bool)
    assert longest_run(holds).tolist() == [2, 5, 2]
