"""`skillfield demo`: the whole story on a laptop."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from skillfield.api import evaluate, new_run_folder, train_run
from skillfield.cli.evaluate import transition_table
from skillfield.cli.films import film_run
from skillfield.cli.report import write_report
from skillfield.cli.train import how_to_go_on
from skillfield.errors import ConfigError, RenderError
from skillfield.evaluation import Evaluation
from skillfield.experiments.run import preset
from skillfield.experiments.starter.baseline import Baseline, load_baseline
from skillfield.files import typed
from skillfield.learning.training import Budget
from skillfield.reporting.console import table_console
from skillfield.reporting.tables import MetricTable

__all__ = ["Demo", "comparison_table"]


@dataclass(frozen=True)
class Demo:
    """Train the starter with the full method on this machine's CPU and compare it with the plain one. Opens nothing.

    The plain method's figures were measured with the same number of samples and are shipped with the package.
    """

    samples: int | None = None
    """Training samples; as many as the shipped result had, if not given."""
    trials: int = 64
    """Test executions of 10 s per skill, and per ordered pair of skills."""
    seed: int = 0
    """Another seed, another hand."""
    method: str = "full"
    """How to learn; `skillfield tasks` lists the methods."""
    out: Path | None = None
    """Run folder; runs/starter-METHOD-SEED if not given."""

    def run(self) -> int:
        """Tell the story."""
        for name, count in (("--samples", self.samples), ("--trials", self.trials)):
            if count is not None and count < 1:
                raise ConfigError(f"{name} is {count}; at least 1 is needed")
        began = time.perf_counter()
        console = table_console()
        baseline = load_baseline()
        samples = baseline.samples if self.samples is None else self.samples
        config = replace(preset("starter", self.method), seed=self.seed, budget=Budget(samples=samples))
        folder = self.out or new_run_folder(config)
        console.print(
            "A floating hand learns five ball skills from five noisy demonstrations of one to two seconds each: "
            f"method {self.method}, {samples:,} samples (5 million: three to four minutes on two cores)."
        )
        if not train_run(config, folder):
            print(how_to_go_on(folder))
            return 130
        console.print(f"Testing: {self.trials} executions of 10 s per skill and per pair of skills …")
        result = evaluate(folder, self.trials)
        console.print(comparison_table(baseline, self.method, result).rich())
        console.print(transition_table(result).rich())
        if samples != baseline.samples:
            console.print(f"note: {baseline.method} was trained with {baseline.samples:,} samples")
        video = folder / "video.mp4"
        try:
            console.print("Filming …")
            film_run(folder, video, seconds=3.0, size=(640, 360))
        except RenderError as problem:
            console.print(f"no video: {problem}")
        write_report([folder], folder / "report.html", videos=False)
        console.print(f"results  {folder / 'evaluation.json'}")
        console.print(f"report   {folder / 'report.html'}")
        if video.exists():
            console.print(f"video    {video}")
        console.print(f"{time.perf_counter() - began:.0f} s in all. Next, in the browser:")
        for what in (folder, "ballplay"):  # what was just trained, and the humanoid that comes with the package
            console.print(f"  skillfield play {typed(what)} --open   (in a clone: make play ARGS='{what} --open')")
        return 0


def comparison_table(baseline: Baseline, method: str, result: Evaluation) -> MetricTable:
    """Each metric of the shipped baseline beside that of a fresh run."""
    metrics = {"SR %": "success_rate", "εNSR %": "neighbourhood_rate", "TSR into it %": "transitions_into"}
    rows: dict[str, dict[str, float]] = {skill: {} for skill in result.success_rate}
    for title, metric in metrics.items():
        ours = getattr(result, metric)
        found = {baseline.method: baseline.mean(metric), f"{method} here": ours() if callable(ours) else ours}
        for name, figures in found.items():
            for skill in rows:
                rows[skill][f"{name}: {title}"] = 100 * figures[skill]
    title = f"starter: {baseline.method}, shipped, mean of {len(baseline.runs)} runs, against {method}, just trained"
    return MetricTable.of(rows, title=title)
