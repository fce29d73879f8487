"""What the plain method reaches on the starter: measured once, shipped, to compare a fresh run with."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from skillfield.errors import ConfigError
from skillfield.evaluation import Evaluation
from skillfield.files import read_json, write_json

__all__ = ["BASELINE_FILE", "Baseline", "load_baseline", "save_baseline"]

BASELINE_FILE = Path(__file__).parent / "baseline.json"


@dataclass(frozen=True)
class Baseline:
    """Several runs of one method at one budget."""

    method: str
    samples: int
    """Training samples of each run."""
    command: str
    """How it was measured."""
    runs: tuple[Evaluation, ...]
    """One per seed."""

    def mean(self, metric: str) -> dict[str, float]:
        """A figure per skill, mean over the runs. metric: a field of `Evaluation`, or `transitions_into`."""
        rows = [getattr(run, metric) for run in self.runs]
        rows = [row() if callable(row) else row for row in rows]
        return {skill: sum(row[skill] for row in rows) / len(rows) for skill in rows[0]}


def load_baseline(path: Path = BASELINE_FILE) -> Baseline:
    """Read a baseline."""
    found: Any = read_json(path, ConfigError)
    wanted = {field.name for field in fields(Baseline)}
    if not isinstance(found, dict) or set(found) != wanted:
        raise ConfigError(f"{path}: no baseline; it needs exactly {sorted(wanted)}")
    return Baseline(**found | {"runs": tuple(Evaluation.from_dict(run) for run in found["runs"])})


def save_baseline(baseline: Baseline, path: Path = BASELINE_FILE) -> None:
    """Write a baseline."""
    write_json(path, vars(baseline) | {"runs": [run.to_dict() for run in baseline.runs]})
