"""Models that users bring, in either engine: what they explode, remember, switch off and touch."""

import mujoco
import pytest
import torch
from torch import Tensor

from engines import Differing, MakeEngine, either_engine, reset_all
from skillfield.characters import Character

make_engine = either_engine
"""Tests that make engines are run with both."""

ARM = """
<mujoco model="arm">
  <option timestep="0.008333333333333333">{flags}</option>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="base" pos="0 0 2">
      <geom type="sphere" size="0.05"/>
      <body name="fore">
        <joint name="elbow" axis="0 1 0" damping="1"/>
        <geom type="sphere" size="0.05" pos="0.3 0 0"/>
      </body>
    </body>
    <body name="cup" pos="2 0 0.1">
      <freejoint/>
      <geom type="sphere" size="0.1"/>
      <body name="handle" pos="0.2 0 0"><geom type="sphere" size="0.03"/></body>
    </body>
  </worldbody>
  <actuator>{drive}</actuator>
</mujoco>
"""
POSITION = '<position name="elbow" joint="elbow" kp="40"/>'
MOTOR = '<motor name="elbow" joint="elbow"/>'


def arm(drive: str = POSITION, flags: str = "") -> Character:
    """A forearm on a stand, with a fist at its end, and a cup with a handle that is a body of its own."""
    xml = ARM.format(drive=drive, flags=flags)
    return Character.from_mjcf(xml, objects=("cup",), hands=("fore",), force_bodies=("fore",))


def bent(character: Character, count: int, angle: float = 1.0) -> Tensor:
    """The rest pose with the elbow bent.  [count, Q]"""
    qpos = torch.tensor(character.model.qpos0).float().repeat(count, 1)
    qpos[:, 0] = angle
    return qpos


@pytest.mark.parametrize("target", [1e8, 1e12, 1e30])
def test_a_model_from_outside_that_explodes_is_reported(make_engine: MakeEngine, target: float) -> None:
    """MuJoCo would begin anew by itself, or take a huge target for zero, and nobody would know."""
    character = arm()
    engine = make_engine(3, character)
    reset_all(engine, bent(character, 3))
    engine.step(torch.tensor([[1.0], [target], [1.0]]))
    assert engine.state.diverged.tolist() == [False, True, False]
    assert engine.num_diverged == 1
    assert float(engine.state.qpos[1, 0]) == pytest.approx(1.0)


@pytest.mark.parametrize("masked", [False, True], ids=["numbered", "masked"])
@pytest.mark.parametrize(
    ("drive", "held"),
    [
        ('<position name="elbow" joint="elbow" kp="40" timeconst="0.1"/>', 1.0),
        ('<position name="elbow" joint="elbow" kp="40" timeconst="0.1" gear="2"/>', 2.0),
        ('<intvelocity name="elbow" joint="elbow" kp="40" actrange="-3 3"/>', 0.0),
    ],
    ids=["filter", "filter with a gear", "integrator"],
)
def test_a_drive_that_remembers_begins_where_the_joint_is(
    make_engine: MakeEngine, drive: str, held: float, masked: bool
) -> None:
    """As if it had always held it there, whatever it was told before: it moves as a drive without a memory does."""
    character, plain = arm(drive), arm(POSITION if held < 2 else POSITION.replace("/>", ' gear="2"/>'))
    engine, simple = make_engine(4, character), make_engine(4, plain)
    for _ in range(3):
        engine.step(torch.full((4, 1), -2.0))
    still = torch.zeros(4, character.model.nv)
    if masked:
        engine.reset_where(torch.ones(4, dtype=torch.bool), bent(character, 4), still)
    else:
        reset_all(engine, bent(character, 4))
    reset_all(simple, bent(plain, 4))
    for _ in range(5):
        engine.step(torch.full((4, 1), held))
        simple.step(torch.full((4, 1), max(held, 1.0)))
        torch.testing.assert_close(engine.state.qpos, simple.state.qpos, rtol=0, atol=1e-5)


