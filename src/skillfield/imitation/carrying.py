"""Episodes that begin where another one ended.

An episode lasts a second, a trial ten, and a life longer. Whoever is put back onto a demonstration every second never
meets the states that its own small errors lead to, nor those in which it has just dropped the ball. So a share of the
worlds is not reset: out of time, they go on, and to the learner nothing has happened; having lost the object, they go
on without it.
Shape letters: E environments.
"""

import torch
from torch import Tensor

from skillfield.reference.motion import ReferenceMotion

__all__ = ["onward"]


def onward(motion: ReferenceMotion, clip: Tensor, frame: Tensor) -> Tensor:
    """The frame to go on from: one that repeats an earlier frame of its clip is that frame.  [E]

    Otherwise whoever goes round and round would come to the end of the frames that follow the clip. A masked frame
    repeats nothing: whoever waits at a seam waits on.
    """
    row = motion.row(clip, frame)
    origin = motion.origin[row]
    repeats = (motion.clip_of_row[origin] == clip) & motion.valid[row]
    return torch.where(repeats, origin, row) - motion.start[clip]
