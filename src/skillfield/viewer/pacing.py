"""Real time: how many fixed steps are due, without drift, and without a chase after a stall."""

__all__ = ["Pacer", "RateMeter"]

_LONGEST_DEBT = 0.25  # seconds: what a stall costs beyond this is lost, not caught up with


class Pacer:
    """Counts due steps on an absolute clock, so that rounding never adds up."""

    def __init__(self, hz: float) -> None:
        self._period = 1.0 / hz
        self._next: float | None = None

    def due(self, now: float, speed: float = 1.0) -> int:
        """Steps that should have been made by now and have not. speed: simulated seconds per second."""
        period = self._period / speed
        if self._next is None:
            self._next = now
        behind = now - self._next
        if behind > max(_LONGEST_DEBT, period):
            self._next = now
            behind = 0.0
        steps = int(behind / period) + 1 if behind >= 0.0 else 0
        self._next += steps * period
        return steps

    def wait(self, now: float) -> float:
        """Seconds until the next step is due."""
        return 0.0 if self._next is None else max(0.0, self._next - now)

    def hold(self) -> None:
        """Time stands still; the next call of `due` starts afresh."""
        self._next = None


class RateMeter:
    """Steps per second and busy share of the loop, over the last second or so."""

    def __init__(self) -> None:
        self.rate, self.busy = 0.0, 0.0
        self._start: float | None = None
        self._steps, self._worked = 0, 0.0

    def count(self, now: float, steps: int, worked: float) -> None:
        """One turn of the loop: what it did, and how many seconds that took."""
        if self._start is None:
            self._start = now
        self._steps += steps
        self._worked += worked
        elapsed = now - self._start
        if elapsed >= 1.0:
            self.rate, self.busy = self._steps / elapsed, self._worked / elapsed
            self._start, self._steps, self._worked = now, 0, 0.0
