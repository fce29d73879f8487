"""What `render`, `report` and `demo` share: runs become performers, and performers are filmed."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from skillfield.api import env_factory
from skillfield.errors import ConfigError, SkillfieldNote
from skillfield.experiments.loading import load_run
from skillfield.experiments.run import RunConfig, load_config
from skillfield.experiments.shipped import run_folder
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import task
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reporting.filming import Picture, draw_strips, draw_takes, mosaic_size, panel_size
from skillfield.reporting.filmstrip import TILE_HEIGHT, TILE_WIDTH, filmstrip, stack_strips, write_picture
from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.script import Part
from skillfield.reporting.takes import VIDEO_FPS, Take, record_take
from skillfield.reporting.video import film_size, write_video

__all__ = [
    "GIF_SIZE",
    "VIDEO_SIZE",
    "Performer",
    "Scene",
    "check_out",
    "check_size",
    "film",
    "film_run",
    "film_strip",
    "filmed_size",
    "find_cast",
    "labels",
    "load_performers",
]

VIDEO_SIZE = (1280, 720)
"""Width and height of a film."""

GIF_SIZE = (480, 270)
"""The same of a GIF: larger ones are soon too large for a page."""

_SMALLEST = 16  # pixels along a side
_KINDS = (".mp4", ".gif", ".png")

Scene = Sequence[Part]
"""What is played without a cut."""


@dataclass(frozen=True)
class Performer:
    """A trained policy and a world to play in."""

    folder: Path
    config: RunConfig
    env: ImitationEnv
    model: ActorCritic

    @property
    def skills(self) -> tuple[str, ...]:
        """What it can be asked for."""
        return self.env.motion.skills

    def play(self, scene: Scene, ghost: bool = False) -> Take:
        """Record a scene."""
        return record_take(self.env, self.model, scene, ghost=ghost)


def find_cast(runs: Sequence[Path | str]) -> tuple[list[Path], Task]:
    """Folders and the common task of runs that are to be filmed together; quick, nothing is loaded."""
    if not runs:
        raise ConfigError("name at least one run folder, or a shipped policy")
    folders = [run_folder(run) for run in runs]
    configs = [load_config(folder) for folder in folders]
    tasks = dict.fromkeys(config.task for config in configs)
    if len(tasks) > 1:
        found = ", ".join(f"{folder} is of {config.task}" for folder, config in zip(folders, configs, strict=True))
        raise ConfigError(f"only runs of one task can be filmed side by side: {found}")
    return folders, task(next(iter(tasks)))


def load_performers(runs: Sequence[Path | str], data: Path | None = None) -> list[Performer]:
    """Policies of one task, by run folder or shipped name.

    data: folder of imported recordings, if they lie elsewhere than in training.
    """
    folders, chosen = find_cast(runs)
    return [_performer(folder, chosen, data) for folder in folders]


def labels(performers: Sequence[Performer]) -> list[str]:
    """Names that tell performers apart: methods, else methods and seeds, else folders; none for a single one."""
    if len(performers) == 1:
        return []
    methods = [performer.config.method for performer in performers]
    seeds = [f"{performer.config.method}, seed {performer.config.seed}" for performer in performers]
    folders = [performer.folder.name for performer in performers]
    numbers = [f"{number}: {name}" for number, name in enumerate(seeds, 1)]
    return next((names for names in (methods, seeds, folders) if len(set(names)) == len(names)), numbers)


def film(
    performers: Sequence[Performer],
    films: Mapping[Path, Sequence[Scene]],
    size: tuple[int, int] = VIDEO_SIZE,
    *,
    ghost: bool = False,
    trail: bool = False,
    compact: bool = False,
) -> Iterator[Path]:
    """Write films, each of some scenes with a cut between them; the performers play each scene side by side.

    films: what to play, by the file to write.
    compact: files for a page, half as large and not quite as sharp.
    Yields the path of each film before it is made.
    """
    names = labels(performers)
    with _renderer(performers[0], panel_size(size, len(performers))) as renderer:
        for path, scenes in films.items():
            yield path

            def pictures(scenes: Sequence[Scene] = scenes) -> Iterator[Picture]:
                for scene in scenes:
                    takes = [performer.play(scene, ghost) for performer in performers]
                    yield from draw_takes(takes, renderer, labels=names, trail=trail)

            write_video(pictures(), path, VIDEO_FPS, compact=compact)


def filmed_size(size: tuple[int, int], count: int, path: Path) -> tuple[int, int]:
    """What a film of so many performers has of a size: panels are equally large, and some files have even sides."""
    return film_size(path, mosaic_size(panel_size(size, count), count))


def film_strip(
    performers: Sequence[Performer],
    scenes: Sequence[Scene],
    path: Path,
    count: int,
    size: tuple[int, int] = (TILE_WIDTH, TILE_HEIGHT),
    *,
    ghost: bool = False,
    trail: bool = False,
) -> None:
    """Write a PNG: a row of so many pictures for every scene and performer.

    size: of each picture.
    """
    names = labels(performers) or [""]
    rows = []
    with _renderer(performers[0], size) as renderer:
        for scene in scenes:
            title = ", ".join(dict.fromkeys(part.skill.replace("_", " ") for part in scene))
            takes = [performer.play(scene, ghost) for performer in performers]
            if len(takes[0]) < count:
                note = f"{path} has {len(takes[0])} pictures in a row, not {count}: there are {VIDEO_FPS} in a second"
                warnings.warn(note, SkillfieldNote, stacklevel=2)
            strips = draw_strips(takes, renderer, count, trail=trail)
            for (pictures, captions), name in zip(strips, names, strict=True):
                rows.append(filmstrip(pictures, captions, " · ".join(filter(None, (name, title)))))
    write_picture(stack_strips(rows), path)


def film_run(run: Path, out: Path, seconds: float, size: tuple[int, int]) -> None:
    """Write a film of a run's newest checkpoint: every skill in turn."""
    performers = load_performers([run])
    scenes = [(Part(skill, seconds),) for skill in performers[0].skills]
    for _ in film(performers, {out: scenes}, size):
        pass


def _performer(folder: Path, chosen: Task, data: Path | None) -> Performer:
    run = load_run(folder, task=chosen, data=data)
    return Performer(folder, run.config, env_factory(chosen, run.config, run.networks, "cpu")(1), run.networks)


def check_out(out: Path) -> None:
    """Raise unless a film or a filmstrip can be written there."""
    if out.suffix.lower() not in _KINDS or os.path.isdir(out):
        kinds = f"{', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
        raise ConfigError(f"--out is {out}: it must be a file whose name ends in {kinds}")


def check_size(size: tuple[int, int]) -> None:
    """Raise unless a picture can be so small."""
    if min(size) < _SMALLEST:
        raise ConfigError(f"cannot film at {size[0]}×{size[1]} pixels; at least {_SMALLEST} along each side are needed")


def _renderer(performer: Performer, size: tuple[int, int]) -> AbstractContextManager[SceneRenderer]:
    check_size(size)
    return SceneRenderer(performer.env.engine.character, *size, fps=VIDEO_FPS)
