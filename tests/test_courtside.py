"""The shipped basketball clips: whole, ours, physically valid; and the task that learns from them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import skillfield
from skillfield.characters import Character
from skillfield.characters.humanoid import humanoid
from skillfield.cli.main import main
from skillfield.clips import CONTACT_PAIRS, Clip, clip_files, load_clips
from skillfield.evaluation.court import ShotRule
from skillfield.experiments.courtside import CLIP_FOLDER, courtside
from skillfield.experiments.recordings import clip_folder, task_clips
from skillfield.experiments.run import preset
from skillfield.experiments.tasks import TASKS, ballplay
from skillfield.reference.checking import check_against_character
from skillfield.reference.depths import clip_depths
from skillfield.reference.motion import clip_positions

CLIPS = load_clips(CLIP_FOLDER)
PAGE = Path(__file__).parents[1] / "docs" / "courtside.md"


@pytest.fixture(scope="module")
def body() -> Character:
    """What the clips were simulated with."""
    return humanoid("fused")


def of_name(clip: Clip) -> str:
    """A test's name for a clip."""
    return clip.name


def test_a_clip_may_be_of_either_name_of_its_character(body: Character) -> None:
    """The one that all variants of the humanoid share, or the variant's own."""
    same = replace(CLIPS[0], character=body.name)
    assert torch.equal(clip_positions(same, body), clip_positions(CLIPS[0], body))


def test_there_is_a_clip_of_every_skill() -> None:
    """Two of the forward dribble, as in BallPlay-M; files are called as their clips."""
    skills = [clip.skill for clip in CLIPS]
    assert sorted(skills) == sorted([*ballplay().skills, "dribble_forward"])
    assert [file.stem for file in clip_files(CLIP_FOLDER)] == [clip.name for clip in CLIPS]


@pytest.mark.parametrize("clip", CLIPS, ids=of_name)
def test_a_clip_is_short_whole_and_says_where_it_comes_from(clip: Clip) -> None:
    """One to three seconds and a third, as the captured ones; the policy's rate; nothing missing, nothing mended."""
    assert 1.0 <= clip.seconds <= 10 / 3
    assert clip.fps == 60.0
    assert clip.valid.all()
    assert clip.corrections == ()
    assert clip.source.startswith("recorded from a policy, 0.25 s after a start in frame")
    assert re.search(r"; (the whole trial of 10 s is a success|it stands 1 s beyond that clip's end, but)", clip.source)
    assert re.search(r"; simulated by MuJoCo [\d.]+; \d{4}-\d\d-\d\d; ", clip.source)
    assert "trained on BallPlay-M" in clip.source


@pytest.mark.parametrize("clip", CLIPS, ids=of_name)
def test_a_clip_passes_the_checks(clip: Clip, body: Character) -> None:
    """No error; the only warnings are of soft contacts, and they stay within what those do."""
    findings = check_against_character(clip, body, courtside().skills)
    assert {finding.severity for finding in findings} <= {"warning"}
    soft = r"object 'ball' is (below the floor|inside the character)|the character is below the floor"
    assert [finding.what for finding in findings if not re.fullmatch(soft, finding.what)] == []
    depths = clip_depths(clip, body)
    assert depths.character_in_floor < 0.03
    assert depths.object_in_floor < 0.12
    assert depths.object_in_character < 0.07


@pytest.mark.parametrize("clip", CLIPS, ids=of_name)
def test_a_ball_that_nothing_touches_falls(clip: Clip) -> None:
    """Its height changes by gravity alone, as no captured ball's does; but for a rare touch between two frames."""
    free = (clip.contacts[:, :2] == 0).all(axis=1) & (clip.object_pos[:, 0, 2] > 0.25)
    alone = free[:-2] & free[1:-1] & free[2:]
    assert alone.sum() >= 5
    acceleration = np.diff(clip.object_pos[:, 0, 2].astype(np.float64), 2) * clip.fps**2
    assert np.mean(np.abs(acceleration[alone] + 9.81) < 0.01) > 0.8


def test_depths_are_measured(body: Character) -> None:
    """A scene that is pressed three centimetres into the floor is three centimetres deeper there, and nowhere else."""
    clip = next(clip for clip in CLIPS if clip.skill == "layup")
    sunk = np.array([0, 0, 0.03], np.float32)
    lower = replace(clip, root_pos=clip.root_pos - sunk, object_pos=clip.object_pos - sunk)
    before, after = clip_depths(clip, body), clip_depths(lower, body)
    assert after.character_in_floor == pytest.approx(before.character_in_floor + 0.03, abs=1e-3)
    assert after.object_in_floor == pytest.approx(before.object_in_floor + 0.03, abs=1e-3)
    assert after.object_in_character == pytest.approx(before.object_in_character, abs=1e-3)


