"""Ctrl-C, SIGTERM and a closed terminal for whoever has something to finish first."""

import signal
from typing import Any

__all__ = ["STOP_SIGNALS", "StopRequest"]

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class StopRequest:
    """Turns these signals into a flag for as long as it is entered; a second one is an ordinary one.

    One that is ignored stays so: that is how `nohup` outlives its terminal.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        for number in STOP_SIGNALS:
            if signal.getsignal(number) == signal.SIG_IGN:
                continue
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
