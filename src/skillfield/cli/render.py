"""`skillfield render`: film trained policies."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.cli.films import (
    GIF_SIZE,
    VIDEO_SIZE,
    check_out,
    check_size,
    film,
    film_strip,
    filmed_size,
    find_cast,
    load_performers,
)
from skillfield.errors import ConfigError, SkillfieldNote
from skillfield.experiments.shipped import is_shipped
from skillfield.reporting.filmstrip import TILE_HEIGHT, TILE_WIDTH
from skillfield.reporting.script import LONGEST, Part, find_skill, parse_script

__all__ = ["Render"]

_STRIP_PICTURES = 6


@dataclass(frozen=True)
class Render:
    """Film trained policies: each skill in turn, or a script of skills; several runs play side by side.

    Every take starts in a frame of the first skill's demonstration, the same for all runs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders with a checkpoint, or names of shipped policies, such as starter. Several: of one task."""
    out: Path | None = None
    """File to write: .mp4, .gif, or .png for a filmstrip. RUN/video.mp4 if not given; here for a shipped policy or
    several runs."""
    skills: tuple[str, ...] = ()
    """Which skills, each from its own start; all of them if not given."""
    script: str | None = None
    """Skills in a row without a cut, such as "forward 3s, left 2s, toss". Any unambiguous part of a name will do."""
    seconds: float = 4.0
    """Per skill; in a script, of the skills that have no duration."""
    size: tuple[int, int] | None = None
    """Width and height in pixels: 1280 720; of a GIF: 480 270; of each picture of a filmstrip: 240 320. Those of an MP4
    are even; a note says if a film comes out smaller."""
    ghost: bool = False
    """Show the demonstration as a ghost where the character is."""
    trail: bool = False
    """Draw where the ball has been."""
    filmstrip: int | None = None
    """So many pictures in a row per skill, as a PNG, instead of a film; at most 30 for each second."""
    data: Path | None = None
    """Folder of imported recordings, if they lie elsewhere than in training."""

    def run(self) -> int:
        """Film; print where it is."""
        strip = self.filmstrip is not None or (self.out is not None and self.out.suffix.lower() == ".png")
        if strip and self.out is not None and self.out.suffix.lower() != ".png":
            raise ConfigError(f"a filmstrip is a PNG, not '{self.out.suffix}'")
        if not 0 < self.seconds <= LONGEST:
            raise ConfigError(f"cannot film {self.seconds:g} s")
        if self.filmstrip is not None and self.filmstrip < 1:
            raise ConfigError(f"a filmstrip needs at least one picture per row, not {self.filmstrip}")
        folders, task = find_cast(self.runs)
        out = self.out or _default_out(folders, ".png" if strip else ".mp4")
        check_out(out)
        usual = {".png": (TILE_WIDTH, TILE_HEIGHT), ".gif": GIF_SIZE}
        size = self.size or usual.get(out.suffix.lower(), VIDEO_SIZE)
        check_size(size)
        scenes = self._scenes(task.skills)
        performers = load_performers(self.runs, self.data)
        if strip:
            count = _STRIP_PICTURES if self.filmstrip is None else self.filmstrip
            film_strip(performers, scenes, out, count, size, ghost=self.ghost, trail=self.trail)
        else:
            self._note_size(filmed_size(size, len(folders), out))
            for _ in film(performers, {out: scenes}, size, ghost=self.ghost, trail=self.trail):
                pass
        print(out)
        return 0

    def _note_size(self, filmed: tuple[int, int]) -> None:
        if self.size not in (None, filmed):
            note = f"the film has {filmed[0]}×{filmed[1]} pixels: sides of an MP4 are even, and panels equally large"
            warnings.warn(note, SkillfieldNote, stacklevel=2)

    def _scenes(self, known: Sequence[str]) -> list[tuple[Part, ...]]:
        if self.script is not None:
            if self.skills:
                raise ConfigError("--script names its skills itself; leave --skills out")
            return [parse_script(self.script, known, self.seconds)]
        return [(Part(find_skill(skill, known), self.seconds),) for skill in self.skills or known]


def _default_out(folders: Sequence[Path], suffix: str) -> Path:
    if len(folders) > 1:
        return Path(f"side_by_side{suffix}")
    (folder,) = folders
    if is_shipped(folder):
        return Path(f"{folder.name}{suffix}")
    return folder / (f"video{suffix}" if suffix == ".mp4" else f"filmstrip{suffix}")
