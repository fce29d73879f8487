"""`skillfield experiment`: a table of the paper, run row by row and seed by seed."""

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from skillfield.api import evaluate, train_run
from skillfield.cli.jobs import Job, side_by_side, this_command
from skillfield.errors import ConfigError
from skillfield.evaluation import Evaluation
from skillfield.experiments.published import PAIRS, PUBLISHED
from skillfield.experiments.recordings import kept_folder, noisy_clips
from skillfield.experiments.run import RunConfig, load_config, preset
from skillfield.experiments.tables import Band, Experiment, Row, experiment
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import task as find_task
from skillfield.files import atomic_file, write_json
from skillfield.learning.checkpoint import has_checkpoint
from skillfield.learning.training import Budget
from skillfield.reporting.filmstrip import write_picture
from skillfield.reporting.logs import METRICS_FILE
from skillfield.reporting.matrix import transition_matrix
from skillfield.reporting.runs import EVALUATION_FILE, read_evaluation

__all__ = ["RunExperiment", "collect", "table_markdown", "write_table"]

Pairs = Mapping[str, tuple[str, str]]
"""Name in the paper → source and target skill."""

_NOISE_NOTE = """
Rows such as sm@10mm were trained on clips whose objects were moved at random by up to 10 mm along each axis, and \
tested from the states of these same clips.
"""


@dataclass(frozen=True)
class RunExperiment:
    """Run a table of the paper: every row at equal samples with several seeds, then the table and its checks.

    main: DeepMimic and SkillMimic, plain and with the paper's method. ablation: its parts. own: what starts in states
    of the policy's own, which the paper does not have, bring to sm and to full. noise: sm and full, trained on and
    tested from clips whose objects were moved at random by up to 10, 20 and 30 mm along each axis.

    The folder gets table.md and table.json, and each run's folder a picture of its transitions.

    What is done is skipped and what was interrupted goes on, so the same command finishes a table in several sittings.
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
    """Training samples per run; if not given, what the task needs: the starter 5 million, ballplay 750 million."""
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
        chosen = experiment(self.name)
        rows = {row.label: row for row in chosen.rows}
        unknown = [label for label in self.methods if label not in rows]
        if unknown:
            raise ConfigError(f"experiment '{self.name}' has no rows {unknown}; it has {list(rows)}")
        task = find_task(self.task)
        self._check_counts()
        _check_rows_differ([rows[label] for label in self.methods or rows], self.task)
        out = self.out or Path("runs") / f"experiment-{self.name}-{self.task}"
        console = Console()
        runs = [  # seed by seed, so that an early look shows every row
            (rows[label], seed)
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for label in self.methods or rows
        ]
        missing = [(row, seed) for row, seed in runs if not self._is_done(row, seed, task, out)]
        if self.jobs > 1:
            for row, _ in missing:  # before two of them would make the same
                self._clips(row, task, out)
            finished = side_by_side([self._job(out, row, seed) for row, seed in missing], self.jobs, console)
        else:
            finished = all(self._run(chosen, row, seed, task, out) for row, seed in missing)
        if not finished:
            console.print("interrupted; the same command goes on from here")
            return 130
        write_table(out, chosen, self.task)
        console.print((out / "table.md").read_text(), soft_wrap=True, markup=False, highlight=False)
        return 0

    def _run(self, chosen: Experiment, row: Row, seed: int, task: Task, out: Path) -> bool:
        """Train and test one run, and put it into the table; False if it was interrupted."""
        folder, data = _folder(out, row, seed), self._clips(row, task, out)
        Console().print(f"[bold]{row.label}[/bold], seed {seed}: {folder}")
        if not self._train(row.method, seed, folder, data, task):
            return False
        result = evaluate(folder, self.trials, transition_trials=self.transition_trials, device=self.device, data=data)
        if len(task.skills) > 1:
            write_picture(transition_matrix(result, folder), folder / "transitions.png")
        write_table(out, chosen, self.task)
        return True

    def _job(self, out: Path, row: Row, seed: int) -> Job:
        """The command that does one run and nothing else."""
        threads = self.threads or max(1, (os.cpu_count() or 1) // self.jobs)
        alone = replace(self, methods=(row.label,), seeds=1, first_seed=seed, out=out, jobs=1, threads=threads)
        options = {name: value for name, value in vars(alone).items() if name != "name" and value is not None}
        given: list[str] = []
        for name, value in options.items():
            given += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
        folder = _folder(out, row, seed)
        return Job(folder.name, this_command("experiment", self.name, *given), folder.with_name(f"{folder.name}.log"))

    def _check_counts(self) -> None:
        """Before hours of training."""
        least = dict.fromkeys(("seeds", "samples", "trials", "transition_trials", "jobs"), 1)
        for name, fewest in (least | {"first_seed": 0, "threads": 0}).items():
            count = getattr(self, name)
            if count is not None and count < fewest:
                raise ConfigError(f"--{name.replace('_', '-')} is {count}, it must be {fewest} or more")

    def _clips(self, row: Row, task: Task, out: Path) -> Path | None:
        """Where a row's clips lie; noisy ones are made if they are not there yet."""
        if not row.noise_mm:
            return self.data
        folder = (out / f"clips-{row.noise_mm:g}mm").resolve()
        noisy_clips(task, self.data, row.noise_mm, folder)
        return folder

    def _is_done(self, row: Row, seed: int, task: Task, out: Path) -> bool:
        """Whether a run is trained and tested; one that does not belong into this table is an error."""
        folder = _folder(out, row, seed)
        if not (folder / "config.json").exists():
            return False
        config = load_config(folder)
        found, wanted = (config.task, config.method, config.seed), (self.task, row.method, seed)
        if found != wanted:
            raise ConfigError(f"{folder}: holds a run of {found}, the table asks for {wanted}; choose another --out")
        if not (folder / EVALUATION_FILE).exists():
            return False
        result = read_evaluation(folder / EVALUATION_FILE)
        counts = {
            "samples": (config.budget.samples or 0, self._samples(task)),
            "trials": (result.trials, self.trials),
            "transition trials": (result.transition_trials, self.transition_trials or self.trials),
        }
        others = [f"{had:,} instead of {asked:,} {name}" for name, (had, asked) in counts.items() if had != asked]
        if others:
            raise ConfigError(
                f"{folder}: has {', '.join(others)}; choose another --out, or delete its {EVALUATION_FILE} to go on"
            )
        return True

    def _samples(self, task: Task) -> int:
        return self.samples or task.table_samples

    def _train(self, method: str, seed: int, folder: Path, data: Path | None, task: Task) -> bool:
        changes: dict[str, Any] = {"budget": Budget(samples=self._samples(task)), "threads": self.threads}
        changes |= {"device": self.device} if self.device else {}
        changes |= {"data": kept_folder(data)} if data else {}
        if has_checkpoint(folder):
            return train_run(replace(load_config(folder), **changes), folder, resumed=True)
        _clear(folder)
        return train_run(replace(preset(self.task, method), seed=seed, **changes), folder)


