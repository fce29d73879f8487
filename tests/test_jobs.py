"""Commands side by side: so many at a time, one display, and none left behind."""

import os
import signal
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from skillfield.cli.jobs import Job, side_by_side
from skillfield.cli.main import main
from skillfield.errors import SkillfieldError

WAITS = """
import pathlib, signal, sys, time
mark = pathlib.Path(sys.argv[1])
def stop(*_):
    mark.with_suffix(".stopped").touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
mark.touch()
print("waits", flush=True)
time.sleep(60)
"""


def python(folder: Path, name: str, code: str, *arguments: str) -> Job:
    """A job that runs some code."""
    return Job(name, [sys.executable, "-c", code, *arguments], folder / "logs" / f"{name}.log")


def run(jobs: list[Job], count: int, terminal: bool = False) -> tuple[bool, str]:
    """Whether they all ended by themselves, and what was shown."""
    shown = StringIO()
    console = Console(file=shown, force_terminal=terminal, width=60)
    return side_by_side(jobs, count, console), shown.getvalue()


def once(marks: list[Path]) -> None:
    """Wait until all of these files are there."""
    limit = time.monotonic() + 30
    while not all(mark.exists() for mark in marks):
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_all_are_run_and_no_more_at_a_time_than_asked_for(tmp_path: Path) -> None:
    """Each writes when it began and ended, and what it prints is in its log; none ends before two have begun."""
    code = """
import pathlib, sys, time
began = time.time()
pathlib.Path(sys.argv[1]).touch()
while len(list(pathlib.Path(sys.argv[1]).parent.glob("*.mark"))) < 2:
    time.sleep(0.02)
print("said", began, time.time())
"""
    jobs = [python(tmp_path, f"job {n}", code, str(tmp_path / f"{n}.mark")) for n in range(5)]
    assert run(jobs, 2)[0]
    spans = [tuple(map(float, job.log.read_text().split()[1:])) for job in jobs]
    assert max(sum(one <= begin <= end for one, end in spans) for begin, _ in spans) == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_the_last_line_of_each_is_shown(tmp_path: Path, terminal: bool) -> None:
    """Cut to the width of a terminal; and how many have not begun."""
    code = "import time; print('first', flush=True); print('so far [1/2] ' + 80 * '.', flush=True); time.sleep(1)"
    _, shown = run([python(tmp_path, name, code) for name in ("one", "two")], 1, terminal)
    if terminal:
        assert "so far [1/2] ...." in shown
        assert "…" in shown
    assert "one: " in shown
    assert "1 to come" in shown


def test_if_one_fails_the_others_are_ended_and_no_more_begin(tmp_path: Path) -> None:
    """The error names it, with what it said last and where the rest is."""
    mark, never = tmp_path / "waits", tmp_path / "never"
    code = f"import pathlib, time\nwhile not pathlib.Path({str(mark)!r}).exists(): time.sleep(0.02)\n"
    fails = f"{code}print('no clip')\nexit(2)"
    jobs = [
        python(tmp_path, "waits", WAITS, str(mark)),
        python(tmp_path, "fails", fails),
        python(tmp_path, "never", WAITS, str(never)),
    ]
    with pytest.raises(SkillfieldError, match=r"fails ended with exit code 2: no clip \(.*fails\.log\)"):
        run(jobs, 2)
    assert mark.with_suffix(".stopped").exists()
    assert not never.exists()


@pytest.mark.parametrize(("ending", "number"), [("os.abort()", -6), ("1 / 0", 1)])
def test_one_that_crashes_is_begun_once_more(tmp_path: Path, ending: str, number: int) -> None:
    """By a signal or in a traceback: it may be no mistake of its own, as on a GPU."""
    mark = tmp_path / "begun"
    code = f"import os, pathlib\nmark = pathlib.Path({str(mark)!r})\n"
    heals = f"{code}if not mark.exists():\n  mark.touch()\n  print('first', flush=True)\n  {ending}\nprint('second')"
    assert run([python(tmp_path, "heals", heals)], 1)[0]
    said = (tmp_path / "logs" / "heals.log").read_text().split("\n")
    assert said[0] == "first"
    assert said[-4:] == ["", f"ended with exit code {number}; begun once more", "second", ""]


@pytest.mark.parametrize(
    ("ending", "number", "begun"),
    [("os.abort()", -6, 2), ("1 / 0", 1, 2), ("exit(2)", 2, 1), ("os.kill(os.getpid(), 15)", -15, 1)],
)
def test_one_that_fails_twice_or_knows_why_is_an_error(tmp_path: Path, ending: str, number: int, begun: int) -> None:
    """A mistake of the user's would be made again, and whoever is ended is meant to end."""
    mark = tmp_path / "begun"
    code = f"import os, pathlib\nmark = pathlib.Path({str(mark)!r})\nwith mark.open('a') as f: f.write('x')\n{ending}"
    with pytest.raises(SkillfieldError, match=f"fails ended with exit code {number}: "):
        run([python(tmp_path, "fails", code)], 1)
    assert mark.read_text() == "x" * begun


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_reaches_all_of_them(tmp_path: Path, number: signal.Signals) -> None:
    """Once, as SIGTERM; nothing begins after it, and what was there before handles signals again."""
    marks = [tmp_path / name for name in ("one", "two", "three")]
    jobs = [python(tmp_path, mark.name, WAITS, str(mark)) for mark in marks]
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    def interrupt() -> None:
        once(marks[:2])
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert not run(jobs, 2)[0]
    thread.join()
    assert [mark.with_suffix(".stopped").exists() for mark in marks] == [True, True, False]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Before anything runs."""
    (tmp_path / "logs").touch()
    with pytest.raises(SkillfieldError, match=r"logs: cannot be written: File exists"):
        run([python(tmp_path, "one", "")], 1)


@pytest.mark.slow
def test_an_experiment_runs_its_rows_side_by_side(tmp_path: Path) -> None:
    """Two rows for real, with their second seed, into one table; and the same command does nothing more."""
    size = ["--samples", "512", "--trials", "1", "--seeds", "1", "--first-seed", "1", "--jobs", "2"]
    command = ["experiment", "main", "--task", "starter", "--methods", "sm", "dm", "--out", str(tmp_path), *size]
    assert main(command) == 0
    assert sorted(path.parent.name for path in tmp_path.glob("*/evaluation.json")) == ["dm-1", "sm-1"]
    logs = {path.stem: path.stat().st_mtime_ns for path in tmp_path.glob("*.log")}
    assert sorted(logs) == ["dm-1", "sm-1"]
    rows = [line.split(" | ")[0] for line in (tmp_path / "table.md").read_text().splitlines()]
    assert [row for row in rows if row in ("| sm", "| dm")] == ["| dm", "| sm"]
    assert main(command) == 0
    assert {path.stem: path.stat().st_mtime_ns for path in tmp_path.glob("*.log")} == logs
