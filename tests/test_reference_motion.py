"""Clips as tables of states: velocities, gaps, other frame rates, and what is refused."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.errors import ClipError
from skillfield.reference import (
    Augmentation,
    AugmentedSampler,
    ReferenceMotion,
    TrackingWeights,
)
from skillfield.reference.interpolation import fill_gaps, resample
from skillfield.rotations import quat_from_rotvec, rotvec_between
from strolling import missing

MakeClip = Callable[..., Clip]


def test_a_gap_throws_nothing(make_clip: MakeClip, hand_character: Character) -> None:
    """Frames beside missing ones have about the velocities and poses that they have in the whole clip."""
    whole = ReferenceMotion([make_clip()], hand_character, ["sway"])
    holed = ReferenceMotion([missing(make_clip(), [10, 11, 12, 25])], hand_character, ["sway"])
    rows = torch.nonzero(holed.start_mask()).squeeze(1)
    torch.testing.assert_close(holed.qvel[rows], whole.qvel[rows], rtol=0, atol=0.5)
    for ours, theirs in zip(holed.kinematics(rows), whole.kinematics(rows), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0.5)


def test_a_gap_at_an_end_throws_nothing(make_clip: MakeClip, hand_character: Character) -> None:
    """With the first or last frames missing, no frame is faster than the whole clip is."""
    whole = ReferenceMotion([make_clip()], hand_character, ["sway"])
    holed = ReferenceMotion([missing(make_clip(), [0, 1, 38, 39])], hand_character, ["sway"])
    rows = torch.nonzero(holed.valid).squeeze(1)
    assert float(holed.qvel[rows].abs().max()) < 1.2 * float(whole.qvel.abs().max())


def test_reference_velocities_are_differences_of_frames(make_clip: MakeClip, hand_character: Character) -> None:
    """A frame's velocity is MuJoCo's difference from the frame before, times 60; the first takes the second's."""
    motion = ReferenceMotion([make_clip(8)], hand_character, ["sway"])
    qpos, model = motion.qpos.double().numpy(), hand_character.model
    for frame in range(1, 8):
        velocity = np.zeros(model.nv)
        mujoco.mj_differentiatePos(model, velocity, 1 / 60, qpos[frame - 1], qpos[frame])
        np.testing.assert_allclose(motion.qvel[frame], velocity, atol=1e-4)
    assert torch.equal(motion.qvel[0], motion.qvel[1])


@pytest.mark.parametrize("touches", [5.1, 5.5, 5.9, 6.0, 6.1])
def test_a_ball_that_bounced_between_two_frames_rises(
    touches: float, make_clip: MakeClip, hand_character: Character
) -> None:
    """A ball that falls and rises at 6 m/s does so in every frame: no difference is taken across its bounce."""
    frames = torch.arange(12.0)
    rise = _rise_of(0.1 + 0.1 * (frames - touches).abs(), make_clip, hand_character)
    torch.testing.assert_close(rise, torch.where(frames > touches, 6.0, -6.0), rtol=0, atol=1e-3)


STEPS_FROM_THE_FLOOR = torch.arange(12.0) - 5.5


@pytest.mark.parametrize(
    "heights",
    [0.02 * STEPS_FROM_THE_FLOOR**2, 0.1 + 0.008 * STEPS_FROM_THE_FLOOR.abs()],
    ids=["soft, over several frames", "at half a metre per second, as in a hand"],
)
def test_a_gentle_bounce_is_seen_from_frame_to_frame(
    heights: torch.Tensor, make_clip: MakeClip, hand_character: Character
) -> None:
    """Its velocities stay backward differences."""
    expected = 60 * heights.diff()
    rise = _rise_of(heights, make_clip, hand_character)
    torch.testing.assert_close(rise, torch.cat((expected[:1], expected)), rtol=0, atol=1e-3)


def _rise_of(heights: torch.Tensor, make_clip: MakeClip, character: Character) -> torch.Tensor:
    """The vertical velocity of a reference ball at these heights, which tables and states agree on."""
    clip = make_clip(len(heights))
    object_pos = clip.object_pos.copy()
    object_pos[:, 0, 2] = heights
    motion = ReferenceMotion([replace(clip, object_pos=object_pos)], character, ["sway"])
    seen = motion.kinematics(torch.arange(len(heights))).object_lin_vel_w[:, 0, 2]
    assert torch.equal(seen, motion.qvel[:, character.layout().fields["object_pos"][2]])
    return seen