def _check_rows_differ(rows: Sequence[Row], task: str) -> None:
    """Refuse two rows that a task makes the same training, under two names."""
    known: list[tuple[Row, RunConfig]] = []
    for row in rows:
        config = replace(preset(task, row.method), method="")
        for other, its in known:
            if config == its and row.noise_mm == other.noise_mm:
                raise ConfigError(
                    f"task '{task}': {other.label} and {row.label} are the same training, since the task does not use "
                    f"what one of them adds; choose other --methods or another --task"
                )
        known.append((row, config))


def _clear(folder: Path) -> None:
    """Forget a run that was killed before its first checkpoint."""
    for name in ("config.json", METRICS_FILE):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _folder(out: Path, row: Row, seed: int) -> Path:
    return out / f"{row.label}-{seed}"


def collect(folder: Path, rows: tuple[Row, ...]) -> dict[str, list[Evaluation]]:
    """Evaluations of the finished runs of an experiment, per row, by its label."""
    return {
        row.label: [
            read_evaluation(path)
            for path in sorted(folder.glob(f"*/{EVALUATION_FILE}"))
            if path.parent.name.rsplit("-", 1)[0] == row.label
        ]
        for row in rows
    }


def write_table(folder: Path, chosen: Experiment, task: str) -> None:
    """table.md and table.json, with the acceptance bands."""
    results = {label: found for label, found in collect(folder, chosen.rows).items() if found}
    pairs, published = PAIRS.get(task, {}), PUBLISHED.get(task, {})
    figures = {label: _figures(found, pairs) for label, found in results.items()}
    bands = chosen.bands.get(task, ())
    write_json(
        folder / "table.json",
        {
            "experiment": chosen.name,
            "task": task,
            "figures": {
                label: {key: dict(zip(("mean", "spread"), value, strict=True)) for key, value in row.items()}
                for label, row in figures.items()
            },
            "published": {label: published[label] for label in figures if label in published},
            "runs": {label: len(found) for label, found in results.items()},
            "bands": [{"band": band.describe(), "holds": band.holds(_means(figures))} for band in bands],
        },
    )
    with atomic_file(folder / "table.md") as temporary:
        counts = {label: len(found) for label, found in results.items()}
        measured = sorted({result.measured_with() for found in results.values() for result in found})
        table = table_markdown(chosen, figures, counts, bands, published, pairs)
        noise = _NOISE_NOTE if any(row.noise_mm for row in chosen.rows) else ""
        temporary.write_text(f"{table}{noise}\n{_trained(folder)}Measured with {' or '.join(measured)}.\n")


def _trained(folder: Path) -> str:
    """How many samples the finished runs of an experiment had, in words."""
    finished = [path.parent for path in folder.glob(f"*/{EVALUATION_FILE}")]
    configs = [load_config(run) for run in finished if (run / "config.json").exists()]
    samples = sorted({config.budget.samples for config in configs if config.budget.samples})
    return f"Trained with {' or '.join(f'{count:,}' for count in samples)} samples. " if samples else ""


