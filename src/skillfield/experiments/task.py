"""A task: a character, its demonstrations, what success means, and the settings that train it well."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillfield.characters import Character
from skillfield.evaluation.plan import TrialPlan
from skillfield.experiments.stages import Stage, paced
from skillfield.imitation import EnvConfig
from skillfield.learning.history_encoder import EncoderConfig
from skillfield.learning.ppo import PPOConfig
from skillfield.reference import Augmentation

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """Everything that `train` and `evaluate` need to know, as one value."""

    name: str
    summary: str
    character: Callable[[], Character]
    clips: Path | None
    """Folder of demonstrations; None: recordings that everyone must fetch themselves, found by the task's `data`."""
    trials: TrialPlan
    """How it is tested; the skills of its rules are the task's skills."""
    env: EnvConfig = field(default_factory=EnvConfig)
    augmentation: Augmentation = field(default_factory=Augmentation)
    """Probabilities and widths; a method decides which parts are on."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    stages: tuple[Stage, ...] = ()
    """What changes in the course of a training, whatever the method."""
    own_stages: tuple[Stage, ...] = ()
    """What else changes for a method with `own`: states of the policy's own, detours, and what goes with them."""
    data: str = ""
    """Name of the folder that those recordings are imported into."""
    stand_in: str = ""
    """Task in the package from whose clips a shipped policy starts where those recordings are not at hand."""
    device: str = "auto"
    """Where it trains best."""
    num_envs: int = 2048
    minutes: float = 10.0
    """Default training budget."""
    table_samples: int = 5_000_000
    """Samples of a run in a table of methods."""

    @property
    def skills(self) -> tuple[str, ...]:
        """Names in the order of the one-hot condition."""
        return self.trials.skills

    def paced(self, pace: float) -> "Task":
        """The same task, its stages gone through so many times as fast."""
        own = paced(self.own_stages, pace) if self.own_stages else ()
        return replace(self, stages=paced(self.stages, pace), own_stages=own)
