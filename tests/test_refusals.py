"""Bad input and bad luck around a trained policy: one line that says what is wrong, and no work is lost."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skillfield as sf
from figures import evaluation_of
from skillfield.cli.main import main
from skillfield.errors import CheckpointError, ClipError, SkillfieldError, SkillfieldNote, ViewerError
from skillfield.experiments.recordings import clip_folder
from skillfield.experiments.shipped import run_folder
from skillfield.experiments.tasks import starter
from skillfield.learning.checkpoint import latest_checkpoint
from skillfield.reporting.runs import read_evaluation
from skillfield.viewer.serving import check_server


def test_a_policy_starts_from_the_clips_that_are_named() -> None:
    """A task's name is one of them; a folder without clips is an error and not a policy without starts."""
    policy = sf.load_policy("ballplay", data="courtside")
    assert policy.model.nkey == 5
    with pytest.raises(ClipError, match=r"no clips .* in /nowhere"):
        sf.load_policy("ballplay", data="/nowhere")


def test_a_clip_that_cannot_be_used_is_named_with_its_folder(tmp_path: Path) -> None:
    """When a policy is to be trained on it, before anything begins."""
    clips = sf.load_clips(clip_folder(starter()))
    spoilt = clips[0].joint_pos.copy()
    spoilt[3] = np.nan
    sf.save_clips([replace(clips[0], joint_pos=spoilt), *clips[1:]], tmp_path / "mine")
    message = rf"{tmp_path / 'mine'}: clip '{clips[0].name}': joint_pos is not finite in frame 3"
    with pytest.raises(ClipError, match=message):
        sf.train(starter(), samples=100, data=tmp_path / "mine", run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_figures_that_cannot_be_kept_are_still_shown(tmp_path: Path) -> None:
    """A folder in which nothing can be written costs a note, not the trials."""
    shutil.copytree(run_folder("starter"), tmp_path / "run")
    (tmp_path / "run" / "evaluation.json").mkdir()
    with pytest.warns(SkillfieldNote, match=r"evaluation\.json cannot be written: Is a directory"):
        result = sf.evaluate(tmp_path / "run", trials=1)
    assert len(result.success_rate) == 5


BRIEFLY = ("--port", "0", "--seconds", "0.1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "starter", "--out", "folder.onnx"], "--out is folder.onnx: it must be a file"),
        (["export", "starter", "--out", "file/x.onnx"], "file: cannot be written: File exists"),
        (["export", "starter", "--out", "x.onnx", "--data", "/nowhere"], "no clips (*.npz) in /nowhere"),
        (["bench", "starter", "--seconds", "0.01", "--worlds", "4", "--out", "file/x.json"], "file: cannot be written"),
        (["export", "starter", "--out", "beside.onnx"], "beside.json, which belongs beside it, is a folder"),
        (["export", "starter", "--out", f"{'x' * 300}.onnx"], ".onnx: cannot be written: File name too long"),
        (["play", "starter", *BRIEFLY, "--character", "nix"], "--character means nothing without --clips"),
        (["play", "--clips", "starter", *BRIEFLY, "--data", "/nowhere"], "--data means nothing with --clips"),
        (["play", "--clips", "starter", *BRIEFLY, "--films", "/dev/null/x"], "--films means nothing with --clips"),
        (["play", "starter", "--seconds", "0"], "--seconds is 0"),
        (["play", "starter", "--seconds", "nan"], "--seconds is nan"),
        (["data", "show", "starter", "--frames", "0"], "--frames is 0"),
        (["data", "record", "starter", "--out", "new", "--after", "nan"], "nan s after their start"),
        (["data", "record", "starter", "--out", "new", "--stand", "inf"], "inf s standing"),
        (["render", "starter", "--seconds", "inf"], "cannot film inf s"),
        (
            ["render", "starter", "--out", "film"],
            "--out is film: it must be a file whose name ends in .mp4, .gif or .png",
        ),
        (["render", "starter", "--out", "film.avi"], "--out is film.avi: it must be a file"),
        (["render", "starter", "--out", "folder.mp4"], "--out is folder.mp4: it must be a file"),
        (["evaluate", "starter", "--seed", "99999999999999999999"], "seed is 99999999999999999999"),
        (["experiment", "main", "--out", "file"], "--out is file: file is a file, not a folder"),
        (["experiment", "main", "--out", "file/x", "--jobs", "2"], "--out is file/x: file is a file, not a folder"),
        (["experiment", "main", "--trials", "99999999999999"], "trials is 99999999999999: "),
        (["experiment", "main", "--transition-trials", "99999999999999"], "transition_trials is 99999999999999: "),
        (["render", "starter", "--script", "hold 99999s"], "'hold 99999s' lasts 99999 s"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And leaves everything as it was."""
    if arguments[0] == "export":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    folders = ["beside.json", "folder.mp4", "folder.onnx"]
    for folder in folders:
        (tmp_path / folder).mkdir()
    (tmp_path / "file").touch()
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.rglob("*")} == {"file", *folders}


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"7" * 300], ids=["bytes", "long"])
def test_a_damaged_name_of_the_newest_checkpoint_is_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is to be done with the run."""
    run = tmp_path / "run"
    shutil.copytree(run_folder("starter"), run)
    (run / "state.json").unlink()
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "latest").write_bytes(content)
    with pytest.raises(CheckpointError, match=f"^{run / 'checkpoints' / 'latest'}"):
        latest_checkpoint(run)
    assert main(["evaluate", str(run), "--trials", "1"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_address_of_another_machine_is_not_a_taken_port() -> None:
    """192.0.2.1 belongs to nobody."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    with pytest.raises(ViewerError, match=r"--host 192\.0\.2\.1: not an address of this machine"):
        check_server("192.0.2.1", 0)


SKILLS = starter().skills
ACROSS = evaluation_of(SKILLS, 0.5).transition_rate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalised_reward": dict.fromkeys(SKILLS, "0.5")}, "'0.5' is no share"),
        ({"success_rate": dict.fromkeys(SKILLS, 17)}, "17 is no share"),
        ({"trials": "5"}, "'5' trials"),
        ({"transition_trials": 0}, "0 trials"),
        ({"seconds": "ten"}, "trials of 'ten' s"),
        ({"transition_rate": {"juggle": {"hold": 0.5}}}, "transitions between other skills"),
        ({"success_interval": {"hold": [0.5, 2]}}, "2 is no share"),
        ({"success_interval": {"hold": [0.5, 1]}}, r"figures of \['hold'\] beside"),
        ({"success_interval": {}}, r"figures of \[\] beside"),
        ({"success_rate": dict.fromkeys(SKILLS, True)}, "True is no share"),
        ({"seconds": None}, "trials of None s"),
        ({"seconds": True}, "trials of True s"),
        ({"trials": True}, "True trials"),
        ({"trials": None}, "None trials"),
        ({"seed": "x"}, "seed 'x'"),
        ({"samples": -1}, "-1 samples"),
        ({"samples": True}, "True samples"),
        ({"device": 3}, "measured on 3"),
        ({"transition_rate": ACROSS | {"toss": {"hold": 0.5}}}, "no transition from toss into dribble_forward"),
        ({"transition_rate": {}}, "no transition from dribble_forward into dribble_left"),
        ({"transition_rate": ACROSS | {"toss": ACROSS["toss"] | {"toss": 0.5}}}, "a transition from toss into itself"),
    ],
)
def test_figures_that_are_none_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    """With the file and what to do."""
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps(evaluation_of(SKILLS, 0.5).to_dict() | change))
    with pytest.raises(SkillfieldError, match=rf"evaluation\.json: no evaluation of this version \({message}"):
        read_evaluation(path)


def test_what_could_not_be_measured_is_read_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has null for it, and tables a dash."""
    path = tmp_path / "evaluation.json"
    path.write_text(
        json.dumps(evaluation_of(SKILLS, 0.5).to_dict() | {"normalised_reward": dict.fromkeys(SKILLS, None)})
    )
    read = read_evaluation(path).normalised_reward
    assert all(value != value for value in read.values())
    assert main(["evaluate", str(path)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"average .*│ +– │", shown)
    assert "nan" not in shown
