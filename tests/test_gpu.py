"""The GPU engine beside the CPU engine: the same physics, in buffers of known size.

Everything here runs on Warp's CPU device, with the kernels that a GPU would run. What compares the engines over many
steps runs on a GPU too, where there is one.
"""

import itertools

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from engines import reset_all
from skillfield.characters import Character, character, hand
from skillfield.characters.drives import DrivePositions
from skillfield.characters.hand import GRIP_CLOSED, PALM_TO_BALL
from skillfield.errors import CharacterError, ConfigError, DeviceError
from skillfield.simulation import CpuEngine, Engine

pytest.importorskip("mujoco_warp", reason="needs the gpu extra")

import mujoco_warp as mjw
import warp as wp

from skillfield.simulation.gpu import Buffers, WarpEngine
from skillfield.simulation.gpu.agreement import for_warp, put_model
from skillfield.simulation.gpu.capture import Workspace
from skillfield.simulation.gpu.readout import pairs_of_bodies
from skillfield.simulation.gpu.sizes import bytes_per_world, check_memory

wp.config.log_level = wp.LOG_WARNING

SHAPES = {"sphere": ".1", "capsule": ".05 .1", "box": ".1 .06 .04"}


def both(who: Character, num_envs: int, device: str = "cpu") -> tuple[WarpEngine, CpuEngine]:
    """The two engines. device: of the first one."""
    return WarpEngine(who, num_envs, device), CpuEngine(who, num_envs, 1)


def largest_difference(engines: tuple[Engine, Engine], names: tuple[str, ...]) -> float:
    """Between the engines' tensors of these names."""
    first, second = (engine.state for engine in engines)
    return max(float((getattr(first, name).cpu() - getattr(second, name)).abs().max()) for name in names)


POSITIONS = ("qpos", "body_pos_w", "body_quat_w", "object_pos_w", "object_quat_w")
VELOCITIES = ("qvel", "body_lin_vel_w", "body_ang_vel_w", "object_lin_vel_w", "object_ang_vel_w")


def gripping(count: int) -> Tensor:
    """A ball in closed fingers.  [count, Q]"""
    qpos = torch.zeros(count, 14)
    qpos[:, 2], qpos[:, 5:7], qpos[:, 9], qpos[:, 10] = 1.0, GRIP_CLOSED, 1.0 - PALM_TO_BALL, 1.0
    return qpos


def stumbling(who: Character, count: int) -> tuple[Tensor, Tensor]:
    """Humanoids pushed off their feet.  [count, Q], [count, D]"""
    rest = torch.tensor(who.model.qpos0).float().expand(count, -1)
    qpos = who.layout().integrate(rest, 0.1 * torch.randn(count, who.model.nv).clamp(-2, 2))
    qvel = 0.3 * torch.randn(count, who.model.nv)
    qvel[:, :2] = torch.randn(count, 2)
    return qpos, qvel


def test_a_shaken_ball_agrees_for_a_hundred_steps(hand_character: Character, warp_device: str) -> None:
    """A ball shaken in closed fingers, with six contacts at a time: never 1e-4 apart in 1.7 seconds."""
    engines = both(hand_character, 8, warp_device)
    phase, grip = torch.linspace(0, 3, 8), gripping(8)
    for engine in engines:
        reset_all(engine, grip, torch.zeros(8, 13))
    assert float(engines[1].state.contact_force_w.norm(dim=-1).max()) > 1.0
    assert largest_difference(engines, ("contact_force_w",)) < 1e-3
    touched = 0.0
    for step in range(100):
        targets = grip[:, :7] + 0.02 * torch.randn(8, 7)
        targets[:, 0] += 0.1 * torch.sin(0.1 * step + phase)
        targets[:, 2] += 0.1 * torch.sin(0.25 * step + phase)
        targets[:, 4] += 0.2 * torch.sin(0.15 * step + 2 * phase)
        for engine in engines:
            engine.step(targets.to(engine.device))
        assert largest_difference(engines, POSITIONS) < 1e-4
        assert largest_difference(engines, VELOCITIES) < 1e-3
        assert largest_difference(engines, ("contact_force_w",)) < 1e-2
        assert largest_difference(engines, ("contact_pairs",)) == 0.0
        touched += float(engines[1].state.contact_pairs[:, 0].mean())
    assert touched > 90
    assert engines[0].counters()["contact_overflow"] == engines[0].counters()["constraint_overflow"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["humanoid_fused", "humanoid"])