def test_reference_bodies_move_as_their_positions_do(make_clip: MakeClip, hand_character: Character) -> None:
    """Velocities of key bodies and objects are differences of their poses; the ball spins at two radians per second."""
    motion = ReferenceMotion([make_clip(8)], hand_character, ["sway"])
    seen = motion.kinematics(torch.arange(8))
    torch.testing.assert_close(seen.key_vel_w[1:], 60 * seen.key_pos_w.diff(dim=0), rtol=0, atol=1e-3)
    torch.testing.assert_close(seen.object_lin_vel_w[1:], 60 * seen.object_pos_w.diff(dim=0), rtol=0, atol=1e-3)
    spin = torch.tensor([0.0, 0.0, 2.0]).expand(8, 1, 3)
    torch.testing.assert_close(seen.object_ang_vel_w, spin, rtol=0, atol=1e-4)


def test_reference_bodies_are_where_the_clip_puts_them(make_clip: MakeClip, hand_character: Character) -> None:
    """The root and the ball of every reference frame are those of the clip's columns."""
    clip = make_clip()
    motion = ReferenceMotion([clip], hand_character, ["sway"])
    seen = motion.kinematics(torch.arange(len(clip)))
    torch.testing.assert_close(seen.key_pos_w[:, 0], torch.from_numpy(clip.root_pos), rtol=0, atol=1e-5)
    torch.testing.assert_close(seen.object_pos_w, torch.from_numpy(clip.object_pos), rtol=0, atol=1e-5)


def test_jumps_in_a_clip_do_not_become_wild_velocities(make_clip: MakeClip, hand_character: Character) -> None:
    """A finger that flips within one frame starts no episode faster than the limit."""
    joint_pos = make_clip().joint_pos.copy()
    joint_pos[20:, 0] += 3.0
    motion = ReferenceMotion([make_clip(joint_pos=joint_pos)], hand_character, ["sway"], max_velocity=40.0)
    assert float(motion.qvel.abs().max()) == 40.0


def test_frames_of_all_clips_are_found_by_clip_and_number(make_clip: MakeClip, hand_character: Character) -> None:
    """Rows count through the clips, and a number past a clip's end is its last frame, not the next clip."""
    motion = ReferenceMotion([make_clip(5), make_clip(7, skill="throw")], hand_character, ["throw", "sway"])
    assert motion.row(torch.tensor([0, 1, 0, 1]), torch.tensor([2, 2, 9, 9])).tolist() == [2, 7, 4, 11]
    assert motion.skill.tolist() == [1, 0]
    assert motion.num_clips == 2


