"""Lines for people: on the terminal, and for a while on the page."""

import time
from dataclasses import dataclass

from skillfield.errors import SkillfieldError

__all__ = ["Note", "Notes", "in_words"]

_SECONDS = 5.0


@dataclass(frozen=True)
class Note:
    """One line, and whether it is good news."""

    text: str
    good: bool = False


class Notes:
    """What was told last."""

    def __init__(self) -> None:
        self._note, self._until = Note(""), 0.0

    def tell(self, text: str, good: bool = False) -> None:
        """May be called from any thread."""
        print(text, flush=True)
        self._note, self._until = Note(text, good), time.monotonic() + _SECONDS

    @property
    def now(self) -> Note | None:
        """None once it has been there for long enough."""
        return self._note if time.monotonic() < self._until else None


def in_words(problem: Exception) -> str:
    """One line; what nobody foresaw is named."""
    if isinstance(problem, SkillfieldError):
        return str(problem)
    return " ".join(f"that failed: {type(problem).__name__}: {problem}".split())
