"""Characters: names and sizes, physics that bounces and does not explode, and positions that subtract as they add."""

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from skillfield.characters import Action, Character, character
from skillfield.characters.hand import BALL
from skillfield.characters.physics import stable_drive
from skillfield.characters.tables import BodyRow, ContactRow, GeomRow, JointRow, build_spec
from skillfield.errors import CharacterError
from skillfield.rotations import rotvec_from_quat

MUJOCO_MODEL = Path(mujoco.__file__).parent / "testdata" / "model.xml"


def test_the_hand_has_the_names_that_clips_use(hand_character: Character) -> None:
    """Bodies, joint columns, objects and actions of the starter's character, in their order."""
    assert hand_character.name == "hand"
    assert hand_character.body_names == ("palm", "finger_left", "finger_right")
    assert hand_character.joint_names == ("finger_left", "finger_right")
    assert hand_character.object_names == ("ball",)
    assert [action.name for action in hand_character.actions] == ["x", "y", "z", "roll", "pitch", "grip"]


def test_the_hand_has_thirteen_degrees_of_freedom(hand_character: Character) -> None:
    """Five of the palm, two fingers, six of the ball; seven drives; two physics steps per action."""
    model = hand_character.model
    assert (model.nq, model.nv, model.nu, hand_character.substeps) == (14, 13, 7, 2)
    assert hand_character.action_map().num_actions == 6


def test_a_policy_step_of_the_hand_lasts_a_sixtieth_of_a_second(hand_character: Character) -> None:
    """Physics at 120 Hz, actions at 60 Hz."""
    assert hand_character.substeps * hand_character.model.opt.timestep == pytest.approx(1 / 60)


def test_an_unknown_character_is_refused_with_the_known_ones() -> None:
    """Asking for a character that does not exist lists those that do."""
    with pytest.raises(CharacterError, match=r"unknown character 'nobody'; known: .*hand"):
        character("nobody")


@pytest.mark.parametrize("height", np.linspace(0.3, 2.0, 9).tolist())
def test_a_dropped_ball_bounces_with_restitution_four_fifths(hand_character: Character, height: float) -> None:
    """The ball leaves the floor with 0.8 ± 0.05 of the speed it came with, from any drop of 0.3 to 2 m."""
    model, data = hand_character.model, mujoco.MjData(hand_character.model)
    data.joint("x").qpos = data.ctrl[0] = 5.0  # out of the way
    data.joint("ball").qpos[:3] = (0.0, 0.0, BALL.radius + height)
    fell = rose = False
    while not (fell and rose):
        mujoco.mj_step(model, data)
        speed, gap = data.joint("ball").qvel[2], data.joint("ball").qpos[2] - BALL.radius
        fell |= gap < 0
        rose = fell and gap > 0 and speed > 0
    rebound = gap + speed**2 / (2 * 9.81)
    assert np.sqrt(rebound / height) == pytest.approx(BALL.restitution, abs=0.05)


@pytest.mark.parametrize("spread", [1.0, 5.0])
def test_random_targets_never_blow_up_the_hand(make_engine, spread: float) -> None:
    """Ten seconds of targets drawn metres and radians apart, anew at every step, leave every world finite."""
    engine = make_engine(8)
    for _ in range(600):
        engine.step(spread * torch.randn(8, 7))
    assert engine.num_diverged == 0
    assert bool(engine.state.qpos.isfinite().all() and engine.state.qvel.isfinite().all())


def test_the_hand_goes_where_it_is_told(make_engine) -> None:
    """A step of all targets is reached, to a millimetre and a milliradian, and held without drift."""
    engine = make_engine(1)
    target = torch.tensor([[0.3, -0.2, 1.0, 0.5, -0.4, 0.3, 0.4]])
    for _ in range(180):
        engine.step(target)
    torch.testing.assert_close(engine.state.qpos[:, :7], target, rtol=0, atol=1e-3)
    assert float(engine.state.qvel[:, :7].abs().max()) < 1e-2


