"""What a step of the vector environment gives.

Shape letters: E environments, n finished episodes.
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

__all__ = ["Finals", "Outcome", "StepResult"]


class Outcome(NamedTuple):
    """The columns of `StepResult` that are known before anything is reset."""

    reward: Tensor
    scored: Tensor
    earning: Tensor
    trained: Tensor
    terminated: Tensor
    truncated: Tensor
    continues: Tensor


class Finals(NamedTuple):
    """The last of the n episodes that ended, before others began in their places."""

    envs: Tensor  # [n] which environments they were in
    observation: Tensor  # [n, obs] what they saw
    insight: Tensor  # [n, I] what the critic was told


@dataclass(frozen=True)
class StepResult:
    """What one step gave. Finished environments have already begun another episode in `observation`.

    On a GPU the tensors are overwritten by the next step.
    """

    observation: Tensor  # [E, obs]
    reward: Tensor  # [E]
    scored: Tensor  # [E] bool: False on masked steps, which are compared with nothing, and with objects away
    earning: Tensor  # [E] bool: scored, and by SkillMimic's product worth something
    trained: Tensor  # [E] bool: False where the learner leaves the step out
    terminated: Tensor  # [E] bool: failed, no future to bootstrap from
    truncated: Tensor  # [E] bool: out of time or at the clip's end, and not going on where it is
    continues: Tensor  # [E] bool: truncated, and something could follow: there is a future to bootstrap from
    finals: Finals | None  # None where to ask who has ended would stall a GPU, and to look twice would be too dear
