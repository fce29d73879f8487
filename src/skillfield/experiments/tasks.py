"""All tasks by name, and how to add one of your own."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from skillfield.characters import CHARACTERS, Character
from skillfield.clips import Clip, load_clips
from skillfield.errors import CharacterError, ConfigError, unknown_name
from skillfield.evaluation import KeepRule, SuccessRule, TrialPlan
from skillfield.experiments.ballplay import ballplay, ballplay_full_hands, ballplay_paper
from skillfield.experiments.courtside import courtside, courtside_laptop
from skillfield.experiments.starter import starter
from skillfield.experiments.task import Task

__all__ = [
    "TASKS",
    "add",
    "ballplay",
    "ballplay_full_hands",
    "ballplay_paper",
    "courtside",
    "courtside_laptop",
    "from_clips",
    "starter",
    "task",
]

_ROOM = 0.5  # metres that an object may go farther away than demonstrated

TASKS: dict[str, Callable[[], Task]] = {
    "starter": starter,
    "courtside": courtside,
    "courtside-laptop": courtside_laptop,
    "ballplay": ballplay,
    "ballplay-full-hands": ballplay_full_hands,
    "ballplay-paper": ballplay_paper,
}


def task(of: str | Task) -> Task:
    """A task by name, or the one that is given."""
    if isinstance(of, Task):
        return of
    if not isinstance(of, str):
        hint = "; call it first" if callable(of) else ""
        raise ConfigError(f"a task is a name or a Task, not {getattr(of, '__name__', of)!r}{hint}")
    if of not in TASKS:
        own = "one of your own is known to the script that gives it to skillfield.command_line"
        raise ConfigError(f"{unknown_name('task', of, tuple(TASKS))}; {own}")
    return TASKS[of]()


def from_clips(
    name: str,
    clips: Path | str,
    *,
    like: str | Task,
    character: Callable[[], Character] | None = None,
    rules: Mapping[str, SuccessRule] | None = None,
    skills: Collection[str] | None = None,
) -> Task:
    """A task of your own: the skills that the clips of a folder show, or some of them.

    like: a task whose settings it takes: `starter()` for a laptop; for a humanoid and a GPU `ballplay()` if its clips
        were captured, `courtside()` if they were simulated.
    character: makes whoever the clips show; `like`'s if not given.
    rules: when a skill has succeeded; without one, if it has not fallen and kept its first object near (`KeepRule`).
    skills: those to learn, if not all; clips of others are left out.
    """
    like = task(like)
    folder = Path(clips).resolve()
    found = load_clips(folder)
    shown = list(dict.fromkeys(clip.skill for clip in found))
    chosen = shown if skills is None else [skill for skill in shown if skill in skills]
    if strange := [skill for skill in skills or () if skill not in shown]:
        raise ConfigError(f"task '{name}': {folder} has no clip of {strange}; it has {shown}")
    if strange := [skill for skill in rules or {} if skill not in chosen]:
        raise ConfigError(f"task '{name}': rules for {strange}, but the skills of {folder} to learn are {chosen}")
    if not chosen:
        raise ConfigError(f"task '{name}': no skill to learn; {folder} has {shown}")
    near: dict[str, SuccessRule] = {
        skill: KeepRule(_ROOM + max(_farthest(clip) for clip in found if clip.skill == skill)) for skill in chosen
    }
    given = dict(rules or {})
    # a rule that judges from the beginning of its clip does so here too
    early = {skill: latest for skill, latest in like.trials.start_before.items() if skill in given}
    return replace(
        like,
        name=name,
        summary=f"the clips of {folder}",
        character=character or like.character,
        clips=folder,
        trials=TrialPlan(near | given, like.trials.seconds, early, like.trials.box),
        data="",
        stand_in="",
    )


def _farthest(clip: Clip) -> float:
    """Largest distance between the root and the first object, metres; 0 without one."""
    if not clip.object_pos.shape[1]:
        return 0.0
    away = np.linalg.norm(clip.object_pos[clip.valid, 0] - clip.root_pos[clip.valid], axis=-1)
    return float(np.nanmax(away, initial=0.0))


def add(make: Callable[[], Task]) -> None:
    """Let a task of your own, and its character, be found by name."""
    if not callable(make):
        raise ConfigError(f"a function without arguments that makes a task is added, not {type(make).__name__}")
    own = task(make())
    if own.name in TASKS:
        raise ConfigError(f"there is a task '{own.name}' already; known: {list(TASKS)}")
    who = own.character()
    known = CHARACTERS.get(who.name)
    if known is not None and known().joint_names != who.joint_names:
        raise CharacterError(f"task '{own.name}': another character is called '{who.name}' already")
    TASKS[own.name] = make
    CHARACTERS.setdefault(who.name, own.character)
