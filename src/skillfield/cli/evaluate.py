"""`skillfield evaluate`: measure a trained policy."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.api import evaluate
from skillfield.errors import ConfigError
from skillfield.evaluation import Evaluation
from skillfield.evaluation.metrics import trials_in_words
from skillfield.files import json_text
from skillfield.reporting.console import table_console
from skillfield.reporting.filmstrip import write_picture
from skillfield.reporting.matrix import transition_matrix
from skillfield.reporting.runs import read_evaluation
from skillfield.reporting.tables import MetricTable

__all__ = ["Evaluate", "evaluation_table", "transition_table"]


@dataclass(frozen=True)
class Evaluate:
    """Measure a trained policy as the paper does.

    SR: success rate from reference states of the skill. εNSR: from the ε-neighbourhood of those. TSR: from reference
    states of every other skill. NR: mean reward per frame, over all start frames.

    The result is printed and written to evaluation.json in the run folder. Such a file instead of a run is shown again,
    not measured again.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder with a checkpoint, or the name of a shipped policy, such as starter; or an evaluation.json."""
    trials: int = 256
    """Executions per skill (the paper uses 10,000)."""
    transition_trials: int | None = None
    """Executions per ordered pair of skills; as many as per skill if not given."""
    seed: int = 0
    """Of the start states."""
    device: str | None = None
    """cpu, cuda or auto; what suits the task if not given. It need not be the one that it was trained on."""
    data: Path | None = None
    """Folder of imported recordings, if they lie elsewhere than in training."""
    json: bool = False
    """Print JSON instead of a table."""
    matrix: Path | None = None
    """Also draw the matrix of transitions, with SR on its diagonal, into this PNG."""

    def run(self) -> int:
        """Evaluate, print, draw."""
        if self.matrix is not None and self.matrix.suffix.lower() != ".png":
            raise ConfigError(f"{self.matrix}: the matrix is a PNG, not '{self.matrix.suffix}'")
        written = self.run_folder.suffix == ".json" and not self.run_folder.is_dir()
        result = self._read() if written else self._measure()
        if self.json:
            print(json_text(result.to_dict()))
        else:
            console = table_console()
            console.print(evaluation_table(result, str(self.run_folder)).rich())
            console.print(transition_table(result).rich())
        if self.matrix is not None:
            write_picture(transition_matrix(result, self.run_folder), self.matrix)
            print(self.matrix, file=sys.stderr if self.json else sys.stdout)
        return 0

    def _read(self) -> Evaluation:
        if self != Evaluate(self.run_folder, json=self.json, matrix=self.matrix):
            raise ConfigError(f"{self.run_folder} is measured already; only --matrix and --json go with it")
        return read_evaluation(self.run_folder)

    def _measure(self) -> Evaluation:
        return evaluate(
            self.run_folder,
            self.trials,
            self.seed,
            transition_trials=self.transition_trials,
            device=self.device,
            data=self.data,
        )


def evaluation_table(result: Evaluation, title: str) -> MetricTable:
    """The four metrics per skill, with their averages."""
    into = result.transitions_into()
    rows = {
        skill: {
            "SR %": 100 * result.success_rate[skill],
            "εNSR %": 100 * result.neighbourhood_rate[skill],
            "TSR into it %": 100 * into.get(skill, math.nan),
            "NR": result.normalised_reward[skill],
        }
        for skill in result.success_rate
    }
    return MetricTable.of(rows, title=f"{title} · {result.measured_with()}")


def transition_table(result: Evaluation) -> MetricTable:
    """TSR of every ordered pair: rows are where a trial starts, columns what is asked for."""
    rows = {
        source: {f"→ {target} %": 100 * rate for target, rate in targets.items()}
        for source, targets in result.transition_rate.items()
    }
    columns = tuple(f"→ {skill} %" for skill in result.success_rate)
    title = f"TSR · {trials_in_words(result.transition_trials, result.seconds)} per pair of skills"
    return MetricTable(columns, rows, title=title, heading="from", average=False)