def test_forces_after_a_reset_are_those_of_a_drive_that_remembers(make_engine: MakeEngine) -> None:
    """The first observation knows the drive's memory, in the slots of a masked reset as well."""
    character = arm('<position name="elbow" joint="elbow" kp="400" timeconst="0.1"/>')
    engine, used = make_engine(5, character), make_engine(5, character)
    lying = bent(character, 5, 0.2)
    lying[:, 1:4] = torch.tensor([0.3, 0.0, 1.80])  # the fist presses on the cup
    used.step(torch.full((5, 1), -2.0))
    for each in (engine, used):
        each.reset_where(torch.ones(5, dtype=torch.bool), lying, torch.zeros(5, character.model.nv))
    data = mujoco.MjData(character.model)
    data.qpos[:], data.ctrl[:], data.act[:] = lying[0].numpy(), 0.2, 0.2
    mujoco.mj_forward(character.model, data)
    wanted = -torch.tensor(data.sensordata[character.force_sensors[0] :][:3]).float()
    assert float(wanted.norm()) > 1.0
    for each in (engine, used):
        torch.testing.assert_close(each.state.contact_force_w[:, 0], wanted.expand(5, 3), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("flag", ['sensor="disable"', 'sleep="enable"'])
def test_flags_that_would_blind_an_engine_are_put_right(
    make_engine: MakeEngine, differing: Differing, flag: str
) -> None:
    """Contacts are felt and resets are seen, whatever the model's flags say."""
    character = arm(flags=f"<flag {flag}/>")
    engine, plain = make_engine(3, character), make_engine(3, arm())
    touching = bent(character, 3, 0.0)
    touching[:, 1:4] = torch.tensor([0.3, 0.0, 1.86])
    for each in (engine, plain):
        reset_all(each, touching)
        each.step(torch.zeros(3, 1))
    assert engine.state.contact_pairs[:, 0].tolist() == [1.0] * 3
    assert differing(engine.state, plain.state) == []
    enabled, disabled = character.model.opt.enableflags, character.model.opt.disableflags
    assert not enabled & mujoco.mjtEnableBit.mjENBL_SLEEP.value
    assert not disabled & mujoco.mjtDisableBit.mjDSBL_SENSOR.value


def test_bodies_without_joints_stay_bodies() -> None:
    """A stand and a handle have names, which fusing them into what they hang on would take away."""
    fused = ARM.format(drive=POSITION, flags="").replace("<worldbody>", '<compiler fusestatic="true"/><worldbody>')
    character = Character.from_mjcf(fused, objects=("cup",), hands=("fore",), force_bodies=("fore",))
    assert character.body_names == arm().body_names == ("base", "fore")
    assert character.model.nbody == arm().model.nbody
    assert Character.from_mjcf(fused).root == "base"  # where no role and no sensor names it


def test_a_part_of_an_object_is_the_object(make_engine: MakeEngine) -> None:
    """Who takes a cup by its handle touches the cup."""
    character = arm()
    engine = make_engine(2, character)
    qpos = bent(character, 2, 0.0)
    qpos[1, 1:8] = torch.tensor([0.5, 0.0, 1.93, 0.0, 0.0, 0.0, 1.0])  # turned: its handle is below the fist
    reset_all(engine, qpos)
    data = mujoco.MjData(character.model)
    data.qpos[:] = qpos[1].numpy()
    mujoco.mj_forward(character.model, data)
    met = {character.model.body(character.model.geom_bodyid[g]).name for c in data.contact for g in c.geom}
    assert met == {"fore", "handle"}
    assert engine.state.contact_pairs[:, 0].tolist() == [0.0, 1.0]


def test_a_motor_is_told_nothing_at_a_reset(make_engine: MakeEngine) -> None:
    """A motor's target is a force, not a place: the first contact force is that of a limp arm."""
    character = arm(MOTOR.replace("/>", ' gear="100"/>'))
    engine = make_engine(3, character)
    qpos = bent(character, 3, 0.2)
    qpos[:, 1:4] = torch.tensor([0.3, 0.0, 1.80])
    reset_all(engine, qpos)
    data = mujoco.MjData(character.model)
    data.qpos[:] = qpos[0].numpy()
    mujoco.mj_forward(character.model, data)
    wanted = -torch.tensor(data.sensordata[character.force_sensors[0] :][:3]).float()
    assert float(wanted.norm()) > 0.1
    torch.testing.assert_close(engine.state.contact_force_w[:, 0], wanted.expand(3, 3), rtol=1e-3, atol=1e-2)
