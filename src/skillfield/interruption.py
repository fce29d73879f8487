"""Ctrl-C and SIGTERM for whoever has something to finish first."""

import signal
from typing import Any

__all__ = ["StopRequest"]


class StopRequest:
    """Turns Ctrl-C and SIGTERM into a flag for as long as it is entered; a second one is an ordinary one."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._previous[number] = signal.signal(number, self._request)
            except ValueError:  # not in the main thread: the caller's own handling stays
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _request(self, number: int, _: object) -> None:
        self.requested = True
        signal.signal(number, self._previous[number])