def feather_chain() -> Character:
    """Three links of five grams on ball joints with the gains of a grown man's arm (500, 50)."""

    def link(name: str, parent: str) -> BodyRow:
        joint = JointRow(name, "ball", (1.0, 0.0, 0.0), kp=500.0, kd=50.0)
        shape = GeomRow("capsule", size=(0.01,), mass=0.005, fromto=(0.0, 0.0, 0.0, 0.1, 0.0, 0.0), touches=False)
        return BodyRow(name, parent, pos=(0.1, 0.0, 0.0), joints=(joint,), geoms=(shape,))

    rows = (link("a", "world"), link("b", "a"), link("c", "b"))
    return Character.build(build_spec("chain", rows, (), ContactRow()), root="a")


def test_stiff_drives_on_feathers_stay_stable(make_engine) -> None:
    """Gains that explode an explicit drive on links of grams do nothing of the kind: ten seconds of random targets."""
    engine = make_engine(4, feather_chain())
    for _ in range(600):
        engine.step(2.0 * torch.randn(4, 9))
    assert engine.num_diverged == 0


def test_a_ball_joint_turns_to_its_rotation_vector(make_engine) -> None:
    """The three targets of a ball joint are the components of its rotation vector."""
    engine = make_engine(1, feather_chain())
    target = torch.tensor([[0.4, -0.6, 0.8, 0.0, 1.0, -0.3, -0.5, 0.2, 0.7]])
    for _ in range(180):
        engine.step(target)
    reached = rotvec_from_quat(engine.state.qpos.reshape(1, 3, 4)).flatten(1)
    torch.testing.assert_close(reached, target, rtol=0, atol=5e-3)


@pytest.mark.parametrize("timestep", [1 / 60, 1 / 120, 1 / 240])
@pytest.mark.parametrize("mass", [1e-3, 1.0, 100.0])
def test_the_stable_drive_is_the_implicit_step(timestep: float, mass: float) -> None:
    """One explicit step with the written values is one implicit Euler step of the spring and damper asked for."""
    kp, kd, position, velocity, target = 800.0, 55.0, 0.3, -2.0, 1.1
    drive = stable_drive(kp, kd, 0.0, timestep)
    acceleration = (drive.kp * (target - position) - drive.kd * velocity) / (mass + drive.armature)
    after = velocity + timestep * acceleration
    force_at_the_end = kp * (target - (position + timestep * after)) - kd * after
    assert mass * (after - velocity) == pytest.approx(timestep * force_at_the_end)


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


def test_one_grip_moves_both_fingers(hand_character: Character) -> None:
    """The sixth action is the target of both finger drives."""
    targets = hand_character.action_map().targets(torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.1]]), torch.zeros(1, 14))
    torch.testing.assert_close(targets[:, 5:], torch.full((1, 2), 0.35 + 2.1 * 0.1))


def test_relative_actions_start_from_where_the_joint_is(hand_character: Character) -> None:
    """No action holds the hand in place, whatever place that is; roll and pitch are absolute."""
    qpos = torch.zeros(1, 14)
    qpos[0, :5] = torch.tensor([1.5, -2.0, 1.1, 0.6, 0.7])
    targets = hand_character.action_map().targets(torch.zeros(1, 6), qpos)
    torch.testing.assert_close(targets[0, :5], torch.tensor([1.5, -2.0, 1.1, 0.0, 0.0]))


def test_actions_beyond_one_and_targets_beyond_their_limits_are_cut(hand_character: Character) -> None:
    """An action of 100 is an action of 1, and the hand is never told to dig into the floor."""
    mapping = hand_character.action_map()
    down = torch.tensor([[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]])
    assert torch.equal(mapping.targets(100 * down, torch.ones(1, 14)), mapping.targets(down, torch.ones(1, 14)))
    assert float(mapping.targets(down, torch.zeros(1, 14))[0, 2]) == pytest.approx(0.15)


def test_by_default_every_drive_has_an_action_of_its_own(walker: Character) -> None:
    """Without a table of actions, one number per drive spans its control range, or ±π without one."""
    mapping = walker.action_map()
    assert mapping.num_actions == 4
    torch.testing.assert_close(mapping.targets(torch.ones(1, 4), torch.zeros(1, 19)), torch.full((1, 4), torch.pi))


