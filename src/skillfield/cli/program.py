"""Under which name the command line runs: `skillfield`, or a script that brings tasks of its own."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from skillfield.errors import SkillfieldError
from skillfield.files import typed

if TYPE_CHECKING:
    from skillfield.experiments.task import Task

__all__ = ["command_line", "program", "this_command"]

_scripts: list[Path] = []
"""The script that has called `command_line`, if one has."""


def command_line(*tasks: "Callable[[], Task]") -> NoReturn:
    """Be the `skillfield` command, in a script that adds tasks: `python SCRIPT train NAME`.

    tasks: functions without arguments that make one each.
    """
    from skillfield.cli.main import main
    from skillfield.experiments.tasks import add

    _scripts[:] = [Path(sys.argv[0]).resolve()]
    try:
        for make in tasks:
            add(make)
    except SkillfieldError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    sys.exit(main())


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
