"""Scripts of skills: `forward 3s, left 2s, shot`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillfield.errors import ConfigError, unknown_name

__all__ = ["LONGEST", "Part", "find_skill", "parse_script"]

LONGEST = 3600.0
"""Seconds of a film."""

_ITEM = re.compile(r"(?P<skill>.*?)(?:\s+(?P<seconds>[-+]?(?:\d+\.?\d*|\.\d+))\s*(?:s|sec|seconds?)?)?", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """One skill for some time."""

    skill: str
    seconds: float


def parse_script(text: str, skills: Sequence[str], default_seconds: float) -> tuple[Part, ...]:
    """What a script asks for, in order: skills separated by commas, each with a duration or the default one."""
    items = [item.strip() for item in re.split(r"[,;]", text)]
    if not any(items):
        raise ConfigError(f"the script is empty; say for instance '{skills[0]} 3s'")
    parts = []
    for item in items:
        if not item:
            raise ConfigError(f"script '{text}': nothing between two commas")
        found = _ITEM.fullmatch(item)
        assert found is not None  # the pattern takes any text as a skill
        seconds = float(found["seconds"]) if found["seconds"] else default_seconds
        if not 0 < seconds <= LONGEST:
            raise ConfigError(f"script '{text}': '{item}' lasts {seconds:g} s")
        parts.append(Part(find_skill(found["skill"], skills), seconds))
    return tuple(parts)


def find_skill(word: str, skills: Sequence[str]) -> str:
    """The skill that a word stands for: its name, one of the name's words, or the beginning of either.

    The closest kind of match decides; a word that two skills match equally well stands for none.
    """
    if word in skills:
        return word
    asked = _plain(word)
    kinds = (
        lambda name: name == asked,
        lambda name: asked in name.split("_") or name.endswith(f"_{asked}"),
        lambda name: name.startswith(asked),
        lambda name: any(part.startswith(asked) for part in name.split("_")),
    )
    for matches in kinds if asked else ():
        found = [skill for skill in skills if matches(_plain(skill))]
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(f"skill '{word}' may be any of: {', '.join(found)}")
    raise ConfigError(unknown_name("skill", word, tuple(skills)))


def _plain(name: str) -> str:
    """Without capitals, and with one kind of gap between words."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())
