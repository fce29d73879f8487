"""Commands: every mistake is one line, exit code 2, and leaves nothing behind; the story works end to end."""

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from skillfield.cli.main import COMMANDS, main
from skillfield.cli.tasks import Tasks
from skillfield.errors import ConfigError, SkillfieldNote
from skillfield.experiments.starter.authoring import CLIP_FOLDER
from skillfield.files import claimed

TINY = ["--num-envs", "32", "--ppo.horizon", "4", "--ppo.minibatch", "64", "--ppo.hidden", "16"]


def train_tiny(folder: Path, samples: int = 512) -> None:
    assert main(["train", "starter", "--method", "sm", "--samples", str(samples), "--out", str(folder), *TINY]) == 0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train_tiny(folder)
    return folder


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """And asking for nothing is asking for help."""
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(f"skillfield {name}" in text for name in COMMANDS)


def test_a_group_of_commands_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """`data --help` lists what there is under data, and nothing else; `data nonsense` is a mistake."""
    assert main(["data", "--help"]) == 0
    text = capsys.readouterr().out
    listed = [name for name in COMMANDS if f"skillfield {name} " in text]
    assert listed == [name for name in COMMANDS if name.startswith("data ")]
    assert main(["data", "nonsense"]) == 2
    assert "unknown command 'data nonsense'; known: data check, data show" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help ends well."""
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dance"], "unknown command 'dance'"),
        (["data", "dance"], "unknown command 'data dance'"),
        (["train", "golf"], "unknown task 'golf'; known: starter"),
        (["train", "starter", "--method", "magic"], "unknown method 'magic'; known: sm, sm+nsi"),
        (["train", "starter", "--minutes", "-1"], "minutes is -1.0, it must be positive"),
        (["train", "starter", "--device", "cuda:x"], "unknown device 'cuda:x'; known: auto, cpu, cuda, cuda:0"),
        (["train", "--resume", "nowhere"], "nowhere/config.json: no such file"),
        (["evaluate", "nowhere"], "nowhere: no such run folder, and no policy of that name is shipped"),
        (["render", "nowhere"], "nowhere: no such run folder, and no policy of that name is shipped"),
        (["export", "nowhere", "--out", "nowhere.onnx"], "nowhere: no such run folder"),
        (["data", "show", "nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The message names the thing, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err.splitlines()[0]
    assert not list(tmp_path.iterdir())


def test_a_run_folder_holds_config_metrics_and_checkpoint(run: Path) -> None:
    """The resolved configuration, a line per report, and the newest checkpoint."""
    config = json.loads((run / "config.json").read_text())
    assert (config["task"], config["num_envs"]) == ("starter", 32)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["samples"] == 512
    assert {"reward/hold", "share/simulation", "samples_per_second"} <= set(lines[-1])
    assert (run / "checkpoints" / "latest").is_file()


def test_a_run_is_not_overwritten(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run into the same folder is refused."""
    assert main(["train", "starter", "--method", "sm", "--samples", "512", "--out", str(run), *TINY]) == 2
    assert "already holds a run" in capsys.readouterr().err


def test_a_run_that_came_to_no_checkpoint_gives_way(run: Path, tmp_path: Path) -> None:
    """There is nothing to go on with, and nothing to lose; a config.json of somebody else's is left alone."""
    folder = tmp_path / "my run"
    folder.mkdir()
    shutil.copy(run / "config.json", folder)
    (folder / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text() * 2)
    train_tiny(folder)
    assert (folder / "checkpoints" / "latest").is_file()
    assert len((folder / "metrics.jsonl").read_text().splitlines()) < 2 * len(
        (run / "metrics.jsonl").read_text().splitlines()
    )
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"theme": "dark"}')
    assert main(["train", "starter", "--method", "sm", "--samples", "512", "--out", str(other), *TINY]) == 2
    assert json.loads((other / "config.json").read_text()) == {"theme": "dark"}


