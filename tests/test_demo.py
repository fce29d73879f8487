"""The demo: a shipped baseline, and a table that sets a fresh run beside it."""

from dataclasses import replace
from pathlib import Path

import pytest

from skillfield.cli.demo import comparison_table
from skillfield.errors import ConfigError
from skillfield.evaluation import Evaluation
from skillfield.experiments.starter.baseline import Baseline, load_baseline, save_baseline
from skillfield.experiments.tasks import starter

RESULT = Evaluation(
    trials=4,
    transition_trials=4,
    seconds=10.0,
    seed=0,
    success_rate={"hold": 1.0, "toss": 0.5},
    success_interval={"hold": (0.5, 1.0), "toss": (0.1, 0.9)},
    neighbourhood_rate={"hold": 0.25, "toss": 0.0},
    neighbourhood_interval={"hold": (0.0, 0.7), "toss": (0.0, 0.5)},
    transition_rate={"hold": {"toss": 0.75}, "toss": {"hold": 1.0}},
    normalised_reward={"hold": 0.9, "toss": 0.6},
)


def test_a_baseline_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """And its figures are means over its runs."""
    other = replace(RESULT, success_rate={"hold": 0.5, "toss": 0.0})
    written = Baseline("sm", 1000, "skillfield train …", (RESULT, other))
    save_baseline(written, tmp_path / "baseline.json")
    found = load_baseline(tmp_path / "baseline.json")
    assert found == written
    assert found.mean("success_rate") == {"hold": 0.75, "toss": 0.25}
    assert found.mean("transitions_into") == {"toss": 0.75, "hold": 1.0}


def test_the_shipped_baseline_is_of_the_starter() -> None:
    """Three runs of the plain method, every skill measured."""
    shipped = load_baseline()
    assert shipped.method == "sm"
    assert len(shipped.runs) == 3
    for run in shipped.runs:
        assert tuple(run.success_rate) == starter().skills
        assert run.trials >= 64


def test_another_file_is_no_baseline(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "other.json").write_text('{"method": "sm"}')
    with pytest.raises(ConfigError, match=r"other\.json: no baseline"):
        load_baseline(tmp_path / "other.json")


def test_the_table_sets_both_side_by_side() -> None:
    """Three metrics, each of the baseline and of the fresh run, in per cent."""
    fresh = replace(RESULT, success_rate={"hold": 0.5, "toss": 1.0})
    table = comparison_table(Baseline("sm", 1000, "", (RESULT,)), "full", fresh)
    row = table.rows["toss"]
    assert row["sm: SR %"] == 50.0
    assert row["full here: SR %"] == 100.0
    assert row["sm: TSR into it %"] == row["full here: TSR into it %"] == 75.0
    assert len(row) == 6