def test_a_falling_humanoid_agrees_for_a_hundred_steps(name: str, warp_device: str) -> None:
    """It stumbles, falls and comes to lie, hands and all: 1e-4 apart."""
    who = character(name)
    engines = both(who, 3, warp_device)
    qpos, qvel = stumbling(who, 3)
    for engine in engines:
        reset_all(engine, qpos, qvel)
    assert largest_difference(engines, POSITIONS) < 1e-5
    targets = DrivePositions(who.model)(qpos)
    unequal, force = 0.0, 0.0
    for _ in range(100):
        for engine in engines:
            engine.step(targets.to(engine.device))
        unequal += float((engines[0].state.contact_pairs.cpu() != engines[1].state.contact_pairs).sum())
        force = max(force, float(engines[1].state.contact_force_w.norm(dim=-1).max()))
    assert largest_difference(engines, POSITIONS) < 1e-4
    assert unequal <= 3  # of 900; a graze lasts one step
    assert float(engines[1].state.body_pos_w[:, 0, 2].min()) < 0.5
    assert force > 10.0
    assert engines[0].counters()["contact_overflow"] == engines[0].counters()["constraint_overflow"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["humanoid_fused", "humanoid"])
def test_every_step_of_a_flailing_humanoid_agrees(name: str, warp_device: str) -> None:
    """From any state of the CPU engine, one step of the GPU engine leads to the same state: no error can hide.

    Nine of ten steps agree to the precision of float32; in the tenth a solver may run out of iterations.
    """
    who = character(name)
    engines = both(who, 4, warp_device)
    qpos, qvel = stumbling(who, 4)
    reset_all(engines[1], qpos, qvel)
    targets = DrivePositions(who.model)(qpos)
    apart = []
    for _ in range(60):
        engines[0].restore(engines[1].snapshot())
        wild = targets + 0.3 * torch.randn_like(targets)
        for engine in engines:
            engine.step(wild.to(engine.device))
        apart.append(largest_difference(engines, ("qvel",)))
        assert largest_difference(engines, POSITIONS) < 1e-3
    assert np.quantile(apart, 0.9) < 1e-4


