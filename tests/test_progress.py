"""A display that nobody reads any more ends nothing."""

import io

import pytest

from skillfield.reporting.console import PatientConsole
from skillfield.reporting.progress import Progress, ProgressState


class ClosedPipe(io.StringIO):
    """Takes nothing any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("live", [False, True])
def test_a_closed_pipe_or_terminal_ends_nothing(live: bool) -> None:
    """Neither the panel nor the lines."""
    console = PatientConsole(file=ClosedPipe(), force_terminal=live, width=80)
    with Progress("run", ["hold"], console) as progress:
        for second in range(30):
            progress.update(ProgressState(samples=second, fraction=second / 30, elapsed_s=second, samples_per_s=1.0))
    assert console.quiet


def test_only_a_training_counts_worlds_that_diverged() -> None:
    """Trials have no such counter, and are not said to have none."""
    shown = []
    for engine in ({}, {"diverged": 0}):
        console = PatientConsole(file=io.StringIO(), force_terminal=True, width=80)
        with Progress("run", (), console) as progress:
            progress.update(ProgressState(1, 0.5, 1.0, 1.0, engine=engine))
        assert isinstance(console.file, io.StringIO)
        shown.append("diverged" in console.file.getvalue())
    assert shown == [False, True]
