"""Rules of the basketball skills, on trials drawn by hand."""

import math
from dataclasses import replace

import pytest
import torch

from skillfield.evaluation.court import CourtDribbleRule, LayupRule, ShotRule
from skillfield.evaluation.rollout import Trials
from skillfield.evaluation.success import longest_run

FPS, STEPS = 60.0, 600
TIME = torch.arange(STEPS) / FPS


def playing(away: float = 0.5) -> Trials:
    """Stands for ten seconds while a ball bounces beside it."""
    zero = torch.zeros(STEPS)
    ball = torch.stack((zero + away, zero, 0.12 + 0.7 * (math.pi * 1.5 * TIME).sin().abs()), dim=1)
    root = torch.stack((zero, zero, zero + 0.9), dim=1)
    yes = torch.ones(STEPS, 1, dtype=torch.bool)
    return Trials(FPS, root.unsqueeze(1), ball.unsqueeze(1), ~yes, yes)


def but(trial: Trials, first: int, last: int, root: float | None = None, ball: float | None = None) -> Trials:
    """The same, but that from one step to another the root or the ball are so high."""
    roots, balls = trial.root_pos_w.clone(), trial.object_pos_w.clone()
    for column, height in ((roots, root), (balls, ball)):
        if height is not None:
            column[first:last, :, 2] = height
    return replace(trial, root_pos_w=roots, object_pos_w=balls)


def diverging(trial: Trials) -> Trials:
    """The same, but that its world blows up in the second half; its root's height says nothing of that."""
    alive = trial.alive.clone()
    alive[400:] = False
    return replace(trial, alive=alive)


UNREADY = but(playing(), 0, 99, root=0.2, ball=0.12)
"""Lies beside a ball that lies, at first."""


@pytest.mark.parametrize(
    ("success", "dribble"),
    [
        pytest.param(True, playing(), id="throughout"),
        pytest.param(True, UNREADY, id="begins in time"),
        pytest.param(True, but(playing(), 300, 312, ball=0.12), id="the ball pauses"),
        pytest.param(False, but(playing(), 0, 100, root=0.2), id="begins too late"),
        pytest.param(False, but(playing(), 100, 101, root=0.49), id="falls at once"),
        pytest.param(False, but(playing(), 350, 351, root=0.49), id="falls for a moment"),
        pytest.param(False, but(playing(), 599, 600, root=0.49), id="falls at last"),
        pytest.param(False, diverging(playing()), id="diverges"),
        pytest.param(False, playing(away=1.5), id="the ball is elsewhere"),
        pytest.param(False, but(playing(), 350, 351, ball=2.5), id="the ball is far up for a moment"),
        pytest.param(False, but(playing(), 300, 318, ball=0.12), id="the ball lies"),
        pytest.param(False, but(playing(), 300, 318, ball=0.6), id="the ball lies higher up"),
    ],
)
def test_a_dribble_stands_beside_a_live_ball(success: bool, dribble: Trials) -> None:
    """From some point of the settling time on to the end; distance counts in space, and a ball lies after a quarter of
    a second without moving."""
    assert CourtDribbleRule().judge(dribble).item() is success


LAYUP = but(UNREADY, 200, 201, ball=1.85)


@pytest.mark.parametrize(
    ("success", "layup"),
    [
        pytest.param(True, LAYUP, id="goes up"),
        pytest.param(False, UNREADY, id="not high enough"),
        pytest.param(False, but(UNREADY, 310, 311, ball=1.85), id="goes up too late"),
        pytest.param(False, but(LAYUP, 200, 201, root=0.3), id="goes up over who lies"),
        pytest.param(False, but(LAYUP, 450, 451, root=0.3), id="falls afterwards"),
        pytest.param(False, diverging(LAYUP), id="diverges"),
        pytest.param(False, but(LAYUP, 450, 468, ball=0.12), id="the ball lies afterwards"),
    ],
)
def test_a_layup_goes_up_in_the_first_half(success: bool, layup: Trials) -> None:
    """While the player stands, who then goes on standing while the ball lives; what was before does not matter."""
    assert LayupRule().judge(layup).item() is success


SHOT = but(UNREADY, 150, 151, ball=2.75)


@pytest.mark.parametrize(
    ("success", "shot"),
    [
        pytest.param(True, SHOT, id="as high"),
        pytest.param(True, but(SHOT, 320, STEPS, ball=0.12), id="the ball lies afterwards"),
        pytest.param(False, but(UNREADY, 150, 151, ball=2.65), id="too low"),
        pytest.param(False, but(UNREADY, 150, 151, ball=3.15), id="too high"),
        pytest.param(False, but(UNREADY, 310, 311, ball=2.75), id="too late"),
        pytest.param(False, but(SHOT, 150, 151, root=0.3), id="thrown by who lies"),
        pytest.param(False, but(SHOT, 450, 451, root=0.3), id="falls afterwards"),
        pytest.param(False, diverging(SHOT), id="diverges"),
    ],
)
def test_a_shot_reaches_the_demonstrated_height_in_the_first_half(success: bool, shot: Trials) -> None:
    """Within the tolerance, not above it, while the player stands, who then goes on standing; what the ball does then
    does not matter."""
    assert ShotRule(apex=2.9).judge(shot).item() is success


def test_a_trial_may_end_before_its_second_part_begins() -> None:
    """The first one is then all that is asked for."""
    zero = torch.zeros(60, 1, 3)
    lying = Trials(FPS, zero, zero, zero[..., 0] > 0, zero[..., 0] == 0)
    for rule, height in ((CourtDribbleRule(), 1.0), (LayupRule(), 1.9), (ShotRule(apex=2.9), 2.9)):
        assert rule.judge(but(lying, 0, 60, root=0.9, ball=height)).tolist() == [True]
        assert rule.judge(lying).tolist() == [False]


def test_longest_run() -> None:
    """By hand."""
    holds = torch.tensor([[0, 1, 1], [1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0]], dtype=torch.bool)
    assert longest_run(holds).tolist() == [2, 5, 2]
