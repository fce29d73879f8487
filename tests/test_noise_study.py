"""The noise study: a row's noise reaches its clips, its training and its tests, and the command can be resumed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import skillfield.cli.experiment as module
from figures import evaluation_of, trained_run
from skillfield.api import env_factory
from skillfield.cli.main import main
from skillfield.cli.table import write_table
from skillfield.clips import Clip, load_clips, save_clip, save_clips
from skillfield.errors import ClipError
from skillfield.evaluation import Evaluation
from skillfield.evaluation.crew import Crew
from skillfield.evaluation.judging import Closeness
from skillfield.experiments.loading import load_run
from skillfield.experiments.methods import METHODS
from skillfield.experiments.recordings import noisy_clips, task_clips
from skillfield.experiments.run import RunConfig, load_config, preset
from skillfield.experiments.tables import EXPERIMENTS, Row, experiment
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import ballplay, starter
from skillfield.files import write_json
from skillfield.learning.training import Budget


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Encoders trained here are nobody else's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def tiny(task: str | Task, method: str) -> RunConfig:
    """The preset, small enough for a test: 128 samples an update."""
    config = preset(task, method)
    ppo = replace(config.ppo, hidden=(8,), horizon=4, minibatch=64, epochs=1)
    encoder = replace(config.encoder, channels=(4, 4, 2), steps=2, batch=16, hidden=(8,))
    return replace(config, num_envs=32, threads=1, ppo=ppo, encoder=encoder)


def study(out: Path, *more: str, name: str = "noise") -> int:
    """The command at its smallest; rows and the like come in `more`."""
    size = ["--samples", "512", "--trials", "1", "--seeds", "1"]
    return main(["experiment", name, "--task", "starter", "--out", str(out), *size, *more])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str | None, str | None]]:
    """Instead of training and testing: folder, method, data of the training and data of the test of every run."""
    seen: list[tuple[str, str, str | None, str | None]] = []
    trained: dict[Path, RunConfig] = {}

    def train_run(config: RunConfig, folder: Path, **_: Any) -> bool:
        trained[folder] = config
        trained_run(folder, config, 512)
        return True

    def evaluate(folder: Path, *_: Any, data: Path | None, **__: Any) -> Evaluation:
        config = trained[folder]
        seen.append((folder.name, config.method, config.data, str(data) if data else None))
        result = evaluation_of(starter().skills, 0.5)
        result = replace(result, trials=1, transition_trials=1, samples=512, device="cpu")
        write_json(folder / "evaluation.json", result.to_dict())
        return result

    monkeypatch.setattr(module, "train_run", train_run)
    monkeypatch.setattr(module, "evaluate", evaluate)
    return seen


@pytest.mark.parametrize(("given", "expected"), [((), (5_000_000, 750_000_000)), (("--samples", "7"), (7, 7))])
def test_a_run_has_the_samples_that_its_task_needs(
    given: tuple[str, ...], expected: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is told how many."""
    asked: list[int | None] = []

    def train_run(config: RunConfig, folder: Path, **_: Any) -> bool:
        asked.append(config.budget.samples)
        return False

    monkeypatch.setattr(module, "train_run", train_run)
    for name in ("starter", "ballplay"):
        assert main(["experiment", "main", "--task", name, "--out", str(tmp_path), *given]) == 130
    assert tuple(asked) == expected


def farthest(clips: list[Clip], others: list[Clip]) -> float:
    """The largest difference of any coordinate of any object, in metres."""
    return max(float(np.abs(one.object_pos - two.object_pos).max()) for one, two in zip(clips, others, strict=True))


def reward_from(run: Path, data: Path) -> dict[str, float]:
    """The normalised reward of a run on these clips."""
    loaded = load_run(run, data=data)
    make_env = env_factory(loaded.task, loaded.config, loaded.networks)
    return Closeness(Crew(make_env, torch.device("cpu"), 1), loaded.networks).by_skill()


