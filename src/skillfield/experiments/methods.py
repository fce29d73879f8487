"""Methods as values: each row of the paper's tables is one of these."""

from dataclasses import dataclass
from typing import Literal

from skillfield.errors import ConfigError, unknown_name

__all__ = ["METHODS", "Method", "method"]


@dataclass(frozen=True)
class Method:
    """What is switched on."""

    summary: str = ""
    """One line for people."""

    reward: Literal["sm", "dm"] = "sm"
    """SkillMimic's multiplicative or DeepMimic's additive reward."""


METHODS: dict[str, Method] = {
    "sm": Method(summary="SkillMimic: the multiplicative interaction reward, starts in reference states"),
    "dm": Method(summary="DeepMimic: the additive reward, blind to contacts and relative motion", reward="dm"),
}


def method(name: str) -> Method:
    """A named method."""
    if name not in METHODS:
        raise ConfigError(unknown_name("method", name, tuple(METHODS)))
    return METHODS[name]
