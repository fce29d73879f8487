"""What an episode starts from and what it follows: the seam at which demonstrations are augmented.

The environment asks a `StartSampler` for starts and reports back how each went. It never knows which sampler it has.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from skillfield.reference.motion import ReferenceMotion

__all__ = ["StartSampler", "Starts"]


@dataclass(frozen=True)
class Starts:
    """Start states of n episodes, and the trajectory that each is to follow."""

    qpos: Tensor  # [n, Q] start state
    qvel: Tensor  # [n, D]
    clip: Tensor  # [n] the clip to follow
    frame: Tensor  # [n] the frame at which the reference clock starts
    masked: Tensor  # [n] masked states: steps that the clock waits, and that earn nothing
    past_row: Tensor  # [n] the reference frame that the start state came from: what led there is its history
    away: Tensor  # [n] bool: the objects are out of reach, and the body alone is compared

    def columns(self) -> list[Tensor]:
        """All of the above, in this order."""
        return [getattr(self, field.name) for field in fields(self)]

    def split(self, count: int) -> tuple["Starts", "Starts"]:
        """The first `count` of them, and the rest."""
        columns = self.columns()
        return Starts(*(column[:count] for column in columns)), Starts(*(column[count:] for column in columns))

    def rows(self, rows: Tensor) -> "Starts":
        """Some of them, in any order, with repetitions."""
        return Starts(*(column[rows] for column in self.columns()))

    def copy_(self, other: "Starts") -> None:
        """Become as many others."""
        for own, given in zip(self.columns(), other.columns(), strict=True):
            own.copy_(given)

    def joined(self, other: "Starts") -> "Starts":
        """These, then the others."""
        return Starts(*(torch.cat(both) for both in zip(self.columns(), other.columns(), strict=True)))


class StartSampler(ABC):
    """Hands out starts, and may learn from how the episodes went."""

    motion: ReferenceMotion

    @abstractmethod
    def sample(self, count: int) -> Starts:
        """Draw starts for this many episodes."""

    @abstractmethod
    def prepare(self, envs: int) -> None:
        """Have starts ready for `sample_where`: to be called before each call of it."""

    @abstractmethod
    def sample_where(self, ended: Tensor) -> Starts:
        """Starts for those of E environments that need one, without asking the device how many these are.

        Rows of the others mean nothing. May be recorded.  [E] bool → E rows
        """

    def record(self, clip: Tensor, frame: Tensor, mean_reward: Tensor, ended: Tensor) -> None:
        """Mean reward per step of episodes that followed `clip` from `frame`; only those that `ended` count.  [n]"""

    def state_dict(self) -> dict[str, Tensor]:
        """Statistics that a resumed run needs."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore `state_dict`."""
