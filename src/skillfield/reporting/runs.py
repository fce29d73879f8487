"""What a run folder has to show, read once and checked: measurements, evaluation, graph, sampling statistics, videos.

Shape letters: N frames of all clips, one row after another in the order of clips.json; M edges of the stitched graph.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from skillfield.errors import SkillfieldError
from skillfield.evaluation import Evaluation
from skillfield.files import read_json, typed
from skillfield.learning.checkpoint import has_checkpoint
from skillfield.program import program
from skillfield.reporting.logs import METRICS_FILE, read_metrics

__all__ = [
    "EVALUATION_FILE",
    "ClipRows",
    "Edges",
    "RunRecord",
    "as_many",
    "by_method",
    "filmed_run",
    "read_evaluation",
    "read_run",
    "transition_video_path",
    "video_path",
]

Numbers = NDArray[np.float64]

EVALUATION_FILE = "evaluation.json"
"""What `skillfield evaluate` leaves in a run folder."""


@dataclass(frozen=True)
class ClipRows:
    """One demonstration and where its frames lie."""

    name: str
    skill: str
    start: int
    """Row of its first frame."""
    length: int
    missing: tuple[int, ...] = ()
    """Frames that were not recorded: no episode starts there."""


@dataclass(frozen=True)
class Edges:
    """The stitched graph."""

    source: NDArray[np.int64]  # [M] row of a state of another skill
    target: NDArray[np.int64]  # [M] row of the frame that it connects to
    exponent: Numbers  # [M] -ln β


@dataclass(frozen=True)
class RunRecord:
    """One run, as far as its folder tells."""

    folder: Path
    config: Mapping[str, Any]
    """config.json, with its defaults filled in."""
    metrics: Sequence[Mapping[str, float]]
    """Lines of metrics.jsonl, at least one."""
    evaluation: Evaluation | None = None
    clips: tuple[ClipRows, ...] = ()
    edges: Edges | None = None
    mean_reward: Numbers | None = None  # [N] running mean reward per start frame
    latest: Mapping[str, Any] | None = None
    """`config` as its stages have changed it by the last measurement; None if it has none."""

    @property
    def augmentation(self) -> Mapping[str, Any]:
        """Where episodes start by the last measurement."""
        augmentation: Mapping[str, Any] = (self.latest or self.config)["augmentation"]
        return augmentation

    @property
    def task(self) -> str:
        """Name of its task."""
        return str(self.config["task"])

    @property
    def method(self) -> str:
        """Name of its method."""
        return str(self.config["method"])

    @property
    def label(self) -> str:
        """Its method, and the policy that it began with if there was one."""
        origin = self.config.get("origin")
        return f"{self.method} from {Path(origin['policy']).name}" if origin else self.method

    @property
    def seed(self) -> int:
        """Of the training."""
        return int(self.config["seed"])

    @property
    def measured_samples(self) -> int:
        """How far training had come when it was measured; older evaluations do not say, and are taken for the last."""
        return (self.evaluation.samples if self.evaluation else None) or self.samples

    @property
    def has_gone_on(self) -> bool:
        """Whether it was trained on since; the log may end a little before the checkpoint."""
        return not as_many(self.measured_samples, self.samples)

    @property
    def samples(self) -> int:
        """How far training came."""
        return int(self.metrics[-1]["samples"])

    @property
    def seconds(self) -> float:
        """Time spent training; not a number where the log does not say."""
        return float(self.metrics[-1].get("seconds", np.nan))

    @property
    def skills(self) -> tuple[str, ...]:
        """In the order of the evaluation, else of the log."""
        if self.evaluation:
            return tuple(self.evaluation.success_rate)
        prefix = "reward/"
        logged = (name.removeprefix(prefix) for entry in self.metrics for name in entry if name.startswith(prefix))
        return tuple(dict.fromkeys(logged))

    def videos(self) -> dict[str, Path]:
        """The film of each skill that has one."""
        paths = {skill: video_path(self.folder, skill) for skill in self.skills}
        return {skill: path for skill, path in paths.items() if path and path.is_file()}

    def transition_videos(self) -> dict[tuple[str, str], Path]:
        """The film of each ordered pair of skills that has one."""
        pairs = [(source, target) for source in self.skills for target in self.skills if source != target]
        paths = {pair: transition_video_path(self.folder, *pair) for pair in pairs}
        return {pair: path for pair, path in paths.items() if path and path.is_file()}


def read_run(folder: Path, config: Mapping[str, Any]) -> RunRecord:
    """Everything a report needs from a run folder; damaged files raise, absent ones are absent. So are those of an
    earlier stage whose clips had other lengths: training writes clips.json first, then the graph, then a checkpoint.

    config: the run's configuration as plain values.
    """
    metrics = _read_numbers(folder / METRICS_FILE)
    clips = _read_clips(folder / "clips.json")
    return RunRecord(
        folder=folder,
        config=config,
        metrics=metrics,
        evaluation=read_evaluation(path) if (path := folder / EVALUATION_FILE).exists() else None,
        clips=clips,
        edges=_read_edges(folder / "graph.safetensors", clips) if clips else None,
        mean_reward=_read_mean_reward(folder, clips) if clips else None,
    )


def as_many(samples: int, others: int) -> bool:
    """Whether so many samples are no fewer than others, but for a hundredth."""
    return 1.01 * samples >= others


def read_evaluation(path: Path) -> Evaluation:
    """The figures of an evaluation.json; a missing or damaged one raises."""
    values = read_json(path, SkillfieldError)
    again = f"measure again: {program()} evaluate {typed(path.parent)}"
    try:
        result = Evaluation.from_dict(values)
        _check_numbers(result)
    except (TypeError, AttributeError, ValueError) as problem:
        raise SkillfieldError(f"{path}: no evaluation of this version ({problem}); {again}") from None
    return result


def by_method(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Runs of one task grouped by method and what they began with, each group sorted by seed."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(record.label, []).append(record)
    return {method: sorted(group, key=lambda record: record.seed) for method, group in groups.items()}


def filmed_run(group: Sequence[RunRecord]) -> RunRecord:
    """The run that stands for its method in films: the first with videos, else the first that could be filmed."""
    with_checkpoint = [record for record in group if has_checkpoint(record.folder)]
    return next((record for record in group if record.videos()), (with_checkpoint or list(group))[0])


def video_path(folder: Path, skill: str) -> Path | None:
    """Where the film of a skill belongs; None for a name that would leave the folder."""
    return folder / "videos" / f"{skill}.mp4" if Path(skill).name == skill else None


def transition_video_path(folder: Path, source: str, target: str) -> Path | None:
    """Where the film of a transition belongs; None for names that would leave the folder."""
    inside = all(Path(skill).name == skill for skill in (source, target))
    return folder / "videos" / "transitions" / f"{source}--{target}.mp4" if inside else None


def _read_numbers(path: Path) -> list[dict[str, float]]:
    metrics = read_metrics(path)
    if not metrics:
        raise SkillfieldError(f"{path}: nothing measured yet")
    for number, entry in enumerate(metrics, start=1):
        for name, value in entry.items():
            if not isinstance(value, int | float) or (name == "samples" and not 0 <= value < math.inf):
                raise SkillfieldError(f"{path}: line {number}: '{name}' is {value!r}, expected a number")
    return metrics


def _check_numbers(result: Evaluation) -> None:
    """Raise TypeError or ValueError unless every figure is one, and every skill and every pair has all of its own."""
    for count in (result.trials, result.transition_trials):
        if not _is_count(count) or count < 1:
            raise ValueError(f"{count!r} trials")
    if isinstance(result.seed, bool) or not isinstance(result.seed, int):
        raise ValueError(f"seed {result.seed!r}")
    if result.samples is not None and not _is_count(result.samples):
        raise ValueError(f"{result.samples!r} samples")
    if result.device is not None and not isinstance(result.device, str):
        raise ValueError(f"measured on {result.device!r}")
    if result.clips is not None and not isinstance(result.clips, str):
        raise ValueError(f"measured from {result.clips!r}")
    seconds = result.seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ValueError(f"trials of {seconds!r} s")
    across = list(result.transition_rate.values())
    intervals = (result.success_interval, result.neighbourhood_interval)
    for rates in (result.success_rate, result.neighbourhood_rate, result.normalised_reward, *across):
        _check_shares(list(rates.values()))
    for each in intervals:
        for low, high in each.values():
            _check_shares([low, high])
    skills = result.success_rate.keys()
    for own in (result.neighbourhood_rate, result.normalised_reward, *intervals):
        if own.keys() != skills:
            raise ValueError(f"figures of {list(own)} beside those of {list(skills)}")
    _check_pairs(result)


def _check_pairs(result: Evaluation) -> None:
    """Raise ValueError unless there is a transition from every skill into every other one. One alone may have none."""
    skills, found = result.success_rate.keys(), result.transition_rate
    if not found.keys() <= skills or not all(targets.keys() <= skills for targets in found.values()):
        raise ValueError(f"transitions between other skills than {list(skills)}")
    for source in skills:
        targets = found.get(source, {}).keys()
        if source in targets:
            raise ValueError(f"a transition from {source} into itself")
        if missing := skills - {source} - targets:
            raise ValueError(f"no transition from {source} into {min(missing)}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_shares(values: Sequence[float]) -> None:
    """Raise unless all lie between 0 and 1; what could not be measured is not a number."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value > 1:
            raise ValueError(f"{value!r} is no share")


