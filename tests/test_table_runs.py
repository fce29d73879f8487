"""Which runs a table is made of: none that is half trained, differs in its settings, or was measured otherwise."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skillfield.cli.experiment as module
from figures import evaluation_of, trained_run
from skillfield.api import evaluate, train_run
from skillfield.cli.main import main
from skillfield.clips import save_clips
from skillfield.evaluation import Evaluation
from skillfield.experiments.loading import load_run
from skillfield.experiments.recordings import noisy_clips, task_clips
from skillfield.experiments.run import RunConfig, load_config, preset, save_config
from skillfield.experiments.stages import Stage, paced
from skillfield.experiments.tables import Row
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import ballplay, starter
from skillfield.files import write_json
from skillfield.learning.training import Budget
from skillfield.reporting.runs import read_evaluation

SAMPLES = 8192  # an update of the starter's preset

SKILLS = starter().skills


def tiny(task: str | Task, method: str = "sm") -> RunConfig:
    """A preset small enough for a test: 32 samples an update."""
    config = preset(task, method)
    return replace(config, num_envs=8, threads=1, ppo=replace(config.ppo, hidden=(16,), horizon=4, minibatch=32))


def measured(**changes: Any) -> Evaluation:
    """Figures as the command below asks for them."""
    one = replace(evaluation_of(SKILLS, 0.5), trials=4, transition_trials=4, samples=SAMPLES, device="cpu")
    return replace(one, **changes)


def finished(
    out: Path, name: str = "sm-0", config: RunConfig | None = None, samples: int = SAMPLES, **changes: Any
) -> Path:
    """The folder of a run that is trained, and tested when it had as many samples as are asked for."""
    label, seed = name.rsplit("-", 1)
    usual = preset("starter", label.split("@")[0]) if config is None else config
    folder = out / name
    trained_run(folder, replace(usual, seed=int(seed), budget=Budget(samples=SAMPLES)), samples)
    write_json(folder / "evaluation.json", measured(**changes).to_dict())
    return folder


def table(out: Path, *more: str, name: str = "main", rows: tuple[str, ...] = ("sm",), samples: int = SAMPLES) -> int:
    """The command for one seed of some rows."""
    size = ["--seeds", "1", "--samples", str(samples), "--trials", "4"]
    return main(["experiment", name, "--out", str(out), "--methods", *rows, *size, *more])


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is trained or measured; what would have been is named here."""
    done: list[str] = []

    def train(config: RunConfig, folder: Path, **_: Any) -> bool:
        done.append(f"trained {folder.name}")
        trained_run(folder, config, config.budget.samples or 0)
        return True

    def test(folder: Path, *_: Any, **__: Any) -> Evaluation:
        done.append(f"measured {folder.name}")
        write_json(folder / "evaluation.json", measured().to_dict())
        return measured()

    monkeypatch.setattr(module, "train_run", train)
    monkeypatch.setattr(module, "evaluate", test)
    return done


