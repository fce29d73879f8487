"""`skillfield data import`: recordings of other projects become clips, mended and accounted for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from skillfield.characters import humanoid
from skillfield.clips import save_clips
from skillfield.clips.ballplay import Recording, read_recording, recording_files
from skillfield.errors import ClipError
from skillfield.reference.importing import Imported, Quality, import_recording
from skillfield.reporting.console import table_console

__all__ = ["DataImport"]


@dataclass(frozen=True)
class DataImport:
    """Turn recordings of another project into clips: rotations fitted to positions, flips mended, feet on the floor.

    Prints what that was good for. Each clip tells its source and every correction; nothing is written if one
    recording cannot be used.
    """

    format: Annotated[Literal["ballplay"], tyro.conf.Positional]
    """Whose: the 337-column tensors of SkillMimic and SkillMimic-V2."""
    path: Annotated[Path, tyro.conf.Positional]
    """A recording (.pt), or a folder of them, searched to the bottom."""
    out: Path
    """Folder for the clips; it must be new or empty."""
    skill: str | None = None
    """Skill that all of them show; by default what each file's name says."""

    def run(self) -> int:
        """Import everything, then write everything."""
        character = humanoid()
        recordings = _without_copies([read_recording(file, self.skill) for file in recording_files(self.path)])
        imported = [import_recording(recording, character) for recording in recordings]
        save_clips([each.clip for each in imported], self.out)
        table_console().print(_quality_table(imported))
        for each in imported:
            for note in each.clip.corrections:
                if "skill" in note:
                    print(f"{each.clip.name}: {note}")
        print(f"{len(imported)} clip(s) in {self.out}")
        return 0


def _without_copies(recordings: list[Recording]) -> list[Recording]:
    """Each recording once: public folders hold some files twice. Different ones of one name cannot share a folder."""
    kept: dict[str, Recording] = {}
    for recording in recordings:
        twin = kept.setdefault(recording.path.stem, recording)
        same = all(
            torch.equal(getattr(twin, column), getattr(recording, column))
            for column in ("root_pos", "turn", "body_pos", "object_pos", "object_quat", "contact")
        )
        if not same:
            raise ClipError(
                f"{recording.path}: another recording than {twin.path}, which has the same name; import apart"
            )
    return list(kept.values())


def _quality_table(imported: list[Imported]) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, collapse_padding=True)
    for column in ("clip", "skill"):
        table.add_column(column, overflow="fold")
    for column in ("frames", "missing", "body error, cm", "feet in floor, cm", "fastest joint, rad/s"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in imported:
        clip, before, after = each.clip, each.before, each.after
        cells = (
            clip.name,
            clip.skill,
            f"{len(clip)}",
            f"{int((~clip.valid).sum())}",
            f"{_fit(before)} → {_fit(after)}",
            f"{_depth(before)} → {_depth(after)}",
            f"{before.joint_speed:.0f} → {after.joint_speed:.0f}",
        )
        table.add_row(*(Text(cell) for cell in cells))
    table.caption = "mean / largest, as recorded → as imported"
    return table


def _fit(quality: Quality) -> str:
    return f"{100 * quality.fit_mean:.2f} / {100 * quality.fit_max:.1f}"


def _depth(quality: Quality) -> str:
    return f"{100 * quality.depth_mean:.2f} / {100 * quality.depth_max:.1f}"
