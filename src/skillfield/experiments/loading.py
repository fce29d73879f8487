"""Back from a run folder: its configuration, its task and its networks."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from skillfield.errors import ClipError, SkillfieldNote
from skillfield.experiments.recordings import clip_folder, kept_folder, stand_in_clips
from skillfield.experiments.run import Origin, RunConfig, load_config
from skillfield.experiments.shipped import is_shipped, run_folder
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import task as find_task
from skillfield.learning.checkpoint import SavedState, latest_checkpoint, load_model, saved_counters
from skillfield.learning.networks import ActorCritic

__all__ = ["TrainedRun", "load_networks", "load_run", "origin_of"]


@dataclass(frozen=True)
class TrainedRun:
    """What a run's newest checkpoint gives."""

    folder: Path
    config: RunConfig
    """The settings that it would go on with; those of a later or an earlier stage may be others."""
    task: Task
    networks: ActorCritic
    state: SavedState
    """The checkpoint's state.json."""
    other_clips: str | None
    """The clips that are used here, if they lie elsewhere than those of the training: a folder, or a task's name."""


def load_run(run: Path | str, *, task: Task | None = None, data: Path | str | None = None) -> TrainedRun:
    """A run's newest checkpoint with its configuration.

    run: its folder, or the name of a shipped policy.
    task: the `Task` that it was trained on, if it was one of your own.
    data: folder of imported recordings, if they lie elsewhere than in training.
    """
    folder = run_folder(run)
    config = load_config(folder)
    chosen, other_clips = find_task(task or config.task), None
    if data is not None:
        place = clip_folder(chosen, Path(data)).resolve()
        other_clips = None if _lie_in(place, chosen, config.data) else kept_folder(data)
        config = replace(config, data=str(place))
    elif is_shipped(folder) and (stand_in := stand_in_clips(chosen)):
        config, other_clips = replace(config, data=str(stand_in)), chosen.stand_in
        warnings.warn(
            f"the recordings of '{chosen.name}' are not here: starts are those of the clips of '{chosen.stand_in}', "
            "which come with the package",
            SkillfieldNote,
            stacklevel=2,
        )
    networks, state = load_model(latest_checkpoint(folder), config.identity(chosen.skills))
    return TrainedRun(folder, config.at(state.counters.samples), chosen, networks.eval(), state, other_clips)


def origin_of(policy: Path | str) -> Origin:
    """A trained policy as the beginning of another run.

    policy: run folder, or the name of a shipped policy.
    """
    folder = run_folder(policy)
    name = folder.name if is_shipped(folder) else str(folder.resolve())
    before = load_config(folder).origin if (folder / "config.json").exists() else None  # a checkpoint alone has none
    samples = saved_counters(latest_checkpoint(folder)).samples
    return Origin(name, samples + (before.samples if before else 0))


def load_networks(run: Path | str, *, task: Task | None = None) -> ActorCritic:
    """The networks of a run's newest checkpoint; `.act(observation)` gives the mean action.

    run: its folder, or the name of a shipped policy.
    """
    return load_run(run, task=task).networks


def _lie_in(folder: Path, task: Task, data: str | None) -> bool:
    """Whether a folder is the one that a run has its clips from; where that one is gone, it is not."""
    try:
        return clip_folder(task, Path(data) if data else None).resolve() == folder
    except ClipError:
        return False
