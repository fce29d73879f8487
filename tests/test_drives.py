"""Drives of every kind: the targets at which they hold, and actions that begin where a drive is."""

import mujoco
import numpy as np
import pytest
import torch

from skillfield.characters import Action, Character
from skillfield.characters.actions import ActionMap
from skillfield.characters.drives import DrivePositions
from skillfield.errors import CharacterError

RAIL = """
<mujoco model="rail">
  <option timestep="0.008333333333333333" gravity="0 0 0"/>
  <worldbody>
    <body name="base"><geom size="0.1"/>
      <body name="cart">
        <joint name="rail" type="slide" axis="1 0 0" ref="{ref}"/><geom size="0.1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator>{drive}</actuator>
</mujoco>
"""
GENERAL = (
    '<general name="d" joint="rail" gear="-3" gaintype="fixed" gainprm="50" biastype="affine" biasprm="7 -20 -2"/>'
)
SEEKING = {
    "position": '<position name="d" joint="rail" kp="40"/>',
    "gear": '<position name="d" joint="rail" kp="40" gear="2.5"/>',
    "general": GENERAL,
    "filter": '<position name="d" joint="rail" kp="40" timeconst="0.2"/>',
    "integrator": '<intvelocity name="d" joint="rail" kp="40" actrange="-9 9"/>',
}
OTHERS = {
    "motor": '<motor name="d" joint="rail" gear="3"/>',
    "velocity": '<velocity name="d" joint="rail" kv="3"/>',
    "damper": '<damper name="d" joint="rail" kv="3" ctrlrange="0 1"/>',
}


def rail(drive: str, *actions: Action, ref: float = 0.0) -> Character:
    """A cart on a rail with one drive."""
    return Character.from_mjcf(RAIL.format(drive=drive, ref=ref), actions=actions or None)


@pytest.mark.parametrize("kind", [*SEEKING, *OTHERS])
@pytest.mark.parametrize("ref", [0.0, 0.3])
def test_a_drive_that_is_told_where_it_is_pushes_nothing(kind: str, ref: float) -> None:
    """Whatever its kind, gear and gains: MuJoCo's own force at that target and memory is zero."""
    model = rail((SEEKING | OTHERS)[kind], ref=ref).model
    data, drives = mujoco.MjData(model), DrivePositions(model)
    for place in (-0.8, 0.0, 1.3):
        qpos = torch.tensor([[place]])
        data.qpos[:], data.ctrl[:], data.act[:] = place, drives(qpos)[0].numpy(), drives.memory(qpos)[0].numpy()
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(data.actuator_force, 0.0, atol=1e-4)
        np.testing.assert_allclose(data.act_dot, 0.0, atol=1e-6)


@pytest.mark.parametrize("kind", ["position", "gear", "general", "filter"])
def test_no_relative_action_stays_whatever_the_gear(kind: str) -> None:
    """A relative action begins at the drive's own place, which is the joint's only where the gear is one."""
    character = rail(SEEKING[kind], Action("d", ("d",), scale=0.1, relative=True))
    qpos = torch.tensor([[0.7], [-1.1]])
    targets = character.action_map().targets(torch.zeros(2, 1), qpos)
    torch.testing.assert_close(targets, DrivePositions(character.model)(qpos))


@pytest.mark.parametrize("kind", [*SEEKING, *OTHERS])
@pytest.mark.parametrize("joint", ["slide", "hinge"])
def test_a_drive_in_the_parent_frame_is_the_same_drive(kind: str, joint: str) -> None:
    """On a slide or hinge `jointinparent` is held, remembers and takes relative actions as `joint` does."""
    drive = (SEEKING | OTHERS)[kind]
    xml = RAIL.format(drive=drive, ref=0.3).replace('"slide"', f'"{joint}"')
    qpos = torch.tensor([[0.7], [-1.1]])
    own, parents = (Character.from_mjcf(text).model for text in (xml, xml.replace("joint=", "jointinparent=")))
    assert parents.actuator_trntype[0] == mujoco.mjtTrn.mjTRN_JOINTINPARENT
    ours, theirs = DrivePositions(own), DrivePositions(parents)
    torch.testing.assert_close(theirs(qpos), ours(qpos), rtol=0, atol=0)
    torch.testing.assert_close(theirs.memory(qpos), ours.memory(qpos), rtol=0, atol=0)
    if kind in SEEKING and kind != "integrator":
        action = Action("d", ("d",), scale=0.1, relative=True)
        said = torch.tensor([[0.0], [0.5]])
        told = [ActionMap(model, (action,)).targets(said, qpos) for model in (own, parents)]
        torch.testing.assert_close(told[1], told[0], rtol=0, atol=0)


def test_a_drive_of_a_ball_joint_in_the_parent_frame_is_told_zero() -> None:
    """It does not turn about the axis that one on `joint` turns about, and takes no relative action either."""
    xml = RAIL.format(drive=SEEKING["position"], ref=0.0).replace('"slide" axis="1 0 0" ref="0.0"', '"ball"')
    model = Character.from_mjcf(xml.replace("joint=", "jointinparent=")).model
    assert not DrivePositions(model)(torch.tensor([[0.6, 0.8, 0.0, 0.0]])).any()
    with pytest.raises(CharacterError, match="drives no slide or hinge"):
        ActionMap(model, (Action("d", ("d",), scale=0.1, relative=True),))


@pytest.mark.parametrize("kind", [*OTHERS, "integrator"])
def test_a_drive_that_is_told_no_place_takes_no_relative_action(kind: str) -> None:
    """A force or a speed beside a place makes no sense."""
    character = rail((SEEKING | OTHERS)[kind], Action("push", ("d",), scale=0.1, relative=True))
    with pytest.raises(CharacterError, match="action 'push' is relative, but its actuator seeks no place"):
        character.action_map()


def test_a_character_without_drives_takes_no_targets() -> None:
    """It has no actions, and falls."""
    character = rail("")
    assert character.action_map().targets(torch.zeros(2, 0), torch.zeros(2, 1)).shape == (2, 0)
    assert DrivePositions(character.model)(torch.zeros(2, 1)).shape == (2, 0)
