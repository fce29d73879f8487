"""The public recordings, where they are at hand: mended, told apart, and alike but for their noise."""

from pathlib import Path

import numpy as np
import pytest

from skillfield.characters import Character
from skillfield.clips.ballplay import read_recording, recording_files, skill_of
from skillfield.errors import ClipError
from skillfield.reference import ReferenceMotion
from skillfield.reference.importing import MAX_JOINT_SPEED, import_recording

REAL_SKILLS = {
    "009_006pickle_dribble2shot": "shot",
    "011_018pickle_lrun_2": "dribble_left",
    "012_018pickle_pick2rrun_3": "dribble_right",
    "013_018pickle_run2_5": "dribble_forward",
    "013_018pickle_run_4": "dribble_forward",
    "031_015pickle_layup_001_006": "layup",
}


def test_the_six_public_clips_are_mended(demonstrations: Path, full: Character) -> None:
    """Bodies within 2 mm on average instead of 3 to 4 cm, feet within 6 mm of the floor, no joint over 30 rad/s."""
    found = {}
    for path in recording_files(demonstrations / "ballplay"):
        each = import_recording(read_recording(path), full)
        found[each.clip.name] = each.clip.skill
        assert 0.03 < each.before.fit_mean < 0.04
        assert each.after.fit_mean < 0.002
        assert each.before.depth_mean > 0.02
        assert each.after.depth_mean < 0.006
        assert each.after.joint_speed <= MAX_JOINT_SPEED * 1.001
        assert len(ReferenceMotion([each.clip], full, [each.clip.skill]).qpos) == len(each.clip)
    assert found == REAL_SKILLS


@pytest.mark.parametrize("noise", ["0.01", "0.02", "0.03", "0.05"])
def test_the_public_noise_variants_differ_in_the_ball_alone(demonstrations: Path, full: Character, noise: str) -> None:
    """Same body to the last bit, ball off by exactly the noise."""
    take = "run/013_018pickle_run_4.pt"
    clean = import_recording(read_recording(demonstrations / "ballplay" / take), full).clip
    noisy = import_recording(read_recording(demonstrations / "ballplay_noise" / noise / take), full).clip
    np.testing.assert_array_equal(noisy.joint_pos, clean.joint_pos)
    moved = np.linalg.norm(noisy.object_pos - clean.object_pos, axis=-1)
    np.testing.assert_allclose(moved, float(noise), atol=1e-5)


@pytest.mark.parametrize(("folder", "skill"), [("locomotion", "getup"), ("locomotion", "run"), ("pickup", "pickup")])
def test_other_public_recordings_are_imported(demonstrations: Path, full: Character, folder: str, skill: str) -> None:
    """Getting up, running and picking up: one of each."""
    files = recording_files(demonstrations / folder)
    each = import_recording(read_recording(next(path for path in files if skill_of(path)[0] == skill)), full)
    assert each.after.fit_mean < 0.002
    assert each.after.depth_mean < 0.006


def test_public_household_recordings_are_told_apart(demonstrations: Path) -> None:
    """A ParaHome file is refused as what it is."""
    with pytest.raises(ClipError, match="ParaHome"):
        read_recording(recording_files(demonstrations / "parahome")[0])
