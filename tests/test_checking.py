"""Checks of clips say what is wrong, where, and how bad; and stay silent about a good clip."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import tyro

from skillfield.characters import Character, hand
from skillfield.characters.hand import BALL, GRIP_OPEN, PALM_TO_BALL
from skillfield.cli.data import DataCheck, DataShow
from skillfield.clips import Clip, save_clip
from skillfield.clips.checking import Finding, check_clip, joint_steps
from skillfield.errors import CharacterError, ClipError
from skillfield.reference import ReferenceMotion
from skillfield.reference.checking import check_against_character

FRAMES = 30

CUP = """
<mujoco model="cup">
  <option timestep="0.008333333333333333"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="fist" pos="0 0 1"><freejoint/><geom size="0.05"/></body>
    <body name="cup" pos="1 0 1">
      <freejoint/>
      <geom size="0.01"/>
      <body name="handle" pos="-0.2 0 0"><geom size="0.03"/></body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def character() -> Character:
    return hand()


@pytest.fixture
def clip() -> Clip:
    """An open hand at one metre carries a ball against its palm, slowly forward; all frames are labelled touching."""
    root_pos = np.zeros((FRAMES, 3), np.float32)
    root_pos[:, 0], root_pos[:, 2] = np.linspace(0.0, 0.5, FRAMES), 1.0
    upright = np.tile(np.array([1, 0, 0, 0], np.float32), (FRAMES, 1))
    return Clip(
        name="carry",
        skill="hold",
        character="hand",
        fps=60.0,
        root_pos=root_pos,
        root_quat=upright,
        joint_pos=np.full((FRAMES, 2), GRIP_OPEN, np.float32),
        object_pos=(root_pos - np.array([0, 0, PALM_TO_BALL], np.float32))[:, None],
        object_quat=upright[:, None],
        contacts=np.ones((FRAMES, 1), np.float32),
        joint_names=("finger_left", "finger_right"),
        object_names=("ball",),
    )


def altered(clip: Clip, **columns: Any) -> Clip:
    """The clip with other columns, by name."""
    return replace(clip, **columns)


def changed(values: np.ndarray, frame: int | slice, value: object) -> np.ndarray:
    """The column with another value in one frame."""
    values = values.copy()
    values[frame] = value
    return values


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def test_a_good_clip_has_no_findings(clip: Clip, character: Character) -> None:
    assert check_against_character(clip, character, ["hold"]) == []


@pytest.mark.parametrize("column", ["root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts"])
def test_nan_is_an_error_in_its_frame(clip: Clip, character: Character, column: str) -> None:
    bad = altered(clip, **{column: changed(getattr(clip, column), 7, np.nan)})
    finding = only(check_against_character(bad, character))
    assert (finding.severity, finding.where) == ("error", "frame 7")
    assert column in finding.what


def test_nan_in_a_missing_frame_is_allowed(clip: Clip, character: Character) -> None:
    bad = replace(clip, joint_pos=changed(clip.joint_pos, 7, np.nan), valid=changed(clip.valid, 7, False))
    assert check_against_character(bad, character) == []


def test_the_sign_of_a_quaternion_does_not_matter(clip: Clip, character: Character) -> None:
    flipped = replace(clip, object_quat=changed(clip.object_quat, 5, -clip.object_quat[5]))
    assert check_against_character(flipped, character) == []


def test_a_long_quaternion_is_an_error_that_tells_its_length(clip: Clip) -> None:
    finding = only(check_clip(replace(clip, root_quat=changed(clip.root_quat, 4, [1.5, 0, 0, 0]))))
    assert (finding.severity, finding.where) == ("error", "frame 4")
    assert "1.5000" in finding.how_bad


@pytest.mark.parametrize(("value", "severity"), [(0.25, "warning"), (3.0, "error")])
def test_a_contact_label_is_zero_or_one(clip: Clip, value: float, severity: str) -> None:
    finding = only(check_clip(replace(clip, contacts=changed(clip.contacts, 9, value))))
    assert (finding.severity, finding.where) == (severity, "frame 9")


@pytest.mark.parametrize(
    ("column", "value", "speed"),
    [
        ("root_pos", (9.0, 0.0, 1.0), "m/s"),
        ("object_pos", (9.0, 0.0, 1.0), "m/s"),
        ("joint_pos", (GRIP_OPEN + 1.0, GRIP_OPEN), "60.0 rad/s, 2 of 29 steps"),
    ],
)
def test_a_jump_is_reported_at_the_frame_it_leads_to(
    clip: Clip, column: str, value: tuple[float, ...], speed: str
) -> None:
    finding = only(check_clip(altered(clip, **{column: changed(getattr(clip, column), 12, value)})))
    assert finding.severity == "warning"
    assert finding.where in ("frame 12", "frame 13")  # there and back are equally far
    assert speed in finding.how_bad


