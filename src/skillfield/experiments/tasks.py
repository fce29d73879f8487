"""All tasks by name."""

from collections.abc import Callable

from skillfield.errors import ConfigError, unknown_name
from skillfield.experiments.starter import starter
from skillfield.experiments.task import Task

__all__ = ["TASKS", "starter", "task"]

TASKS: dict[str, Callable[[], Task]] = {"starter": starter}


def task(name: str) -> Task:
    """A task by name."""
    if name not in TASKS:
        raise ConfigError(unknown_name("task", name, tuple(TASKS)))
    return TASKS[name]()