def test_a_model_of_mujoco_itself_becomes_a_character(make_engine) -> None:
    """MuJoCo's own test model, once its parts have names, is built, laid out and simulated."""
    spec = mujoco.MjSpec.from_file(str(MUJOCO_MODEL))
    for kind in ("bodies", "joints", "actuators"):
        for number, part in enumerate(getattr(spec, kind)):
            part.name = part.name or f"{kind}_{number}"
    spec.option.timestep = 1 / 480
    spec.compile()
    character = Character.from_mjcf(spec.to_xml(), root="head", objects=("cylinder",), force_bodies=("head",))
    layout, model = character.layout(), character.model
    random = np.random.default_rng(0)
    start, end = np.array(model.qpos0), np.array(model.qpos0)
    mujoco.mj_integratePos(model, end, random.uniform(-1, 1, model.nv), 1.0)
    theirs = np.zeros(model.nv)
    mujoco.mj_differentiatePos(model, theirs, 1.0, start, end)
    np.testing.assert_allclose(layout.difference(torch.tensor(start), torch.tensor(end)), theirs, atol=1e-9)
    engine = make_engine(2, character)
    engine.step(character.action_map().targets(torch.zeros(2, len(character.actions)), engine.state.qpos))
    assert bool(engine.state.qpos.isfinite().all())


def test_an_mjcf_file_is_as_good_as_its_text(walker: Character, walker_xml: str, tmp_path: Path) -> None:
    """A path and the XML behind it give the same names."""
    path = tmp_path / "walker.xml"
    path.write_text(walker_xml)
    assert Character.from_mjcf(path, objects=("box",)).joint_names == walker.joint_names


def test_the_root_is_the_first_body_that_is_no_object(walker_xml: str) -> None:
    """Without a root, the first body of the world that is not an object becomes it."""
    assert Character.from_mjcf(walker_xml).root == "torso"
    assert Character.from_mjcf(walker_xml, objects=("torso",)).root == "box"


@pytest.mark.parametrize("timestep", [1 / 60, 1 / 120, 1 / 240])
def test_a_policy_step_lasts_a_sixtieth_of_a_second_in_any_model(walker_xml: str, timestep: float) -> None:
    """Physics steps that divide the policy's are taken as they are."""
    model = Character.from_mjcf(walker_xml.replace("0.008333333333333333", repr(timestep)))
    assert model.substeps * timestep == pytest.approx(1 / 60)


@pytest.mark.parametrize(("timestep", "substeps"), [(0.002, 8), (0.005, 3), (0.1, 1)])
def test_a_time_step_moves_to_the_nearest_that_fits_the_policy(walker_xml: str, timestep: float, substeps: int) -> None:
    """Without a whole number of physics steps per action, the character's clock would drift from the reference's."""
    character = Character.from_mjcf(walker_xml.replace("0.008333333333333333", repr(timestep)))
    assert character.substeps == substeps
    assert character.model.opt.timestep * substeps == pytest.approx(1 / 60)


def test_a_spec_whose_time_step_does_not_fit_is_refused(walker_xml: str) -> None:
    """`build` takes a spec as it is."""
    spec = mujoco.MjSpec.from_string(walker_xml)
    spec.option.timestep = 0.002
    with pytest.raises(CharacterError, match="timestep"):
        Character.build(spec, root="torso")


@pytest.mark.parametrize("role", ["root", "objects", "hands", "key_bodies", "force_bodies"])
def test_an_unknown_body_is_refused_with_the_known_ones(walker_xml: str, role: str) -> None:
    """A body that is not in the model is named, and so are those that are."""
    roles: dict[str, Any] = {role: "tail" if role == "root" else ("tail",)}
    with pytest.raises(CharacterError) as caught:
        Character.from_mjcf(walker_xml, **roles)
    for part in ("'tail'", "torso", "arm", "palm", "box"):
        assert part in str(caught.value)


def test_an_object_must_be_free(walker_xml: str) -> None:
    """A body on a hinge, or on nothing, is no object."""
    with pytest.raises(CharacterError, match="object 'palm' has 1 joints; it needs exactly one free joint"):
        Character.from_mjcf(walker_xml, objects=("palm",))
    still = walker_xml.replace('<freejoint name="box"/>', "")
    with pytest.raises(CharacterError, match="object 'box' has 0 joints"):
        Character.from_mjcf(still, objects=("box",))


def test_a_model_of_objects_alone_is_refused() -> None:
    """Without a body besides the objects there is no character."""
    xml = "<mujoco><worldbody><body name='o'><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    with pytest.raises(CharacterError, match=r"no body besides its objects \['o'\]"):
        Character.from_mjcf(xml, objects=("o",))


