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


def onward(motion: ReferenceMotion, clip: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
    """The clip and frame to go on from: one that repeats a demonstrated frame of its skill is that frame.  [E], [E]

    Otherwise whoever goes round and round would come to the end of the frames that follow the clip. A masked frame
    repeats nothing: whoever waits at a seam waits on.
    """
    row = motion.row(clip, frame)
    origin = motion.origin[row]
    own = motion.skill_of(origin) == motion.skill[clip]
    row = torch.where(own & motion.valid[row], origin, row)
    clip = motion.clip_of_row[row]
    return clip, row - motion.start[clip]
