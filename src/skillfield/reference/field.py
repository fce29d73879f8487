"""The state transition field: a unique way from any state of the neighbourhood onto a demonstration."""

import torch
from torch import Tensor

from skillfield.reference.kinematics import TrackingWeights
from skillfield.reference.motion import ReferenceMotion
from skillfield.reference.similarity import Features, earliest_best, similarity_exponent, similarity_features
from skillfield.reference.states import StateKinematics

__all__ = ["TransitionField"]


class TransitionField:
    """Connects states to the most similar frame of a clip. The same state always connects to the same frame."""

    def __init__(
        self, motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights, margin: float = 0.0
    ) -> None:
        """margin: frames whose -ln β is within this of the best count as equally similar; the earliest is taken."""
        self.motion, self.states, self.weights, self.margin = motion, states, weights, margin
        self.features = similarity_features(states(motion.qpos, motion.qvel), weights, states.layout)
        longest = int(motion.length.max())
        self._ahead = torch.arange(longest, device=motion.device)
        self._possible = motion.start_mask() | motion.entry

    def connect(self, qpos: Tensor, qvel: Tensor, clip: Tensor) -> tuple[Tensor, Tensor]:
        """Best frame of each state's clip, and -ln β of that connection.  [n], [n]"""
        mine = similarity_features(self.states(qpos, qvel), self.weights, self.states.layout)
        rows = self.motion.row(clip.unsqueeze(1), self._ahead.expand(len(clip), -1))
        exponent = similarity_exponent(_one_each(mine), self.features.rows(rows)).squeeze(1)
        exponent = exponent.masked_fill(~self._possible[rows], torch.inf)  # past the end: the last frame
        return earliest_best(exponent, self.margin)


def _one_each(features: Features) -> Features:
    return Features(features.vector.unsqueeze(1), features.quats.unsqueeze(1), features.quat_weights)
