"""What an imitation environment can be told."""

from dataclasses import dataclass, field
from typing import Literal

from skillfield.configuration import AT_LEAST_ONE, CHANCE, NOT_NEGATIVE, check
from skillfield.imitation.history import HistoryKind
from skillfield.imitation.rewards import DeepMimicWeights
from skillfield.imitation.termination import Termination
from skillfield.reference.kinematics import TrackingWeights

__all__ = ["EnvConfig"]


@dataclass(frozen=True)
class EnvConfig:
    """What is rewarded, and when an episode ends."""

    reward: Literal["sm", "dm"] = "sm"
    """SkillMimic's product or DeepMimic's sum."""
    weights: TrackingWeights = field(default_factory=TrackingWeights)
    """Sensitivities of the SkillMimic reward."""
    contact_weights: tuple[float, float, float] = (5.0, 5.0, 5.0)
    """λ^cg of object-hand, object-body and body-hand contacts (paper, table of reward weights)."""
    deepmimic: DeepMimicWeights = field(default_factory=DeepMimicWeights)
    """Sensitivities of the DeepMimic reward."""
    termination: Termination = field(default_factory=Termination)
    """What counts as a failure."""
    episode_length: int = 60
    """Longest episode in policy steps (paper, T)."""
    masked: Literal["zero", "mean", "skip"] = "skip"
    """What a masked step is worth: nothing (zero); the mean of the scored environments on its clip (mean, released
    code); or nothing, and the learner leaves it out of its losses (skip)."""
    clip_end: Literal["auto", "continue", "stop", "loop"] = "auto"
    """What the learner may expect after a clip's last frame: more of the same, nothing, or (auto) more where the
    last state has been seen before in the skill (a dribble, a hold) and nothing where it has not (a throw). With loop,
    episodes go on across the end of clips that come round, and the others are treated as with auto."""
    p_carry: float = 0.0
    """Chance that a world is not reset when its episode is out of time: the next one begins in the state where this one
    ended."""
    p_lost: float = 0.0
    """The same chance when an episode has lost its demonstration, or was without its objects anyhow; only for worlds
    that have gone on before. The next episode follows the body alone if the objects were lost."""
    history: HistoryKind = "none"
    """What the policy knows of the past: nothing, an embedding of it, all of it, or the reference time."""
    history_length: int = 60
    """Frames remembered (paper, k)."""
    insight: bool = False
    """Whether the critic, and nobody else, is told what cannot be seen: where in its reference an episode is, how far
    from it, and whether it goes without its objects."""

    def __post_init__(self) -> None:
        check("env", self, CHANCE, "p_carry", "p_lost")
        check("env", self, AT_LEAST_ONE, "episode_length", "history_length")
        check("env", self, NOT_NEGATIVE, "contact_weights")
        check("env.weights", self.weights, NOT_NEGATIVE, *vars(self.weights))
        check("env.deepmimic", self.deepmimic, NOT_NEGATIVE, *vars(self.deepmimic))

    @property
    def carries(self) -> bool:
        """Whether any world goes on where it is."""
        return self.p_carry > 0 or self.p_lost > 0
