"""skillfield: teach simulated characters robust interaction skills from a few short, noisy demonstrations.

>>> import skillfield as sf
>>> run = sf.train(sf.tasks.starter(), method="sm", minutes=3)
>>> print(sf.evaluate(run))
"""

from typing import TYPE_CHECKING, Any

from skillfield.clips import Clip, load_clips, save_clips
from skillfield.errors import SkillfieldError

if TYPE_CHECKING:
    from skillfield.api import evaluate, resume, train
    from skillfield.characters import Character
    from skillfield.cli.program import command_line
    from skillfield.deployment import load_policy
    from skillfield.evaluation import SuccessRule, TrialPlan
    from skillfield.experiments import tasks
    from skillfield.experiments.task import Task

__all__ = [
    "Character",
    "Clip",
    "SkillfieldError",
    "SuccessRule",
    "Task",
    "TrialPlan",
    "command_line",
    "evaluate",
    "load_clips",
    "load_policy",
    "resume",
    "save_clips",
    "tasks",
    "train",
]

_LAZY = {
    "Character": "skillfield.characters",
    "SuccessRule": "skillfield.evaluation",
    "Task": "skillfield.experiments.task",
    "TrialPlan": "skillfield.evaluation",
    "command_line": "skillfield.cli.program",
    "evaluate": "skillfield.api",
    "load_policy": "skillfield.deployment",
    "resume": "skillfield.api",
    "train": "skillfield.api",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch and MuJoCo only when it is asked for: `skillfield --help` stays quick."""
    import importlib

    if name == "tasks":
        return importlib.import_module("skillfield.experiments.tasks")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'skillfield' has no attribute '{name}'")
