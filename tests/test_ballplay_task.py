"""The basketball tasks: found recordings, missing ones, and a humanoid that trains, on a CPU and small."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from skillfield.characters.humanoid import STANDING_HEIGHT, humanoid
from skillfield.cli.main import main
from skillfield.clips import Clip, save_clip
from skillfield.errors import ClipError, DeviceError
from skillfield.experiments.recordings import clip_folder, default_folder, named_clips, task_clips
from skillfield.experiments.run import build_ppo, preset
from skillfield.experiments.tasks import ballplay, ballplay_paper, starter
from skillfield.learning.checkpoint import Counters, resume, save_checkpoint
from skillfield.simulation import choose_device

SKILLS = ballplay().skills


def standing(skill: str, frames: int = 12) -> Clip:
    """A humanoid that stands in its rest pose beside a hovering ball."""
    joints = [f"{body}_{axis}" for body in _joint_bodies() for axis in "xyz"]
    still = np.zeros((frames, 3), np.float32)
    quat = np.tile(np.array([0.5, 0.5, 0.5, 0.5], np.float32), (frames, 1))
    return Clip(
        name=skill,
        skill=skill,
        character="humanoid",
        fps=60.0,
        root_pos=still + np.array([0, 0, STANDING_HEIGHT], np.float32),
        root_quat=quat,
        joint_pos=np.zeros((frames, len(joints)), np.float32),
        object_pos=(still + np.array([0.5, 0, 1], np.float32))[:, None],
        object_quat=np.tile(np.array([1, 0, 0, 0], np.float32), (frames, 1, 1)),
        contacts=np.zeros((frames, 1), np.float32),
        joint_names=tuple(joints),
        object_names=("ball",),
    )


def _joint_bodies() -> list[str]:
    names = humanoid("full").joint_names
    return list(dict.fromkeys(name.rsplit("_", 1)[0] for name in names))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One clip for each skill, and one of another skill."""
    folder = tmp_path_factory.mktemp("data") / "ballplay"
    folder.mkdir()
    for skill in (*SKILLS, "run_no_object"):
        save_clip(standing(skill), folder / f"{skill}.npz")
    return folder


def names(clips: Sequence[Clip]) -> set[str]:
    """Of their skills."""
    return {clip.skill for clip in clips}


