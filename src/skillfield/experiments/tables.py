"""The paper's tables as values: which rows, and what the figures must show."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from skillfield.errors import ConfigError, unknown_name
from skillfield.experiments.published import PUBLISHED
from skillfield.experiments.task import Task

__all__ = ["EXPERIMENTS", "Band", "Experiment", "Row", "experiment"]


@dataclass(frozen=True)
class Row:
    """What the runs of a row have in common: their method, and how far noise moves the objects of their clips."""

    method: str
    noise_mm: float = 0.0
    """Along each axis; 0: the clips as they are."""

    @property
    def label(self) -> str:
        """Its name in the table and of its folders: the method's, as in sm, with the noise, as in sm@10mm."""
        return f"{self.method}@{self.noise_mm:g}mm" if self.noise_mm else self.method


@dataclass(frozen=True)
class Band:
    """One thing that a table must show: a figure of a row at least so large, or so far above another row's."""

    metric: str
    row: str
    """By its label."""
    at_least: float
    above: str | None = None
    """Compare with this row's figure instead of with zero."""


@dataclass(frozen=True)
class Experiment:
    """A table of the paper."""

    name: str
    summary: str
    rows: tuple[Row, ...]
    bands: Mapping[str, tuple[Band, ...]]
    """Per task."""
    needs_own: frozenset[str] = frozenset()
    """Rows that are `full` under another name where no stage for `own` begins."""

    def on(self, task: Task, samples: int) -> "Experiment":
        """The rows that there are on a task with so many samples."""
        own = any(stage.after < samples for stage in task.own_stages)
        return replace(self, rows=tuple(row for row in self.rows if own or row.label not in self.needs_own))


_STARTER = (
    Band("success_rate", "full", 0.90),
    Band("transition_rate", "full", 0.85),
    Band("transition_rate", "full", 0.15, above="sm"),
    Band("neighbourhood_rate", "full", 0.10, above="sm"),
)

_PAPER, _PAPER_TSR = PUBLISHED["ballplay"], "paper_transition_rate"

_BALLPLAY = (
    *(Band(metric, "full", _PAPER["full"][metric]) for metric in ("success_rate", "neighbourhood_rate")),
    *(Band(metric, "full", _PAPER["full"][_PAPER_TSR]) for metric in (_PAPER_TSR, "transition_rate")),
    *(
        Band(metric, "full", 0.0, above=other)
        for other in ("sm", "sm+nsi")
        for metric in ("success_rate", "transition_rate", "neighbourhood_rate")
    ),
)
"""The paper's figures, and its order. Its TSR is the mean of four pairs of skills; we ask as much of all twenty."""

_NEEDS_OWN = frozenset({"paper"})

_ABLATION = (
    "sm",
    "sm+ats",
    "sm+he",
    "sm+stf",
    "sm+stg",
    "sm+stg+stf",
    "sm+stg+stf+ats",
    "paper",
    "full",
    "sm+t",
    "sm+hs",
    "sm+iae",
)

_NOISE_BALLPLAY = tuple(
    band
    for ours, plain in ((f"full@{noise}mm", f"sm@{noise}mm") for noise in (10, 20, 30))
    for metric in ("success_rate", "neighbourhood_rate")
    for band in (Band(metric, ours, _PAPER[ours][metric]), Band(metric, ours, 0.0, above=plain))
)
"""The paper's figures, and its order."""

EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(
        "main",
        "both baselines, plain, with neighbourhood starts, and with the full method",
        tuple(map(Row, ("dm", "dm+nsi", "dm+full", "sm", "sm+nsi", "paper", "full"))),
        {"starter": _STARTER, "ballplay": _BALLPLAY},
        needs_own=_NEEDS_OWN,
    ),
    "ablation": Experiment(
        "ablation",
        "each component alone and together, and the simpler alternatives to them",
        tuple(map(Row, _ABLATION)),
        {
            "starter": (
                *_STARTER,
                Band("success_rate/toss", "full", 0.70),
                Band("success_rate/toss", "full", 0.30, above="sm+stg+stf+ats"),
            )
        },
        needs_own=_NEEDS_OWN,
    ),
    "own": Experiment(
        "own",
        "what we add to the paper's starts brings to both (nothing where the task asks for none, as the starter)",
        tuple(map(Row, ("sm", "sm+own", "paper", "full"))),
        {},
    ),
    "noise": Experiment(
        "noise",
        "plain SkillMimic and the full method, from clips whose objects were moved at random",
        tuple(Row(method, noise_mm) for noise_mm in (10.0, 20.0, 30.0) for method in ("sm", "full")),
        {"ballplay": _NOISE_BALLPLAY},
    ),
}


def experiment(name: str) -> Experiment:
    """An experiment by name."""
    if name not in EXPERIMENTS:
        raise ConfigError(unknown_name("experiment", name, tuple(EXPERIMENTS)))
    return EXPERIMENTS[name]
