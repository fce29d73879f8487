"""BallPlay recordings: what becomes of their columns, which flaws are mended, and who can follow the clips."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dancing import FLOOR_ERROR, NAME, MakeTable
from skillfield.characters import Character, humanoid
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.clips import Clip
from skillfield.clips.ballplay import read_recording
from skillfield.errors import ClipError
from skillfield.reference import ReferenceMotion
from skillfield.reference.importing import MAX_JOINT_SPEED, Imported, import_recording
from skillfield.reference.motion import clip_positions
from skillfield.rotations import (
    quat_conjugate,
    quat_from_rotvec,
    quat_multiply,
    quat_rotate,
    quat_swing,
    rotvec_between,
    rotvec_from_quat,
)


def body_positions(clip: Clip, character: Character) -> Tensor:
    """Where the character's bodies are in each frame.  [T, B, 3]"""
    return ForwardKinematics(character.model, character.body_ids)(clip_positions(clip, character))[0]


def test_columns_find_their_place(imported: Imported, make_table: MakeTable, full: Character) -> None:
    """Skill, rate, names, ball and labels are those of the file."""
    clip, table = imported.clip, make_table()
    assert (clip.name, clip.skill, clip.character, clip.fps) == (NAME[:-3], "dribble_forward", "humanoid", 60.0)
    assert (clip.joint_names, clip.object_names, clip.contact_names) == (full.joint_names, ("ball",), ("object-hand",))
    np.testing.assert_array_equal(clip.contacts[:, 0], table[:, 336])
    np.testing.assert_allclose(clip.object_pos[:, 0, :2], table[:, 324:326], atol=1e-6)
    np.testing.assert_array_equal(clip.object_quat[:, 0], np.tile([1, 0, 0, 0], (len(table), 1)))
    assert clip.valid.all()
    assert NAME in clip.source


def test_bodies_are_where_the_file_saw_them(imported: Imported, make_table: MakeTable, full: Character) -> None:
    """Rotations that disagree with the positions by centimetres are fitted to a tenth of a millimetre."""
    assert imported.before.fit_mean > 0.005
    seen = make_table()[:, 165:324].unflatten(1, (53, 3)).double()
    found = body_positions(imported.clip, full)
    lift = (found - seen)[:, :1]
    assert float((found - seen - lift).norm(dim=-1).max()) < 1e-4
    torch.testing.assert_close(lift[0, 0], torch.tensor([0.0, 0.0, FLOOR_ERROR]).double(), rtol=0, atol=5e-4)
    assert imported.after.fit_max < 1e-4


def test_the_twist_of_the_file_is_kept(make_table: MakeTable, write: Callable[..., Path], full: Character) -> None:
    """What positions cannot show, a forearm's turn about its own bone, comes from the stored rotations."""
    table = make_table()
    elbow = 9 + 3 * (full.body_names.index("left_elbow") - 1)
    bone = torch.tensor([1.0, 0.0, 0.0]).double().expand(len(table), 3)
    table[:, elbow : elbow + 3] = 0.9 * bone
    clip = import_recording(read_recording(write(table)), full).clip
    turn = turns_of(clip, "left_elbow")
    swing = quat_swing(bone, quat_rotate(turn, bone))
    twist = rotvec_from_quat(quat_multiply(quat_conjugate(swing), turn))
    torch.testing.assert_close(twist, 0.9 * bone, rtol=0, atol=1e-5)


def turns_of(clip: Clip, joint: str) -> Tensor:
    """A joint's orientation in each frame.  [T, 4]"""
    column = clip.joint_names.index(f"{joint}_x")
    return quat_from_rotvec(torch.from_numpy(clip.joint_pos[:, column : column + 3]).double())


def test_feet_and_ball_are_lifted_together(imported: Imported, make_table: MakeTable) -> None:
    """A scene 2 cm below the floor stands on it afterwards, ball included, and the correction says by how much."""
    assert imported.before.depth_mean == pytest.approx(FLOOR_ERROR - 0.01, abs=1e-3)  # its stored root is 1 cm higher
    assert imported.after.depth_mean < 5e-4
    np.testing.assert_allclose(imported.clip.object_pos[:, 0, 2], 1 + FLOOR_ERROR, atol=5e-4)
    assert any(re.search(r"lifted by (1\.9\d|2\.0\d) cm", text) for text in imported.clip.corrections)