@pytest.mark.slow
def test_a_noisy_row_trains_and_is_tested_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The starter with the full method, stopped after one update; the same command finishes it, and then does nothing.

    A test from the clean clips would give another normalised reward, which has no chance in it.
    """
    monkeypatch.setattr(module, "preset", tiny)
    train_run = module.train_run

    def stopped(config: RunConfig, folder: Path, **more: Any) -> bool:
        train_run(replace(config, budget=Budget(samples=128)), folder, **more)
        return False

    rows = ("--methods", "full@30mm")
    with monkeypatch.context() as patch:
        patch.setattr(module, "train_run", stopped)
        assert study(tmp_path, *rows) == 130
    run, noisy = tmp_path / "full@30mm-0", tmp_path / "clips-30mm"
    assert not (tmp_path / "table.md").exists()
    assert load_config(run).data == str(noisy)
    assert 0.029 < farthest(load_clips(noisy), task_clips(starter())) <= 0.03 + 1e-6

    assert study(tmp_path, *rows) == 0
    samples = [json.loads(line)["samples"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert (samples[0], samples[-1]) == (128, 512)
    assert (run / "transitions.png").stat().st_size > 1000
    assert samples == sorted(set(samples))  # a run that began anew would have its first update twice
    table = (tmp_path / "table.md").read_text()
    assert "| full@30mm | 1 |" in table
    assert "by up to 10 mm along each axis, and tested from the states of these same clips.\n" in table

    measured = json.loads((run / "evaluation.json").read_text())["normalised_reward"]
    assert reward_from(run, noisy) == pytest.approx(measured, rel=1e-3)
    assert reward_from(run, Path("starter")) != pytest.approx(measured, rel=1e-2)

    monkeypatch.delattr(module, "train_run")
    monkeypatch.delattr(module, "evaluate")
    assert study(tmp_path, *rows) == 0


def test_every_row_has_its_method_and_its_clips(tmp_path: Path, calls: list[Any]) -> None:
    """Six of them, a folder of clips for each noise, trained on and tested from the same."""
    assert study(tmp_path) == 0
    assert [(folder, method) for folder, method, *_ in calls] == [
        ("sm@10mm-0", "sm"),
        ("full@10mm-0", "full"),
        ("sm@20mm-0", "sm"),
        ("full@20mm-0", "full"),
        ("sm@30mm-0", "sm"),
        ("full@30mm-0", "full"),
    ]
    for folder, _, trained, tested in calls:
        assert trained == tested == str(tmp_path / f"clips-{folder.split('@')[1].removesuffix('-0')}")
    clean = task_clips(starter())
    for mm in (10, 20, 30):
        assert 0.97 * mm / 1000 < farthest(load_clips(tmp_path / f"clips-{mm}mm"), clean) <= mm / 1000 + 1e-6
    assert list(json.loads((tmp_path / "table.json").read_text())["runs"].values()) == [1] * 6


@pytest.mark.parametrize("data", [None, "starter"])
def test_rows_without_noise_are_as_before(tmp_path: Path, calls: list[Any], data: str | None) -> None:
    """Folders called by their methods, the clips that were asked for, and no folder of others."""
    more = ["--data", data] if data else []
    assert study(tmp_path, "--methods", "sm+nsi", "full", *more, name="main") == 0
    assert calls == [("sm+nsi-0", "sm+nsi", data, data), ("full-0", "full", data, data)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full-0", "sm+nsi-0", "table.json", "table.md"]
    assert "noise" not in (tmp_path / "table.md").read_text()


def test_the_noise_is_on_the_clips_that_were_named(tmp_path: Path, calls: list[Any]) -> None:
    """--data: other clips of the same skills."""
    other = [replace(clip, object_pos=clip.object_pos + np.float32(0.5)) for clip in task_clips(starter())]
    save_clips(other, tmp_path / "other")
    assert study(tmp_path / "out", "--methods", "sm@20mm", "--data", str(tmp_path / "other")) == 0
    assert farthest(load_clips(tmp_path / "out" / "clips-20mm"), other) <= 0.02 + 1e-6


def test_noisy_clips_are_made_once_and_never_mixed_up(tmp_path: Path) -> None:
    """The same again is left alone, gaps and all; a folder of another noise, or with a clip too few, is refused."""
    first, *others = task_clips(starter())
    valid = np.ones(len(first), dtype=bool)
    valid[5] = False
    save_clips([replace(first, valid=valid), *others], tmp_path / "holed")
    noisy = tmp_path / "noisy"
    noisy_clips(starter(), tmp_path / "holed", 10.0, noisy)
    before = {path: path.stat().st_mtime_ns for path in noisy.iterdir()}
    noisy_clips(starter(), tmp_path / "holed", 10.0, noisy)
    assert {path: path.stat().st_mtime_ns for path in noisy.iterdir()} == before
    for data, noise in ((tmp_path / "holed", 20.0), (None, 10.0)):
        with pytest.raises(ClipError, match=f"{noisy}: other clips than those of 'starter' with {noise:g} mm"):
            noisy_clips(starter(), data, noise, noisy)
    next(iter(before)).unlink()
    with pytest.raises(ClipError, match="other clips"):
        noisy_clips(starter(), tmp_path / "holed", 10.0, noisy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nose"], "unknown experiment 'nose'; known: main, ablation, own, noise"),
        (["noise", "--methods", "sm"], "experiment 'noise' has no rows ['sm']; it has ['sm@10mm', 'full@10mm'"),
        (["main", "--methods", "sm@10mm"], "experiment 'main' has no rows ['sm@10mm']; it has"),
        (
            ["main", "--methods", "paper", "--samples", "2000"],
            "no rows ['paper'], and 2,000 samples of starter come to nothing that full alone has; it has ['dm',",
        ),
        (["noise", "--task", "golf"], "unknown task 'golf'"),
        (["noise", "--data", "nowhere"], "task 'starter': no clips (*.npz) in nowhere"),
        (["noise", "--task", "ballplay"], "task 'ballplay': no clips (*.npz) in"),
        (["noise", "--seeds", "0"], "--seeds is 0, it must be 1 or more"),
        (["noise", "--samples", "0"], "--samples is 0, it must be 1 or more"),
        (["noise", "--jobs", "0"], "--jobs is 0, it must be 1 or more"),
        (["noise", "--first-seed", "-1"], "--first-seed is -1, it must be 0 or more"),
        (["noise", "--threads", "-1"], "--threads is -1, it must be 0 or more"),
        (["noise", "--transition-trials", "0"], "--transition-trials is 0, it must be 1 or more"),
    ],
)
def test_a_mistake_is_said_before_anything_is_done(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    calls: list[Any],
) -> None:
    """In one line, with exit code 2, and nothing is written."""
    monkeypatch.delenv("SKILLFIELD_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", *arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[0]
    assert not calls
    assert not list(tmp_path.iterdir())


def test_a_skill_without_a_clip_is_said_before_anything_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], calls: list[Any]
) -> None:
    """Of the clips that the noise would be put on."""
    for clip in task_clips(starter()):
        if clip.skill != "hold":
            save_clip(clip, tmp_path / "some" / f"{clip.name}.npz")
    assert study(tmp_path / "out", "--data", str(tmp_path / "some")) == 2
    assert "no clip of ['hold']" in capsys.readouterr().err
    assert not calls
    assert not (tmp_path / "out").exists()


def test_the_papers_figures_stand_beside_ours(tmp_path: Path) -> None:
    """Averages of SR, εNSR and NR; it has no TSR. Seeds of a row are averaged, rows are kept apart."""
    rates = {"sm@10mm": (0.4, 0.6), "full@10mm": (0.85,), "full@30mm": (0.7,)}
    results = {label: [evaluation_of(ballplay().skills, rate) for rate in row] for label, row in rates.items()}
    write_table(tmp_path, experiment("noise"), "ballplay", results, 1000)
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[2].startswith("| sm@10mm | 2 | 50.0 / 50.0 / 0.50 |")
    assert lines[3] == "| *published* |  |  |  |  |  |  |  | *55.8* |  |  | *21.9* | *0.45* |"
    assert lines[5] == "| *published* |  |  |  |  |  |  |  | *84.9* |  |  | *42.5* | *0.38* |"
    assert lines[7] == "| *published* |  |  |  |  |  |  |  | *90.1* |  |  | *53.9* | *0.27* |"
    assert "- full@10mm: SR ≥ 0.849: holds" in lines
    assert "- full@10mm: εNSR above sm@10mm: holds" in lines
    assert "- full@30mm: SR ≥ 0.901: **does not hold**" in lines
    assert "- full@30mm: SR above sm@30mm: not measured yet" in lines
    written = json.loads((tmp_path / "table.json").read_text())
    assert written["published"]["full@30mm"]["neighbourhood_rate"] == pytest.approx(0.539)
    assert set(written["published"]) == set(written["figures"]) == {"sm@10mm", "full@10mm", "full@30mm"}


def test_rows_and_bands_speak_of_what_there_is() -> None:
    """Every row has a method, no two of a table one label, and every band is about rows of its own table."""
    assert Row("full").label == "full"
    for table in EXPERIMENTS.values():
        labels = [row.label for row in table.rows]
        assert len(set(labels)) == len(labels)
        assert {row.method for row in table.rows} <= set(METHODS)
        for band in (band for bands in table.bands.values() for band in bands):
            assert {band.row, band.above or band.row} <= set(labels)
