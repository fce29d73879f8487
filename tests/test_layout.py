"""The layout of positions: columns of every kind of joint, and positions that subtract as they add."""

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.rotations import rotvec_from_quat


def random_columns(count: int, joints: int) -> tuple[Tensor, ...]:
    """Root pose, joint columns and one object's pose, at random; rotation vectors shorter than π."""

    def quats(*shape: int) -> Tensor:
        q = torch.randn(*shape, 4, dtype=torch.float64)
        return q / q.norm(dim=-1, keepdim=True)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64)

    return (
        normal(count, 3),
        quats(count),
        0.7 * normal(count, joints).clamp(-2, 2),
        normal(count, 1, 3),
        quats(count, 1),
    )


def test_columns_of_every_joint_kind_are_named(walker: Character) -> None:
    """A ball joint has three columns, a hinge one, the free root and the object none."""
    assert walker.joint_names == ("shoulder_x", "shoulder_y", "shoulder_z", "elbow")
    assert walker.layout().ball_columns == [0]
    assert walker.body_names == ("torso", "arm", "palm")


def test_packed_columns_come_back_from_the_kinematics(walker: Character) -> None:
    """Positions made from a clip's columns put root, joints and object exactly where the columns say."""
    root_pos, root_quat, joint_pos, object_pos, object_quat = random_columns(20, 4)
    qpos = walker.layout().pack(root_pos, root_quat, joint_pos, object_pos, object_quat)
    data = mujoco.MjData(walker.model)
    for frame in range(20):
        data.qpos[:] = qpos[frame].numpy()
        mujoco.mj_kinematics(walker.model, data)
        np.testing.assert_allclose(data.body("torso").xpos, root_pos[frame], atol=1e-9)
        np.testing.assert_allclose(data.body("torso").xquat, root_quat[frame], atol=1e-9)
        np.testing.assert_allclose(data.body("box").xpos, object_pos[frame, 0], atol=1e-9)
        np.testing.assert_allclose(data.body("box").xquat, object_quat[frame, 0], atol=1e-9)
        assert data.joint("elbow").qpos[0] == pytest.approx(float(joint_pos[frame, 3]))
        np.testing.assert_allclose(
            rotvec_from_quat(torch.from_numpy(data.joint("shoulder").qpos.copy())), joint_pos[frame, :3], atol=1e-9
        )


def test_a_gantry_takes_the_root_pose_of_a_clip(hand_character: Character) -> None:
    """The hand's slides and hinges reproduce any root pose of roll and pitch."""
    layout, data = hand_character.layout(), mujoco.MjData(hand_character.model)
    for roll, pitch in ((0.0, 0.0), (0.7, -0.4), (-1.2, 1.4), (2.5, 0.3)):
        data.qpos[:5] = (0.1, -0.2, 1.3, roll, pitch)
        mujoco.mj_kinematics(hand_character.model, data)
        pos, quat = (torch.tensor(value) for value in (data.body("palm").xpos, data.body("palm").xquat))
        nothing = torch.zeros(2, dtype=torch.float64)
        ball = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64), torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        qpos = layout.pack(pos, quat, nothing, ball[0], ball[1].double())
        np.testing.assert_allclose(qpos[:5], data.qpos[:5], atol=1e-9)


def test_joint_columns_are_the_difference_from_rest(walker: Character) -> None:
    """From the rest pose, the change of the joint degrees of freedom is the joint columns themselves."""
    layout = walker.layout()
    columns = random_columns(20, 4)
    rest = layout.pack(columns[0], columns[1], torch.zeros(20, 4, dtype=torch.float64), *columns[3:])
    change = layout.difference(rest, layout.pack(*columns))
    torch.testing.assert_close(change[:, layout.joint_dofs], columns[2], rtol=0, atol=1e-9)


def test_integrating_a_difference_arrives(walker: Character) -> None:
    """From a by the difference of a and b is b: free joints, ball joints, hinges and objects alike."""
    layout = walker.layout()
    start, end = (layout.pack(*random_columns(50, 4)) for _ in range(2))
    reached = layout.integrate(start, layout.difference(start, end))
    torch.testing.assert_close(
        layout.difference(reached, end), torch.zeros(50, walker.model.nv, dtype=torch.float64), rtol=0, atol=1e-7
    )
    torch.testing.assert_close(reached[:, :3], end[:, :3])


def test_the_difference_of_an_integral_is_what_was_integrated(walker: Character) -> None:
    """A change that turns nothing by more than π comes back whole."""
    layout = walker.layout()
    start = layout.pack(*random_columns(50, 4))
    change = torch.randn(50, walker.model.nv, dtype=torch.float64).clamp(-1.7, 1.7)
    torch.testing.assert_close(layout.difference(start, layout.integrate(start, change)), change, rtol=0, atol=1e-9)


def test_differences_are_those_of_mujoco(walker: Character) -> None:
    """Layout.difference is mj_differentiatePos, and Layout.integrate is mj_integratePos."""
    layout, model = walker.layout(), walker.model
    start, end = (layout.pack(*random_columns(50, 4)) for _ in range(2))
    ours = layout.difference(start, end)
    reached = layout.integrate(start, ours)
    for row in range(50):
        theirs = np.zeros(model.nv)
        mujoco.mj_differentiatePos(model, theirs, 1.0, start[row].numpy(), end[row].numpy())
        np.testing.assert_allclose(ours[row], theirs, atol=1e-9)
        moved = start[row].numpy().copy()
        mujoco.mj_integratePos(model, moved, theirs, 1.0)
        np.testing.assert_allclose(reached[row], moved, atol=1e-9)


def test_the_rotation_term_covers_the_root_and_no_slide(walker: Character, hand_character: Character) -> None:
    """Rotational degrees of freedom: root, ball joints and hinges of the character, never a position or the object."""
    for each, rotations in ((walker, [3, 4, 5, 6, 7, 8, 9]), (hand_character, [3, 4, 5, 6])):
        layout, dofs = each.layout(), each.model.nv
        rest = torch.tensor(each.model.qpos0).expand(dofs, -1)
        moved = layout.integrate(rest, 0.1 * torch.eye(dofs, dtype=torch.float64))  # one degree of freedom each
        felt = layout.rotation_difference(rest, moved)
        assert felt.shape == (dofs, len(rotations))
        assert torch.nonzero(felt.norm(dim=-1) > 1e-9).squeeze(1).tolist() == rotations
        torch.testing.assert_close(felt[rotations].norm(dim=-1), torch.full((len(rotations),), 0.1).double())
