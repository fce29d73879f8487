"""What an episode starts from and what it follows: the seam at which demonstrations are augmented.

The environment asks a `StartSampler` for starts and reports back how each went. It never knows which sampler it has.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

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

    def split(self, count: int) -> tuple["Starts", "Starts"]:
        """The first `count` of them, and the rest."""
        columns = vars(self)
        return (
            Starts(**{name: value[:count] for name, value in columns.items()}),
            Starts(**{name: value[count:] for name, value in columns.items()}),
        )

    def rows(self, rows: Tensor) -> "Starts":
        """Some of them, in any order, with repetitions."""
        return Starts(**{name: value[rows] for name, value in vars(self).items()})

    def copy_(self, other: "Starts") -> None:
        """Become as many others."""
        for name, value in vars(self).items():
            value.copy_(getattr(other, name))

    def joined(self, other: "Starts") -> "Starts":
        """These, then the others."""
        return Starts(**{name: torch.cat((value, getattr(other, name))) for name, value in vars(self).items()})


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