def test_a_jump_across_a_missing_frame_is_no_finding(clip: Clip) -> None:
    jumped = changed(clip.root_pos, 12, (9.0, 0.0, 1.0))
    assert check_clip(replace(clip, root_pos=jumped, valid=changed(clip.valid, 12, False))) == []


def test_a_rotation_vector_that_crosses_pi_has_hardly_moved() -> None:
    values = np.zeros((2, 4), np.float32)
    values[:, 0] = np.pi - 0.01, -np.pi + 0.01
    values[:, 3] = 0.0, 0.5
    steps = joint_steps(values, ("shoulder_x", "shoulder_y", "shoulder_z", "elbow"))
    assert steps["shoulder"] == pytest.approx([0.02], abs=1e-3)
    assert steps["elbow"] == pytest.approx([0.5])


def test_useless_clips_are_errors(clip: Clip, character: Character) -> None:
    masked = replace(clip, valid=np.zeros(FRAMES, bool))
    columns = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts", "valid")
    for length in (0, 1):
        short = altered(clip, **{column: getattr(clip, column)[:length] for column in columns})
        assert "too short" in only(check_against_character(short, character)).what
    assert "missing" in only(check_against_character(masked, character)).what


@pytest.mark.parametrize(("factor", "height"), [(100.0, "100 m"), (-1000.0, "1e+03 m")])
def test_centimetres_are_a_warning(clip: Clip, factor: float, height: str) -> None:
    """A body that hangs as high as a house was recorded in other units, or with other axes."""
    (found,) = (each for each in check_clip(replace(clip, root_pos=clip.root_pos * factor)) if "floor" in each.what)
    assert (found.severity, found.where) == ("warning", "frame 0")
    assert found.how_bad.startswith(height)


def test_an_implausible_rate_is_a_warning(clip: Clip) -> None:
    assert [f.where for f in check_clip(replace(clip, fps=1.0))] == ["fps"]


def test_names_that_do_not_fit_are_printed_with_those_that_do(clip: Clip, character: Character) -> None:
    renamed = only(check_against_character(replace(clip, joint_names=("thumb", "toe")), character))
    assert renamed.severity == "error"
    assert all(name in renamed.how_bad for name in ("thumb", "toe", "finger_left", "finger_right"))
    other = only(check_against_character(replace(clip, character="horse"), character))
    assert "horse" in other.how_bad
    assert "hand" in other.how_bad
    skill = only(check_against_character(clip, character, ["toss", "spin"]))
    assert "toss, spin" in skill.how_bad


def test_a_ball_in_the_floor_is_found_with_its_depth(clip: Clip, character: Character) -> None:
    sunk = replace(
        clip,
        object_pos=changed(clip.object_pos, slice(None), (0.0, 0.0, BALL.radius)),
        contacts=np.zeros_like(clip.contacts),
    )
    assert check_against_character(sunk, character) == []
    sunk = replace(sunk, object_pos=changed(sunk.object_pos, 11, (0.0, 0.0, BALL.radius - 0.05)))
    finding = only(check_against_character(sunk, character))
    assert (finding.severity, finding.where) == ("warning", "frame 11")
    assert "5.0 cm" in finding.how_bad


def test_a_hand_in_the_floor_names_the_body(clip: Clip, character: Character) -> None:
    low = replace(
        clip, root_pos=clip.root_pos - np.array([0, 0, 0.85], np.float32), object_pos=clip.object_pos + np.float32(2.0)
    )
    low = replace(low, contacts=np.zeros_like(clip.contacts))
    finding = only(check_against_character(low, character))
    assert finding.what == "the character is below the floor"
    assert "finger" in finding.how_bad


def test_a_ball_inside_the_palm_is_found(clip: Clip, character: Character) -> None:
    inside = replace(
        clip, object_pos=changed(clip.object_pos, 3, clip.object_pos[3] + np.array([0, 0, 0.06], np.float32))
    )
    finding = only(check_against_character(inside, character))
    assert finding.where == "frame 3"
    assert "palm" in finding.how_bad


def test_labels_that_geometry_contradicts_are_counted(clip: Clip, character: Character) -> None:
    apart = clip.object_pos.copy()
    apart[:15, 0, 2] -= 0.3
    finding = only(check_against_character(replace(clip, object_pos=apart, fps=30.0), character))
    assert finding.what == "labelled 'object-hand' but apart"
    assert "15 of 30" in finding.how_bad
    assert "(50 %)" in finding.how_bad


