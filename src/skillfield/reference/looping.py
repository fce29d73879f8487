"""Demonstrations that go on after their last frame, where what they show comes round.

A dribble ends as it was half a second before or more; a shot that is caught again ends with the ball in the hands; a
layup ends with a ball that falls, which the shot shows how to catch. Such a clip is stitched to its own skill, or to
another one and from there to its own: after its last frame come masked states, as many as the connection rule asks
for, and then the frames that follow a similar state, moved in the plane to where the clip ended. So an episode can run
across the end of its clip, and what to do after it is learned instead of left to luck. Where a recording happens to
stop is seldom where it comes round best: if that is clearly so a few frames earlier, it ends there.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.reference.endings import returns
from skillfield.reference.graph import canonical
from skillfield.reference.kinematics import TrackingWeights
from skillfield.reference.motion import ReferenceMotion, Tail
from skillfield.reference.seams import seam
from skillfield.reference.similarity import (
    LOG_10,
    STITCHABLE,
    Features,
    earliest_best,
    similarity_exponent,
    similarity_features,
)
from skillfield.reference.states import StateKinematics

__all__ = ["looped"]

_APART = 30  # frames: what has come round has been something else in between, and is worth following for a while
_EARLIER = 30  # frames at the end of a clip that may be given up for a better way round
_VELOCITY, _OBJECT_VELOCITY = 0.1, 1.0  # at least: a ball that falls past where it rose has not come round


@torch.no_grad()
def looped(motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights, steps: int) -> ReferenceMotion:
    """The same demonstrations, each that comes round followed by at least `steps` more frames.

    Nobody starts in those, and nothing connects to them: they are the same frames again. BallPlay-M's dribbles have
    -ln β 1.0 to 2.6 to their own skill, the shot 3.7, the layup 9.3; the layup has 3.0 to the shot's catch, which has
    6.7 back. The dribble to the right has 2.5 at its end and 1.4 twelve frames before, which it gives up.
    """
    ends_as_it_was = torch.nonzero(returns(motion, states, weights)).squeeze(1)  # a throw is whole or not a throw
    weights = weights.at_least(_VELOCITY, _OBJECT_VELOCITY)
    features = similarity_features(canonical(motion, states), weights, states.layout)
    length = motion.length.clone()
    for clip in ends_as_it_was.tolist():
        length[clip] = _best_length(motion, features, clip)
    motion = motion.shortened(length)
    features = similarity_features(canonical(motion, states), weights, states.layout)
    last = motion.start + motion.length - 1
    late = torch.arange(len(motion.qpos), device=motion.device) > last[motion.clip_of_row] - _APART
    exponent = similarity_exponent(features.rows(last), features).masked_fill(late | ~motion.valid, torch.inf)
    loops = _Loops(motion, states, exponent)
    return motion.followed_by([loops.tail(clip, steps) for clip in range(motion.num_clips)], states)


def _best_length(motion: ReferenceMotion, features: Features, clip: int) -> Tensor:
    """Frames of a clip up to the last from which it comes round about as well as from any of its last ones.  []"""
    first, length = motion.start[clip], motion.length[clip]
    earliest = (length - _EARLIER).clamp_min(_APART + 1)  # something must be left to come round to
    if earliest >= length:
        return length
    leave = first + torch.arange(int(earliest), int(length), device=motion.device)
    row, last = torch.arange(len(motion.qpos), device=motion.device), motion.start + motion.length - 1
    own = motion.skill[motion.clip_of_row] == motion.skill[clip]
    end = torch.where(motion.clip_of_row == clip, leave.unsqueeze(1), last[motion.clip_of_row])
    exponent = similarity_exponent(features.rows(leave), features)
    best = exponent.masked_fill((row > end - _APART) | ~own | ~motion.valid, torch.inf).amin(dim=1)
    best = best.masked_fill(~motion.valid[leave], torch.inf)
    if not (best < STITCHABLE).any():
        return length
    from_end, _ = earliest_best(best.flip(0), LOG_10 / 2)
    return length - from_end


@dataclass(frozen=True)
class _Loops:
    """How clips go on after their last frames."""

    motion: ReferenceMotion
    states: StateKinematics
    exponent: Tensor  # [C, N] -ln β of each clip's last state and every frame that may follow it

    def tail(self, clip: int, steps: int) -> Tail:
        """Masked states and the frames after a similar one, again and again, each time moved to the last end."""
        motion, skill = self.motion, int(self.motion.skill[clip])
        end = motion.frames((motion.start[clip] + motion.length[clip] - 1).reshape(1))
        parts, length = [end.rows([])], 0
        while length < steps and (found := self._next(clip, skill)):
            similar, exponent = found
            parts.append(seam(motion, self.states.layout, end, similar, exponent))
            length += len(parts[-1].row)
            clip, end = int(motion.clip_of_row[similar]), parts[-1].rows([-1])
        return Tail.joined(parts)

    def _next(self, clip: int, skill: int) -> tuple[int, Tensor] | None:
        """The frame that follows a clip's end, its own skill's if any is alike, and -ln β of the two.

        Otherwise, or where that is more alike by a masked state, that of a clip whose end leads back to it; a way
        round through a third skill would be another skill.
        """
        own = self.motion.skill[self.motion.clip_of_row] == skill
        leads_back = self.exponent.masked_fill(~own, torch.inf).amin(dim=1) < STITCHABLE  # [C]
        away = int(self.motion.skill[clip]) != skill
        value, row = self.exponent[clip].masked_fill(~own, torch.inf).min(dim=0)
        if not away:
            others = ~own & leads_back[self.motion.clip_of_row]
            other, there = self.exponent[clip].masked_fill(~others, torch.inf).min(dim=0)
            if value >= STITCHABLE or other + LOG_10 < value:
                value, row = other, there
        return (int(row), value) if value < STITCHABLE else None