def test_nobody_makes_room_in_a_folder_where_another_is_at_work(run: Path, tmp_path: Path) -> None:
    """A run that has no checkpoint yet may be one that is training."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(run / "config.json", folder)
    with claimed(folder, ConfigError):
        assert main(["train", "starter", "--method", "sm", "--samples", "512", "--out", str(folder), *TINY]) == 2
    assert (folder / "config.json").exists()


def test_what_is_to_be_typed_next_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with a space in its name is one word."""
    folder = tmp_path / "my run"
    assert main(["train", "starter", "--method", "sm", "--samples", "512", "--out", str(folder), *TINY]) == 0
    command = capsys.readouterr().out.splitlines()[-1].removeprefix("next: skillfield ")
    assert shlex.split(command) == ["evaluate", str(folder)]


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk, before anything is trained."""

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "run" / "config.json"))

    monkeypatch.setattr("skillfield.files.os.replace", full)
    arguments = ["train", "starter", "--method", "sm", "--samples", "512", "--out", str(tmp_path / "run"), *TINY]
    assert main(arguments) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == f"error: {tmp_path / 'run' / 'config.json'}: cannot be written: No space left on device"


def test_a_run_can_be_resumed_with_a_larger_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes on where it stopped; a smaller one is refused, and nothing changes."""
    folder = tmp_path / "run"
    train_tiny(folder)
    assert main(["train", "--resume", str(folder), "--samples", "1024"]) == 0
    samples = [json.loads(line)["samples"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert samples[-1] == 1024
    assert samples == sorted(samples)
    settings = (folder / "config.json").read_text()
    assert main(["train", "--resume", str(folder), "--samples", "512"]) == 2
    assert "has had 1,024 samples" in capsys.readouterr().err
    assert (folder / "config.json").read_text() == settings


@pytest.mark.parametrize("other", ["ballplay", "golf"])
def test_a_run_does_not_go_on_with_another_task(other: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused by both names, whether there is such a task or not, and nothing changes."""
    settings = (run / "config.json").read_text()
    for words in ([other, "--resume", str(run)], [f"--resume={run}", "--samples", "1024", other]):
        assert main(["train", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == f"error: {run}: a run of task 'starter', not of '{other}'; --resume goes on as it is"
    assert (run / "config.json").read_text() == settings


def test_a_run_goes_on_with_its_own_task(tmp_path: Path) -> None:
    """Which may be named, in a folder that is called like another."""
    folder = tmp_path / "ballplay"
    train_tiny(folder)
    assert main(["train", "starter", "--resume", str(folder), "--samples", "1024"]) == 0
    assert json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["samples"] == 1024


def test_a_run_whose_clips_have_moved_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told where they lie now, and remembers it; other clips are refused."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CLIP_FOLDER, "clips")
    new = ["train", "starter", "--method", "sm", "--samples", "512", "--data", "clips", "--out", "run", *TINY]
    assert main(new) == 0
    Path("clips").rename("moved")
    settings = Path("run/config.json").read_text()
    more = ["train", "--resume", "run", "--samples", "1024"]
    for where, message in (
        ([], f"no clips (*.npz) in {tmp_path / 'clips'}"),
        (["--data", "courtside"], "no clip of ['hold', 'toss']"),
    ):
        assert main([*more, *where]) == 2
        assert message in capsys.readouterr().err
        assert Path("run/config.json").read_text() == settings
    assert main([*more, "--data", "moved"]) == 0
    assert json.loads(Path("run/config.json").read_text())["data"] == str(tmp_path / "moved")
    assert json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])["samples"] == 1024


def test_evaluate_prints_json_and_writes_it(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both say the same; a picture that is drawn besides does not disturb what is printed."""
    picture = tmp_path / "matrix.png"
    arguments = ["--trials", "2", "--transition-trials", "1", "--json", "--matrix", str(picture)]
    assert main(["evaluate", str(run), *arguments]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = json.loads(capsys.readouterr().out)
    assert (printed["trials"], printed["transition_trials"]) == (2, 1)
    assert printed == json.loads((run / "evaluation.json").read_text())
    assert set(printed["success_rate"]) == {"dribble_forward", "dribble_left", "dribble_right", "hold", "toss"}


def test_a_checkpoint_of_other_skills_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names both lists."""
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run), str(folder)], check=True)
    state = next((folder / "checkpoints").glob("*/state.json"))
    content = json.loads(state.read_text())
    content["identity"]["skills"] = ["juggle"]
    state.write_text(json.dumps(content))
    assert main(["evaluate", str(folder)]) == 2
    assert "['juggle']" in capsys.readouterr().err


def test_ctrl_c_saves_a_checkpoint_and_says_how_to_go_on(tmp_path: Path) -> None:
    """An interrupted run ends with exit code 130 and can be resumed."""
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "skillfield.cli.main",
        "train",
        "starter",
        "--minutes",
        "5",
        "--out",
        str(folder),
        *TINY,
    ]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background of a shell do not hear it
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heard) as process:
        try:
            while not (folder / "metrics.jsonl").exists():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert f"skillfield train --resume {folder}" in output
    assert (folder / "checkpoints" / "latest").is_file()


def test_a_note_is_said_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two policies that lack the same recordings need one line; two different notes are two."""

    def run(_: Tasks) -> int:
        for note in ("one", "one", "two"):
            warnings.warn(note, SkillfieldNote, stacklevel=1)
        return 0

    monkeypatch.setattr(Tasks, "run", run)
    assert main(["tasks"]) == 0
    assert capsys.readouterr().err.splitlines() == ["note: one", "note: two"]
