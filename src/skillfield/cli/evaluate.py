"""`skillfield evaluate`: measure a trained policy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from skillfield.api import evaluate
from skillfield.evaluation import Evaluation
from skillfield.reporting.tables import MetricTable

__all__ = ["Evaluate", "evaluation_table"]


@dataclass(frozen=True)
class Evaluate:
    """Measure a trained policy: SR (success rate) and NR (normalised reward) per skill, as the paper defines them.

    The result is printed and written to evaluation.json in the run folder.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder with a checkpoint."""
    trials: int = 256
    """Executions per skill (the paper uses 10,000)."""
    seed: int = 0
    """Of the start states."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> int:
        """Evaluate."""
        result = evaluate(self.run_folder, self.trials, self.seed)
        if self.json:
            print(json.dumps(result.to_dict(), indent=2))
        else:
            Console().print(evaluation_table(result, str(self.run_folder)).rich())
        return 0


def evaluation_table(result: Evaluation, title: str) -> MetricTable:
    """SR and NR per skill, with their average."""
    rows = {
        skill: {"SR %": 100 * result.success_rate[skill], "NR": result.normalised_reward[skill]}
        for skill in result.success_rate
    }
    return MetricTable.of(rows, title=f"{title} · {result.trials} trials of {result.seconds:g} s per skill")
