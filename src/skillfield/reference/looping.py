"""Demonstrations that go on after their last frame, where what they show has come round.

A dribble ends as it was half a second before or more; a shot that is caught again ends with the ball in the hands.
Such a clip is stitched to itself: after its last frame come masked states, as many as the connection rule asks for,
and then the frames that followed the earlier state, moved in the plane to where the clip ended. So an episode can run
across the end of its clip, and what to do after it is learned instead of left to luck.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from skillfield.reference.endings import return_frame
from skillfield.reference.kinematics import TrackingWeights
from skillfield.reference.motion import ReferenceMotion, Tail
from skillfield.reference.similarity import masked_states
from skillfield.reference.states import StateKinematics

__all__ = ["looped"]

_APART = 30  # frames: what has come round has been something else in between
_OBJECT_VELOCITY = 1.0  # a ball that falls past where it rose has not come round
_ALIKE = 4.605170185988092
"""-ln β under which a clip is looped: β > 0.01, two masked states at most. BallPlay-M's dribbles have 1.0 to 2.6, the
shot 3.7, the layup 9.3; the starter's dribbles and hold 0.1 to 0.2, the toss 10.1."""


@torch.no_grad()
def looped(motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights, steps: int) -> ReferenceMotion:
    """The same demonstrations, each that comes round followed by at least `steps` more frames.

    Nobody starts in those, and nothing connects to them: they are the same frames again.
    """
    back, exponent = return_frame(motion, states, weights, _APART, _OBJECT_VELOCITY)
    loops = _Loops(motion, states, back, masked_states(exponent, 10), exponent < _ALIKE)
    return motion.followed_by([loops.tail(clip, steps) for clip in range(motion.num_clips)], states)


@dataclass(frozen=True)
class _Loops:
    """Where each clip goes on after its last frame."""

    motion: ReferenceMotion
    states: StateKinematics
    back: Tensor  # [C] row whose successors follow
    masked: Tensor  # [C] states between
    exists: Tensor  # [C] bool

    def tail(self, clip: int, steps: int) -> Tail:
        """Masked states and the frames after an earlier one, again and again, each time moved to the last end."""
        motion, layout = self.motion, self.states.layout
        row = motion.row(*(torch.tensor(value, device=motion.device) for value in (clip, int(motion.length[clip]))))
        end = Tail(row.reshape(1), motion.qpos[row].unsqueeze(0), motion.qvel[row].unsqueeze(0), torch.tensor([True]))
        parts, length = [end.rows(slice(0, 0))], 0
        while length < steps and self.exists[clip]:
            back = int(self.back[clip])
            masked = end.rows([0] * int(self.masked[clip]))
            clip = int(torch.searchsorted(motion.start, back, right=True)) - 1
            again = torch.arange(back + 1, int(motion.start[clip] + motion.length[clip]), device=motion.device)
            place = layout.alignment(motion.qpos[back], end.qpos[0])
            moved = layout.move_in_plane(motion.qpos[again], motion.qvel[again], *place)
            part = Tail(again, *moved, motion.valid[again])
            parts += [replace(masked, valid=torch.zeros_like(masked.valid)), part]
            length += len(masked.row) + len(again)
            end = part.rows([-1])
        return Tail(*(torch.cat([vars(part)[name].to(motion.device) for part in parts]) for name in vars(end)))