def test_the_command_prints_findings_and_its_exit_code_counts_only_errors(
    clip: Clip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_clip(clip, tmp_path / "good.npz")
    save_clip(replace(clip, contacts=clip.contacts * np.float32(0.9)), tmp_path / "soft.npz")
    assert tyro.cli(DataCheck, args=[str(tmp_path)]).run() == 0
    (tmp_path / "broken.npz").write_bytes(b"PK")
    save_clip(replace(clip, character="horse"), tmp_path / "other.npz")
    assert tyro.cli(DataCheck, args=[str(tmp_path), "--skills", "hold"]).run() == 2
    printed = capsys.readouterr().out
    for text in ("neither 0 nor 1", "cannot be read", "unknown character 'horse'", "2 error(s), 1 warning(s)"):
        assert text in printed


def test_the_command_names_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClipError, match="no such file or folder"):
        DataCheck(tmp_path / "nowhere").run()
    with pytest.raises(ClipError, match=r"no \.npz clips"):
        DataCheck(tmp_path).run()


@pytest.mark.parametrize("holes", [False, True], ids=["short", "every second frame missing"])
def test_what_the_policys_rate_leaves_is_counted(clip: Clip, character: Character, holes: bool) -> None:
    """A clip that training would refuse after resampling is an error here as well."""
    columns = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts", "valid")
    bad = replace(clip, fps=120.0)
    if holes:
        bad = replace(bad, valid=np.arange(FRAMES) % 2 == 1)
    else:
        bad = altered(bad, **{column: getattr(bad, column)[:2] for column in columns})
    finding = only(check_against_character(bad, character))
    assert (finding.severity, finding.where) == ("error", "whole clip")
    assert "60 frames per second" in finding.what
    with pytest.raises(ClipError, match="at least 2"):
        ReferenceMotion([bad], character, ["hold"])


def scene(name: str, *bodies: str) -> str:
    """MJCF of these bodies, at a time step that divides the policy's."""
    step = '<option timestep="0.008333333333333333"/>'
    return f'<mujoco model="{name}">{step}<worldbody>{"".join(bodies)}</worldbody></mujoco>'


def resting(character: Character, *things: tuple[float, float, float], **columns: Any) -> Clip:
    """A clip in which nothing moves: the root is one metre up, the objects are there, and nothing is labelled."""
    still = np.tile(np.array([1, 0, 0, 0], np.float32), (FRAMES, 1))
    clip = Clip(
        name="rest",
        skill="rest",
        character=character.name,
        fps=60.0,
        root_pos=np.tile(np.array([0, 0, 1], np.float32), (FRAMES, 1)),
        root_quat=still,
        joint_pos=np.zeros((FRAMES, len(character.joint_names)), np.float32),
        object_pos=np.tile(np.array(things, np.float32).reshape(-1, 3), (FRAMES, 1, 1)),
        object_quat=np.repeat(still[:, None], len(things), axis=1),
        contacts=np.zeros((FRAMES, 1), np.float32),
        joint_names=character.joint_names,
        object_names=character.object_names,
    )
    return altered(clip, **columns)


def test_a_part_of_an_object_is_checked_with_it() -> None:
    """A labelled touch of a handle is none far away, and a handle in the floor is found."""
    cup = Character.from_mjcf(CUP, root="fist", objects=("cup",), hands=("fist",))
    held = resting(cup, (0.28, 0, 1), contacts=np.ones((FRAMES, 1), np.float32))
    assert check_against_character(held, cup) == []
    low = resting(cup, (0.28, 0, 0.01))
    assert "at 'handle'" in only(check_against_character(low, cup)).how_bad


def test_objects_inside_one_another_are_found() -> None:
    """Two balls of 10 cm may touch; with their centres 1 cm apart one is 19 cm inside the other."""
    ball = '<body name="{}" pos="1 0 1"><freejoint/><geom size="0.1"/></body>'
    fist = '<body name="fist"><freejoint/><geom size="0.05"/></body>'
    xml = scene("balls", fist, ball.format("a"), ball.format("b"))
    character = Character.from_mjcf(xml, root="fist", objects=("a", "b"))
    assert check_against_character(resting(character, (1, 0, 1), (1.2, 0, 1)), character) == []
    finding = only(check_against_character(resting(character, (1, 0, 1), (1.01, 0, 1)), character))
    assert finding.what == "object 'a' is inside object 'b'"
    assert finding.how_bad == f"19.0 cm deep at 'b', {FRAMES} of {FRAMES} frames"


