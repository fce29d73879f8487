"""Under which name the command line runs: `skillfield`, or a script that brings tasks of its own."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from skillfield.errors import SkillfieldError

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
    return f"python {_scripts[0].name}" if _scripts else "skillfield"


def this_command(*arguments: str) -> list[str]:
    """How to call it from here, with the interpreter that runs now."""
    script = [str(path) for path in _scripts] or ["-m", "skillfield.cli.main"]
    return [sys.executable, *script, *arguments]
