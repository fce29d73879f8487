"""The hand and its drives: names and sizes, physics that bounces and does not explode."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

from skillfield.characters import Character, character
from skillfield.characters.hand import BALL
from skillfield.characters.humanoid import humanoid
from skillfield.characters.physics import bounce_solref, stable_drive
from skillfield.characters.tables import BodyRow, ContactRow, GeomRow, JointRow, build_spec
from skillfield.errors import CharacterError
from skillfield.rotations import rotvec_from_quat


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


@pytest.mark.parametrize("restitution", [0.0, -0.5, 1.5, float("nan")])
def test_a_bounce_that_no_ball_has_is_refused(restitution: float) -> None:
    """Nothing sticks to the floor, nor gains by it; one that loses nothing is possible."""
    with pytest.raises(CharacterError, match=f"restitution is {restitution:g}, it must be above 0 and at most 1"):
        humanoid(ball=replace(BALL, restitution=restitution))
    assert bounce_solref(1.0, 1 / 120)[1] == 0.0


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


def test_two_balls_bounce_off_one_another(make_engine) -> None:
    """A ball dropped onto another stays above it, or rolls off; it never falls through."""
    balls = (BALL, replace(BALL, name="other", start=(1.0, 0.0)))
    rows = (BodyRow("stone", "world", pos=(5.0, 0.0, 1.0), geoms=(GeomRow("sphere", (0.1,), 1.0),)),)
    spec = build_spec("two balls", rows, balls, ContactRow())
    character = Character.build(spec, root="stone", objects=("ball", "other"))
    engine = make_engine(1, character)
    qpos = torch.tensor(character.model.qpos0).float()[None]
    qpos[0, :3], qpos[0, 7:10] = torch.tensor([0.0, 0.0, 0.12]), torch.tensor([0.0, 0.0, 0.6])
    engine.reset(torch.tensor([0]), qpos, torch.zeros(1, character.model.nv))
    nearest = 1.0
    for _ in range(60):
        engine.step(torch.zeros(1, 0))
        nearest = min(nearest, float((engine.state.object_pos_w[0, 0] - engine.state.object_pos_w[0, 1]).norm()))
    assert 0.15 < nearest < 2 * BALL.radius
