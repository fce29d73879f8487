"""Every choice of a gantry's hinges: the poses of a clip give the angles back, however far they turn."""

import math

import mujoco
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.reference import ReferenceMotion
from skillfield.reference.checking import check_against_character

FRAMES = 241
HINGES = ("x", "y", "z", "xy", "xz", "yz", "xyz")
AXES = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}

GIMBAL = """
<mujoco model="gimbal">
  <option timestep="0.008333333333333333"/>
  <worldbody>
    <body name="base" pos="0 0 1">{joints}<geom size="0.1"/></body>
  </worldbody>
</mujoco>
"""


def gimbal(hinges: str) -> Character:
    """A ball on three slides and some hinges."""
    slides = [f'<joint name="slide_{axis}" type="slide" axis="{AXES[axis]}"/>' for axis in "xyz"]
    turns = [f'<joint name="hinge_{axis}" axis="{AXES[axis]}"/>' for axis in hinges]
    return Character.from_mjcf(GIMBAL.format(joints="".join(slides + turns)), root="base")


def turning(character: Character, angles: NDArray[np.float64]) -> Clip:
    """What MuJoCo makes of these hinge angles, as a clip.  angles: [T, h]"""
    data, poses = mujoco.MjData(character.model), []
    for row in angles:
        data.qpos[3:] = row
        mujoco.mj_kinematics(character.model, data)
        poses.append((*data.body("base").xpos, *data.body("base").xquat))
    pose, frames = np.array(poses, dtype=np.float32), len(angles)
    return Clip(
        name="turn",
        skill="turn",
        character="gimbal",
        fps=60.0,
        root_pos=pose[:, :3],
        root_quat=pose[:, 3:],
        joint_pos=np.zeros((frames, 0), np.float32),
        object_pos=np.zeros((frames, 0, 3), np.float32),
        object_quat=np.zeros((frames, 0, 4), np.float32),
        contacts=np.zeros((frames, 0), np.float32),
        joint_names=(),
        object_names=(),
        contact_names=(),
    )


def check_turning(hinges: str, angles: NDArray[np.float64]) -> None:
    """The clip fits, and its positions and velocities are those it was made of, up to whole turns."""
    character = gimbal(hinges)
    clip = turning(character, angles)
    assert character.joint_names == ()
    assert [finding for finding in check_against_character(clip, character) if finding.severity == "error"] == []
    motion = ReferenceMotion([clip], character, ["turn"])
    found = motion.qpos[:, 3:].double().numpy()
    assert np.abs(found[0]).max() <= math.pi
    turns = np.round((found[0] - angles[0]) / (2 * math.pi)) * 2 * math.pi
    np.testing.assert_allclose(found - turns, angles, atol=1e-3)
    np.testing.assert_allclose(motion.qvel[1:, 3:], 60 * np.diff(angles, axis=0), atol=0.05)


@pytest.mark.parametrize("hinges", HINGES)
@pytest.mark.parametrize("seed", range(4))
def test_angles_of_any_hinges_come_back(hinges: str, seed: int) -> None:
    """Swinging over ±3 rad about every axis at once, each at its own pace."""
    random, time = np.random.default_rng(seed), np.linspace(0, 1, FRAMES)[:, None]
    pace, phase = random.uniform(0.5, 1.5, len(hinges)), random.uniform(-0.5, 0.5, len(hinges))
    check_turning(hinges, 3 * np.sin(2 * math.pi * pace * time + phase))


@pytest.mark.parametrize("hinges", HINGES)
def test_every_hinge_turns_round_and_round(hinges: str) -> None:
    """Two turns and more about each axis at a steady speed; those of three cross the quarter turn at an angle."""
    last = np.array([13.0, -14.0, 15.0])[["xyz".index(axis) for axis in hinges]]
    check_turning(hinges, 0.3 + last * np.linspace(0, 1, FRAMES)[:, None])


@pytest.mark.parametrize("hinges", ["y", "xy", "yz"])
def test_a_clip_may_begin_with_a_pitch_past_a_quarter_turn(hinges: str) -> None:
    """Without a third hinge an orientation has one set of angles, wherever the clip begins."""
    first = np.array([-2.0, 2.5, -3.0])[["xyz".index(axis) for axis in hinges]]
    check_turning(hinges, first + np.linspace(0, 1, FRAMES)[:, None])


@pytest.mark.parametrize("last", [2.5, math.pi, -math.pi, -7.0])
@pytest.mark.parametrize("roll", [0.0, 1.0])
def test_three_hinges_pitch_evenly_through_a_quarter_turn(last: float, roll: float) -> None:
    """Roll and yaw do not jump by half a turn, not even where a frame is exactly at the quarter turn."""
    first, end = np.array([0.2, 0.0, 0.4]), np.array([0.2 + roll, last, 0.4 - 2 * roll])
    check_turning("xyz", np.linspace(first, end, FRAMES))


def test_three_hinges_that_stay_at_a_quarter_turn_stand_still() -> None:
    """There only the sum of roll and yaw can be told: the pose is right, and nothing turns."""
    character = gimbal("xyz")
    angles = np.tile([0.4, math.pi / 2, 0.3], (30, 1))
    motion = ReferenceMotion([turning(character, angles)], character, ["turn"])
    wanted = torch.tensor([0.0, math.pi / 2, 0.7]).expand(30, 3)
    torch.testing.assert_close(motion.qpos[:, 3:], wanted, rtol=0, atol=1e-3)
    assert float(motion.qvel.abs().max()) < 0.05