def table_markdown(
    chosen: Experiment,
    figures: Mapping[str, Mapping[str, tuple[float, float]]],
    runs: Mapping[str, int],
    bands: tuple[Band, ...],
    published: Mapping[str, Mapping[str, float]] | None = None,
    pairs: Pairs | None = None,
) -> str:
    """Rows by their labels; SR, εNSR and NR per skill, then the averages and TSR; mean ± spread over seeds.

    published: the paper's figures, which follow each row's own.
    pairs: those whose mean the paper calls TSR; they and their mean are shown beside the mean of all.
    """
    skills = [
        key.removeprefix("success_rate/") for key in next(iter(figures.values()), {}) if key.startswith("success_rate/")
    ]
    pairs = pairs or {}
    averages = _averages(pairs)
    header = ["method", "seeds", *(f"{skill}<br>SR / εNSR / NR" for skill in skills)]
    header += [*([f"TSR<br>{' / '.join(pairs)}"] if pairs else []), *averages]
    lines = [f"| {' | '.join(header)} |", f"| {' | '.join(['---', *['---:'] * (len(header) - 1)])} |"]
    for label, row in figures.items():
        cells = [label, str(runs[label]), *_detail_cells(_means({label: row})[label], skills, pairs)]
        cells += [" ± ".join(_number(metric, value) for value in row[metric]) for metric in averages.values()]
        lines.append(f"| {' | '.join(cells)} |")
        if published and label in published:
            paper = published[label]
            cells = _detail_cells(paper, skills, pairs)
            cells += [_number(metric, paper[metric]) if metric in paper else "" for metric in averages.values()]
            lines.append(f"| *paper* |  | {' | '.join(f'*{cell}*' if cell else '' for cell in cells)} |")
    verdict = {True: "holds", False: "**does not hold**", None: "not measured yet"}
    lines += ["", *(f"- {band.describe()}: {verdict[band.holds(_means(figures))]}" for band in bands)]
    return "\n".join(lines) + "\n"


def _averages(pairs: Pairs) -> dict[str, str]:
    """Heading → metric of the last columns."""
    across = {"TSR": "transition_rate"}
    if pairs:
        across = {
            f"TSR, the paper's {len(pairs)} pairs": "paper_transition_rate",
            "TSR, all pairs": "transition_rate",
        }
    return {"SR": "success_rate", **across, "εNSR": "neighbourhood_rate", "NR": "normalised_reward"}


def _number(metric: str, value: float) -> str:
    return f"{value:.2f}" if metric == "normalised_reward" else f"{100 * value:.1f}"


def _detail_cells(row: Mapping[str, float], skills: list[str], pairs: Pairs) -> list[str]:
    """A cell per skill, and one for the paper's pairs where it has some; empty where a row has only averages."""
    cells = [_skill_cell(row, skill) for skill in skills]
    if pairs:
        names = [f"transition_rate/{source}/{target}" for source, target in pairs.values()]
        cells.append(" / ".join(_number(name, row[name]) for name in names if name in row))
    return cells


def _skill_cell(row: Mapping[str, float], skill: str) -> str:
    """SR, εNSR and NR of one skill; empty where a row has only averages."""
    if f"success_rate/{skill}" not in row:
        return ""
    own, near = (100 * row[f"{metric}/{skill}"] for metric in ("success_rate", "neighbourhood_rate"))
    return f"{own:.1f} / {near:.1f} / {row[f'normalised_reward/{skill}']:.2f}"


def _figures(found: list[Evaluation], pairs: Pairs) -> dict[str, tuple[float, float]]:
    """Mean and sample spread over seeds of every average, of every skill's figures, and of the paper's pairs."""
    rows: dict[str, list[float]] = {}
    for result in found:
        for metric in ("success_rate", "neighbourhood_rate", "normalised_reward"):
            values: dict[str, float] = getattr(result, metric)
            for skill, value in values.items():
                rows.setdefault(f"{metric}/{skill}", []).append(value)
        for skill, value in result.transitions_into().items():
            rows.setdefault(f"transition_rate/{skill}", []).append(value)
        for metric, value in result.averages().items():
            rows.setdefault(metric, []).append(value)
        chosen = [result.transition_rate[source][target] for source, target in pairs.values()]
        for (source, target), value in zip(pairs.values(), chosen, strict=True):
            rows.setdefault(f"transition_rate/{source}/{target}", []).append(value)
        if chosen:
            rows.setdefault("paper_transition_rate", []).append(sum(chosen) / len(chosen))
    return {key: _mean_and_spread(values) for key, values in rows.items()}


def _means(figures: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, dict[str, Any]]:
    return {label: {key: mean for key, (mean, _) in row.items()} for label, row in figures.items()}


def _mean_and_spread(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
