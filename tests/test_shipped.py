"""Policies that come with the package."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import skillfield as sf
from skillfield.api import env_factory, evaluate, load_networks
from skillfield.cli.films import load_performers
from skillfield.cli.main import main
from skillfield.errors import CheckpointError, ClipError, SkillfieldNote
from skillfield.evaluation.plan import starts_at
from skillfield.evaluation.rollout import run_trials
from skillfield.experiments.courtside import CLIP_FOLDER
from skillfield.experiments.loading import load_run
from skillfield.experiments.recordings import clip_folder
from skillfield.experiments.run import load_config, save_config
from skillfield.experiments.shipped import is_shipped, pack_policy, run_folder, shipped_policies
from skillfield.experiments.tasks import ballplay


def test_a_folder_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`starter` is the shipped policy unless there is a folder of that name here."""
    monkeypatch.chdir(tmp_path)
    assert run_folder("starter") == shipped_policies()["starter"]
    assert is_shipped(run_folder("starter"))
    Path("starter").mkdir()
    assert run_folder("starter") == Path("starter")


def test_what_is_neither_is_told(tmp_path: Path) -> None:
    """A policy where its name is asked for is a mistake soon made."""
    said = r"a run is its folder, or the name of a policy that is shipped \['ballplay', .*'starter'.*\], not a "
    with pytest.raises(CheckpointError, match=f"{said}int$"):
        sf.train("starter", samples=1, run=tmp_path / "run", start_from=3)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=f"{said}Policy$"):
        sf.evaluate(sf.load_policy("starter"), 1)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=f"{said}Policy$"):
        sf.resume(sf.load_policy("starter"))  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_an_unknown_name_says_what_is_there() -> None:
    """Neither a folder nor a shipped policy: both are named."""
    with pytest.raises(CheckpointError, match=r"nowhere: no such run folder.*'starter'"):
        run_folder("nowhere")


def test_half_precision_hardly_changes_what_it_does(tmp_path: Path) -> None:
    """A packed policy is smaller and acts as the run it was made of."""
    source = run_folder("starter")
    pack_policy(source, tmp_path / "packed")
    model, again = load_networks(source), load_networks(tmp_path / "packed")
    seen = torch.randn(64, model.normaliser.mean.numel(), generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.act(seen), again.act(seen))


def test_the_starter_policy_has_its_skills() -> None:
    """What is shipped works: the easy skills nearly always, and nothing is written beside it."""
    result = evaluate("starter", trials=8)
    assert result.averages()["success_rate"] > 0.8
    assert not (run_folder("starter") / "evaluation.json").exists()


@pytest.fixture
def nothing_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No recordings anywhere."""
    monkeypatch.delenv("SKILLFIELD_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


_DRIBBLES = ("dribble_forward", "dribble_left", "dribble_right")


@pytest.mark.usefixtures("nothing_imported")
@pytest.mark.parametrize(
    ("name", "method", "skills"), [("ballplay", "full", (*_DRIBBLES, "layup")), ("ballplay-sm", "sm", _DRIBBLES)]
)
def test_without_recordings_the_humanoid_starts_from_our_own_clips(
    name: str, method: str, skills: tuple[str, ...]
) -> None:
    """Nothing has to be downloaded to see it: three seconds of each skill that it has, and it says so."""
    with pytest.warns(SkillfieldNote, match="recordings of 'ballplay' are not here.*'courtside'"):
        loaded = load_run(name)
    assert loaded.config.method == method
    assert (loaded.config.data, loaded.other_clips) == (str(CLIP_FOLDER), "courtside")
    make_env = env_factory(loaded.task, loaded.config, loaded.networks)
    motion = make_env(1).motion
    clips = torch.tensor([clip for clip, skill in enumerate(motion.skill.tolist()) if motion.skills[skill] in skills])
    frame = torch.full_like(clips, 10)
    env = make_env(len(clips))
    trials = run_trials(env, loaded.networks, starts_at(env.motion, clips, frame), 180)
    assert trials.alive[-1].all()
    assert (trials.object_pos_w - trials.root_pos_w).norm(dim=-1).max() < 2.5


@pytest.mark.usefixtures("nothing_imported")
def test_without_recordings_it_can_be_filmed_too() -> None:
    """From the same clips."""
    with pytest.warns(SkillfieldNote, match="courtside"):
        (performer,) = load_performers(["ballplay"])
    assert performer.skills == ballplay().skills
    assert set(performer.env.motion.names) == {clip.stem for clip in CLIP_FOLDER.glob("*.npz")}


@pytest.mark.usefixtures("nothing_imported")
def test_a_note_is_one_line_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And a run of one's own is told how to get the recordings, or what to use instead."""
    out = tmp_path / "clips"
    assert main(["data", "record", "ballplay", "--out", str(out), "--skills", "dribble_left", "--attempts", "1"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("note: the recordings of 'ballplay'")] == said
    assert len(said) == 1
    with pytest.raises(ClipError, match="--data courtside"):
        clip_folder(ballplay())
    assert clip_folder(ballplay(), Path("courtside")) == CLIP_FOLDER


def test_a_packed_policy_does_not_ask_for_the_machine_that_it_learned_on(tmp_path: Path) -> None:
    """Neither the folder of its clips nor a GPU is there."""
    shutil.copytree(run_folder("starter"), tmp_path / "run")
    save_config(replace(load_config(tmp_path / "run"), data="/somewhere/else", device="cuda"), tmp_path / "run")
    pack_policy(tmp_path / "run", tmp_path / "packed")
    packed = load_config(tmp_path / "packed")
    assert (packed.data, packed.device) == (None, "auto")


def test_every_shipped_policy_is_small() -> None:
    """Less than ten megabytes each."""
    for folder in shipped_policies().values():
        assert sum(file.stat().st_size for file in folder.iterdir()) < 10e6
