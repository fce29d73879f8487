"""Run folders: one training at a time in each, what a table finds in its own, and how clips are remembered."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import skillfield.cli.experiment as experiment
from skillfield.api import train_run
from skillfield.cli.main import main
from skillfield.cli.train import parse
from skillfield.errors import ConfigError
from skillfield.experiments.courtside import CLIP_FOLDER
from skillfield.experiments.recordings import kept_folder
from skillfield.experiments.run import RunConfig, load_config, preset, save_config
from skillfield.files import claimed
from skillfield.interruption import StopRequest
from skillfield.learning.checkpoint import latest_checkpoint
from skillfield.learning.training import Budget

UPDATE = 8 * 4


def tiny(task: str, method: str = "sm") -> RunConfig:
    """A preset small enough for a test."""
    config = preset(task, method)
    return replace(config, num_envs=8, threads=1, ppo=replace(config.ppo, hidden=(16,), horizon=4, minibatch=32))


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments whose runs are as small."""
    monkeypatch.setattr(experiment, "preset", tiny)


def table(out: Path, *more: str, samples: int = 4 * UPDATE, trials: int = 1) -> int:
    """One row of one seed."""
    counts = ["--samples", str(samples), "--trials", str(trials)]
    return main(["experiment", "main", "--methods", "sm", "--seeds", "1", "--out", str(out), *counts, *more])


def test_a_folder_belongs_to_one_at_a_time(tmp_path: Path) -> None:
    """And to the next one afterwards; nothing is left of a claim that came to nothing."""
    folder = tmp_path / "run"
    with claimed(folder, ConfigError):
        assert folder.is_dir()
        with pytest.raises(ConfigError, match="run: another process is at work"), claimed(folder, ConfigError):
            pass
        assert folder.is_dir()
    assert not folder.exists()
    with claimed(folder, ConfigError):
        (folder / "file").touch()
    assert (folder / "file").exists()
    with pytest.raises(ConfigError, match=r"file/run: cannot be made: Not a directory"):
        train_run(tiny("starter"), folder / "file" / "run")


def test_a_run_folder_is_not_trained_in_twice_at_once(tmp_path: Path) -> None:
    """Neither a new run nor one that goes on."""
    run, config = tmp_path / "run", replace(tiny("starter"), budget=parse(["--samples", str(UPDATE)]).config().budget)
    with claimed(run, ConfigError):
        for resumed in (False, True):
            with pytest.raises(ConfigError, match="another process is at work"):
                train_run(config, run, resumed=resumed, progress=False)
    assert train_run(config, run, progress=False)


@pytest.mark.usefixtures("small_runs")
def test_a_damaged_checkpoint_is_not_trained_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An experiment begins a run anew only if there was no checkpoint yet; any other trouble is told."""
    assert table(tmp_path) == 0
    run = tmp_path / "sm-0"
    (run / "evaluation.json").unlink()
    broken = latest_checkpoint(run) / "training.safetensors"
    broken.write_bytes(broken.read_bytes()[:1000])
    logged = (run / "metrics.jsonl").read_text()
    assert table(tmp_path, samples=8 * UPDATE) == 2
    assert str(broken) in capsys.readouterr().err
    assert (run / "metrics.jsonl").read_text() == logged
    assert broken.stat().st_size == 1000


@pytest.mark.usefixtures("small_runs")
def test_a_run_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    """What it left behind is gone, so that nothing of it is taken for the new one's."""
    assert table(tmp_path) == 0
    run = tmp_path / "sm-0"
    (run / "evaluation.json").unlink()
    (run / "checkpoints" / "latest").unlink()
    newest = sorted((run / "checkpoints").iterdir())[-1]
    (newest / "model.safetensors").write_bytes(b"old")
    lines = (run / "metrics.jsonl").read_text().count("\n")
    assert table(tmp_path) == 0
    assert (newest / "model.safetensors").stat().st_size > 1000
    assert (run / "metrics.jsonl").read_text().count("\n") == lines


def test_nothing_of_an_attempt_that_died_is_left(tmp_path: Path) -> None:
    """What is begun in its place has another graph, or none, and curves of its own."""
    run = tmp_path / "run"
    save_config(preset("starter", "full"), run)
    (run / "tensorboard").mkdir()
    for name in ("graph.safetensors", "clips.json", "metrics.jsonl", "tensorboard/events.out"):
        (run / name).write_text("old")
    assert train_run(replace(tiny("starter"), budget=Budget(samples=UPDATE)), run, progress=False)
    assert not (run / "graph.safetensors").exists()
    assert not (run / "tensorboard" / "events.out").exists()
    assert json.loads((run / "clips.json").read_text())