def test_labels_find_their_pair_by_name(make_clip: MakeClip, hand_character: Character) -> None:
    """Contact columns come in any order; a pair without a label is apart."""
    labels = np.array([[1, 0], [1, 1], [0, 1], [0, 0]], dtype=np.float32)
    clip = make_clip(4, contacts=labels, contact_names=("body-hand", "object-hand"))
    motion = ReferenceMotion([clip], hand_character, ["sway"])
    assert motion.contact_pairs.tolist() == [[0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_thirty_frames_per_second_become_sixty(make_clip: MakeClip) -> None:
    """Resampling keeps both ends and every old frame, and puts the middle between its neighbours."""
    slow = make_clip(20, fps=30.0)
    fast = resample(slow, 60.0)
    assert (len(fast), fast.fps, fast.seconds) == (39, 60.0, slow.seconds)
    for name in ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat"):
        before, after = getattr(slow, name), getattr(fast, name)
        np.testing.assert_allclose(after[::2], before, atol=1e-6)
        assert after.dtype == np.float32
    np.testing.assert_allclose(fast.root_pos[1::2], (slow.root_pos[1:] + slow.root_pos[:-1]) / 2, atol=1e-6)
    exact = make_clip(39, fps=60.0)
    np.testing.assert_allclose(np.abs((fast.root_quat * exact.root_quat).sum(axis=1)), 1.0, atol=1e-4)
    np.testing.assert_allclose(np.abs((fast.object_quat * exact.object_quat).sum(axis=2)), 1.0, atol=1e-4)


def test_resampling_ignores_the_sign_of_a_quaternion(make_clip: MakeClip) -> None:
    """A clip whose quaternions flip sign between frames is the same motion."""
    slow = make_clip(20, fps=30.0)
    flipped = slow.root_quat * np.where(np.arange(20) % 2, -1, 1).astype(np.float32)[:, None]
    ours, theirs = resample(replace(slow, root_quat=flipped), 60.0).root_quat, resample(slow, 60.0).root_quat
    np.testing.assert_allclose(np.abs((ours * theirs).sum(axis=1)), 1.0, atol=1e-6)


def test_resampling_keeps_labels_whole_and_gaps_open(make_clip: MakeClip) -> None:
    """Labels stay 0 or 1; old frames stay present or missing as they were, and nothing is invented beside a gap."""
    valid = np.ones(20, dtype=bool)
    valid[5] = False
    labels = (np.arange(20) > 9).astype(np.float32)[:, None]
    fast = resample(make_clip(20, fps=30.0, contacts=labels, valid=valid), 60.0)
    assert set(np.unique(fast.contacts)) == {0.0, 1.0}
    assert np.flatnonzero(~fast.valid).tolist() == [9, 10, 11]


@pytest.mark.parametrize("fps", [90.0, 120.0, 180.0])
def test_a_frame_that_was_recorded_needs_no_neighbour(make_clip: MakeClip, fps: float) -> None:
    """New frames that fall on old ones are there whatever is missing beside them, however their times are rounded."""
    per_second = int(fps)
    together = np.arange(0, 4 * per_second, per_second // 30)  # every second frame at 60 per second
    valid = np.zeros(4 * per_second, dtype=bool)
    valid[together] = True
    fast = resample(make_clip(4 * per_second, fps=fps, valid=valid), 60.0)
    assert fast.valid[::2].all()


def spinning_ball_joint(make_clip: MakeClip, frames: int, fps: float, **changes: Any) -> Clip:
    """A ball joint that turns about one axis at 4 rad/s, through π and on; its vector jumps to the other side."""
    angle = 2.0 + 4.0 * np.arange(frames) / fps
    wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
    joint_pos = (wrapped[:, None] * [0.6, 0.0, 0.8]).astype(np.float32)
    names = ("shoulder_x", "shoulder_y", "shoulder_z")
    return make_clip(frames, fps=fps, joint_pos=joint_pos, joint_names=names, **changes)


def turns(rotvec: np.ndarray) -> torch.Tensor:
    """Orientations of rotation vectors."""
    return quat_from_rotvec(torch.from_numpy(rotvec).double())


def test_a_ball_joint_is_resampled_as_a_rotation(make_clip: MakeClip) -> None:
    """Between two frames on either side of π the joint turns on; it does not swing back through rest."""
    fast = resample(spinning_ball_joint(make_clip, 20, 30.0), 60.0, ball_columns=[0])
    exact = spinning_ball_joint(make_clip, 39, 60.0)
    error = rotvec_between(turns(fast.joint_pos), turns(exact.joint_pos)).norm(dim=-1)
    assert float(error.max()) < 1e-5
    np.testing.assert_allclose(fast.joint_pos[::2], spinning_ball_joint(make_clip, 20, 30.0).joint_pos, atol=1e-6)


def test_three_hinges_are_no_ball_joint(make_clip: MakeClip) -> None:
    """Columns that only look like a rotation vector by name are numbers like any others."""
    slow = spinning_ball_joint(make_clip, 20, 30.0)
    np.testing.assert_allclose(
        resample(slow, 60.0).joint_pos[1::2], (slow.joint_pos[1:] + slow.joint_pos[:-1]) / 2, atol=1e-6
    )


def test_a_gap_is_filled_by_turning_on(make_clip: MakeClip) -> None:
    """Frames lost while a ball joint passes π are the even turn from one neighbour to the other."""
    whole = spinning_ball_joint(make_clip, 30, 60.0)
    filled = fill_gaps(missing(whole, list(range(14, 21))), ball_columns=[0])
    error = rotvec_between(turns(filled.joint_pos), turns(whole.joint_pos)).norm(dim=-1)
    assert float(error.max()) < 1e-5
    np.testing.assert_allclose(np.linalg.norm(filled.root_quat, axis=1), 1.0, atol=1e-6)
    assert np.isfinite(filled.contacts).all()


def test_nonsense_in_a_missing_frame_reaches_no_table(make_clip: MakeClip, hand_character: Character) -> None:
    """Poses and labels of a missing frame may be NaN; the reference is finite all the same."""
    motion = ReferenceMotion([missing(make_clip(), [7, 8])], hand_character, ["sway"])
    assert bool(motion.qpos.isfinite().all() and motion.contact_pairs.isfinite().all())


def test_resampling_at_the_same_rate_changes_nothing(make_clip: MakeClip) -> None:
    """Sixty frames per second stay as they are."""
    clip = make_clip()
    assert resample(clip, 60.0) is clip


def test_a_slow_clip_is_followed_at_the_rate_of_the_policy(make_clip: MakeClip, hand_character: Character) -> None:
    """A 30 fps clip enters the reference with twice the frames and the same velocities."""
    slow = ReferenceMotion([make_clip(20, fps=30.0)], hand_character, ["sway"])
    fast = ReferenceMotion([make_clip(39, fps=60.0)], hand_character, ["sway"])
    assert slow.length.tolist() == [39]
    torch.testing.assert_close(slow.qvel, fast.qvel, rtol=0, atol=0.1)


def plain_sampler(motion: ReferenceMotion, character: Character) -> AugmentedSampler:
    """Every augmentation off: reference state initialisation."""
    return AugmentedSampler(motion, character, TrackingWeights(), Augmentation())


def test_starts_are_present_frames_with_a_future(make_clip: MakeClip, hand_character: Character) -> None:
    """No episode starts in a missing frame or in the last frame of a clip; every other frame is used."""
    clips = [missing(make_clip(6), [2]), make_clip(4, skill="throw")]
    motion = ReferenceMotion(clips, hand_character, ["sway", "throw"])
    starts = plain_sampler(motion, hand_character).sample(4000)
    drawn = set(zip(starts.clip.tolist(), starts.frame.tolist(), strict=True))
    assert drawn == {(0, 0), (0, 1), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2)}
    row = motion.row(starts.clip, starts.frame)
    assert torch.equal(starts.qpos, motion.qpos[row])
    assert torch.equal(starts.qvel, motion.qvel[row])
    assert int(starts.masked.max()) == 0


def test_missing_frames_at_the_ends_are_cut_off(make_clip: MakeClip, hand_character: Character) -> None:
    """What is left is the rest of the clip, and it neither begins nor ends with a standstill."""
    whole = ReferenceMotion([make_clip(30)], hand_character, ["sway"])
    cut = ReferenceMotion([missing(make_clip(30), [0, 1, 2, 10, 28, 29])], hand_character, ["sway"])
    assert cut.length.tolist() == [25]
    assert not cut.valid[7]
    assert torch.equal(cut.qpos[[0, 1, -1]], whole.qpos[[3, 4, 27]])
    assert torch.equal(cut.qvel[[1, -1]], whole.qvel[[4, 27]])
    assert torch.equal(cut.qvel[0], cut.qvel[1])  # as the first frame's of any clip
    assert float(cut.qvel[0].abs().max()) > 0.1


def test_skills_are_drawn_alike(make_clip: MakeClip, hand_character: Character) -> None:
    """A skill with three long clips is practised as often as one with a single short clip."""
    clips = [make_clip(40), make_clip(30), make_clip(20), make_clip(4, skill="throw")]
    motion = ReferenceMotion(clips, hand_character, ["sway", "throw"])
    starts = plain_sampler(motion, hand_character).sample(6000)
    share = torch.bincount(starts.clip, minlength=4) / 6000
    torch.testing.assert_close(share, torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2]), rtol=0, atol=0.03)


