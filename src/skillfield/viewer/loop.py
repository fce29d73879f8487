"""The real-time loop: one thread owns the session; the page hands it what people ask for."""

import queue
import time
from collections.abc import Callable
from typing import Protocol

from skillfield.characters.physics import POLICY_HZ
from skillfield.viewer.notes import in_words
from skillfield.viewer.pacing import Pacer, RateMeter

__all__ = ["PAGE_HZ", "Loop", "Steppable"]

PAGE_HZ = 30
"""How often the page is sent a new picture."""

_NAP = 0.02  # longest sleep: how late a click may be noticed


class Steppable(Protocol):
    """What the loop drives."""

    paused: bool
    speed: float

    def step(self) -> None:
        """One policy step."""


class Loop:
    """Steps a session at the policy's rate times its speed, and lets the page draw in between."""

    def __init__(
        self, session: Steppable, draw: Callable[[], None], tell: Callable[[str], None] = lambda text: None
    ) -> None:
        """draw: shows the session. tell: shows people a line, when something they asked for fails."""
        self._session, self._draw, self._tell = session, draw, tell
        self._asked: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._stopped = False
        self.meter, self.steps = RateMeter(), 0

    def ask(self, action: Callable[[], object]) -> None:
        """Have something done between two steps. May be called from any thread."""
        self._asked.put(action)

    def stop(self) -> None:
        """End `run` soon. May be called from any thread."""
        self._stopped = True

    def run(self, seconds: float | None = None) -> None:
        """Until stopped, or for so long."""
        pacer, pages = Pacer(POLICY_HZ), Pacer(PAGE_HZ)
        end = None if seconds is None else time.perf_counter() + seconds
        while not self._stopped and (end is None or time.perf_counter() < end):
            began = time.perf_counter()
            self._do_what_was_asked()
            steps = 0
            if self._session.paused:
                pacer.hold()
            else:
                steps = pacer.due(began, self._session.speed)
                for _ in range(steps):
                    self._session.step()
            self.steps += steps
            if pages.due(time.perf_counter()):
                self._draw()
            now = time.perf_counter()
            self.meter.count(now, steps, now - began)
            rest = min(pages.wait(now), _NAP if self._session.paused else pacer.wait(now), _NAP)
            if rest > 0.0:
                time.sleep(rest)

    def _do_what_was_asked(self) -> None:
        while True:
            try:
                action = self._asked.get_nowait()
            except queue.Empty:
                return
            try:
                action()
            except Exception as problem:
                self._tell(in_words(problem))