def test_a_key_body_must_belong_to_the_character(walker_xml: str) -> None:
    """An object cannot be compared as a part of the character."""
    with pytest.raises(CharacterError, match="box"):
        _ = Character.from_mjcf(walker_xml, objects=("box",), key_bodies=("box",)).key_body_index


@pytest.mark.parametrize(
    "xml",
    [
        "<mujoco><nonsense/></mujoco>",
        "<mujoco><worldbody><body name='a'><joint name='j'/></body></worldbody></mujoco>",
        "<mujoco><worldbody><body name='a'><geom type='mesh' mesh='none'/></body></worldbody></mujoco>",
    ],
    ids=["does not parse", "has no mass", "lacks a mesh"],
)
def test_a_broken_model_is_a_character_error(xml: str) -> None:
    """MJCF that MuJoCo cannot read or compile is reported as ours, with MuJoCo's reason."""
    with pytest.raises(CharacterError):
        Character.from_mjcf(xml)


def test_a_missing_file_is_a_character_error(tmp_path: Path) -> None:
    """The path of a model that is not there stands in the message."""
    with pytest.raises(CharacterError, match=r"nowhere\.xml"):
        Character.from_mjcf(tmp_path / "nowhere.xml")


@pytest.mark.parametrize(
    "strip",
    [
        {'<body name="arm"': "<body"},
        {'<joint name="elbow"': "<joint", '<position name="elbow" joint="elbow" kp="5"/>': ""},
        {'<position name="elbow"': "<position"},
    ],
    ids=["body", "joint", "actuator"],
)
def test_nameless_parts_are_a_character_error(walker_xml: str, strip: dict[str, str]) -> None:
    """A body, joint or actuator without a name cannot be looked up, and the error says so."""
    for named, nameless in strip.items():
        walker_xml = walker_xml.replace(named, nameless)
    with pytest.raises(CharacterError, match="name"):
        Character.from_mjcf(walker_xml).action_map()


def with_actions(walker_xml: str, *actions: Action) -> Character:
    """The walker with a table of actions."""
    return Character.from_mjcf(walker_xml, actions=actions)


SHOULDER = Action("shoulder", ("shoulder_x", "shoulder_y", "shoulder_z"), scale=1.0)


def test_a_drive_has_one_master(walker_xml: str) -> None:
    """Two actions for one actuator are refused, and the actuator is named."""
    twice = with_actions(walker_xml, SHOULDER, Action("a", ("elbow",), 1.0), Action("b", ("elbow",), 1.0))
    with pytest.raises(CharacterError, match="actuator 'elbow' is driven by two actions"):
        twice.action_map()


def test_no_drive_is_left_alone(walker_xml: str) -> None:
    """An actuator without an action is refused and named."""
    with pytest.raises(CharacterError, match=r"actuators \['elbow'\] are driven by no action"):
        with_actions(walker_xml, SHOULDER).action_map()


def test_an_action_of_an_unknown_drive_is_refused(walker_xml: str) -> None:
    """An actuator that is not in the model is named, and so are those that are."""
    with pytest.raises(CharacterError, match=r"'knee'.*shoulder_x.*elbow"):
        with_actions(walker_xml, SHOULDER, Action("elbow", ("elbow", "knee"), 1.0)).action_map()


def test_a_ball_joint_has_no_relative_action(walker_xml: str) -> None:
    """Relative targets need one coordinate to be relative to; a ball joint has a quaternion."""
    relative = Action("shoulder", SHOULDER.actuators, scale=1.0, relative=True)
    with pytest.raises(CharacterError, match="action 'shoulder' is relative"):
        with_actions(walker_xml, relative, Action("elbow", ("elbow",), 1.0)).action_map()


def test_actions_that_ask_for_targets(hand_character: Character) -> None:
    """The way back from targets to actions, where the way there is one to one; relative actions stay zero."""
    mapping = hand_character.action_map()
    qpos = torch.zeros(4, hand_character.model.nq)
    actions = torch.rand(4, mapping.num_actions, generator=torch.Generator().manual_seed(0)) / 10
    again = mapping.actions(mapping.targets(actions, qpos))
    absolute = again.abs().sum(dim=0) > 0
    assert absolute.any()
    torch.testing.assert_close(again[:, absolute], actions[:, absolute], atol=1e-5, rtol=0)
