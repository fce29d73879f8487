"""Where the reference of an episode ends, and whether anything may be expected after it.

Shape letters: E environments, C clips.
"""

import torch
from torch import Tensor

from skillfield.imitation.config import EnvConfig
from skillfield.reference.endings import returns
from skillfield.reference.motion import ReferenceMotion
from skillfield.reference.states import StateKinematics

__all__ = ["ClipEnds"]


class ClipEnds:
    """Clips end with their last demonstrated frame; those that come round also with the last one that follows it."""

    def __init__(self, motion: ReferenceMotion, states: StateKinematics, config: EnvConfig) -> None:
        shown = motion.demonstrated_length()
        self._end = motion.length - 1  # [C]
        self._shown = torch.where(shown > 0, shown - 1, self._end)  # [C] a detour ends in one way only
        self._comes_round = bool((self._shown < self._end).any())
        self._after_end, self._after_shown = (
            self._goes_on(motion, states, config, motion.start + last) for last in (self._end, self._shown)
        )

    @staticmethod
    def _goes_on(motion: ReferenceMotion, states: StateKinematics, config: EnvConfig, last: Tensor) -> Tensor:
        if config.clip_end in ("auto", "loop"):
            return returns(motion, states, config.weights, last)
        return torch.full_like(motion.length, config.clip_end == "continue", dtype=torch.bool)

    def last(self, clip: Tensor, frame: Tensor, chance: Tensor) -> Tensor:
        """The last frame that an episode follows which begins in this one.  [E], [E] → [E]

        chance: by which it follows a clip beyond what was demonstrated, where there is anything; whoever begins
        there does.  [E]
        """
        if not self._comes_round:
            return self._end[clip]
        stays = (torch.rand(len(clip), device=clip.device) >= chance) & (frame < self._shown[clip])
        return torch.where(stays, self._shown[clip], self._end[clip])

    def goes_on(self, clip: Tensor, last: Tensor) -> Tensor:
        """Whether something could follow after the last frame of these episodes.  [E], [E] → [E] bool"""
        return torch.where(last == self._shown[clip], self._after_shown[clip], self._after_end[clip])