@pytest.fixture
def refused(idle: list[str], capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Asserts that a command ends in one line with these words, before anything is done."""

    def check(out: Path, *words: str, more: tuple[str, ...] = (), **how: Any) -> None:
        capsys.readouterr()
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
        assert table(out, *more, **how) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        for word in words:
            assert word in error
        assert idle == []
        assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before

    return check


def counts(out: Path) -> dict[str, int]:
    """How many runs each row of the table has."""
    runs: dict[str, int] = json.loads((out / "table.json").read_text())["runs"]
    return runs


def test_an_evaluation_says_what_it_measured(tmp_path: Path) -> None:
    """The checkpoint's samples and the kind of device, in the result and in the file."""
    config = replace(tiny("starter"), budget=Budget(samples=64))
    assert train_run(config, tmp_path / "run", progress=False)
    result = evaluate(tmp_path / "run", trials=1, device="cpu")
    assert (result.samples, result.device, result.clips) == (64, "cpu", None)
    assert read_evaluation(tmp_path / "run" / "evaluation.json") == result


def test_an_evaluation_says_whose_clips_it_began_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that lie elsewhere than in training, in the result and in the file; its own by any name are its own."""
    monkeypatch.chdir(tmp_path)
    config = replace(tiny("starter"), budget=Budget(samples=64))
    assert train_run(config, tmp_path / "run", progress=False)
    noisy_clips(starter(), None, 10.0, tmp_path / "noisy")
    result = evaluate("run", trials=1, device="cpu", data="noisy")
    assert result.clips == str(tmp_path / "noisy")
    assert read_evaluation(tmp_path / "run" / "evaluation.json") == result
    for own in ("starter", starter().clips):
        assert load_run("run", data=own).other_clips is None
    save_config(replace(config, data=str(tmp_path / "noisy")), tmp_path / "run")
    assert load_run("run", data="noisy").other_clips is None
    assert load_run("run", data="starter").other_clips == "starter"
    save_config(replace(config, data=str(tmp_path / "gone")), tmp_path / "run")
    assert load_run("run", data="noisy").other_clips == str(tmp_path / "noisy")


def test_a_half_trained_run_that_was_measured_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted, looked at with `evaluate`, and gone on with: the table has the figures of its end."""
    monkeypatch.setattr(module, "preset", tiny)
    config = replace(tiny("starter"), budget=Budget(samples=64))
    assert train_run(config, tmp_path / "sm-0", progress=False)
    save_config(replace(config, budget=Budget(samples=128)), tmp_path / "sm-0")  # as an interrupted one leaves it
    evaluate(tmp_path / "sm-0", trials=4, device="cpu")
    assert table(tmp_path, samples=128) == 0
    assert read_evaluation(tmp_path / "sm-0" / "evaluation.json").samples == 128
    assert json.loads((tmp_path / "table.json").read_text())["samples"] == {"sm": [128]}


def test_what_is_done_is_left_alone_and_what_is_not_is_done(tmp_path: Path, idle: list[str]) -> None:
    """A checkpoint below the budget is trained on; figures of an earlier one are measured again, and no more."""
    finished(tmp_path)
    assert table(tmp_path) == 0
    assert idle == []
    finished(tmp_path, samples=SAMPLES // 2)
    assert table(tmp_path) == 0
    assert idle == ["trained sm-0", "measured sm-0"]
    idle.clear()
    write_json(finished(tmp_path) / "evaluation.json", measured(samples=4096).to_dict())
    assert table(tmp_path) == 0
    assert idle == ["measured sm-0"]
    idle.clear()
    (finished(tmp_path, samples=SAMPLES + 8191) / "evaluation.json").unlink()  # an update does not end in the middle
    assert table(tmp_path) == 0
    assert idle == ["measured sm-0"]


def test_a_table_may_go_through_stages_faster(
    tmp_path: Path, idle: list[str], refused: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its runs do, and none of another pace is let in; the table says so. The starter has no stages."""
    staged = replace(starter(), stages=(Stage(4096, {"ppo.gae_lambda": 0.9}),))
    monkeypatch.setattr(module, "find_task", lambda name: staged if name == "starter" else None)
    config = preset(staged, "sm")
    finished(tmp_path / "usual", config=config)
    assert table(tmp_path / "usual") == 0
    assert "pace" not in (tmp_path / "usual" / "table.md").read_text()
    refused(tmp_path / "usual", "its stages[0].after is 4096, the table asks for 2048", more=("--pace", "2"))
    finished(tmp_path / "fast", config=replace(config, stages=paced(config.stages, 2.0)))
    assert table(tmp_path / "fast", "--pace", "2") == 0
    assert "Stages at a pace of 2. " in (tmp_path / "fast" / "table.md").read_text()
    assert json.loads((tmp_path / "fast" / "table.json").read_text())["pace"] == 2.0
    assert idle == []
    assert table(tmp_path / "new", "--pace", "2") == 0
    assert [stage.after for stage in load_config(tmp_path / "new" / "sm-0").stages] == [2048]
    assert idle == ["trained sm-0", "measured sm-0"]
    idle.clear()
    monkeypatch.undo()
    refused(tmp_path / "usual", "stages: there are none to go through at another pace", more=("--pace", "2"))


def test_a_table_may_have_other_worlds(tmp_path: Path, idle: list[str], refused: Callable[..., None]) -> None:
    """All of its runs have as many, and the table says so."""
    config = preset(starter(), "sm")
    finished(tmp_path / "usual", config=config)
    assert table(tmp_path / "usual") == 0
    assert "worlds each" not in (tmp_path / "usual" / "table.md").read_text()
    refused(tmp_path / "usual", "its num_envs is 512, the table asks for 256", more=("--num-envs", "256"))
    refused(tmp_path / "usual", "--num-envs is 0, it must be 1 or more", more=("--num-envs", "0"))
    finished(tmp_path / "few", config=replace(config, num_envs=256))
    assert table(tmp_path / "few", "--num-envs", "256") == 0
    assert "256 worlds each. " in (tmp_path / "few" / "table.md").read_text()
    assert json.loads((tmp_path / "few" / "table.json").read_text())["num_envs"] == 256
    assert idle == []
    assert table(tmp_path / "new", "--num-envs", "256") == 0
    assert load_config(tmp_path / "new" / "sm-0").num_envs == 256
    assert idle == ["trained sm-0", "measured sm-0"]


def test_a_longer_training_is_refused(tmp_path: Path, refused: Callable[..., None]) -> None:
    """With both numbers, and with or without its figures."""
    folder = finished(tmp_path, samples=2 * SAMPLES)
    words = ("sm-0: its checkpoint has 16,384 samples, the table asks for 8,192", "choose another --out")
    refused(tmp_path, *words)
    (folder / "evaluation.json").unlink()
    refused(tmp_path, *words)


@pytest.mark.parametrize("lacking", ["samples", "device"])
def test_figures_that_do_not_say_what_they_are_of_are_refused(
    lacking: str, tmp_path: Path, refused: Callable[..., None]
) -> None:
    """Older files: they can be shown, but nobody knows how long their policy was trained."""
    folder = finished(tmp_path)
    values = measured().to_dict()
    del values[lacking]
    write_json(folder / "evaluation.json", values)
    refused(tmp_path, f"measure again: skillfield evaluate {folder} --trials 4\n")
    assert main(["evaluate", str(folder / "evaluation.json")]) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trials": 8}, "8 instead of 4 trials"),
        ({"transition_trials": 2}, "2 instead of 4 transition trials"),
        ({"seconds": 5.0}, "5.0 instead of 10.0 seconds"),
        ({"seed": 3}, "3 instead of 0 as seed"),
    ],
)
def test_figures_of_other_trials_are_refused(
    change: dict[str, Any], words: str, tmp_path: Path, refused: Callable[..., None]
) -> None:
    """Of a run that was asked for as of one that only lies there."""
    finished(tmp_path, **change)
    refused(tmp_path, f"sm-0: was measured with {words}; choose another --out, or delete its evaluation.json")
    refused(tmp_path, words, rows=("full",))


def test_figures_from_other_clips_are_refused(tmp_path: Path, refused: Callable[..., None]) -> None:
    """They replaced the run's own when it was tested from elsewhere; its own clips in other words are its own."""
    folder = finished(tmp_path, clips="/noisy")
    refused(tmp_path, "sm-0: was measured with the clips of /noisy instead of its own; choose another --out, or delete")
    write_json(folder / "evaluation.json", measured(clips=str(starter().clips)).to_dict())
    assert table(tmp_path) == 0
    assert counts(tmp_path)["sm"] == 1


def other_settings() -> list[Any]:
    """Each with the name of the setting and both values."""
    config = preset("starter")
    hidden = json.dumps(list(config.ppo.hidden))
    return [
        (replace(config, num_envs=99), f"num_envs is 99, the table asks for {config.num_envs}"),
        (replace(config, ppo=replace(config.ppo, hidden=(64,))), f"ppo.hidden is [64], the table asks for {hidden}"),
        (
            replace(config, augmentation=replace(config.augmentation, p_external=0.9)),
            f"augmentation.p_external is 0.9, the table asks for {config.augmentation.p_external}",
        ),
        (
            replace(config, stages=(Stage(5, {"ppo.sigma": 0.1}),)),
            'stages[0] is {"after": 5, "changes": {"ppo.sigma": 0.1}}, the table asks for null',
        ),
        (replace(config, data="/elsewhere"), 'data is "/elsewhere", the table asks for null'),
    ]


@pytest.mark.parametrize(("config", "words"), other_settings())
def test_a_run_with_other_settings_is_refused(
    config: RunConfig, words: str, tmp_path: Path, refused: Callable[..., None]
) -> None:
    """Named by the first that differs; asked for or not, finished or not."""
    folder = finished(tmp_path, config=config)
    refused(tmp_path, f"{folder}: its {words}")
    refused(tmp_path, words, rows=("full",))
    (folder / "evaluation.json").unlink()
    refused(tmp_path, words)


def test_a_stage_that_differs_is_named(tmp_path: Path, refused: Callable[..., None]) -> None:
    """By its number and what is in it."""
    config = preset("ballplay", "full")
    first = replace(config.stages[0], after=7)
    finished(tmp_path, "full-0", replace(config, stages=(first, *config.stages[1:])))
    after = preset("ballplay", "full").stages[0].after
    refused(
        tmp_path,
        f"full-0: its stages[0].after is 7, the table asks for {after}",
        rows=("full",),
        more=("--task", "ballplay"),
    )


def test_what_does_not_matter_may_differ(tmp_path: Path, idle: list[str]) -> None:
    """Budget, device, threads, kernels, and in which words the clips are named."""
    config = preset("starter")
    config = replace(config, device="cpu", threads=3, data="starter", ppo=replace(config.ppo, fused=True))
    folder = finished(tmp_path, config=config)
    save_config(replace(load_config(folder), budget=Budget(minutes=3.0)), folder)
    assert table(tmp_path) == 0
    assert table(tmp_path, "--data", str(starter().clips)) == 0
    assert idle == []


def test_clips_of_a_noisy_row_are_compared(tmp_path: Path, idle: list[str], refused: Callable[..., None]) -> None:
    """They move along with the table; but they must be made of those that are named."""
    out = tmp_path / "out"
    config = replace(preset("starter"), data="/where/it/was/clips-10mm")
    finished(out, "sm@10mm-0", config)
    noisy_clips(starter(), None, 10.0, out / "clips-10mm")
    assert table(out, name="noise", rows=("sm@10mm",)) == 0
    assert idle == []
    other = [replace(clip, object_pos=clip.object_pos + 0.5) for clip in task_clips(starter())]
    save_clips(other, tmp_path / "other")
    more = ("--data", str(tmp_path / "other"))
    refused(out, "clips-10mm: other clips than those of 'starter'", name="noise", rows=("sm@10mm",), more=more)
    finished(out, "sm@10mm-0", replace(config, data="/where/it/was/clips-20mm"))
    refused(out, 'data is "/where/it/was/clips-20mm"', name="noise", rows=("sm@10mm",))


def test_only_runs_of_the_table_are_in_it(tmp_path: Path, idle: list[str]) -> None:
    """A seed is a number; other seeds and rows count if they are finished."""
    finished(tmp_path)
    for name in ("sm-12", "full-0", "full-3"):
        finished(tmp_path, name)
    for name in ("sm-clean", "sm-own", "sm-00", "sm-", "notes", "sm+he-0"):
        trained_run(tmp_path / name, preset("starter"), SAMPLES)
        write_json(tmp_path / name / "evaluation.json", measured().to_dict())
    finished(tmp_path, "sm-5", samples=SAMPLES // 2)
    assert table(tmp_path) == 0
    assert counts(tmp_path) == {"sm": 2, "full": 2}
    assert idle == []


def test_a_run_of_another_task_is_refused(tmp_path: Path, refused: Callable[..., None]) -> None:
    """Whether its row was asked for or not; the paper's pairs would be looked for in vain."""
    finished(tmp_path)
    trained_run(tmp_path / "full-4", replace(preset("ballplay", "full"), seed=4), SAMPLES)
    write_json(tmp_path / "full-4" / "evaluation.json", evaluation_of(ballplay().skills, 0.5).to_dict())
    refused(tmp_path, "full-4: holds a run of ('ballplay', 'full', 4), the table asks for ('starter', 'full', 4)")
    refused(
        tmp_path,
        "sm-0: holds a run of ('starter', 'sm', 0), the table asks for ('ballplay', 'sm', 0)",
        rows=("full",),
        more=("--task", "ballplay"),
    )


def test_rows_that_differ_only_later_are_refused(tmp_path: Path, refused: Callable[..., None]) -> None:
    """States of the policy's own come in a late stage: before it sm and sm+own are one training, a sample later not."""
    own, plain = preset("ballplay", "sm+own"), preset("ballplay", "sm")
    begins = min(stage.after for stage in own.stages if own.at(stage.after).env != plain.at(stage.after).env)
    words = f"task 'ballplay': sm and sm+own are the same training for the first {begins:,} samples"
    rows = ("sm", "sm+own")
    refused(tmp_path, words, name="own", rows=rows, samples=begins, more=("--task", "ballplay"))
    module._check_rows_differ([Row(label) for label in rows], ballplay(), begins + 1)
    trained_run(tmp_path / "sm-0", plain, begins)  # of an earlier command, which had it alone
    refused(tmp_path, words, name="own", rows=("sm+own",), samples=begins, more=("--task", "ballplay"))
