"""When an execution of a skill counts as a success. A rule looks at recorded trials only.

Shape letters: T steps, N trials.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.evaluation.rollout import Trials

__all__ = ["DribbleRule", "HoldRule", "KeepRule", "SuccessRule", "TossRule", "longest_run"]


class SuccessRule(ABC):
    """One skill's definition of success."""

    @abstractmethod
    def judge(self, trials: Trials) -> Tensor:
        """Which trials succeeded.  [N] bool"""


@dataclass(frozen=True)
class KeepRule(SuccessRule):
    """Has neither fallen nor lost its object by the end of the trial: for skills without a rule of their own."""

    max_distance: float
    """Metres between the root and the first object that count as losing it."""
    settle_seconds: float = 1.5
    """Time to get hold of it, not judged."""

    def judge(self, trials: Trials) -> Tensor:
        first = min(round(self.settle_seconds * trials.fps), trials.num_steps - 1)
        away = (trials.object_pos_w - trials.root_pos_w)[first:].norm(dim=-1)
        return trials.alive[-1] & (away <= self.max_distance).all(dim=0)


@dataclass(frozen=True)
class DribbleRule(SuccessRule):
    """Keeps the ball bouncing and travels the right way, to the end of the trial.

    Stricter than the released rule, which asks for neither a direction nor a speed.
    """

    direction: tuple[float, float]
    """Unit vector over the ground."""
    speed: float
    """Demonstrated speed, m/s."""
    slowest: float = 0.4
    """Least distance covered, as a share of what the demonstrated speed would give."""
    fastest: float = 2.5
    """Most distance covered, likewise."""
    max_sideways: float = 0.5
    """Distance to the side, as a share of the distance ahead: about 27 degrees."""
    settle_seconds: float = 1.5
    """Time to get going, not judged."""
    max_distance: float = 1.0
    """Metres between hand and ball that count as losing it."""
    max_untouched_seconds: float = 1.2
    """Longest time without a touch."""
    min_bounces_per_second: float = 0.8
    """Demonstrated cycles take 0.56 to 0.65 s."""
    ground_height: float = 0.17
    """Ball centre under this is on the floor."""

    def judge(self, trials: Trials) -> Tensor:
        first = min(round(self.settle_seconds * trials.fps), trials.num_steps - 1)
        root, ball = trials.root_pos_w[first:], trials.object_pos_w[first:]
        seconds = (len(root) - 1) / trials.fps
        near = ((root - ball).norm(dim=-1) < self.max_distance).all(dim=0)
        down = ball[..., 2] < self.ground_height
        bounces = (down[1:] & ~down[:-1]).sum(dim=0)
        ahead = root.new_tensor(self.direction)
        way = (root[-1] - root[0])[:, :2]
        along = way @ ahead
        across = (way @ torch.stack((-ahead[1], ahead[0]))).abs()
        full = self.speed * seconds
        return (
            trials.alive[-1]
            & near
            & (longest_run(~trials.touching[first:]) <= self.max_untouched_seconds * trials.fps)
            & (bounces >= self.min_bounces_per_second * seconds)
            & (along > self.slowest * full)
            & (along < self.fastest * full)
            & (across < self.max_sideways * along)
        )


@dataclass(frozen=True)
class HoldRule(SuccessRule):
    """Has the ball in the hand, lifted and calm, from some point on to the end of the trial."""

    min_height: float
    """Metres of the ball's centre, on average over the last second."""
    settle_seconds: float = 2.5
    """Time to gather the ball, not judged."""
    max_distance: float = 0.25
    """Metres between palm and ball."""
    max_speed: float = 1.5
    """Of the ball, m/s."""

    def judge(self, trials: Trials) -> Tensor:
        first = min(round(self.settle_seconds * trials.fps), trials.num_steps - 2)
        root, ball = trials.root_pos_w[first:], trials.object_pos_w[first:]
        held = ((root - ball).norm(dim=-1) < self.max_distance).all(dim=0)
        calm = (ball.diff(dim=0).norm(dim=-1) * trials.fps < self.max_speed).all(dim=0)
        high = ball[-round(trials.fps) :, :, 2].mean(dim=0) > self.min_height
        return trials.alive[-1] & held & calm & high


@dataclass(frozen=True)
class TossRule(SuccessRule):
    """Keeps the ball still for about as long as demonstrated, then throws it ahead: not early, not late, not never."""

    min_still_seconds: float
    """Shortest rest before the throw that counts."""
    max_still_seconds: float
    """Longest."""
    swing_seconds: float = 1.0
    """Longest between the end of that rest and the throw."""
    min_range: float = 0.4
    """Metres that the ball must fly ahead (x) from where it left the hand, within `flight_seconds`, untouched."""
    max_sideways: float = 0.5
    """Metres that it may go to the side."""
    flight_seconds: float = 0.8
    hold_distance: float = 0.2
    """Palm to ball while held."""
    release_distance: float = 0.3
    """Palm to ball once thrown."""
    still_speed: float = 0.5
    """Ball slower than this is at rest, m/s."""

    def judge(self, trials: Trials) -> Tensor:
        away = trials.object_pos_w - trials.root_pos_w
        distance = away.norm(dim=-1)
        speed = trials.object_pos_w.diff(dim=0, prepend=trials.object_pos_w[:1]).norm(dim=-1) * trials.fps
        resting = (distance < self.hold_distance) & trials.touching & (speed < self.still_speed)
        # the throw is the first time that the ball leaves the hand after having rested in it
        step = torch.arange(trials.num_steps, device=distance.device).unsqueeze(1)
        rest = step - torch.where(resting, -1, step).cummax(dim=0).values  # how long it has rested by now
        rested = rest.cummax(dim=0).values  # longest so far
        enough = rested >= self.min_still_seconds * trials.fps
        ended = torch.where(rest >= self.min_still_seconds * trials.fps, step, -1).cummax(dim=0).values
        thrown = (distance > self.release_distance) & enough
        release = torch.where(thrown, step, trials.num_steps).amin(dim=0)  # [N]
        at_release = release.clamp_max(trials.num_steps - 1)
        still = rested.gather(0, at_release.unsqueeze(0)).squeeze(0) / trials.fps
        swing = (release - ended.gather(0, at_release.unsqueeze(0)).squeeze(0)) / trials.fps
        in_time = (still <= self.max_still_seconds) & (swing <= self.swing_seconds)
        since = step - release
        flying = (since >= 0) & (since <= self.flight_seconds * trials.fps)
        flying &= ~(trials.touching & (since > 0)).cummax(dim=0).values
        flown = trials.object_pos_w - trials.object_pos_w.gather(0, at_release.view(1, -1, 1).expand(1, -1, 3))
        ahead = (flown[..., 0] > self.min_range) & (flown[..., 1].abs() < self.max_sideways) & flying
        return ahead.any(dim=0) & in_time & trials.alive[-1]


def longest_run(holds: Tensor) -> Tensor:
    """Most consecutive steps for which something holds.  [T, N] bool → [N]"""
    step = torch.arange(1, len(holds) + 1, device=holds.device).unsqueeze(1)
    last = torch.where(holds, 0, step).cummax(dim=0).values
    return (step - last).amax(dim=0)