@pytest.mark.usefixtures("small_runs")
def test_a_table_says_what_it_was_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And figures of other samples, trials or tasks are not passed off as what was asked for."""
    assert table(tmp_path) == 0
    assert f"Trained with {4 * UPDATE} samples. Measured with 1 trial of" in (tmp_path / "table.md").read_text()
    capsys.readouterr()
    for more, message in (
        (
            ("--samples", "64", "--trials", "2"),
            "its checkpoint has 128 samples, the table asks for 64; choose",
        ),
        (("--transition-trials", "3"), "was measured with 1 instead of 3 transition trials; choose another --out"),
        (("--task", "courtside"), "holds a run of ('starter', 'sm', 0), the table asks for ('courtside', 'sm', 0)"),
    ):
        assert table(tmp_path, *more) == 2
        assert message in capsys.readouterr().err
    assert table(tmp_path) == 0
    (tmp_path / "sm-0" / "evaluation.json").write_text("{}")
    assert table(tmp_path) == 2
    assert "evaluation.json: no evaluation of this version" in capsys.readouterr().err


def test_rows_that_would_be_the_same_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The starter has no states of the policy's own: a table of what they bring would show the luck of nothing."""
    assert main(["experiment", "own", "--task", "starter", "--out", str(tmp_path / "table")]) == 2
    assert "task 'starter': sm and sm+own are the same training" in capsys.readouterr().err
    assert not (tmp_path / "table").exists()


@pytest.mark.usefixtures("small_runs")
def test_a_run_of_a_table_can_go_on_on_another_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not asked where it began."""
    assert table(tmp_path) == 0
    (tmp_path / "sm-0" / "evaluation.json").unlink()
    logged = (tmp_path / "sm-0" / "metrics.jsonl").read_text()
    assert table(tmp_path, "--device", "nowhere", samples=8 * UPDATE) == 2
    assert "nowhere" in capsys.readouterr().err
    assert (tmp_path / "sm-0" / "metrics.jsonl").read_text() == logged  # it did not train where it had been


def test_clips_are_found_again_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder by its whole path, the clips of a task by its name, as the error that recommends it says."""
    monkeypatch.chdir(tmp_path)
    assert kept_folder(Path("clips")) == str(tmp_path / "clips")
    assert kept_folder("courtside") == "courtside"
    assert parse(["ballplay", "--data", "courtside"]).config().data == "courtside"
    assert parse(["ballplay", "--data", "clips"]).config().data == str(tmp_path / "clips")
    shutil.copytree(CLIP_FOLDER, "courtside")
    assert kept_folder("courtside") == str(tmp_path / "courtside")


def test_an_option_that_is_called_like_a_task_is_not_one() -> None:
    """The preset is that of the task, wherever it stands."""
    for arguments in (["--out", "starter", "ballplay"], ["ballplay", "--data", "starter"], ["--seed", "3", "ballplay"]):
        config = parse([*arguments, "--method", "full"]).config()
        assert (config.task, config.num_envs, config.ppo, config.stages) == (
            "ballplay",
            preset("ballplay").num_envs,
            preset("ballplay").ppo,
            preset("ballplay", "full").stages,
        )
    assert parse(["--method=full", "--augmentation.connect"]).config().augmentation.connect  # needs a neighbourhood
    assert parse(["--out", "sm", "--method", "full"]).config().method == "full"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["basketball"], "unknown task 'basketball'"),
        (["ballplay", "--method", "best"], "unknown method 'best'"),
        (["ballplay", "--ppo.sigma", "0"], "sigma"),
        (["--method", "sm", "--augmentation.connect"], "needs neighbourhood"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said(arguments: list[str], message: str) -> None:
    """Whichever preset it was read with."""
    with pytest.raises(ConfigError, match=message):
        parse(arguments)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there are no terminals that hang up here")
@pytest.mark.usefixtures("hears_a_hang_up")
def test_a_closed_terminal_is_a_request_to_stop(tmp_path: Path) -> None:
    """A run saves its checkpoint; one that was started with nohup goes on."""
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.requested
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)
    command = [
        sys.executable,
        "-m",
        "skillfield.cli.main",
        "train",
        "--method",
        "sm",
        "--minutes",
        "10",
        "--out",
        str(tmp_path / "run"),
    ]
    process = subprocess.Popen([*command, "--num-envs", "32", "--ppo.minibatch", "64"], stdout=subprocess.DEVNULL)
    while not (tmp_path / "run" / "metrics.jsonl").exists() and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 130
    assert load_config(tmp_path / "run").task == "starter"
    assert latest_checkpoint(tmp_path / "run").is_dir()
