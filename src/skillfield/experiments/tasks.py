"""All tasks by name."""

from collections.abc import Callable

from skillfield.errors import ConfigError, unknown_name
from skillfield.experiments.ballplay import ballplay, ballplay_full_hands, ballplay_paper
from skillfield.experiments.courtside import courtside
from skillfield.experiments.starter import starter
from skillfield.experiments.task import Task

__all__ = ["TASKS", "ballplay", "ballplay_full_hands", "ballplay_paper", "courtside", "starter", "task"]

TASKS: dict[str, Callable[[], Task]] = {
    "starter": starter,
    "courtside": courtside,
    "ballplay": ballplay,
    "ballplay-full-hands": ballplay_full_hands,
    "ballplay-paper": ballplay_paper,
}


def task(name: str) -> Task:
    """A task by name."""
    if name not in TASKS:
        raise ConfigError(unknown_name("task", name, tuple(TASKS)))
    return TASKS[name]()
