"""Methods as values: each row of the paper's tables is one of these."""

from dataclasses import dataclass, replace
from typing import Literal

from skillfield.errors import ConfigError, unknown_name
from skillfield.imitation.history import HistoryKind

__all__ = ["METHODS", "Method", "method"]


@dataclass(frozen=True)
class Method:
    """What is switched on."""

    summary: str = ""
    """One line for people."""
    reward: Literal["sm", "dm"] = "sm"
    """SkillMimic's multiplicative or DeepMimic's additive reward."""
    nsi: bool = False
    """ε-neighbourhood state initialisation."""
    stf: bool = False
    """State transition field: neighbourhood starts, connected to the most similar frame through masked states."""
    stg: bool = False
    """Stitched trajectory graph: starts from other skills."""
    ats: bool = False
    """Adaptive trajectory sampling."""
    history: HistoryKind = "none"
    """What the policy knows of the past."""
    own: bool = False
    """What we add to the paper, as far as the task asks for it: states of the policy's own (episodes that begin where
    another one ended, and without the object) and detours through other skills."""
    exploration: Literal["fixed", "learned"] = "fixed"
    """Fixed σ, or a learned one whose entropy is first raised and then annealed (IAE)."""


_FULL = Method(
    "all four of the paper, and ours: episodes from states of the policy's own, and detours",
    stg=True,
    stf=True,
    ats=True,
    history="encoder",
    own=True,
)

METHODS: dict[str, Method] = {
    "sm": Method("SkillMimic: the multiplicative interaction reward, starts in reference states"),
    "sm+nsi": Method("… starts in the ε-neighbourhood of reference states, without reconnection", nsi=True),
    "sm+ats": Method("… hard frames and skills more often", ats=True),
    "sm+he": Method("… a pre-trained embedding of the past second", history="encoder"),
    "sm+stf": Method("… neighbourhood starts, each connected to its most similar frame", stf=True),
    "sm+stg": Method("… starts in states of other skills", stg=True),
    "sm+stg+stf": Method("… starts from other skills and from neighbourhoods", stg=True, stf=True),
    "sm+stg+stf+ats": Method("… and hard ones more often", stg=True, stf=True, ats=True),
    "paper": replace(_FULL, summary="all four of the paper: sm+stg+stf+ats with the embedding of sm+he", own=False),
    "full": _FULL,
    "sm+own": Method("SkillMimic with states of the policy's own", own=True),
    "sm+t": Method("SkillMimic with the reference time as a condition", history="time"),
    "sm+hs": Method("SkillMimic with the whole past second stacked", history="stacked"),
    "sm+iae": Method("SkillMimic with a learned σ, its entropy raised and annealed", exploration="learned"),
    "dm": Method("DeepMimic: the additive reward, blind to contacts and relative motion", reward="dm"),
    "dm+nsi": Method("… with neighbourhood starts", reward="dm", nsi=True),
    "dm+full": replace(_FULL, summary="… with all that full has", reward="dm"),
}


def method(name: str) -> Method:
    """A named method."""
    if name not in METHODS:
        raise ConfigError(unknown_name("method", name, tuple(METHODS)))
    return METHODS[name]