def test_shapes_touch_alike() -> None:
    """Every two shapes in random poses: as many contacts, in the same places, with the same normals and tangents.

    Each pair of shapes has a place of its own, a metre from the next, so that only the two can touch. Contacts on the
    very edge are left out.
    """
    count = 80
    pairs = [*(("plane", shape) for shape in SHAPES), *itertools.combinations_with_replacement(SHAPES, 2)]
    bodies = [(at, shape) for at, pair in enumerate(pairs) for shape in pair if shape != "plane"]
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="plane" size="0 0 1"/>'
        + "".join(f'<body><freejoint/><geom type="{shape}" size="{SHAPES[shape]}"/></body>' for _, shape in bodies)
        + "</worldbody></mujoco>"
    )
    place = 0.06 * torch.randn(count, len(bodies), 3).clamp(-3, 3)
    place += torch.tensor([(1.0 * at, 0.0, 0.0 if pairs[at][0] == "plane" else 1.0) for at, _ in bodies])
    place[..., 2].abs_()  # a centre below the floor is not met, and there the colliders differ
    turn = torch.nn.functional.normalize(torch.randn(count, len(bodies), 4), dim=-1)
    poses = torch.cat((place, turn), dim=-1).flatten(1)
    with wp.ScopedDevice("cpu"):
        warp_model = put_model(for_warp(model), "shapes")
        data = mjw.make_data(for_warp(model), nworld=count, nconmax=60, njmax=1)
        wp.to_torch(data.qpos).copy_(poses)
        mjw.kinematics(warp_model, data)
        mjw.collision(warp_model, data)
    contacts = int(data.nacon.numpy()[0])
    frames = data.contact.frame.numpy()[:contacts].reshape(contacts, 9)
    envs, geoms, places, depths = (
        array.numpy()[:contacts]
        for array in (data.contact.worldid, data.contact.geom, data.contact.pos, data.contact.dist)
    )
    edge = -1e-5
    met = np.zeros((model.ngeom, model.ngeom))
    for env in range(count):
        ours = mujoco.MjData(model)
        ours.qpos[:] = poses[env].numpy()
        mujoco.mj_fwdPosition(model, ours)
        deep = [contact for contact in ours.contact if contact.dist < edge]
        assert sorted(map(tuple, geoms[(envs == env) & (depths < edge)])) == sorted(tuple(each.geom) for each in deep)
        for contact in deep:
            met[tuple(contact.geom)] += 1
            rows = np.flatnonzero((envs == env) & (geoms == contact.geom).all(axis=1))
            row = rows[np.abs(places[rows] - contact.pos).sum(axis=1).argmin()]
            np.testing.assert_allclose(places[row], contact.pos, atol=1e-4)
            np.testing.assert_allclose(depths[row], contact.dist, atol=1e-5)
            np.testing.assert_allclose(frames[row], contact.frame, atol=1e-3)
    assert np.count_nonzero(met > 20) == len(pairs)


PENDULUM = """
<mujoco><option timestep="0.01" {option}><flag eulerdamp="disable"/></option>
  <worldbody><body {body}><joint name="pivot" axis="0 1 0" {joint}/>
    <geom type="capsule" size=".05" fromto="0 0 0 1 0 0"/><site name="tip" pos="1 0 0"/></body>
    <site name="wall" pos="0 0 1"/></worldbody>
  {rest}</mujoco>"""
SPRING = '<tendon><spatial stiffness="50"><site site="wall"/><site site="tip"/></spatial></tendon>'


@pytest.mark.parametrize(
    "force",
    [
        {},
        {"joint": 'stiffness="20"'},
        {"joint": 'damping="5"'},
        {"body": 'gravcomp="0.8"'},
        {"option": 'density="500"'},
        {"option": 'viscosity="20"'},
        {"rest": SPRING},
        {"rest": '<actuator><position joint="pivot" kp="10" damping="5"/></actuator>'},
        {
            "option": 'integrator="implicitfast"',
            "rest": '<actuator><position joint="pivot" kp="100" kv="10"/></actuator>',
        },
    ],
    ids=lambda force: " ".join(force.values()) or "none",
)
def test_passive_forces_are_left_out_only_where_there_are_none(force: dict[str, str]) -> None:
    """Springs, dampers, compensated gravity, air, drives that brake implicitly: a pendulum with one of them swings as
    in MuJoCo."""
    empty = dict.fromkeys(("option", "body", "joint", "rest"), "")
    model = mujoco.MjModel.from_xml_string(PENDULUM.format_map(empty | force))
    left_out = bool(for_warp(model).opt.disableflags & mujoco.mjtDisableBit.mjDSBL_DAMPER.value)
    assert left_out == (not force)
    data = mujoco.MjData(model)
    with wp.ScopedDevice("cpu"):
        warp_model, warp_data = put_model(for_warp(model), "pendulum"), mjw.make_data(for_warp(model))
        for _ in range(30):
            mujoco.mj_step(model, data)
            mjw.step(warp_model, warp_data)
    assert abs(data.qvel[0]) > 0.1
    assert abs(warp_data.qvel.numpy()[0, 0] - data.qvel[0]) < 1e-4