def test_shapes_that_touch_only_in_pairs_are_solid() -> None:
    """What a `<contact><pair>` lets touch may sink and be labelled like anything else; the rest is for show."""
    unmasked = CUP
    for name, size in (("fist", "0.05"), ("cup", "0.01"), ("handle", "0.03")):
        unmasked = unmasked.replace(f'size="{size}"', f'name="{name}" size="{size}" contype="0" conaffinity="0"')
    pairs = '<contact><pair geom1="cup" geom2="fist"/><pair geom1="floor" geom2="cup"/></contact></mujoco>'
    cup = Character.from_mjcf(unmasked.replace("</mujoco>", pairs), root="fist", objects=("cup",), hands=("fist",))
    held = resting(cup, (0.07, 0, 1), contacts=np.ones((FRAMES, 1), np.float32))
    assert check_against_character(held, cup) == []
    assert "at 'cup'" in only(check_against_character(resting(cup, (1, 0, -0.02)), cup)).how_bad
    bare = Character.from_mjcf(unmasked, root="fist", objects=("cup",), hands=("fist",))
    assert check_against_character(resting(bare, (1, 0, -0.02)), bare) == []


def leg(joints: str, **options: Any) -> Character:
    """A hip with these joints in its leg."""
    below = f'<body name="leg" pos="0 0 -0.1">{joints}<geom size="0.05"/></body>'
    hip = f'<body name="hip"><freejoint/><geom size="0.05"/>{below}</body>'
    return Character.build(mujoco.MjSpec.from_string(scene("leg", hip)), root="hip", **options)


def test_three_hinges_are_no_ball_joint() -> None:
    """Whatever they are called: a hinge that jumps across π flips, as it will in training; a ball joint does not."""
    axes = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
    hinges = leg("".join(f'<joint name="hip_{axis}" axis="{way}"/>' for axis, way in axes.items()))
    ball = leg('<joint name="hip" type="ball"/>')
    without = leg("", fixed_columns=dict.fromkeys(ball.joint_names, 0.0))
    angles = np.zeros((FRAMES, 3), np.float32)
    angles[:12, 0], angles[12:, 0] = 3.1, -3.1
    clip = resting(hinges, joint_pos=angles)
    finding = only(check_against_character(clip, hinges))
    assert (finding.where, finding.how_bad) == ("frame 12", "372.0 rad/s, 1 of 29 steps")
    assert "'hip_x'" in finding.what
    assert ReferenceMotion([clip], hinges, ["rest"], max_velocity=1e3).qvel.min() == pytest.approx(-372.0)
    for other in (ball, without):
        assert check_against_character(clip, other) == []
    assert check_clip(clip) == []  # without a character the names are all there is


def test_a_clip_may_be_turned_round(clip: Clip, character: Character) -> None:
    """Columns that run backwards in memory are put straight, also those of one object; others are not copied."""
    back = replace(clip, root_pos=clip.root_pos[::-1], object_pos=clip.object_pos[::-1], valid=clip.valid[::-1])
    back = replace(back, object_quat=clip.object_quat.copy()[:, ::-1])
    assert check_against_character(back, character) == []
    np.testing.assert_array_equal(back.root_pos, clip.root_pos[::-1])
    assert back.joint_pos is clip.joint_pos


@pytest.mark.parametrize("length", [0, 3])
def test_a_clip_without_frames_cannot_be_shown(clip: Clip, tmp_path: Path, length: int) -> None:
    """It is named by its file, and no picture is made."""
    columns = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts", "valid")
    empty = altered(clip, **{column: getattr(clip, column)[:length] for column in columns})
    save_clip(replace(empty, valid=np.zeros(length, bool)), tmp_path / "nothing.npz")
    with pytest.raises(ClipError, match=r"nothing\.npz: no frame is present"):
        DataShow(tmp_path, out=tmp_path / "out").run()
    assert not (tmp_path / "out").exists()


def test_a_clip_that_cannot_be_drawn_is_named_by_its_file(clip: Clip, tmp_path: Path) -> None:
    """Clips of one folder may share a name."""
    save_clip(replace(clip, character="horse"), tmp_path / "a.npz")
    with pytest.raises(CharacterError, match=r"a\.npz: unknown character 'horse'"):
        DataShow(tmp_path, out=tmp_path / "out").run()
    save_clip(replace(clip, joint_names=("thumb", "toe")), tmp_path / "a.npz")
    with pytest.raises(ClipError, match=r"a\.npz: clip 'carry': joint_pos"):
        DataShow(tmp_path, out=tmp_path / "out").run()
