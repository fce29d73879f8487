"""BallPlay recordings as the SkillMimic projects publish them: one tensor per file, 337 columns, 60 frames per second.

    0:3      root position                     165:324  positions of 53 bodies
    3:6      root rotation vector              324:327  ball position
    6:9      the same again                    327:330  ball rotation vector, negated (zero in every public file)
    9:165    rotation vectors of 52 joints     330:336  zeros
                                               336      hand touches ball: 1 or 0

World axes are z-up; metres and radians. A row of zeros is a missing frame. Files are data, never code: what cannot be
read without executing it is refused.
"""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skillfield.errors import ClipError
from skillfield.files import shown_files
from skillfield.rotations import quat_from_rotvec

__all__ = ["BODIES", "COLUMNS", "FPS", "SKILLS", "Recording", "read_recording", "recording_files", "skill_of"]

COLUMNS = 337
BODIES = 53
FPS = 60.0

SKILLS = {
    0: "getup",
    1: "pickup",
    2: "rebound",
    3: "catch",
    4: "pass",
    5: "shot_style_1",
    6: "shot_style_2",
    7: "shot_style_3",
    9: "shot",
    10: "run",
    11: "dribble_left",
    12: "dribble_right",
    13: "dribble_forward",
    31: "layup",
    34: "turnaround_layup",
    40: "turn_to_left_hand",
    41: "dribble_back",
    43: "leg_turn",
    44: "leg_dribble_style_1",
    45: "leg_dribble_style_2",
}
"""Skills by the number that opens a file's name (SkillMimic and SkillMimic-V2 data sets)."""

_OTHER_FORMATS = {409: "a ParaHome recording", 415: "a ParaHome recording with two objects"}

# '013_018pickle_run2_5': number of the skill, session, words, number of the take
_NUMBER = re.compile(r"(\d{3})_")
_WORDS = re.compile(r"(?:\d{3}_)?(?:\d+pickle_)?(.*?)(?:_?\d+)*")


@dataclass(frozen=True, eq=False)
class Recording:
    """One file, sorted into what its columns mean. Quaternions are w, x, y, z.

    Shape letters: T frames, B bodies in the order of the file, the root first.
    """

    path: Path
    skill: str
    skill_note: str  # how the skill was named, if the file's number did not say
    root_pos: Tensor  # [T, 3]
    turn: Tensor  # [T, B, 4] of each body against its parent, the root's against the world
    body_pos: Tensor  # [T, B, 3]
    object_pos: Tensor  # [T, 3]
    object_quat: Tensor  # [T, 4]
    contact: Tensor  # [T] 1 where a hand touches the ball
    valid: Tensor  # [T] False where the frame is missing


def recording_files(path: Path) -> list[Path]:
    """The recordings below a folder in the order of their names, or the one file."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ClipError(f"{path}: no such file or folder")
    files = shown_files(path, "**/*.pt")
    if not files:
        raise ClipError(f"{path}: no .pt recordings in this folder or below")
    return files


def read_recording(path: Path, skill: str | None = None) -> Recording:
    """Read one file, or say in one line why it is no BallPlay recording.

    skill: its name; by default what the file's name says.
    """
    table = _read_table(path)
    valid = table.abs().amax(dim=1) > 0
    if int(valid.sum()) < 2:
        raise ClipError(f"{path}: {int(valid.sum())} of {len(table)} frames are present, at least 2 are needed")
    named, note = (skill, "") if skill else skill_of(path)
    rotvecs = torch.cat((table[:, 3:6], table[:, 9:165]), dim=1).unflatten(1, (BODIES, 3))
    contact = table[:, 336].round()
    if bool(((contact != 0) & (contact != 1)).any()):
        odd = table[int(((contact != 0) & (contact != 1)).nonzero()[0]), 336]
        raise ClipError(f"{path}: column 336 holds {float(odd):g}, a contact label is 0 or 1")
    return Recording(
        path=path,
        skill=named,
        skill_note=note,
        root_pos=table[:, :3],
        turn=quat_from_rotvec(rotvecs),
        body_pos=table[:, 165:324].unflatten(1, (BODIES, 3)),
        object_pos=table[:, 324:327],
        object_quat=quat_from_rotvec(-table[:, 327:330]),
        contact=contact,
        valid=valid,
    )


def skill_of(path: Path) -> tuple[str, str]:
    """The skill that a file's name tells, and a note if it is not told by a known number."""
    number = _NUMBER.match(path.stem)
    if number and int(number[1]) in SKILLS:
        return SKILLS[int(number[1])], ""
    match = _WORDS.fullmatch(path.stem)
    words = re.sub(r"\W+", "_", match[1] if match else "").strip("_").lower()
    if number:
        skill = words or f"skill_{number[1]}"
        return skill, f"skill number {number[1]} is unknown: called '{skill}' after the file"
    if words:
        return words, f"no skill number: called '{words}' after the file"
    raise ClipError(
        f"{path}: neither a number nor a word in the name '{path.stem}' tells the skill; name it: --skill NAME"
    )


