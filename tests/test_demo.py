"""The demo: a shipped baseline, and a table that sets a fresh run beside it."""

from dataclasses import replace
from pathlib import Path

import pytest

from skillfield.cli.demo import comparison_table
from skillfield.cli.main import main
from skillfield.errors import ConfigError
from skillfield.evaluation import Evaluation
from skillfield.experiments.run import load_config
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


@pytest.mark.parametrize("name", ["samples", "trials"])
@pytest.mark.parametrize("count", [0, -1])
def test_counts_are_checked_before_minutes_of_training(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """None is not as many as usual."""
    monkeypatch.setattr("skillfield.api.train_loop", lambda *_: pytest.fail("it was trained"))
    counts = {"samples": 8192, "trials": 1} | {name: count}
    options = [word for option, value in counts.items() for word in (f"--{option}", str(value))]
    assert main(["demo", "--method", "sm", "--out", str(tmp_path / "run"), *options]) == 2
    assert capsys.readouterr() == ("", f"error: --{name} is {count}; at least 1 is needed\n")
    assert not (tmp_path / "run").exists()


def test_an_interrupted_demo_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a shell, as `train` does. The run that goes on is the one that was asked for."""
    monkeypatch.setattr("skillfield.api.train_loop", lambda *_: False)
    folder = tmp_path / "my run"
    assert main(["demo", "--method", "sm", "--samples", "8192", "--seed", "3", "--out", str(folder)]) == 130
    said = capsys.readouterr()
    way = f"interrupted; the checkpoint is safe. Go on with: skillfield train --resume '{folder}'"
    assert said.out.splitlines()[-1] == way
    assert "skillfield.resume" not in said.out + said.err
    config = load_config(folder)
    assert (config.task, config.method, config.seed, config.budget.samples) == ("starter", "sm", 3, 8192)
