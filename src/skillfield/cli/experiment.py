"""`skillfield experiment`: a table of the paper, run row by row and seed by seed."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from skillfield.api import evaluate, train_run
from skillfield.cli.jobs import Job, side_by_side
from skillfield.cli.table import Results, write_table
from skillfield.cli.table_runs import Asked, check_settings, figures_of, run_folder, seeds_of, trained_samples
from skillfield.errors import ConfigError
from skillfield.evaluation import Evaluation
from skillfield.evaluation.plan import check_trials
from skillfield.experiments.recordings import kept_folder, noisy_clips
from skillfield.experiments.run import RunConfig, load_config, preset
from skillfield.experiments.tables import Experiment, Row, experiment
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import task as find_task
from skillfield.learning.checkpoint import has_checkpoint
from skillfield.learning.training import Budget
from skillfield.program import this_command
from skillfield.reporting.filmstrip import write_picture
from skillfield.reporting.matrix import transition_matrix
from skillfield.simulation import choose_device

__all__ = ["RunExperiment"]


@dataclass(frozen=True)
class RunExperiment:
    """Run a table of the paper: every row at equal samples with several seeds, then the table and its checks.

    main: DeepMimic and SkillMimic, plain and with the paper's method. ablation: its parts. own: what starts in states
    of the policy's own, which the paper does not have, bring to sm and to full. noise: sm and full, trained on and
    tested from clips whose objects were moved at random by up to 10, 20 and 30 mm along each axis.

    The folder gets table.md and table.json, and each run's folder a picture of its transitions.

    What is done is skipped and what was interrupted goes on, so the same command finishes a table in several sittings.
    A run in the folder that is none of this table, with other settings, clips, samples or trials, is an error.
    With --jobs several runs go on at once, each of which writes what it says into LABEL-SEED.log.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[TABLE]")] = "ablation"
    """main, ablation, own or noise."""
    task: str = "starter"
    """Which task."""
    seeds: int = 3
    """Runs per row."""
    first_seed: int = 0
    """The first of their seeds."""
    samples: int | None = None
    """Training samples per run; if not given, what the task needs: the starter 5 million, courtside 375 million,
    ballplay 750 million."""
    pace: float = 1.0
    """How fast every run goes through the task's stages, where it has some: with 1.5 each begins after two thirds of
    its samples, so that a table of fewer samples knows them too."""
    num_envs: int | None = None
    """Worlds of every run; the task's own if not given. On ballplay half as many learned more per sample, at first, and
    less per second; with --jobs other runs have the time that is left over."""
    trials: int = 256
    """Test executions per skill."""
    transition_trials: int | None = None
    """Test executions per ordered pair of skills; as many as per skill if not given."""
    methods: tuple[str, ...] = ()
    """Only these rows, such as sm; of noise, such as sm@10mm."""
    device: str | None = None
    """cpu, cuda or auto; what suits the task if not given."""
    data: Path | None = None
    """Folder of clips in place of the task's own or the usual ones, or the name of a task whose clips are meant."""
    out: Path | None = None
    """Folder of the runs, the noisy clips and the table; runs/experiment-NAME-TASK if not given."""
    jobs: int = 1
    """Runs at a time. Several fill a GPU better than one, more so with NVIDIA's MPS (nvidia-cuda-mps-control -d)."""
    threads: int = 0
    """Simulation threads of each run on a CPU; 0 takes every core, or with --jobs its share of them."""

    def run(self) -> int:
        """Run what is missing, and write the table."""
        task = self._changed(find_task(self.task))
        chosen = experiment(self.name).on(task, self._samples(task))
        rows = {row.label: row for row in chosen.rows}
        unknown = [label for label in self.methods if label not in rows]
        if unknown:
            why = f", and {self._samples(task):,} samples of {self.task} come to nothing that full alone has"
            same = why if chosen.needs_own.intersection(unknown) else ""
            raise ConfigError(f"experiment '{self.name}' has no rows {unknown}{same}; it has {list(rows)}")
        out = self.out or Path("runs") / f"experiment-{self.name}-{self.task}"
        self._check_counts(task, out)
        shown = [row for row in chosen.rows if row.label in (self.methods or rows) or seeds_of(out, row)]
        _check_rows_differ(shown, task, self._samples(task))
        console = Console()
        runs = [  # seed by seed, so that an early look shows every row
            (rows[label], seed)
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for label in self.methods or rows
        ]
        missing = [(row, seed) for row, seed in runs if self._figures(row, seed, task, out) is None]
        self._check_others(chosen, task, out)
        if self.jobs > 1:
            for row, _ in missing:  # before two of them would make the same
                self._clips(row, task, out)
            finished = side_by_side([self._job(out, row, seed) for row, seed in missing], self.jobs, console)
        else:
            finished = all(self._run(chosen, row, seed, task, out) for row, seed in missing)
        if not finished:
            console.print("interrupted; the same command goes on from here")
            return 130
        self._write_table(chosen, task, out)
        console.print((out / "table.md").read_text(), soft_wrap=True, markup=False, highlight=False)
        return 0

    def _run(self, chosen: Experiment, row: Row, seed: int, task: Task, out: Path) -> bool:
        """Train and test one run, and put it into the table; False if it was interrupted."""
        folder, data = run_folder(out, row, seed), self._clips(row, task, out)
        Console().print(f"[bold]{row.label}[/bold], seed {seed}: {folder}")
        if not self._train(row.method, seed, folder, data, task):
            return False
        result = evaluate(folder, self.trials, transition_trials=self.transition_trials, device=self.device, data=data)
        if len(task.skills) > 1:
            write_picture(transition_matrix(result, folder), folder / "transitions.png")
        self._write_table(chosen, task, out)
        return True

    def _job(self, out: Path, row: Row, seed: int) -> Job:
        """The command that does one run and nothing else."""
        threads = self.threads or max(1, (os.cpu_count() or 1) // self.jobs)
        alone = replace(self, methods=(row.label,), seeds=1, first_seed=seed, out=out, jobs=1, threads=threads)
        options = {name: value for name, value in vars(alone).items() if name != "name" and value is not None}
        given: list[str] = []
        for name, value in options.items():
            given += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
        folder = run_folder(out, row, seed)
        return Job(folder.name, this_command("experiment", self.name, *given), folder.with_name(f"{folder.name}.log"))

    def _changed(self, task: Task) -> Task:
        """The task as every run is to have it."""
        return replace(task.paced(self.pace), num_envs=task.num_envs if self.num_envs is None else self.num_envs)

    def _check_counts(self, task: Task, out: Path) -> None:
        """Before hours of training."""
        least = dict.fromkeys(("seeds", "samples", "num_envs", "trials", "transition_trials", "jobs"), 1)
        for name, fewest in (least | {"first_seed": 0, "threads": 0}).items():
            count = getattr(self, name)
            if count is not None and count < fewest:
                raise ConfigError(f"--{name.replace('_', '-')} is {count}, it must be {fewest} or more")
        there = next(path for path in (out, *out.parents) if path.exists())
        if not there.is_dir():
            raise ConfigError(f"--out is {out}: {there} is a file, not a folder")
        device = choose_device(self.device or task.device)
        check_trials(task.trials, task.character(), device, self.trials, self.transition_trials)

    def _data(self, row: Row, out: Path) -> Path | None:
        """Where a row's clips lie."""
        return (out / f"clips-{row.noise_mm:g}mm").resolve() if row.noise_mm else self.data

    def _clips(self, row: Row, task: Task, out: Path) -> Path | None:
        """The same; noisy ones are made if they are not there yet."""
        folder = self._data(row, out)
        if row.noise_mm and folder:
            noisy_clips(task, self.data, row.noise_mm, folder)
        return folder

    def _figures(self, row: Row, seed: int, task: Task, out: Path) -> Evaluation | None:
        """Of a run that is trained and tested, else None; one that does not belong into this table is an error."""
        folder, data = run_folder(out, row, seed), self._data(row, out)
        wanted = replace(preset(task, row.method), seed=seed, data=kept_folder(data) if data else None)
        if not (folder / "config.json").exists():
            return None
        found = load_config(folder)
        check_settings(folder, found, wanted, task, noisy=row.noise_mm > 0)
        asked = Asked(task, self._samples(task), self.trials, self.transition_trials or self.trials)
        return figures_of(folder, found, asked, noisy=row.noise_mm > 0)

    def _collect(self, chosen: Experiment, task: Task, out: Path) -> Results:
        """Figures of all finished runs of the table, those of earlier commands too."""
        found = {row.label: [self._figures(row, seed, task, out) for seed in seeds_of(out, row)] for row in chosen.rows}
        return {label: [each for each in row if each is not None] for label, row in found.items()}

    def _check_others(self, chosen: Experiment, task: Task, out: Path) -> None:
        """Refuse runs of earlier commands that are none of this table, and noisy clips made of others than these."""
        for row in chosen.rows:
            folder = self._data(row, out)
            if row.noise_mm and folder and folder.exists() and seeds_of(out, row):
                self._clips(row, task, out)
        self._collect(chosen, task, out)

    def _write_table(self, chosen: Experiment, task: Task, out: Path) -> None:
        results, samples = self._collect(chosen, task, out), self._samples(task)
        write_table(out, chosen, self.task, results, samples, self.pace, self.num_envs)

    def _samples(self, task: Task) -> int:
        return self.samples or task.table_samples

    def _train(self, method: str, seed: int, folder: Path, data: Path | None, task: Task) -> bool:
        changes: dict[str, Any] = {"budget": Budget(samples=self._samples(task)), "threads": self.threads}
        changes |= {"device": self.device} if self.device else {}
        changes |= {"data": kept_folder(data)} if data else {}
        if trained_samples(folder) >= self._samples(task):  # only its test is missing
            return True
        if has_checkpoint(folder):
            return train_run(replace(load_config(folder), **changes), folder, resumed=True)
        return train_run(replace(preset(task, method), seed=seed, **changes), folder)


def _check_rows_differ(rows: Sequence[Row], task: Task, samples: int) -> None:
    """Refuse two rows that are the same training, under two names, for so many samples."""
    known: list[tuple[Row, RunConfig]] = []
    for row in rows:
        config = replace(preset(task, row.method), method="")
        for other, its in known:
            if row.noise_mm != other.noise_mm or not _same_until(samples, config, its):
                continue
            same = f"task '{task.name}': {other.label} and {row.label} are the same training"
            if config == its:
                raise ConfigError(
                    f"{same}, since the task does not use what one of them adds; choose other --methods or another "
                    "--task"
                )
            raise ConfigError(f"{same} for the first {samples:,} samples; choose more --samples or other --methods")
        known.append((row, config))


def _same_until(samples: int, one: RunConfig, other: RunConfig) -> bool:
    """Whether two runs have the same settings in every stage that begins before there are so many samples."""
    begins = {0, *(stage.after for config in (one, other) for stage in config.stages if stage.after < samples)}
    return all(one.at(after) == other.at(after) for after in begins)