def _read_clips(path: Path) -> tuple[ClipRows, ...]:
    if not path.exists():
        return ()
    clips: list[ClipRows] = []
    start = 0
    try:
        for entry in read_json(path, SkillfieldError):
            length, missing = int(entry["length"]), tuple(int(frame) for frame in entry.get("missing", ()))
            if not 0 < length < 10**9 or not all(0 <= frame < length for frame in missing):
                raise ValueError
            clips.append(ClipRows(str(entry["name"]), str(entry["skill"]), start, length, missing))
            start += length
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise SkillfieldError(f"{path}: expected a list of objects with name, skill and length") from None
    return tuple(clips)


def _read_edges(path: Path, clips: Sequence[ClipRows]) -> Edges | None:
    if not path.exists() or not _goes_with(clips, path, "length"):
        return None
    source, target, exponent = _tensors(path, "source_row", "target_row", "exponent")
    if not len(source) == len(target) == len(exponent):
        raise SkillfieldError(f"{path}: {len(source)} sources, {len(target)} targets, {len(exponent)} exponents")
    used, rows = np.concatenate((source, target)), sum(clip.length for clip in clips)
    strange = used[~((used >= 0) & (used < rows))]
    if len(strange):
        raise SkillfieldError(f"{path}: an edge uses row {strange.max():.0f}, clips.json has {rows} rows")
    if np.isnan(exponent).any():
        raise SkillfieldError(f"{path}: the exponent of an edge is not a number")
    return Edges(source.astype(np.int64), target.astype(np.int64), exponent)