def test_engines_exchange_snapshots(hand_character: Character) -> None:
    """What one engine wrote down, the other goes on from, either way."""
    one, other = both(hand_character, 3)
    start = gripping(3)
    one.reset(torch.arange(3), start, torch.zeros(3, 13))
    for engine, next_engine in ((one, other), (other, one)):
        for _ in range(5):
            engine.step(start[:, :7] + 0.02 * torch.randn(3, 7))
        next_engine.restore(engine.snapshot())
        assert largest_difference((one, other), (*POSITIONS, *VELOCITIES)) < 1e-5
        assert largest_difference((one, other), ("contact_force_w", "contact_pairs")) == 0.0


def test_the_pairs_of_the_graph_as_a_table(walker: Character) -> None:
    """Which two bodies light which pair: object-hand, object-body, body-hand."""
    table = pairs_of_bodies(walker)
    names = [walker.model.body(body).name for body in range(walker.model.nbody)]
    lit = {(names[a], names[b]): int(table[a, b]) for a, b in zip(*np.nonzero(table), strict=True)}
    expected = {("palm", "box"): 1, ("torso", "box"): 2, ("arm", "box"): 2, ("palm", "torso"): 4, ("palm", "arm"): 4}
    assert lit == expected | {(b, a): pair for (a, b), pair in expected.items()}


def test_states_are_views(hand_character: Character) -> None:
    """A step fills the same tensors anew; nothing is copied on the way."""
    engine = WarpEngine(hand_character, 2, "cpu")
    before = {name: value.data_ptr() for name, value in vars(engine.state).items()}
    kept = engine.state.rows(torch.arange(2))
    engine.step(torch.ones(2, 7))
    engine.reset_where(torch.tensor([True, False]), gripping(2), torch.zeros(2, 13))
    assert {name: value.data_ptr() for name, value in vars(engine.state).items()} == before
    assert not torch.equal(kept.qpos, engine.state.qpos)


def test_sizes_come_from_the_model(hand_character: Character, walker: Character) -> None:
    """The hand: five capsules and boxes and the floor around a ball, four rows each. Elliptic cones take three."""
    assert Buffers().resolved(hand_character.model, 4) == Buffers(7, 28, 4, 16)
    sizes = Buffers().resolved(walker.model, 4)
    assert sizes.constraints == 3 * (sizes.contacts or 0)
    assert Buffers(contacts=9, constraints=50, reset_worlds=3).resolved(walker.model, 4) == Buffers(9, 50, 3, 16)
    assert Buffers().resolved(hand_character.model, 8192).reset_worlds == 512


def test_a_rest_pose_with_many_contacts_has_room() -> None:
    """Boxes on a floor, four contacts each, and half as many again."""
    boxes = "".join(f'<body pos="{x} 0 .1"><freejoint/><geom type="box" size=".1 .1 .1001"/></body>' for x in range(12))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{boxes}</worldbody></mujoco>'
    )
    sizes = Buffers().resolved(model, 2)
    assert sizes.contacts == 48 * 3 // 2
    assert (sizes.constraints or 0) >= 48 * 4 * 3 // 2


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (Buffers(contacts=0), "contacts is 0"),
        (Buffers(past_steps=0), "past_steps is 0"),
        (Buffers(reset_worlds=0), "reset_worlds is 0"),
        (Buffers(constraints=3), "rest pose has 3 contacts and 8 constraints; there is room for 7 and 3"),
    ],
)
def test_impossible_sizes_are_refused(hand_character: Character, sizes: Buffers, message: str) -> None:
    """Nothing, and less than the rest pose needs."""
    with pytest.raises(ConfigError, match=message):
        WarpEngine(hand_character, 2, "cpu", sizes)


