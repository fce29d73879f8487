"""What is simulated: tables of bodies, joints and objects that become MuJoCo models with names."""

from collections.abc import Callable
from functools import partial

from skillfield.characters.actions import Action
from skillfield.characters.character import Character
from skillfield.characters.hand import hand
from skillfield.characters.humanoid import humanoid
from skillfield.errors import CharacterError, unknown_name

__all__ = ["CHARACTERS", "Action", "Character", "character", "hand", "humanoid"]

CHARACTERS: dict[str, Callable[[], Character]] = {
    "hand": hand,
    "humanoid": humanoid,
    "humanoid_fused": partial(humanoid, "fused"),
}
"""Every known character by the name that clips carry: those built in, and those of tasks that were added."""


def character(name: str) -> Character:
    """Build a known character by name."""
    if name not in CHARACTERS:
        raise CharacterError(unknown_name("character", name, tuple(CHARACTERS)))
    return CHARACTERS[name]()
