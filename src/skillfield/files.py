"""Writing files so that a crash or a full disk never leaves half of one behind."""

import json
import math
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "atomic_directory",
    "atomic_file",
    "claimed",
    "json_text",
    "read_json",
    "shown_files",
    "typed",
    "write_errors",
    "write_json",
]


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; move it into place only if the block succeeds.

    An OSError about the temporary path, or about none, names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        _settle(temporary)
        os.replace(temporary, path)
    except OSError as problem:
        if temporary is None or str(problem.filename or temporary) == str(temporary):
            problem.strerror, problem.filename = problem.strerror or str(problem), str(path)
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it becomes `path`, which must not exist yet, if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield temporary
        for file in temporary.iterdir():
            _settle(file)
        temporary.chmod(0o777 & ~_umask())
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def write_errors(error: Callable[[str], Exception]) -> Iterator[None]:
    """What cannot be written is an `error` that names the path."""
    try:
        yield
    except OSError as problem:
        raise error(f"{problem.filename}: cannot be written: {problem.strerror or problem}") from None


@contextmanager
def claimed(folder: Path, error: Callable[[str], Exception]) -> Iterator[None]:
    """Have a folder to oneself, as far as others ask for it like this; whoever has it already makes it an `error`.

    Folders that are made for it and still empty in the end are gone.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error(f"{folder}: cannot be made: {problem.strerror}") from None
    handle = _locked(folder, error)
    try:
        yield
    finally:
        with suppress(OSError):
            for path in made:
                path.rmdir()
        if handle is not None:
            os.close(handle)  # the system lets go of it, too, if the process dies


def _locked(folder: Path, error: Callable[[str], Exception]) -> int | None:
    """What holds the lock of a folder until it is closed; None where there are no locks."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(handle)
        if isinstance(problem, BlockingIOError):
            raise error(f"{folder}: another process is at work in this folder") from None
        return None
    return handle


def shown_files(folder: Path, pattern: str) -> list[Path]:
    """What a pattern finds in a folder, by name, without what is hidden: half-written files, and those of a system."""
    found = folder.glob(pattern)
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def typed(path: Path | str) -> str:
    """A path as it is to be typed in a shell."""
    return shlex.quote(str(path))


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(json_text(value) + "\n")


def json_text(value: Any) -> str:
    """Indented JSON that every reader takes: a figure that is not a number becomes null."""
    return json.dumps(_without_nan(value), indent=2, allow_nan=False)


def read_json(path: Path, error: Callable[[str], Exception]) -> Any:
    """Read JSON; a missing or damaged file raises `error` with the path."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise error(f"{path}: cannot be read as JSON: {problem}") from None


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _settle(path: Path) -> None:
    """Bring a file onto the disk, with the mode of any new file: temporary ones and those of safetensors have 600."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    path.chmod(0o666 & ~_umask())


def _umask() -> int:
    """What new files do not allow. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
