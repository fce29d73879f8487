"""The command line in a script that brings tasks of its own."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from skillfield.errors import SkillfieldError
from skillfield.program import run_as

if TYPE_CHECKING:
    from skillfield.experiments.task import Task

__all__ = ["command_line"]


def command_line(*tasks: "Callable[[], Task]") -> NoReturn:
    """Be the `skillfield` command, in a script that adds tasks: `python SCRIPT train NAME`.

    tasks: functions without arguments that make one each.
    """
    from skillfield.cli.main import main
    from skillfield.experiments.tasks import add

    run_as(Path(sys.argv[0]))
    try:
        for make in tasks:
            add(make)
    except SkillfieldError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    sys.exit(main())
