"""Commands side by side, each in a process of its own, and one display for all of them."""

import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from skillfield.errors import SkillfieldError
from skillfield.files import write_errors
from skillfield.interruption import STOP_SIGNALS, StopRequest

__all__ = ["Job", "side_by_side"]

_POLL_SECONDS = 0.25
_LINE_SECONDS = 30.0
_TAIL = 4096  # bytes of a log in which its last line is looked for


@dataclass(frozen=True, eq=False)
class Job:
    """One of them."""

    name: str
    command: Sequence[str]
    """What to run, as the system is told."""
    log: Path
    """What it prints goes here."""


def side_by_side(jobs: Sequence[Job], count: int, console: Console) -> bool:
    """Run all of them, so many at a time; False if they were interrupted.

    Ctrl-C and SIGTERM end every one with SIGTERM, and are not over before they are. One that crashes is begun once
    more. If one fails, so does everything: no other begins, those that run are ended, and the error names it.
    """
    waiting, running = list(jobs), dict[Job, subprocess.Popen[bytes]]()
    crashed = set[Job]()
    with ExitStack() as stack:
        stack.callback(_end, running)
        stop = stack.enter_context(StopRequest())
        show = stack.enter_context(_Display(console))
        while (waiting and not stop.requested) or running:
            while waiting and len(running) < count and not stop.requested:
                job = waiting.pop(0)
                running[job] = _begin(job)
            for job in [job for job, process in running.items() if process.poll() is not None]:
                code = running.pop(job).returncode
                if not code or stop.requested:
                    continue
                if not _is_crash(code) or job in crashed:
                    raise SkillfieldError(f"{job.name} ended with exit code {code}: {_last_line(job.log)} ({job.log})")
                crashed.add(job)
                running[job] = _begin(job, again=f"ended with exit code {code}; begun once more")
            if stop.requested:
                _end(running)
            show.update([f"{job.name}: {_last_line(job.log)}" for job in running], len(waiting))
            time.sleep(_POLL_SECONDS)
    return not stop.requested


def _is_crash(code: int) -> bool:
    """Whether a process has ended in a traceback or by a signal that nobody sends: what it does not foresee. It may not
    come again."""
    return code == 1 or (code < 0 and -code not in STOP_SIGNALS)


def _begin(job: Job, again: str = "") -> subprocess.Popen[bytes]:
    """In a session of its own: a Ctrl-C in the terminal reaches the parent alone, which passes it on once.

    again: why it is begun once more, for its log.
    """
    with write_errors(SkillfieldError):
        job.log.parent.mkdir(parents=True, exist_ok=True)
        file = job.log.open("ab" if again else "wb")
    with file as log:
        if again:
            log.write(f"\n{again}\n".encode())
            log.flush()
        return subprocess.Popen(
            list(job.command), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _end(running: dict[Job, subprocess.Popen[bytes]]) -> None:
    """Ask all to stop, and wait until they have."""
    for process in running.values():
        process.terminate()
    for process in running.values():
        process.wait()
    running.clear()


def _last_line(log: Path) -> str:
    """What a job said last."""
    with log.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


class _Display:
    """A line for each job that runs: kept up to date on a terminal, printed now and then everywhere else."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._printed = -_LINE_SECONDS

    def __enter__(self) -> "_Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def update(self, lines: list[str], waiting: int) -> None:
        """Show what each said last, and how many have not begun."""
        more = [f"{waiting} to come"] if waiting else []
        if self._live:
            self._live.update(Text("\n".join(lines + more), no_wrap=True, overflow="ellipsis"), refresh=True)
        elif time.monotonic() - self._printed >= _LINE_SECONDS:
            self._printed = time.monotonic()
            for line in lines + more:
                print(line, file=self._console.file)
