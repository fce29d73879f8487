"""Which runs a table is made of: what must hold of a run folder before its figures stand in a row."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from skillfield.configuration import to_dict
from skillfield.errors import ClipError, ConfigError
from skillfield.evaluation import Evaluation
from skillfield.experiments.recordings import clip_folder
from skillfield.experiments.run import RunConfig
from skillfield.experiments.tables import Row
from skillfield.experiments.task import Task
from skillfield.files import typed
from skillfield.learning.checkpoint import has_checkpoint, latest_checkpoint, saved_counters
from skillfield.program import program
from skillfield.reporting.runs import EVALUATION_FILE, read_evaluation

__all__ = ["Asked", "check_settings", "figures_of", "run_folder", "seeds_of", "trained_samples"]

_FREE = frozenset({"budget", "device", "threads", "data"})
"""Settings that may be others than the row's. Clips are compared by where they lie, samples by the checkpoint."""


@dataclass(frozen=True)
class Asked:
    """What a table asks of every run."""

    task: Task
    samples: int
    """Of the training."""
    trials: int
    """Per skill."""
    transition_trials: int
    """Per ordered pair of skills."""


def run_folder(out: Path, row: Row, seed: int) -> Path:
    """Where a run of a table lies."""
    return out / f"{row.label}-{seed}"


def seeds_of(out: Path, row: Row) -> list[int]:
    """Seeds of which a row has a run that has come to a checkpoint, asked for now or earlier."""
    names = [path.name for path in out.glob("*") if has_checkpoint(path)]
    found = [re.fullmatch(rf"{re.escape(row.label)}-(0|[1-9][0-9]*)", name) for name in names]
    return sorted(int(match[1]) for match in found if match)


def trained_samples(folder: Path) -> int:
    """How far a run has come; 0 without a checkpoint."""
    return saved_counters(latest_checkpoint(folder)).samples if has_checkpoint(folder) else 0


def check_settings(folder: Path, found: RunConfig, wanted: RunConfig, task: Task, noisy: bool) -> None:
    """Refuse a run that is not what its row asks for: another task, method or seed, other settings, other clips.

    noisy: the clips were made for the table, and go wherever it goes.
    """
    holds, asks = ((config.task, config.method, config.seed) for config in (found, wanted))
    if holds != asks:
        raise ConfigError(f"{folder}: holds a run of {holds}, the table asks for {asks}; choose another --out")
    difference = _difference(_compared(found), _compared(wanted))
    if difference is None and not _same_clips(found.data, wanted.data, task, noisy):
        difference = ("data", found.data, wanted.data)
    if difference is not None:
        name, had, asked = difference
        raise ConfigError(
            f"{folder}: its {name} is {json.dumps(had)}, the table asks for {json.dumps(asked)}; choose another --out"
        )


def figures_of(folder: Path, config: RunConfig, asked: Asked, noisy: bool) -> Evaluation | None:
    """What was measured of a run that is trained and tested; None if something is left to do.

    A run that has more samples, or was measured in another way, is an error. noisy: as for `check_settings`.
    """
    samples = trained_samples(folder)
    if samples >= asked.samples + _samples_per_update(config):
        raise ConfigError(
            f"{folder}: its checkpoint has {samples:,} samples, the table asks for {asked.samples:,}; "
            "choose another --out or more --samples"
        )
    path = folder / EVALUATION_FILE
    if samples < asked.samples or not path.exists():
        return None
    result = read_evaluation(path)
    if result.samples is None or result.device is None:
        again = f"{program()} evaluate {typed(folder)} --trials {asked.trials}"
        if asked.transition_trials != asked.trials:
            again += f" --transition-trials {asked.transition_trials}"
        raise ConfigError(f"{path}: does not say which checkpoint was measured, and where; measure again: {again}")
    if result.samples != samples:  # the training has gone on since
        return None
    elsewhere = result.clips is not None and not _same_clips(result.clips, config.data, asked.task, noisy)
    _check_measured(folder, result, asked, elsewhere)
    return result


def _check_measured(folder: Path, result: Evaluation, asked: Asked, elsewhere: bool) -> None:
    """Refuse figures of other trials than those that are asked for. elsewhere: not from the clips of the training."""
    counts = {
        "trials": (result.trials, asked.trials),
        "transition trials": (result.transition_trials, asked.transition_trials),
        "seconds": (result.seconds, asked.task.trials.seconds),
        "as seed": (result.seed, 0),
    }
    others = [f"{had:,} instead of {wanted:,} {name}" for name, (had, wanted) in counts.items() if had != wanted]
    if set(result.success_rate) != set(asked.task.skills):
        others.append(f"{sorted(result.success_rate)} instead of {sorted(asked.task.skills)}")
    if elsewhere:
        others.append(f"the clips of {result.clips} instead of its own")
    if others:
        raise ConfigError(
            f"{folder}: was measured with {', '.join(others)}; "
            f"choose another --out, or delete its {EVALUATION_FILE} to measure it again"
        )


def _samples_per_update(config: RunConfig) -> int:
    """By as many a training may have more than it was to have."""
    begins = (0, *(stage.after for stage in config.stages))
    return config.num_envs * max(config.at(samples).ppo.horizon for samples in begins)


def _compared(config: RunConfig) -> dict[str, Any]:
    """The settings that must be those of the row, as config.json has them."""
    values: dict[str, Any] = json.loads(json.dumps(to_dict(config)))
    values["ppo"].pop("fused")  # other kernels, the same arithmetic
    return {name: value for name, value in values.items() if name not in _FREE}


def _difference(found: Any, wanted: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """The first setting that differs, by its dotted name, and both values; None if all are the same."""
    inside: Mapping[str, tuple[Any, Any]] = {}
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = dict.fromkeys((*found, *wanted))
        inside = {f"{name}.{key}".lstrip("."): (found.get(key), wanted.get(key)) for key in names}
    elif _is_group(found) and _is_group(wanted):
        inside = {f"{name}[{number}]": pair for number, pair in enumerate(zip_longest(found, wanted))}
    elif found != wanted:
        return name, found, wanted
    differences = (_difference(*pair, within) for within, pair in inside.items())
    return next((each for each in differences if each is not None), None)


def _is_group(value: Any) -> bool:
    """Whether it is a list of settings with names of their own, such as stages."""
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _same_clips(found: str | None, wanted: str | None, task: Task, noisy: bool) -> bool:
    """Whether both mean one folder, in whichever words."""
    if found == wanted:
        return True
    if noisy and found and wanted:
        return Path(found).name == Path(wanted).name
    try:
        one, other = (clip_folder(task, Path(data) if data else None).resolve() for data in (found, wanted))
    except ClipError:
        return False
    return one == other
