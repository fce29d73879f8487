"""Ways onto a skill from states that none of its frames is like.

While a thrown ball flies, no dribble shows anything like it: the paper's graph bridges such a state by at most ten
masked ones, after which the ball should be in the hand, half a second before it can be. Nothing is earned, and nothing
learned. But what to do there has been demonstrated, in the skill that the state is of: follow the ball and catch it. So
such a state first follows its own demonstration, as far as a state that some frame of the wanted skill is like; then
come masked states and that skill.
"""

import torch
from torch import Tensor

from skillfield.reference.augmentation import Augmentation
from skillfield.reference.graph import canonical
from skillfield.reference.kinematics import TrackingWeights
from skillfield.reference.motion import Detour, ReferenceMotion, Tail
from skillfield.reference.seams import seam
from skillfield.reference.similarity import (
    LOG_10,
    STITCHABLE,
    earliest_best,
    in_nearest_clip,
    similarity_exponent,
    similarity_features,
)
from skillfield.reference.states import StateKinematics

__all__ = ["with_detours"]


@torch.no_grad()
def with_detours(
    motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights, config: Augmentation, steps: int
) -> ReferenceMotion:
    """The same demonstrations, and detours from each to every other skill where it needs some.

    steps: frames of the wanted skill at the end of each.
    """
    weights = weights.at_least(config.velocity, config.velocity)
    features = similarity_features(canonical(motion, states), weights, states.layout)
    skill_of_row, possible = motion.skill[motion.clip_of_row], motion.start_mask()
    detours = []
    for skill in range(len(motion.skills)):
        own = torch.nonzero((skill_of_row == skill) & possible).squeeze(1)
        for clip in range(motion.num_clips) if len(own) else ():
            if int(motion.skill[clip]) == skill:
                continue
            rows = motion.start[clip] + torch.arange(int(motion.length[clip]), device=motion.device)
            exponent = in_nearest_clip(
                similarity_exponent(features.rows(rows), features.rows(own)), motion.clip_of_row[own]
            )
            best, exponent = earliest_best(exponent, config.margin)
            valid = motion.valid[rows]
            exponent = exponent.masked_fill(~valid, torch.inf)
            for first, entries, last in _gaps(exponent, valid & motion.demonstrated[rows], config):
                way = motion.frames(rows[first : last + 1])
                similar = int(own[best[last]])
                onto = seam(motion, states.layout, way.rows([-1]), similar, exponent[last], config.max_masked, steps)
                name = f"{motion.names[clip]} from {first} to {motion.skills[skill]}"
                detours.append(Detour(name, skill, Tail.joined([way, onto]), entries))
    return motion.with_detours(detours, states)


def _gaps(exponent: Tensor, lived: Tensor, config: Augmentation) -> list[tuple[int, int, int]]:
    """Where a clip has lived through states that nothing is like, for longer than masked states could bridge.

    exponent: -ln β of every frame, infinite where a frame is missing; lived: frames that were demonstrated and are not
    missing.  [T] each
    Gives the first frame of each gap, how many frames there are up to the last such state, and the frame to join from.
    A gap ends with a frame that something is like, or, where none follows any more, with the first that is nearly as
    alike as any after it. If one of the next few is clearly more alike, that one joins.
    """
    exponent, lived = exponent.cpu(), lived.cpu()
    ends = torch.nonzero(exponent < min(STITCHABLE, config.limit)).squeeze(1).tolist()
    while len(rest := exponent[ends[-1] + 1 if ends else 0 :]) and rest.min() < config.limit:
        ends.append(len(exponent) - len(rest) + int(earliest_best(rest, LOG_10)[0]))  # one masked state more
    gaps, first = [], 0
    for end in ends:
        states = torch.nonzero(lived[first:end]).squeeze(1).tolist()
        if states and states[-1] + 1 >= config.max_masked:
            few = max(1, config.max_masked)  # the end itself at least
            better, _ = earliest_best(exponent[end : end + few], LOG_10 / 2)
            gaps.append((first, states[-1] + 1, end + int(better)))
        first = end + 1
    return gaps