def _read_mean_reward(folder: Path, clips: Sequence[ClipRows]) -> Numbers | None:
    pointer = folder / "checkpoints" / "latest"
    if not pointer.exists():
        return None
    try:
        path = folder / "checkpoints" / pointer.read_text().strip() / "training.safetensors"
        saved = path.exists()
    except (OSError, UnicodeDecodeError) as problem:
        raise SkillfieldError(f"{pointer}: names no checkpoint: {problem}") from None
    if not saved or not _goes_with(clips, path, "sampler/demonstrated_length"):
        return None
    (mean_reward,) = _tensors(path, "sampler/mean_reward")
    return mean_reward if len(mean_reward) == sum(clip.length for clip in clips) else None


def _goes_with(clips: Sequence[ClipRows], path: Path, name: str) -> bool:
    """Whether a file was written for clips of these lengths, or does not say.  name: its tensor that would."""
    lengths = _tensors(path, name, optional=True)
    return not lengths or lengths[0].tolist() == [clip.length for clip in clips]


def _tensors(path: Path, *names: str, optional: bool = False) -> list[Numbers]:
    """Some tensors of a file, without reading the others.  optional: only those that it has."""
    try:
        with safe_open(path, framework="numpy") as file:
            known = file.keys() if optional else names
            return [np.asarray(file.get_tensor(name), dtype=np.float64) for name in names if name in known]
    except (OSError, SafetensorError) as problem:
        raise SkillfieldError(f"{path}: cannot be read: {problem}") from None
