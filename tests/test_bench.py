"""The bench: a task named either way, and a result that a program can read."""

import json
from pathlib import Path
from typing import Any

import pytest

from skillfield.cli import bench
from skillfield.cli.main import main
from skillfield.experiments.run import RunConfig

TINY = ["--worlds", "4", "8", "--seconds", "0.01", "--device", "cpu"]


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """What is asked for, none of which is measured."""
    asked: list[RunConfig] = []

    def measure(config: RunConfig, seconds: float) -> dict[str, Any]:
        asked.append(config)
        return {}

    def graph_seconds(task: str, data: str | None) -> dict[str, float]:
        assert asked[-1].task == task
        return {}

    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(bench, "graph_seconds", graph_seconds)
    return asked


@pytest.mark.slow
def test_the_starter_is_measured_and_the_result_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every number of worlds has its rates, positive and with their median; the file says what is printed."""
    out = tmp_path / "bench.json"
    assert main(["bench", *TINY, "--json", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    assert [(run["task"], run["method"], run["num_envs"]) for run in found["runs"]] == [
        ("starter", "full", 4),
        ("starter", "full", 8),
    ]
    for run in found["runs"]:
        rates = run["samples_per_second"]
        assert list(rates) == ["simulation", "engine", "environment", "rollout", "training"]
        assert all(0 < run["median"][name] <= rate for name, rate in rates.items())
        assert run["physics_steps_per_second"] == 2 * rates["simulation"]
        assert sum(run["training_share"].values()) == pytest.approx(1.0)
        assert (run["engine"], run["gpu_memory_mb"]) == ({"diverged": 0}, 0.0)
        assert run["device"].endswith("CPU cores")
        assert run["fused"] is False
    assert all(seconds > 0 for seconds in found["graph_seconds"].values())


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ([], "starter"),
        (["ballplay"], "ballplay"),
        (["--task", "ballplay"], "ballplay"),
        (["ballplay", "--task", "ballplay"], "ballplay"),
    ],
)
def test_a_task_is_named_either_way(arguments: list[str], task: str, configs: list[RunConfig]) -> None:
    """As an argument or as an option, like those of other commands; the starter if neither."""
    assert main(["bench", *arguments, "--json"]) == 0
    assert [config.task for config in configs] == [task]


@pytest.mark.parametrize(("asked", "fused"), [([], True), (["--fused", "True"], True), (["--fused", "False"], False)])
def test_kernels_are_fused_as_asked(asked: list[str], fused: bool, configs: list[RunConfig]) -> None:
    """As the task has it unless said otherwise, so that both can be compared."""
    assert main(["bench", "ballplay", "--json", *asked]) == 0
    assert [config.ppo.fused for config in configs] == [fused]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["starter", "--task", "ballplay"], "two tasks were named, 'starter' and --task 'ballplay'"),
        (["--task", "golf"], "unknown task 'golf'; known: starter"),
        (["golf"], "unknown task 'golf'; known: starter"),
    ],
)
def test_a_task_that_is_unclear_is_refused(
    arguments: list[str], message: str, configs: list[RunConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two tasks at once, and one that there is not; nothing is measured."""
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert configs == []
