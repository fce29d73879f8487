"""Demonstrations that go on after their last frame, where what they show comes round.

A dribble ends as it was half a second before or more; a shot that is caught again ends with the ball in the hands; a
layup ends with a ball that falls, which the shot shows how to catch. Such a clip is stitched to its own skill, or to
another one and from there to its own: after its last frame come masked states, as many as the connection rule asks
for, and then the frames that follow a similar state, moved in the plane to where the clip ended. So an episode can run
across the end of its clip, and what to do after it is learned instead of left to luck.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from skillfield.reference.graph import canonical
from skillfield.reference.kinematics import TrackingWeights
from skillfield.reference.motion import ReferenceMotion, Tail
from skillfield.reference.similarity import masked_states, similarity_exponent, similarity_features
from skillfield.reference.states import StateKinematics

__all__ = ["looped"]

_APART = 30  # frames: what has come round has been something else in between, and is worth following for a while
_VELOCITY, _OBJECT_VELOCITY = 0.1, 1.0  # at least: a ball that falls past where it rose has not come round
_ALIKE = 6.907755278982137
"""-ln β under which a clip is stitched: β > 0.001, three masked states at most. To their own skill BallPlay-M's
dribbles have 1.0 to 2.6, the shot 3.7, the layup 9.3; the layup has 3.4 to the shot's catch, which has 6.7 back."""


@torch.no_grad()
def looped(motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights, steps: int) -> ReferenceMotion:
    """The same demonstrations, each that comes round followed by at least `steps` more frames.

    Nobody starts in those, and nothing connects to them: they are the same frames again.
    """
    weights = weights.at_least(_VELOCITY, _OBJECT_VELOCITY)
    features = similarity_features(canonical(motion, states), weights, states.layout)
    last = motion.start + motion.length - 1
    late = torch.arange(len(motion.qpos), device=motion.device) > last[motion.clip_of_row] - _APART
    exponent = similarity_exponent(features.rows(last), features).masked_fill(late | ~motion.valid, torch.inf)
    loops = _Loops(motion, states, exponent)
    return motion.followed_by([loops.tail(clip, steps) for clip in range(motion.num_clips)], states)


@dataclass(frozen=True)
class _Loops:
    """How clips go on after their last frames."""

    motion: ReferenceMotion
    states: StateKinematics
    exponent: Tensor  # [C, N] -ln β of each clip's last state and every frame that may follow it

    def tail(self, clip: int, steps: int) -> Tail:
        """Masked states and the frames after a similar one, again and again, each time moved to the last end."""
        motion, layout, skill = self.motion, self.states.layout, int(self.motion.skill[clip])
        end = motion.frames(self._up_to_the_end(clip, int(motion.length[clip]) - 1))
        parts, length = [end.rows(slice(0, 0))], 0
        while length < steps and (found := self._next(clip, skill)):
            back, masked = found
            waiting = end.rows([0] * masked)
            clip = int(motion.clip_of_row[back])
            again = motion.frames(self._up_to_the_end(clip, back + 1 - int(motion.start[clip])))
            place = layout.alignment(motion.qpos[back], end.qpos[0])
            qpos, qvel = layout.move_in_plane(again.qpos, again.qvel, *place)
            parts += [replace(waiting, valid=torch.zeros_like(waiting.valid)), replace(again, qpos=qpos, qvel=qvel)]
            length += masked + len(again.row)
            end = parts[-1].rows([-1])
        return Tail(*(torch.cat([vars(part)[name] for part in parts]) for name in vars(end)))

    def _next(self, clip: int, skill: int) -> tuple[int, int] | None:
        """The frame that follows a clip's end, its own skill's if any is alike, and the masked states before it."""
        own = self.motion.skill[self.motion.clip_of_row] == skill
        away = int(self.motion.skill[clip]) != skill  # a way round through a third skill would be another skill
        for frames in (own,) if away else (own, ~own):
            value, row = self.exponent[clip].masked_fill(~frames, torch.inf).min(dim=0)
            if value < _ALIKE:
                return int(row), max(1, int(masked_states(value.reshape(1), 10)))  # at least one: it tells the seam
        return None

    def _up_to_the_end(self, clip: int, frame: int) -> Tensor:
        """Rows of a clip from a frame on."""
        start = int(self.motion.start[clip])
        return torch.arange(start + frame, start + int(self.motion.length[clip]), device=self.motion.device)
