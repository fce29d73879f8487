"""Clips on disk: one `.npz` each, with a schema version and no pickle."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from numpy.typing import NDArray

from skillfield.clips.clip import ARRAYS, Clip
from skillfield.errors import ClipError
from skillfield.files import atomic_directory, atomic_file, shown_files

__all__ = ["SCHEMA_VERSION", "check_vacant", "clip_files", "load_clip", "load_clips", "save_clip", "save_clips"]

SCHEMA_VERSION = 2
_READABLE = (1, 2)  # the first had no `corrections`

_NAMES = ("joint_names", "object_names", "contact_names", "corrections")
_TEXTS = ("name", "skill", "character", "source")

_MAX_NAME = 200
"""Bytes of a clip's name; file systems take 255, and what is being written has a longer name than what is there."""

_NUMBERS, _BOOLEANS, _TEXT = ("fiu", "numbers"), ("b", "true or false"), ("U", "text")
_HOLDS = dict.fromkeys((*ARRAYS, "fps"), _NUMBERS) | {"valid": _BOOLEANS} | dict.fromkeys((*_NAMES, *_TEXTS), _TEXT)
"""What each column holds: NumPy's letters for it, and a word."""


def save_clip(clip: Clip, path: Path | str) -> None:
    """Write one clip; the file appears whole or not at all."""
    path = Path(path)
    columns: dict[str, Any] = {array: getattr(clip, array).astype(np.float32) for array in ARRAYS}
    columns |= {names: np.array(getattr(clip, names), dtype=np.str_) for names in _NAMES}
    columns |= {text: np.array(getattr(clip, text), dtype=np.str_) for text in _TEXTS}
    columns |= {
        "valid": clip.valid.astype(bool),
        "fps": np.float64(clip.fps),
        "schema_version": np.int64(SCHEMA_VERSION),
    }
    try:
        with atomic_file(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **columns)
    except OSError as problem:
        raise ClipError(f"{path}: cannot be written: {problem.strerror or problem}") from None


def check_vacant(folder: Path) -> None:
    """Raise unless a folder is new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ClipError(f"{folder}: already there and not empty; name a new folder")


def save_clips(clips: Sequence[Clip], folder: Path | str) -> None:
    """Write clips under their names into a new or empty folder: all of them, or none."""
    folder = Path(folder)
    check_vacant(folder)
    twice = [name for name, count in Counter(clip.name for clip in clips).items() if count > 1]
    if twice:
        raise ClipError(f"{folder}: several clips are called {twice}")
    odd = [clip.name for clip in clips if not _may_be_a_file(clip.name)]
    if odd:
        raise ClipError(f"{folder}: clips called {[_shortened(name) for name in odd]} cannot be files of a folder")
    try:
        with atomic_directory(folder) as temporary:
            for clip in clips:
                save_clip(clip, temporary / f"{clip.name}.npz")
    except OSError as problem:
        raise ClipError(f"{folder}: cannot be written: {problem.strerror or problem}") from None


def _may_be_a_file(name: str) -> bool:
    """Whether a clip's name is that of a file: a single part of a path, not too long, without a NUL."""
    fits = len(name.encode(errors="surrogatepass")) <= _MAX_NAME
    return bool(name) and fits and "\0" not in name and Path(name).name == name


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:40]}…"


def load_clip(path: Path) -> Clip:
    """Read one clip, or say in one line why it cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            columns = {key: stored[key] for key in stored.files}
    except FileNotFoundError:
        raise ClipError(f"{path}: no such clip") from None
    except Exception as problem:  # damaged or foreign files fail in many ways, all of them before execution
        why = " ".join(str(problem).split()) or type(problem).__name__
        if Path(path).is_file() and not is_zipfile(path):  # NumPy would advise to unpickle it
            why = "it is no zip archive"
        raise ClipError(f"{path}: not a readable .npz clip (truncated or another format): {why}") from None
    strange = sorted(key for key, column in columns.items() if not isinstance(column, np.ndarray))
    if strange:
        raise ClipError(f"{path}: not a readable .npz clip: {strange} are no NumPy arrays")
    if "schema_version" not in columns:
        raise ClipError(f"{path}: no 'schema_version'; this .npz was not written by skillfield")
    version = columns.pop("schema_version")
    if version.shape or version.dtype.kind != "i" or int(version) not in _READABLE:
        known = " and ".join(map(str, _READABLE))
        raise ClipError(f"{path}: clip schema {version}, this version of skillfield reads schema {known}")
    if int(version) == 1:
        columns.setdefault("corrections", np.array([], dtype=np.str_))
    wanted = {*ARRAYS, *_NAMES, *_TEXTS, "valid", "fps"}
    missing, extra = sorted(wanted - set(columns)), sorted(set(columns) - wanted)
    if missing or extra:
        raise ClipError(f"{path}: missing columns {missing}, unknown columns {extra}")
    try:
        _check_kinds(columns)
        fields: dict[str, Any] = {
            **{array: _as_float32(array, columns[array]) for array in ARRAYS},
            **{names: tuple(str(name) for name in columns[names]) for names in _NAMES},
            **{text: str(columns[text]) for text in _TEXTS},
            "valid": columns["valid"],
            "fps": float(columns["fps"]),
        }
        return Clip(**fields)
    except (ClipError, TypeError, ValueError) as problem:  # the last two: one value for many
        raise ClipError(f"{path}: {problem}") from None


def _as_float32(name: str, column: NDArray[Any]) -> NDArray[np.float32]:
    """The numbers of a column, or an error where they are too large."""
    with np.errstate(over="ignore"):
        numbers = column.astype(np.float32)
    if (np.isfinite(column) & ~np.isfinite(numbers)).any():
        raise ClipError(f"column '{name}' holds numbers beyond {np.finfo(np.float32).max:.0e}")
    return numbers


def _check_kinds(columns: dict[str, NDArray[Any]]) -> None:
    """Refuse columns that hold something else than they should, and lists where one value should be."""
    for name, (kinds, word) in _HOLDS.items():
        column = columns[name]
        if column.dtype.kind not in kinds and not (name in _NAMES and column.size == 0):
            raise ClipError(f"column '{name}' holds {column.dtype}, it must hold {word}")
        if name in (*_TEXTS, "fps") and column.shape:
            raise ClipError(f"column '{name}' has shape {column.shape}, it must be a single value")


def clip_files(path: Path) -> list[Path]:
    """The clips of a folder in the order of their names, or the one file."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ClipError(f"{path}: no such file or folder")
    files = shown_files(path, "*.npz")
    if not files:
        raise ClipError(f"{path}: no .npz clips in this folder")
    return files


def load_clips(path: Path) -> list[Clip]:
    """Every clip of a folder in the order of the file names, or the one clip of a file."""
    return [load_clip(file) for file in clip_files(Path(path))]