def _read_table(path: Path) -> Tensor:
    """The whole file as numbers.  [T, COLUMNS]"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch explains its own fears at length; what is refused is told below
            table: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ClipError(f"{path}: no such file") from None
    except (PermissionError, IsADirectoryError) as problem:
        raise ClipError(f"{path}: cannot be read: {problem.strerror}") from None
    except Exception as problem:  # damaged, empty or foreign files fail in many ways, all of them before execution
        raise ClipError(f"{path}: not a file of plain tensors: {_why_refused(path, problem)}") from None
    if not isinstance(table, Tensor):
        raise ClipError(f"{path}: holds a {type(table).__name__}, a recording is one tensor of {COLUMNS} columns")
    if table.is_nested or table.is_meta:
        kind = "nested tensor" if table.is_nested else "tensor without its numbers"
        raise ClipError(f"{path}: holds a {kind}, a recording is one plain tensor of {COLUMNS} columns")
    if table.layout != torch.strided:
        raise ClipError(f"{path}: holds a sparse tensor, a recording is a dense one; save table.to_dense()")
    if table.dim() != 2 or table.shape[1] != COLUMNS or len(table) < 2:
        known = _OTHER_FORMATS.get(table.shape[-1], "") if table.dim() == 2 else ""
        hint = f" (this looks like {known})" if known else ""
        raise ClipError(
            f"{path}: tensor of shape {tuple(table.shape)}, a BallPlay recording has shape (2 or more, {COLUMNS}){hint}"
        )
    if not table.is_floating_point():
        raise ClipError(f"{path}: numbers of type {table.dtype}, a recording has floating-point numbers")
    table = table.detach().double()
    bad = (~table.isfinite()).nonzero()
    if len(bad):
        frame, column = bad[0].tolist()
        raise ClipError(f"{path}: column {column} of frame {frame} is not finite ({len(bad)} such numbers)")
    return table


def _why_refused(path: Path, problem: Exception) -> str:
    """What keeps a file from being read, in plain words, and what to do about it."""
    if not _holds_objects(path, problem):
        return "it is empty, damaged or of another format"
    return (
        "reading it would mean running code from the file, and that is never done. If you trust its maker, load it "
        "where it was made and save the numbers alone, torch.save(torch.as_tensor(table), FILE), then import that"
    )


def _holds_objects(path: Path, problem: Exception) -> bool:
    """Whether a file that PyTorch did not load is one of Python objects, or of a program, rather than damaged."""
    if "TorchScript" in str(problem):
        return True
    if type(problem).__name__ != "UnpicklingError":
        return False
    with path.open("rb") as file:
        return file.read(2).startswith((b"\x80", b"PK"))  # how such files begin: alone, or in PyTorch's archive