@pytest.mark.parametrize(
    ("sizes", "counter"),
    [(Buffers(contacts=3, constraints=28), "contact_overflow"), (Buffers(constraints=8), "constraint_overflow")],
)
def test_full_buffers_are_counted(hand_character: Character, sizes: Buffers, counter: str) -> None:
    """A ball in closed fingers has six contacts: too many for a small buffer, in every world and physics step."""
    engine = WarpEngine(hand_character, 2, "cpu", sizes)
    assert set(engine.counters().values()) == {0}
    engine.reset(torch.arange(2), gripping(2), torch.zeros(2, 13))
    assert engine.counters()[counter] == 2
    engine.step(gripping(2)[:, :7])
    assert engine.counters()[counter] == 6


def test_peaks_say_what_would_have_been_enough(hand_character: Character) -> None:
    """The most contacts and rows that were needed."""
    engine = WarpEngine(hand_character, 2, "cpu")
    engine.reset(torch.arange(2), gripping(2), torch.zeros(2, 13))
    counters = engine.counters()
    assert (counters["peak_contacts"], counters["peak_constraints"]) == (6, 24)
    assert counters["contact_overflow"] == counters["constraint_overflow"] == 0


def test_a_solver_out_of_iterations_is_counted() -> None:
    """With a single iteration a gripped ball is not solved."""
    who = hand()
    who.model.opt.iterations = 1
    engine = WarpEngine(who, 2, "cpu")
    engine.reset(torch.arange(2), gripping(2), torch.zeros(2, 13))
    engine.step(gripping(2)[:, :7] + 0.1)
    count = engine.counters()["solver_limit"]
    assert count >= 2
    dropped = gripping(2)
    dropped[:, 7] = 1.0
    engine.reset(torch.arange(2), dropped, torch.zeros(2, 13))
    engine.step(dropped[:, :7])
    assert engine.counters()["solver_limit"] == count  # counted once, and forgotten


def test_what_warp_cannot_simulate_is_refused(walker_xml: str) -> None:
    """A solver that Warp does not have."""
    who = Character.from_mjcf(walker_xml.replace("cone=", 'solver="PGS" cone='), objects=("box",))
    with pytest.raises(CharacterError, match=r"'walker' cannot be simulated on the GPU: .*PGS"):
        WarpEngine(who, 2, "cpu")


def test_too_many_worlds_are_refused_with_the_number_that_fits() -> None:
    """Ten worlds of a gibibyte in nine and a half."""
    with pytest.raises(DeviceError, match=r"10 worlds of 'hand' need about 10.0 GiB.*enough for about 9 worlds"):
        check_memory("hand", 2**30, 10, int(9.5 * 2**30))
    check_memory("hand", 2**30, 9, int(9.5 * 2**30))


def test_a_world_takes_what_its_model_needs(hand_character: Character) -> None:
    """More constraints and more past take more; a humanoid takes tens of times what a hand does."""

    def size(who: Character, sizes: Buffers) -> int:
        return bytes_per_world(for_warp(who.model), sizes.resolved(who.model, 1))

    small = size(hand_character, Buffers())
    past = 4 * 16 * (14 + 13 + 7)
    assert size(hand_character, Buffers(past_steps=32)) == small + past
    assert size(hand_character, Buffers(constraints=280)) > small + 1.25 * 4 * 252 * 16
    assert 20 * small < size(character("humanoid"), Buffers()) < 2e6


def test_a_workspace_hands_out_what_it_got_back() -> None:
    """Blocks are reused by size; a recording gets nothing new."""
    workspace = Workspace(torch.device("cpu"))
    first, second = workspace.allocate(64), workspace.allocate(64)
    assert first != second
    workspace.deallocate(first, 64)
    workspace.frozen = True
    assert workspace.allocate(64) == first
    assert workspace.size == 128
    with pytest.raises(RuntimeError, match="needs 64 bytes"):
        workspace.allocate(64)