def test_no_captured_clip_is_shipped() -> None:
    """Recordings open their name with a number of three digits, and imports label one pair; and it all stays small."""
    package = Path(skillfield.__file__).parent
    shipped = sorted(package.rglob("*.npz"))
    assert len(shipped) > len(CLIPS)
    assert [file for file in shipped if re.match(r"\d{3}", file.stem) or "pickle" in file.stem] == []
    assert list(package.rglob("*.pt")) == []
    for clip in CLIPS:
        assert clip.name.startswith(f"courtside_{clip.skill}_")
        assert clip.contact_names == CONTACT_PAIRS
    assert sum(file.stat().st_size for file in clip_files(CLIP_FOLDER)) < 1_000_000


def test_the_page_describes_these_clips(body: Character) -> None:
    """Frames and depths in its table are those of the files."""
    page = PAGE.read_text()
    for clip in CLIPS:
        depths = clip_depths(clip, body)
        deep = (depths.character_in_floor, depths.object_in_floor, depths.object_in_character)
        (row,) = re.findall(rf"^\| `{clip.name}` \|.*$", page, re.MULTILINE)
        assert f"| {len(clip)} | {clip.seconds:.2f} |" in row
        assert row.endswith("".join(f" {100 * depth:.1f} cm |" for depth in deep))


def test_the_task_is_ballplay_with_other_clips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Same skills, and settings after the guide's lesson; stages in half the samples; the recorded shot is the rule."""
    monkeypatch.setenv("SKILLFIELD_DATA", str(tmp_path))
    task, model = TASKS["courtside"](), ballplay()
    assert [stage.after for stage in task.stages] == [8e6, 90e6, 200e6, 345e6]
    assert [stage.after for stage in task.own_stages] == [200e6]
    assert task.skills == model.skills
    assert clip_folder(task) == CLIP_FOLDER
    assert (task.env, task.augmentation, task.encoder) == (model.env, model.augmentation, model.encoder)
    after = preset("courtside", "full").at(10_000_000).ppo
    assert replace(after, guided=False, critic_learning_rate=None) == model.ppo
    (shot,) = [clip for clip in CLIPS if clip.skill == "shot"]
    rule = task.trials.rules["shot"]
    assert isinstance(rule, ShotRule)
    assert rule.apex == pytest.approx(shot.object_pos[:, 0, 2].max())
    others = [skill for skill in task.skills if skill != "shot"]
    assert all(task.trials.rules[skill] == model.trials.rules[skill] for skill in others)


def test_the_humanoid_trains_on_the_shipped_clips(tmp_path: Path) -> None:
    """The command itself: two small updates of the full method on a CPU, without the guide, which takes its time."""
    run = tmp_path / "run"
    size = ["--ppo.no-guided", "--num-envs", "8", "--threads", "1", "--device", "cpu", "--samples", "64"]
    networks = ["--encoder.steps", "2", "--ppo.hidden", "8", "--ppo.horizon", "4", "--ppo.minibatch", "16"]
    assert main(["train", "courtside", "--method", "full", "--out", str(run), *size, *networks]) == 0
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["samples"] == 64
    assert 0 < last["reward"] < 1


def test_degraded_clips_are_the_same_every_time(tmp_path: Path) -> None:
    """Asked for by the task's name; the task trains on them by --data."""
    for folder in ("one", "two"):
        assert main(["data", "degrade", "courtside", "--out", str(tmp_path / folder), "--noise-mm", "20"]) == 0
    first, second = (task_clips(courtside(), tmp_path / folder) for folder in ("one", "two"))
    for clip, one, two in zip(CLIPS, first, second, strict=True):
        assert np.array_equal(one.object_pos, two.object_pos)
        moved = np.abs(one.object_pos - clip.object_pos)
        assert 0.015 < moved.max() < 0.0201
        assert np.array_equal(one.joint_pos, clip.joint_pos)


def test_the_commands_know_the_clips(capsys: pytest.CaptureFixture[str]) -> None:
    """They are listed with their task, and checked under its name."""
    assert main(["tasks"]) == 0
    assert "courtside: a humanoid and a basketball" in capsys.readouterr().out
    assert main(["data", "check", "courtside"]) == 0
    assert "6 clip(s): 0 error(s)" in capsys.readouterr().out
