"""What follows a demonstration's last frame.

A dribble or a hold goes on: its last state has been seen before, and whatever followed then can follow again. A throw
is over. A learner may expect future reward after the end of the one, and none after the end of the other.
"""

import torch
from torch import Tensor

from skillfield.reference.graph import canonical
from skillfield.reference.kinematics import TrackingWeights
from skillfield.reference.motion import ReferenceMotion
from skillfield.reference.similarity import LOG_10, similarity_exponent, similarity_features
from skillfield.reference.states import StateKinematics

__all__ = ["return_exponent", "returns"]

_APART = 30  # frames, or half of a short clip: a state is always like the ones just before it, a slow one for longer
_VELOCITY = 0.1  # the least weight of velocities: a ball that falls has not returned to where it rose
_ALIKE = LOG_10
"""-ln β under which the last state counts as seen before: β > 0.1, which one masked state would bridge. The starter's
clips have 0.04 to 0.11 and the toss 9.3; BallPlay-M's dribbles 0.9 to 2.3, the shot 2.9, the layup 4.2."""


@torch.no_grad()
def return_exponent(motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights) -> Tensor:
    """-ln β of each clip's last state and the most similar earlier one of the same skill, after alignment.  [C]"""
    weights = weights.at_least(_VELOCITY, _VELOCITY)
    features = similarity_features(canonical(motion, states), weights, states.layout)
    row = torch.arange(len(motion.qpos), device=motion.device)
    clip = motion.clip_of_row
    last, shown_length = motion.start + motion.length - 1, motion.demonstrated_length()
    exponent = similarity_exponent(features.rows(last), features)  # [C, N]
    same_skill = motion.skill.unsqueeze(1) == motion.skill[clip]
    near_an_end = row > (motion.start + shown_length - 1 - (shown_length // 2).clamp_max(_APART))[clip]
    shown = motion.valid & motion.demonstrated
    return exponent.masked_fill(~same_skill | near_an_end | ~shown, torch.inf).amin(dim=1)


def returns(motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights) -> Tensor:
    """Which clips come back to where they have been, so that they could go on, or were cut off.  [C] bool

    What follows a clip that comes round, and a detour, stops after so many frames, wherever that is. In a detour only a
    demonstration's last frame can be the last of all; who comes round could do so again.
    """
    last = motion.start + motion.length - 1
    cut_off = ~motion.final_mask()[motion.origin[last]] | ~motion.valid[last]
    comes_round = (motion.demonstrated_length() > 0) & ~motion.demonstrated[last]
    return (return_exponent(motion, states, weights) < _ALIKE) | cut_off | comes_round
