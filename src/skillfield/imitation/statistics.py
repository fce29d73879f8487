"""How each skill goes, while it is trained."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["SkillStatistics"]


@dataclass
class SkillStatistics:
    """Sums per skill since they were last taken.  [S] each"""

    reward: Tensor
    steps: Tensor
    failures: Tensor
    episodes: Tensor

    @classmethod
    def nothing(cls, skills: int, device: torch.device) -> "SkillStatistics":
        """Before the first step."""
        return cls(*(torch.zeros(skills, device=device) for _ in range(4)))

    def count(self, skill: Tensor, reward: Tensor, compared: Tensor, failed: Tensor, over: Tensor) -> None:
        """Add one step of some environments; the reward counts where it was compared with a demonstration.  [E] each"""
        self.reward.index_add_(0, skill, reward * compared)
        self.steps.index_add_(0, skill, compared.float())
        self.failures.index_add_(0, skill, failed.float())
        self.episodes.index_add_(0, skill, over.float())

    def taken(self) -> "SkillStatistics":
        """The sums so far; from here on they begin anew."""
        sums = vars(self)
        taken = SkillStatistics(*(value.clone() for value in sums.values()))
        for value in sums.values():
            value.zero_()
        return taken
