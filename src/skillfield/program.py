"""Under which name the command line runs: `skillfield`, or a script that brings tasks of its own."""

import sys
from pathlib import Path

from skillfield.files import typed

__all__ = ["program", "run_as", "this_command"]

_scripts: list[Path] = []
"""The script that brings its own tasks, if one does."""


def run_as(script: Path) -> None:
    """From now on the command line is this script."""
    _scripts[:] = [script.resolve()]


def program() -> str:
    """What to type to call it."""
    if not _scripts:
        return "skillfield"
    script, here = _scripts[0], Path.cwd()
    return f"python {typed(script.relative_to(here) if script.is_relative_to(here) else script)}"


def this_command(*arguments: str) -> list[str]:
    """How to call it from here, with the interpreter that runs now."""
    script = [str(path) for path in _scripts] or ["-m", "skillfield.cli.main"]
    return [sys.executable, *script, *arguments]
