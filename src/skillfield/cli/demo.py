"""`skillfield demo`: the whole story on a laptop."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from skillfield.api import evaluate, new_run_folder, train
from skillfield.cli.evaluate import evaluation_table
from skillfield.cli.render import film_run
from skillfield.cli.report import write_report
from skillfield.errors import RenderError
from skillfield.experiments.run import preset
from skillfield.reporting.console import table_console

__all__ = ["Demo"]


@dataclass(frozen=True)
class Demo:
    """Train the starter on this machine's CPU, measure it, film it. Opens nothing; prints what it made and where."""

    minutes: float = 3.0
    """Training time."""
    trials: int = 64
    """Test executions of 10 s per skill, and per ordered pair of skills."""
    seed: int = 0
    """Another seed, another hand."""
    method: str = "sm"
    """How to learn; `skillfield tasks` lists the methods."""
    out: Path | None = None
    """Run folder; runs/starter-METHOD-SEED if not given."""

    def run(self) -> int:
        """Tell the story."""
        began = time.perf_counter()
        console = table_console()
        folder = self.out or new_run_folder(replace(preset("starter", self.method), seed=self.seed))
        console.print(
            "A floating hand learns five ball skills from five noisy demonstrations of about a second each "
            f"({self.minutes:g} min on this CPU)."
        )
        train("starter", self.method, minutes=self.minutes, seed=self.seed, run=folder)
        console.print(f"Testing: {self.trials} executions of 10 s per skill …")
        console.print(evaluation_table(evaluate(folder, self.trials), "starter").rich())
        video = folder / "video.mp4"
        try:
            console.print("Filming …")
            film_run(folder, video, skills=(), seconds=3.0, size=(480, 360))
        except RenderError as problem:
            console.print(f"no video: {problem}")
        write_report([folder], folder / "report.html", videos=False)
        console.print(f"results  {folder / 'evaluation.json'}")
        console.print(f"report   {folder / 'report.html'}")
        if video.exists():
            console.print(f"video    {video}")
        console.print(f"{time.perf_counter() - began:.0f} s in all. Next: skillfield train --help")
        return 0
