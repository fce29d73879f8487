"""`skillfield data check` and `skillfield data show`: what is in clips, and what is wrong with them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from skillfield.characters import Character, character
from skillfield.clips import Clip, clip_files, load_clip
from skillfield.clips.checking import Finding, check_clip
from skillfield.errors import CharacterError, ClipError, ConfigError
from skillfield.experiments.recordings import named_clips
from skillfield.reference.checking import check_against_character
from skillfield.reporting.console import table_console
from skillfield.reporting.filmstrip import write_filmstrip

__all__ = ["DataCheck", "DataShow"]

PathArgument = Annotated[Path, tyro.conf.Positional]

_SEVERITY_STYLE = {"error": "bold red", "warning": "yellow"}


@dataclass(frozen=True)
class DataCheck:
    """Say what is wrong with clips, where, and how bad. Exits with 2 if any clip cannot be trained on, else with 0."""

    path: PathArgument
    """A clip, a folder of clips, or the name of a task, such as starter."""
    character: str | None = None
    """Built-in character to check against; by default the one that each clip names."""
    skills: tuple[str, ...] = ()
    """Skills that are allowed; by default any."""

    def run(self) -> int:
        """Print the findings of every clip."""
        findings = {file: self._check(file) for file in clip_files(named_clips(self.path))}
        table_console().print(_findings_table(findings))
        errors, warnings = (
            sum(finding.severity == severity for found in findings.values() for finding in found)
            for severity in ("error", "warning")
        )
        print(f"{len(findings)} clip(s): {errors} error(s), {warnings} warning(s)")
        return 2 if errors else 0

    def _check(self, file: Path) -> list[Finding]:
        try:
            clip = load_clip(file)
        except ClipError as problem:
            return [Finding("error", "cannot be read", "file", str(problem).removeprefix(f"{file}: "))]
        try:
            model = character(self.character or clip.character)
        except CharacterError as problem:
            if self.character:
                raise
            return [*check_clip(clip), Finding("error", "unknown character", "character", str(problem))]
        return check_against_character(clip, model, self.skills or None)


@dataclass(frozen=True)
class DataShow:
    """List clips and draw a filmstrip of each."""

    path: PathArgument
    """A clip, a folder of clips, or the name of a task, such as starter."""
    out: Path = Path("filmstrips")
    """Folder for the filmstrips."""
    character: str | None = None
    """Built-in character to draw; by default the one that each clip names."""
    frames: int = 8
    """Pictures per filmstrip."""

    def run(self) -> int:
        """Print the summary, write the pictures, print where they are."""
        if self.frames < 1:
            raise ConfigError(f"--frames is {self.frames}, a filmstrip has at least one picture")
        files = clip_files(named_clips(self.path))
        clips = [load_clip(file) for file in files]
        table_console().print(_summary_table(clips))
        empty = [str(file) for file, clip in zip(files, clips, strict=True) if not clip.valid.any()]
        if empty:
            raise ClipError(f"{', '.join(empty)}: no frame is present, there is nothing to draw")
        models: dict[str, Character] = {}
        for file, clip in zip(files, clips, strict=True):
            name = self.character or clip.character
            picture = self.out / f"{file.stem}.png"
            try:
                models[name] = models.get(name) or character(name)
                write_filmstrip(clip, models[name], picture, self.frames)
            except (CharacterError, ClipError) as problem:
                raise type(problem)(f"{file}: {problem}") from None
            print(picture)
        return 0


def _findings_table(findings: dict[Path, list[Finding]]) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, collapse_padding=True)
    for column in ("clip", "severity", "what", "where", "how bad"):
        table.add_column(column, overflow="fold")
    for file, found in findings.items():
        for number, finding in enumerate(found):
            severity = Text(finding.severity, style=_SEVERITY_STYLE[finding.severity])
            cells = (finding.what, finding.where, finding.how_bad)
            table.add_row(Text("" if number else file.stem), severity, *(Text(cell) for cell in cells))
        if not found:
            table.add_row(Text(file.stem), Text("fine", style="green"))
        table.add_section()
    return table


def _summary_table(clips: list[Clip]) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, collapse_padding=True)
    numbers = ("frames", "seconds", "fps", "joints", "contact", "masked")
    for column in ("clip", "skill", *numbers, "objects", "source"):
        number = column in numbers
        table.add_column(column, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for clip in clips:
        touching = (clip.contacts > 0.5).any(axis=1)
        cells = (
            clip.name,
            clip.skill,
            f"{len(clip)}",
            f"{clip.seconds:.2f}",
            f"{clip.fps:g}",
            f"{len(clip.joint_names)}",
            f"{np.mean(touching):.0%}" if len(clip) else "–",
            f"{int((~clip.valid).sum())}",
            ", ".join(clip.object_names),
            clip.source,
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table
