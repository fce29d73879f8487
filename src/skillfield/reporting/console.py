"""Where tables and progress are printed."""

import sys

from rich.console import Console

__all__ = ["PatientConsole", "table_console"]

_PIPE_WIDTH = 200


class PatientConsole(Console):
    """A console that falls silent when nobody reads it any more: a closed pipe or terminal ends no work of hours."""

    def on_broken_pipe(self) -> None:
        """Rich would end the program."""
        self.quiet = True


def table_console() -> Console:
    """A console as wide as the terminal; a file or a pipe has no width to fold tables into."""
    return PatientConsole(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
