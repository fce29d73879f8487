"""What an episode starts from and what it follows: the seam at which demonstrations are augmented.

The environment asks a `StartSampler` for starts and reports back how each went. It never knows which sampler it has.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.reference.motion import ReferenceMotion

__all__ = ["ReferenceStateInitialisation", "StartSampler", "Starts"]


@dataclass(frozen=True)
class Starts:
    """Start states of n episodes, and the trajectory that each is to follow."""

    qpos: Tensor  # [n, Q] start state
    qvel: Tensor  # [n, D]
    clip: Tensor  # [n] the clip to follow
    frame: Tensor  # [n] the frame at which the reference clock starts
    masked: Tensor  # [n] masked states: steps that the clock waits, and that earn nothing


class StartSampler(ABC):
    """Hands out starts, and may learn from how the episodes went."""

    motion: ReferenceMotion

    @abstractmethod
    def sample(self, count: int) -> Starts:
        """Draw starts for this many episodes."""

    def record(self, clip: Tensor, frame: Tensor, mean_reward: Tensor) -> None:
        """Mean reward per step of finished episodes that followed `clip` from `frame`.  [n] each"""

    def state_dict(self) -> dict[str, Tensor]:
        """Statistics that a resumed run needs."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore `state_dict`."""


class ReferenceStateInitialisation(StartSampler):
    """Start in a demonstrated state: a skill at random, then one of its clips, then a frame."""

    def __init__(self, motion: ReferenceMotion) -> None:
        self.motion = motion
        starts = motion.start_mask()
        clips = torch.repeat_interleave(torch.arange(motion.num_clips, device=motion.device), motion.length)
        clips_per_skill = torch.bincount(motion.skill, minlength=len(motion.skills))
        frames_per_clip = torch.bincount(clips, weights=starts.float(), minlength=motion.num_clips)
        # every skill alike, every clip of a skill alike, every frame of a clip alike
        weight = starts.float() / (clips_per_skill[motion.skill] * frames_per_clip)[clips]
        self._cumulative = torch.cumsum(weight.double(), dim=0)  # [N]
        self._clip_of_row = clips  # [N]

    def sample(self, count: int) -> Starts:
        motion = self.motion
        draw = torch.rand(count, dtype=torch.float64, device=motion.device) * self._cumulative[-1]
        row = torch.searchsorted(self._cumulative, draw, right=True).clamp_max(len(self._cumulative) - 1)
        clip = self._clip_of_row[row]
        return Starts(
            qpos=motion.qpos[row],
            qvel=motion.qvel[row],
            clip=clip,
            frame=row - motion.start[clip],
            masked=torch.zeros_like(row),
        )
