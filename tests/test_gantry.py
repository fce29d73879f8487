"""Roots on gantries: angles that go on past half a turn, stands that are not at the origin, and what is no gantry."""

import mujoco
import numpy as np
import pytest
import torch

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.reference import ReferenceMotion
from skillfield.reference.checking import check_against_character

FRAMES = 120

ROVER = """
<mujoco model="rover">
  <compiler angle="radian"/>
  <option timestep="0.008333333333333333"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="stand" {stand}>
      <body name="base" {base}>
        <joint name="x" type="slide" axis="1 0 0" ref="{ref}"/>
        <joint name="y" type="slide" axis="0 1 0"/>
        <joint name="z" type="slide" axis="0 0 1"/>
        <joint name="yaw" axis="0 0 1" {yaw}/>
        <geom size="0.1"/>
      </body>
    </body>
  </worldbody>
  <actuator><position name="yaw" joint="yaw" kp="40"/></actuator>
</mujoco>
"""


def rover(stand: str = "", base: str = "", yaw: str = "", ref: float = 0.0) -> Character:
    """A ball that slides anywhere and turns about the vertical."""
    return Character.from_mjcf(ROVER.format(stand=stand, base=base, yaw=yaw, ref=ref), root="base")


def turning(first: float, last: float) -> Clip:
    """It drives along x and turns from one angle to another."""
    half = np.linspace(first, last, FRAMES) / 2
    root_pos = np.column_stack((np.linspace(0, 1, FRAMES), 0 * half, 1 + 0 * half)).astype(np.float32)
    return Clip(
        name="turn",
        skill="turn",
        character="rover",
        fps=60.0,
        root_pos=root_pos,
        root_quat=np.column_stack((np.cos(half), 0 * half, 0 * half, np.sin(half))).astype(np.float32),
        joint_pos=np.zeros((FRAMES, 0), np.float32),
        object_pos=np.zeros((FRAMES, 0, 3), np.float32),
        object_quat=np.zeros((FRAMES, 0, 4), np.float32),
        contacts=np.zeros((FRAMES, 0), np.float32),
        joint_names=(),
        object_names=(),
        contact_names=(),
    )


@pytest.mark.parametrize("last", [4.0, 15.0, -15.0])
def test_a_turn_goes_on_past_half_a_turn(last: float) -> None:
    """The hinge's angle never jumps, and neither does its speed."""
    motion = ReferenceMotion([turning(2.5, last)], rover(), ["turn"])
    wanted = torch.linspace(2.5, last, FRAMES)
    torch.testing.assert_close(motion.qpos[:, 3], wanted, rtol=0, atol=1e-4)
    speed = (last - 2.5) / (FRAMES - 1) * 60
    torch.testing.assert_close(motion.qvel[:, 3], torch.full((FRAMES,), speed), rtol=0, atol=1e-2)


@pytest.mark.parametrize(
    "change",
    [{"base": 'pos="0 0 1"'}, {"stand": 'pos="0.5 -2 0"'}, {"ref": 0.4}, {"yaw": 'ref="0.7"'}],
    ids=["body", "stand", "slide", "hinge"],
)
def test_a_gantry_may_begin_elsewhere(change: dict) -> None:
    """A body's own place, that of what carries it, and a joint's reference are taken off a clip's root pose."""
    character, clip = rover(**change), turning(0.0, 1.0)
    assert character.joint_names == ()
    assert check_against_character(clip, character) == []
    motion = ReferenceMotion([clip], character, ["turn"])
    data = mujoco.MjData(character.model)
    for frame in (0, 60, FRAMES - 1):
        data.qpos[:] = motion.qpos[frame].numpy()
        mujoco.mj_kinematics(character.model, data)
        np.testing.assert_allclose(data.body("base").xpos, clip.root_pos[frame], atol=1e-5)
        np.testing.assert_allclose(data.body("base").xquat, clip.root_quat[frame], atol=1e-5)
    place, _ = character.layout().plane_frame(motion.qpos)
    torch.testing.assert_close(place, torch.from_numpy(clip.root_pos[:, :2]), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [{"base": 'euler="0 0 0.3"'}, {"stand": 'euler="0.3 0 0"'}, {"yaw": 'pos="0.1 0 0"'}],
    ids=["turned", "turned stand", "hinge beside its origin"],
)
def test_a_crooked_gantry_is_a_fixed_root(change: dict) -> None:
    """Its joints are joint columns: a clip says their angles itself."""
    assert rover(**change).joint_names == ("x", "y", "z", "yaw")


def test_a_gantry_on_something_that_moves_is_a_fixed_root() -> None:
    """Where its slides lead depends on what carries it."""
    xml = ROVER.format(stand="", base="", yaw="", ref=0.0)
    xml = xml.replace('<body name="stand" >', '<body name="stand"><joint name="lift" type="slide"/><geom size="0.1"/>')
    assert Character.from_mjcf(xml, root="base").joint_names == ("x", "y", "z", "yaw")
