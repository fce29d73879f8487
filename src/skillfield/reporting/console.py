"""Where tables are printed: as wide as the terminal; a file or a pipe has no width to fit into."""

import sys

from rich.console import Console

__all__ = ["table_console"]

_PIPE_WIDTH = 200


def table_console() -> Console:
    """A console that does not fold tables when nobody is looking."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