def test_recordings_are_found_where_they_are_said_to_be(
    recordings: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """--data first, then SKILLFIELD_DATA, then the default folder; only the task's own skills are taken."""
    monkeypatch.delenv("SKILLFIELD_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(recordings.parent / "nowhere"))
    assert names(task_clips(ballplay(), recordings)) == set(SKILLS)
    monkeypatch.setenv("SKILLFIELD_DATA", str(recordings.parent))
    assert clip_folder(ballplay()) == recordings
    monkeypatch.delenv("SKILLFIELD_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    default_folder("ballplay").parent.mkdir(parents=True)
    default_folder("ballplay").symlink_to(recordings)
    assert names(task_clips(ballplay())) == set(SKILLS)


def test_a_task_with_clips_of_its_own_needs_no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the environment says."""
    monkeypatch.setenv("SKILLFIELD_DATA", str(tmp_path))
    assert clip_folder(starter()) == starter().clips


def test_a_path_goes_before_a_tasks_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`starter` is the task's clips unless there is a folder of that name here."""
    monkeypatch.chdir(tmp_path)
    assert named_clips(Path("starter")) == starter().clips
    assert named_clips(Path("nowhere")) == Path("nowhere")
    Path("starter").mkdir()
    assert named_clips(Path("starter")) == Path("starter")


def test_missing_recordings_say_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where was looked, and the two commands."""
    monkeypatch.delenv("SKILLFIELD_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert main(["train", "ballplay"]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path / "skillfield" / "ballplay") in said
    assert "git clone" in said
    assert "skillfield data import ballplay" in said


def test_a_skill_without_a_recording_is_named(recordings: Path, tmp_path: Path) -> None:
    """Four of five are not enough."""
    for skill in SKILLS[1:]:
        save_clip(standing(skill), tmp_path / f"{skill}.npz")
    with pytest.raises(ClipError, match=r"no clip of \['dribble_forward'\]"):
        task_clips(ballplay(), tmp_path)


def test_clips_in_place_of_a_task_s_own_are_asked_for_every_skill(tmp_path: Path) -> None:
    """Four of the starter's five are not enough either, and a stranger among them is left out."""
    clips = task_clips(starter())
    for clip in [clip for clip in clips if clip.skill != "toss"]:
        save_clip(clip, tmp_path / f"{clip.name}.npz")
    with pytest.raises(ClipError, match=r"no clip of \['toss'\], which task 'starter' is to learn"):
        task_clips(starter(), tmp_path)
    for clip in clips:
        save_clip(clip, tmp_path / f"{clip.name}.npz")
    save_clip(standing("layup"), tmp_path / "layup.npz")
    assert names(task_clips(starter(), tmp_path)) == set(starter().skills)


def test_a_task_s_own_clips_are_asked_for_every_skill(tmp_path: Path) -> None:
    """Before it trains, and not when it is tested."""
    for clip in [clip for clip in task_clips(starter()) if clip.skill != "toss"]:
        save_clip(clip, tmp_path / f"{clip.name}.npz")
    with pytest.raises(ClipError, match=r"no clip of \['toss'\], which task 'starter' is to learn"):
        task_clips(replace(starter(), clips=tmp_path))


def test_the_papers_settings_are_the_papers() -> None:
    """Reward weights, chances, sharpnesses, batch and step size of its tables."""
    config = preset(ballplay_paper(), "full")
    assert (config.num_envs, config.ppo.horizon, config.ppo.minibatch, config.ppo.learning_rate) == (
        2048,
        32,
        16384,
        2e-5,
    )
    augmentation = config.augmentation
    assert (augmentation.p_external, augmentation.p_neighbour) == (0.1, 0.1)
    assert (augmentation.frame_sharpness, augmentation.skill_sharpness) == (10.0, 5.0)
    assert (augmentation.velocity, augmentation.margin) == (0.0, 0.0)
    assert config.encoder.horizons == (1,)


def test_the_humanoid_learns_end_to_end(recordings: Path, tmp_path: Path) -> None:
    """One update on the CPU; a checkpoint too large for its worlds resumes into new episodes."""
    config = preset("ballplay", "full")
    config = replace(
        config,
        num_envs=4,
        threads=1,
        device="cpu",
        data=str(recordings),
        encoder=replace(config.encoder, steps=2),
        ppo=replace(config.ppo, hidden=(8,), horizon=3, minibatch=8),
    )
    ppo = build_ppo(config)
    metrics = ppo.update(0.0)
    assert np.isfinite(metrics["reward"])
    identity = config.identity(ppo.env.motion.skills)
    save_checkpoint(tmp_path, ppo, Counters(updates=1), identity)
    again = build_ppo(config)
    resume(tmp_path / "checkpoints" / "00000001", again, identity)
    assert again.observation is not None


def test_worlds_that_are_too_many_are_left_out(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The networks still come back to the bit, and the run begins new episodes."""
    monkeypatch.setattr("skillfield.learning.checkpoint._MAX_WORLDS", 10)
    config = preset("starter")
    config = replace(config, num_envs=4, threads=1, ppo=replace(config.ppo, hidden=(8,), horizon=3, minibatch=8))
    ppo, again = build_ppo(config), build_ppo(replace(config, seed=5))
    ppo.update(0.0)
    identity = config.identity(ppo.env.motion.skills)
    save_checkpoint(tmp_path, ppo, Counters(updates=1), identity)
    resume(tmp_path / "checkpoints" / "00000001", again, identity)
    assert again.observation is None
    for name, value in ppo.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    assert np.isfinite(again.update(0.0)["reward"])


def test_a_device_is_chosen_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, auto is the CPU and cuda an error that says what is missing."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(DeviceError, match="PyTorch sees no CUDA device"):
        choose_device("cuda")
    with pytest.raises(DeviceError, match="unknown device 'tpu'"):
        choose_device("tpu")
