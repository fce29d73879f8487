"""Where one demonstration goes on as another: masked states, then what follows a similar frame."""

from dataclasses import replace

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.reference.motion import ReferenceMotion, Tail
from skillfield.reference.similarity import masked_states

__all__ = ["seam"]


def seam(
    motion: ReferenceMotion,
    layout: Layout,
    end: Tail,
    similar: int,
    exponent: Tensor,
    max_masked: int = 10,
    steps: int | None = None,
) -> Tail:
    """What comes after a frame, `end`, that is like the one in row `similar`: masked states, and the frames that follow
    the similar one up to the end of its clip, moved in the plane to where `end` stands and heads.

    exponent: -ln β of the two, which says how many masked states; at least one, by which a seam is known.  []
    steps: no more frames than that.
    """
    clip = motion.clip_of_row[similar]
    beyond = int(motion.start[clip] + motion.length[clip])
    after = motion.frames(torch.arange(similar + 1, beyond, device=motion.device)[:steps])
    place = layout.alignment(motion.qpos[similar], end.qpos[0])
    qpos, qvel = layout.move_in_plane(after.qpos, after.qvel, *place)
    waiting = end.rows([0] * max(1, int(masked_states(exponent, max_masked))))
    return Tail.joined([replace(waiting, valid=torch.zeros_like(waiting.valid)), replace(after, qpos=qpos, qvel=qvel)])
