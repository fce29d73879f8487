"""Where a task's demonstrations lie: in the package, or where they were imported to, and how to get them."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skillfield.clips import Clip, load_clips, save_clips
from skillfield.clips.degrading import Degradation, degrade
from skillfield.errors import ClipError
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import TASKS
from skillfield.files import shown_files

__all__ = ["clip_folder", "default_folder", "kept_folder", "named_clips", "noisy_clips", "stand_in_clips", "task_clips"]

_HOW = """fetch the public recordings and import them once:
  git clone https://github.com/Ingrid789/SkillMimic-V2
  skillfield data import {name} SkillMimic-V2/skillmimic/data/motions/BallPlay-M --out {folder}"""


def default_folder(name: str) -> Path:
    """Where recordings are looked for last."""
    home = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    return home / "skillfield" / name


def clip_folder(task: Task, data: Path | None = None) -> Path:
    """The folder of a task's clips: its own, or `data`, or SKILLFIELD_DATA/NAME, or the default one.

    data: a folder, or the name of a task, whose own clips are meant.
    """
    data = None if data is None else named_clips(data)
    if data is None and task.clips is not None:
        return task.clips
    places = [default_folder(task.data)]
    if "SKILLFIELD_DATA" in os.environ:
        places.insert(0, Path(os.environ["SKILLFIELD_DATA"]) / task.data)
    places = [data] if data is not None else places
    for place in places:
        if shown_files(place, "*.npz"):
            return place
    looked = ", ".join(str(place) for place in places)
    how = _HOW.format(name=task.data, folder=default_folder(task.data)) if task.data else "give a folder that has some"
    for place in places:
        if place.suffix == ".pt" or shown_files(place, "**/*.pt"):
            command = f"skillfield data import ballplay {place} --out DIR"
            how = f"these are raw recordings, import them first: {command}, then --data DIR"
    instead = f"\nor use the clips that come with the package: --data {task.stand_in}" if task.stand_in else ""
    raise ClipError(f"task '{task.name}': no clips (*.npz) in {looked}; {how}{instead}")


def task_clips(task: Task, data: Path | None = None) -> list[Clip]:
    """A task's demonstrations, at least one of each skill. Of the clips in a folder, only those of its skills."""
    folder = clip_folder(task, data)
    clips = [clip for clip in load_clips(folder) if clip.skill in task.skills]
    missing = [skill for skill in task.skills if skill not in {clip.skill for clip in clips}]
    if missing:
        raise ClipError(f"{folder}: no clip of {missing}, which task '{task.name}' is to learn")
    twice = [name for name, count in Counter(clip.name for clip in clips).items() if count > 1]
    if twice:
        raise ClipError(f"{folder}: several clips are called {twice}")
    return clips


def noisy_clips(task: Task, data: Path | None, noise_mm: float, folder: Path) -> None:
    """Write a task's demonstrations with their objects moved at random, the same way every time.

    A folder that holds them already stays as it is; one that holds other clips is an error.
    """
    clips = [degrade(clip, Degradation(noise_mm=noise_mm)) for clip in task_clips(task, data)]
    if not shown_files(folder, "*.npz"):
        save_clips(clips, folder)
    elif not _same(load_clips(folder), clips):
        raise ClipError(f"{folder}: other clips than those of '{task.name}' with {noise_mm:g} mm of noise")


def stand_in_clips(task: Task) -> Path | None:
    """Clips of the package to start from, for a task whose recordings are not at hand; None where they are."""
    try:
        clip_folder(task)
    except ClipError:
        return clip_folder(TASKS[task.stand_in]()) if task.stand_in else None
    return None


def named_clips(path: Path) -> Path:
    """A clip or a folder of clips, or the clips of the task of that name where there is no such path."""
    return clip_folder(TASKS[str(path)]()) if _is_name(path) else path


def kept_folder(path: Path | str) -> str:
    """How a run remembers where its clips lie, wherever it is called from: a whole path, or the name of a task."""
    return str(path) if _is_name(Path(path)) else str(Path(path).resolve())


def _is_name(path: Path) -> bool:
    """Whether a task is meant, and no path."""
    return str(path) in TASKS and not path.exists()


def _same(some: Sequence[Clip], others: Sequence[Clip]) -> bool:
    """Whether both are the same demonstrations, in whichever order."""
    pairs = zip(*(sorted(clips, key=lambda clip: clip.name) for clips in (some, others)), strict=False)
    columns = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts", "valid")
    return len(some) == len(others) and all(
        (one.name, one.skill, one.fps) == (two.name, two.skill, two.fps)
        and all(np.array_equal(getattr(one, column), getattr(two, column), equal_nan=True) for column in columns)
        for one, two in pairs
    )
