"""Where a task's demonstrations lie: in the package, or where they were imported to, and how to get them."""

import os
from pathlib import Path

from skillfield.clips import Clip, load_clips
from skillfield.errors import ClipError
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import TASKS

__all__ = ["clip_folder", "default_folder", "named_clips", "stand_in_clips", "task_clips"]

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
    for place in [data] if data is not None else places:
        if any(place.glob("*.npz")):
            return place
    looked = ", ".join(str(place) for place in ([data] if data is not None else places))
    how = _HOW.format(name=task.data or "ballplay", folder=default_folder(task.data or "ballplay"))
    instead = f"\nor use the clips that come with the package: --data {task.stand_in}" if task.stand_in else ""
    raise ClipError(f"task '{task.name}': no clips (*.npz) in {looked}; {how}{instead}")


def task_clips(task: Task, data: Path | None = None) -> list[Clip]:
    """A task's demonstrations. Of clips from elsewhere, only those of its skills; each skill needs at least one."""
    folder = clip_folder(task, data)
    clips = load_clips(folder)
    if folder != task.clips:
        clips = [clip for clip in clips if clip.skill in task.skills]
        missing = [skill for skill in task.skills if skill not in {clip.skill for clip in clips}]
        if missing:
            raise ClipError(f"{folder}: no clip of {missing}, which task '{task.name}' is to learn")
    return clips


def stand_in_clips(task: Task) -> Path | None:
    """Clips of the package to start from, for a task whose recordings are not at hand; None where they are."""
    try:
        clip_folder(task)
    except ClipError:
        return clip_folder(TASKS[task.stand_in]()) if task.stand_in else None
    return None


def named_clips(path: Path) -> Path:
    """A clip or a folder of clips, or the clips of the task of that name where there is no such path."""
    return clip_folder(TASKS[str(path)]()) if str(path) in TASKS and not path.exists() else path