def with_nan(clip: Clip, column: str, frames: list[int]) -> Clip:
    """The clip with NaN in one column of frames that claim to be present."""
    values = getattr(clip, column).copy()
    values[frames] = np.nan
    return replace(clip, **{column: values})


def test_a_clip_of_another_character_is_refused(make_clip: MakeClip, hand_character: Character) -> None:
    """The clip, its character and ours are named."""
    with pytest.raises(ClipError, match="clip 'sway' is for character 'humanoid', not 'hand'"):
        ReferenceMotion([make_clip(character="humanoid")], hand_character, ["sway"])


@pytest.mark.parametrize(
    ("names", "theirs", "wrong"),
    [
        ("joint_names", ("finger_right", "finger_left"), "column 0 is 'finger_right' in place of 'finger_left'"),
        ("joint_names", ("finger_left", "finger_left"), r"missing \['finger_right'\], unknown \[\]"),
        ("object_names", ("cube",), r"missing \['ball'\], unknown \['cube'\]"),
    ],
)
def test_wrong_columns_are_refused_with_what_differs(
    make_clip: MakeClip, hand_character: Character, names: str, theirs: tuple[str, ...], wrong: str
) -> None:
    """Columns in another order, or of another thing, are an error that shows what came and what was wanted."""
    with pytest.raises(ClipError, match=rf"clip 'sway': .* {len(theirs)} .*'hand' has {len(theirs)}; .*{wrong}"):
        ReferenceMotion([make_clip(**{names: theirs})], hand_character, ["sway"])