def test_a_jump_does_not_fool_the_floor(make_table: MakeTable, write: Callable[..., Path], full: Character) -> None:
    """With the feet half a metre up in half of the frames, the floor is still where they stand in the others."""
    table = make_table()
    table[12:, 2] += 0.5
    table[12:, 167:324:3] += 0.5
    jumping = import_recording(read_recording(write(table)), full)
    assert jumping.clip.root_pos[0, 2] == pytest.approx(float(table[0, 167]) + FLOOR_ERROR, abs=5e-4)
    assert jumping.after.depth_max < 5e-4


def test_rows_of_zeros_are_missing_frames(
    make_table: MakeTable, write: Callable[..., Path], full: Character, imported: Imported
) -> None:
    """They are masked and told, and the other frames are as they would be without them."""
    table = make_table()
    table[[5, 6, 20]] = 0.0
    holed = import_recording(read_recording(write(table)), full).clip
    assert np.flatnonzero(~holed.valid).tolist() == [5, 6, 20]
    assert any("3 rows of zeros" in text for text in holed.corrections)
    for column in ("root_pos", "root_quat", "joint_pos", "object_pos"):
        ours, theirs = getattr(holed, column), getattr(imported.clip, column)
        np.testing.assert_allclose(ours[holed.valid], theirs[holed.valid], atol=1e-4)
    motion = ReferenceMotion([holed], full, ["dribble_forward"])
    assert bool(motion.qpos.isfinite().all())


def with_flip(table: Tensor, full: Character, frame: int) -> Tensor:
    """The right index finger bends back for one frame, in positions and rotations alike."""
    table, middle = table.clone(), full.body_names.index("right_index_2")
    table[frame, 6 + 3 * middle : 9 + 3 * middle] = torch.tensor([0.0, 0.0, 2.5])
    positions = table[frame, 165:324].view(53, 3)
    positions[middle + 1] = 2 * positions[middle] - positions[middle + 1]
    return table


def test_a_finger_that_flips_for_a_frame_is_mended(
    make_table: MakeTable, write: Callable[..., Path], full: Character, imported: Imported
) -> None:
    """Its speed falls below the limit, its name is told, and frames away from the flip do not change."""
    flipped = import_recording(read_recording(write(with_flip(make_table(), full, 12))), full)
    assert flipped.before.joint_speed > 60.0
    assert flipped.after.joint_speed <= MAX_JOINT_SPEED * 1.001
    (told,) = [text for text in flipped.clip.corrections if "smoothed" in text]
    assert "right_index_1" in told or "right_index_2" in told
    assert "left" not in told
    assert not any("smoothed" in text for text in imported.clip.corrections)
    far = np.r_[0:9, 16:24]
    np.testing.assert_allclose(flipped.clip.joint_pos[far], imported.clip.joint_pos[far], atol=1e-5)
    error = rotvec_between(turns_of(flipped.clip, "right_index_2"), turns_of(imported.clip, "right_index_2"))
    assert float(error.norm(dim=-1).max()) < 0.3


def test_the_fused_humanoid_follows_the_same_clips(imported: Imported, full: Character) -> None:
    """It takes the joints it has by their names; hands and body are where the full one has them."""
    fused = humanoid("fused")
    ours, theirs = body_positions(imported.clip, fused), body_positions(imported.clip, full)
    bodies = [number for number, name in enumerate(fused.body_names) if not name.endswith(("_2", "_3"))]
    torch.testing.assert_close(ours[:, bodies], theirs[:, bodies], rtol=0, atol=1e-6)
    assert float((ours - theirs).norm(dim=-1).max()) > 0.01  # its fingers stay in their cup
    motion = ReferenceMotion([imported.clip], fused, ["dribble_forward"])
    assert motion.qpos.shape == (24, fused.model.nq)


def test_a_missing_joint_is_still_an_error(imported: Imported) -> None:
    """Leaving fingers aside does not mean leaving anything aside: without a knee the clip does not fit."""
    clip = imported.clip
    kept = [column for column, name in enumerate(clip.joint_names) if not name.startswith("left_knee")]
    lame = replace(clip, joint_names=tuple(clip.joint_names[c] for c in kept), joint_pos=clip.joint_pos[:, kept])
    with pytest.raises(ClipError, match=r"63 joint columns.*character 'humanoid_fused' has 66"):
        clip_positions(lame, humanoid("fused"))


def test_a_joint_too_many_is_an_error(imported: Imported, full: Character) -> None:
    """A column that no variant of the skeleton has is not passed over."""
    clip = imported.clip
    tailed = replace(
        clip,
        joint_names=(*clip.joint_names, "tail_x"),
        joint_pos=np.concatenate((clip.joint_pos, clip.joint_pos[:, :1]), axis=1),
    )
    for who in (full, humanoid("fused")):
        with pytest.raises(ClipError, match="tail_x"):
            clip_positions(tailed, who)