@pytest.mark.parametrize("column", ["root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts"])
def test_a_frame_that_is_not_a_number_is_refused(make_clip: MakeClip, hand_character: Character, column: str) -> None:
    """NaN in a frame that is not marked missing names the column and the first such frame."""
    with pytest.raises(ClipError, match=rf"'sway': {column} is not finite in frame 17 \(2 such frames\)"):
        ReferenceMotion([with_nan(make_clip(), column, [17, 21])], hand_character, ["sway"])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("root_quat", 0.0, r"root_quat is no unit quaternion in frame 17 \(length 0.0000 instead of 1, 1 of 40"),
        ("root_quat", 2.0, r"root_quat is no unit quaternion in frame 17 \(length 4.0000"),
        ("object_quat", 0.0, r"object_quat of 'ball' is no unit quaternion in frame 17 "),
        ("contacts", 7.0, r"contact label 'object-hand' is neither 0 nor 1 in frame 17 \(value 7, 1 of 40"),
    ],
)
def test_what_the_check_calls_useless_is_refused(
    make_clip: MakeClip, hand_character: Character, column: str, value: float, message: str
) -> None:
    """Orientations and labels that are none; in a missing frame they do not matter."""
    clip = make_clip()
    values = getattr(clip, column).copy()
    values[17] = value
    with pytest.raises(ClipError, match=f"clip 'sway': {message}"):
        ReferenceMotion([replace(clip, **{column: values})], hand_character, ["sway"])
    present = np.arange(len(clip)) != 17
    ReferenceMotion([replace(clip, **{column: values}, valid=present)], hand_character, ["sway"])


def test_a_label_that_can_be_rounded_is_no_reason_to_refuse(make_clip: MakeClip, hand_character: Character) -> None:
    """The check only warns of it."""
    motion = ReferenceMotion([make_clip(contacts=np.full((40, 1), 0.9, np.float32))], hand_character, ["sway"])
    assert motion.contact_pairs[:, 0].tolist() == [1.0] * 40


def test_frames_are_numbered_as_in_the_file(make_clip: MakeClip, hand_character: Character) -> None:
    """A bad frame of a 30 fps clip is named by its own number, not by that of the resampled one."""
    with pytest.raises(ClipError, match="not finite in frame 7 "):
        ReferenceMotion([with_nan(make_clip(20, fps=30.0), "root_pos", [7])], hand_character, ["sway"])


def test_an_unknown_skill_is_refused_with_the_known_ones(make_clip: MakeClip, hand_character: Character) -> None:
    """The clip's skill and the task's skills are named."""
    with pytest.raises(ClipError, match="clip 'sway': unknown skill 'sway'; known: throw, catch"):
        ReferenceMotion([make_clip()], hand_character, ["throw", "catch"])


@pytest.mark.parametrize(("frames", "fps", "left"), [(0, 60.0, 0), (1, 60.0, 1), (1, 30.0, 1), (2, 240.0, 1)])
def test_one_frame_is_no_trajectory(
    make_clip: MakeClip, hand_character: Character, frames: int, fps: float, left: int
) -> None:
    """A single frame cannot be followed, nor two that are one at the policy's rate."""
    with pytest.raises(ClipError, match=rf"'sway': {left} frame\(s\); a trajectory needs at least 2"):
        ReferenceMotion([make_clip(frames, fps=fps)], hand_character, ["sway"])


@pytest.mark.parametrize(
    ("fps", "present", "left"),
    [
        (60.0, [], "0 of 40"),
        (60.0, [39], "1 of 40"),
        (60.0, [0], "1 of 40"),
        (30.0, [], "0 of 79"),
        (25.0, [3], "0 of"),
    ],
)
def test_a_clip_without_present_frames_is_refused(
    make_clip: MakeClip, hand_character: Character, fps: float, present: list[int], left: str
) -> None:
    """Nothing present, or one frame only, or only a frame between those of the policy: nothing to follow."""
    valid = np.zeros(40, dtype=bool)
    valid[present] = True
    with pytest.raises(ClipError, match=f"'sway': all but {left}.* frames missing; a trajectory needs at least 2"):
        ReferenceMotion([make_clip(40, fps=fps, valid=valid)], hand_character, ["sway"])


def test_no_clips_are_refused(hand_character: Character) -> None:
    """A task needs a demonstration."""
    with pytest.raises(ClipError, match="no clips for character 'hand'"):
        ReferenceMotion([], hand_character, ["sway"])


def test_a_root_that_the_character_cannot_reach_is_refused(make_clip: MakeClip, hand_character: Character) -> None:
    """The hand has no yaw: a clip that turns it names the frame and how far off it is."""
    root_quat = make_clip().root_quat.copy()
    root_quat[12] = (math.cos(0.4), 0.0, 0.0, math.sin(0.4))
    with pytest.raises(ClipError, match=r"cannot take the root pose of frame 12: off by 0.000 m and 0.800 rad"):
        ReferenceMotion([make_clip(root_quat=root_quat)], hand_character, ["sway"])
