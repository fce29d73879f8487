"""Both engines: states that are true at once, worlds that leave each other alone, explosions that are contained.

The GPU engine runs on Warp's CPU device here: the same kernels, without the recorded graph.
"""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.hand import PALM_TO_BALL
from skillfield.errors import CheckpointError
from skillfield.simulation import CpuEngine, Engine, SimulationState

MakeEngine = Callable[..., Engine]
Differing = Callable[[SimulationState, SimulationState], list[str]]

HEIGHT = 1.0
PALM_BALL = slice(7, 10)  # where the ball's position lies in the hand's positions
PRESSED = (0.0, 0.0, HEIGHT - PALM_TO_BALL + 0.004)
AWAY = (0.8, 0.0, 0.5)


def poses(ball: tuple[float, float, float], count: int = 1, grip: float = 0.6) -> Tensor:
    """The hand one metre up with open fingers, and the ball somewhere.  [count, Q]"""
    qpos = torch.zeros(count, 14)
    qpos[:, 2], qpos[:, 5:7], qpos[:, PALM_BALL], qpos[:, 10] = HEIGHT, grip, torch.tensor(ball), 1.0
    return qpos


def hold(count: int = 1) -> Tensor:
    """Targets that keep the hand where `poses` puts it.  [count, U]"""
    return poses(AWAY, count)[:, :7]


def scattered(engine: Engine) -> tuple[Tensor, Tensor]:
    """A random state of every world, quaternions of unit length.  [E, Q], [E, D]"""
    model = engine.character.model
    rest = torch.tensor(model.qpos0).float().expand(engine.num_envs, -1)
    change = torch.randn(engine.num_envs, model.nv).clamp(-0.8, 0.8)
    return engine.character.layout().integrate(rest, change), torch.randn(engine.num_envs, model.nv)


def reset_all(engine: Engine, qpos: Tensor, qvel: Tensor | None = None) -> None:
    """Reset every world."""
    zero = torch.zeros(engine.num_envs, engine.character.model.nv)
    engine.reset(torch.arange(engine.num_envs), qpos, zero if qvel is None else qvel)


def forward(character: Character, qpos: Tensor, qvel: Tensor) -> mujoco.MjData:
    """MuJoCo's own account of a state."""
    data = mujoco.MjData(character.model)
    data.qpos[:], data.qvel[:] = qpos.numpy(), qvel.numpy()
    mujoco.mj_forward(character.model, data)
    return data


@pytest.fixture(params=["cpu", "warp", "warp in slots"])
def make_engine(request: pytest.FixtureRequest, hand_character: Character) -> MakeEngine:
    """Makes an engine of a few worlds. `in slots`: resets are computed two worlds at a time."""
    if request.param == "cpu":
        return lambda num_envs=4, character=hand_character: CpuEngine(character, num_envs, 1)
    pytest.importorskip("mujoco_warp", reason="needs the gpu extra")
    pytest.importorskip("warp").init()
    from skillfield.simulation.gpu import Buffers, WarpEngine

    buffers = Buffers(reset_worlds=2 if request.param == "warp in slots" else None)
    return lambda num_envs=4, character=hand_character: WarpEngine(character, num_envs, "cpu", buffers)


@pytest.fixture(params=["hand", "walker"])
def engine(request: pytest.FixtureRequest, make_engine: MakeEngine) -> Engine:
    """Four worlds of a character on a gantry, and four of one with a free root and a ball joint."""
    return make_engine(4, request.getfixturevalue({"hand": "hand_character"}.get(request.param, request.param)))


def test_a_reset_is_visible_at_once(engine: Engine) -> None:
    """Right after a reset, every body is where the kinematics of the written state put it: nothing is stale."""
    reset_all(engine, *scattered(engine))
    engine.step(torch.zeros(4, engine.character.model.nu))
    qpos, qvel = scattered(engine)
    reset_all(engine, qpos, qvel)
    assert torch.equal(engine.state.qpos, qpos)
    assert torch.equal(engine.state.qvel, qvel)
    for env in range(4):
        data = forward(engine.character, qpos[env], qvel[env])
        bodies, things = engine.character.body_ids, engine.character.object_ids
        np.testing.assert_allclose(engine.state.body_pos_w[env], data.xpos[bodies], atol=1e-6)
        np.testing.assert_allclose(engine.state.body_quat_w[env], data.xquat[bodies], atol=1e-6)
        np.testing.assert_allclose(engine.state.object_pos_w[env], data.xpos[things], atol=1e-6)
        np.testing.assert_allclose(engine.state.object_quat_w[env], data.xquat[things], atol=1e-6)


@pytest.mark.parametrize("stepped", [False, True], ids=["after reset", "after step"])
def test_velocities_are_those_of_the_body_origins(engine: Engine, stepped: bool) -> None:
    """Linear and angular velocity of every body and object, in world axes, as mj_objectVelocity reports them."""
    reset_all(engine, *scattered(engine))
    if stepped:
        engine.step(torch.zeros(4, engine.character.model.nu))
    state, model = engine.state, engine.character.model
    for env in range(4):
        data = forward(engine.character, state.qpos[env], state.qvel[env])
        for ids, lin_vel, ang_vel in (
            (engine.character.body_ids, state.body_lin_vel_w, state.body_ang_vel_w),
            (engine.character.object_ids, state.object_lin_vel_w, state.object_ang_vel_w),
        ):
            for number, body in enumerate(ids):
                theirs = np.zeros(6)
                mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, theirs, 0)
                np.testing.assert_allclose(ang_vel[env, number], theirs[:3], atol=1e-4)
                np.testing.assert_allclose(lin_vel[env, number], theirs[3:], atol=1e-4)


def test_velocities_are_differences_of_positions(engine: Engine) -> None:
    """A body moved on by its velocity for a moment is where the kinematics of the moved state have it."""
    moment = 1e-3
    qpos, qvel = scattered(engine)
    reset_all(engine, qpos, qvel)
    before = engine.state.rows(torch.arange(4))
    moved = engine.character.layout().integrate(qpos.double(), moment * qvel.double())
    reset_all(engine, moved.float(), qvel)
    for kind in ("body", "object"):
        pos, lin_vel = f"{kind}_pos_w", f"{kind}_lin_vel_w"
        change = (getattr(engine.state, pos) - getattr(before, pos)) / moment
        torch.testing.assert_close(change, getattr(before, lin_vel), rtol=0, atol=2e-2)


def test_poses_after_a_step_belong_to_the_positions_after_it(engine: Engine) -> None:
    """Body poses describe the state that the step reached, not one physics step before."""
    reset_all(engine, *scattered(engine))
    for _ in range(3):
        engine.step(torch.zeros(4, engine.character.model.nu))
    for env in range(4):
        data = forward(engine.character, engine.state.qpos[env], engine.state.qvel[env])
        np.testing.assert_allclose(engine.state.body_pos_w[env], data.xpos[engine.character.body_ids], atol=1e-5)


def test_resetting_some_worlds_leaves_the_others_alone(make_engine: MakeEngine) -> None:
    """Worlds that are not reset keep every bit of their state, and go on exactly as if nothing had happened."""
    disturbed, untouched = make_engine(4), make_engine(4)
    for engine in (disturbed, untouched):
        reset_all(engine, poses(PRESSED, 4), torch.linspace(0, 1, 52).reshape(4, 13))
        for _ in range(5):
            engine.step(hold(4))
    before = disturbed.state.rows(torch.arange(4))
    disturbed.reset(torch.tensor([1, 3]), poses(AWAY, 2), torch.ones(2, 13))
    others = torch.tensor([0, 2])
    for name, value in vars(before).items():
        assert torch.equal(value[others], getattr(disturbed.state, name)[others]), name
    assert torch.equal(disturbed.state.qpos[[1, 3]], poses(AWAY, 2))
    for _ in range(5):
        disturbed.step(hold(4))
        untouched.step(hold(4))
    for name, value in vars(disturbed.state).items():
        assert torch.equal(value[others], getattr(untouched.state, name)[others]), name


@pytest.mark.parametrize("chosen", [(), (1,), (0, 2, 3), (0, 1, 2, 3)], ids=["none", "one", "three", "all"])
def test_a_masked_reset_is_a_reset(make_engine: MakeEngine, differing: Differing, chosen: tuple[int, ...]) -> None:
    """Worlds named by a mask or by their numbers end up in the same bits, and go on in the same bits."""
    masked, numbered = make_engine(4), make_engine(4)
    for engine in (masked, numbered):
        reset_all(engine, poses(PRESSED, 4), torch.linspace(0, 1, 52).reshape(4, 13))
        wild = hold(4)
        wild[2] = 1e8
        engine.step(wild)
    envs, mask = torch.tensor(chosen, dtype=torch.long), torch.zeros(4, dtype=torch.bool)
    mask[envs] = True
    qpos, qvel = poses(PRESSED, 4) + 0.001 * torch.arange(4)[:, None], torch.linspace(-1, 1, 52).reshape(4, 13)
    qpos[~mask], qvel[~mask] = float("nan"), float("nan")  # never looked at
    masked.reset_where(mask, qpos, qvel)
    if chosen:
        numbered.reset(envs, qpos[envs], qvel[envs])
    assert masked.state.diverged.tolist() == [False, False, 2 not in chosen, False]
    assert differing(masked.state, numbered.state) == []
    for engine in (masked, numbered):
        engine.step(hold(4))
    assert differing(masked.state, numbered.state) == []
    assert torch.equal(masked.snapshot()["integration_state"], numbered.snapshot()["integration_state"])


def carrying(count: int = 1) -> Tensor:
    """The ball lies in the upturned palm.  [count, Q]"""
    qpos = poses((0.0, 0.0, HEIGHT + PALM_TO_BALL), count)
    qpos[:, 3] = torch.pi
    return qpos


def test_a_reset_forgets_the_past_of_a_world(make_engine: MakeEngine) -> None:
    """The same start and the same targets give the same bits, whatever the world did before."""
    used, fresh = make_engine(2), make_engine(2)
    start = carrying(2)
    reset_all(used, start)
    for _ in range(30):
        used.step(start[:, :7] + 0.05 * torch.randn(2, 7))
    positions = []
    for engine in (used, fresh):
        reset_all(engine, start)
        engine.step(start[:, :7])
        positions.append(engine.snapshot()["integration_state"][:, 1:])  # all but the time
    assert torch.equal(*positions)


def test_a_reset_slackens_the_muscles(make_engine: MakeEngine, walker_xml: str) -> None:
    """A drive with a state of its own, here a slow muscle, starts anew as well."""
    slow = '<general name="elbow" joint="elbow" dyntype="filter" dynprm="0.5" gainprm="5"/>'
    who = Character.from_mjcf(
        walker_xml.replace('<position name="elbow" joint="elbow" kp="5"/>', slow), objects=("box",)
    )
    used, fresh = make_engine(1, who), make_engine(1, who)
    rest, targets = torch.tensor(who.model.qpos0).float()[None], torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    for _ in range(10):
        used.step(targets)
    for engine in (used, fresh):
        reset_all(engine, rest)
        engine.step(targets)
    assert torch.equal(used.state.qvel, fresh.state.qvel)
    assert float(used.state.qvel.abs().max()) > 0.0


def test_a_ball_pressed_into_the_palm_touches_the_hand(make_engine: MakeEngine) -> None:
    """The pair object-hand is 1 with the ball in the palm and 0 with the ball away; a hand has no body pairs."""
    engine = make_engine(2)
    reset_all(engine, torch.cat((poses(PRESSED), poses(AWAY))))
    assert engine.state.contact_pairs.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_contacts_follow_the_steps(make_engine: MakeEngine) -> None:
    """A ball let go of falls out of contact, and a ball thrown at the palm comes into it."""
    engine = make_engine(2)
    gap = torch.tensor(PRESSED)
    falling, thrown = poses(PRESSED), poses(tuple((gap - torch.tensor([0.0, 0.0, 0.15])).tolist()))
    qvel = torch.zeros(2, 13)
    qvel[1, 9] = 4.0
    reset_all(engine, torch.cat((falling, thrown)), qvel)
    assert engine.state.contact_pairs[:, 0].tolist() == [1.0, 0.0]
    touched = torch.zeros(2)
    for _ in range(8):
        engine.step(hold(2))
        touched = torch.maximum(touched, engine.state.contact_pairs[:, 0])
    assert float(engine.state.contact_pairs[0, 0]) == 0.0
    assert float(touched[1]) == 1.0


def test_pairs_belong_to_the_positions_that_are_shown(make_engine: MakeEngine) -> None:
    """Whenever a ball bumps about in a hand, it touches in exactly the states in which MuJoCo finds it touching."""
    engine = make_engine(4)
    reset_all(engine, carrying(4), torch.linspace(-0.5, 0.5, 52).reshape(4, 13))
    ball = engine.character.model.body("ball").id
    seen = set()
    for step in range(30):
        engine.step(carrying(4)[:, :7] + 0.1 * torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]) * (-1) ** (step // 4))
        for env in range(4):
            data = forward(engine.character, engine.state.qpos[env], engine.state.qvel[env])
            bodies = [set(engine.character.model.geom_bodyid[contact.geom]) for contact in data.contact]
            touches = any(ball in pair and 0 not in pair for pair in bodies)  # 0 is the floor
            near = [contact.dist for contact in data.contact if abs(contact.dist) < 1e-6]
            if not near:  # on the very edge either answer will do
                assert bool(engine.state.contact_pairs[env, 0]) is touches
                seen.add(touches)
    assert seen == {False, True}


def test_the_palm_is_pushed_away_from_the_ball(make_engine: MakeEngine) -> None:
    """A ball pressed into the palm from below pushes it up; without a ball there is no force."""
    engine = make_engine(2)
    reset_all(engine, torch.cat((poses(PRESSED), poses(AWAY))))
    palm = engine.state.contact_force_w[:, 0]
    assert float(palm[0, 2]) > 1.0
    assert float(palm[0, :2].abs().max()) < 0.05 * float(palm[0, 2])
    assert palm[1].tolist() == [0.0, 0.0, 0.0]


def test_a_carried_ball_weighs_on_the_hand(make_engine: MakeEngine) -> None:
    """A ball at rest in the upturned palm presses it down with its weight."""
    engine = make_engine(1)
    reset_all(engine, carrying())
    for _ in range(180):
        engine.step(carrying()[:, :7])
    force = engine.state.contact_force_w[0].sum(dim=0)
    assert float(force[2]) == pytest.approx(-0.6 * 9.81, rel=0.02)


def test_a_finger_is_a_part_of_the_hand(make_engine: MakeEngine) -> None:
    """A ball that only a finger touches touches the hand, and pushes that finger alone."""
    engine = make_engine(1)
    reset_all(engine, poses((0.0, 0.22, HEIGHT - 0.18), grip=0.0))
    force = engine.state.contact_force_w[0].norm(dim=-1)
    assert float(force[1]) > 0.1
    assert (float(force[0]), float(force[2])) == (0.0, 0.0)
    assert engine.state.contact_pairs.tolist() == [[1.0, 0.0, 0.0]]


def test_the_three_pairs_of_the_contact_graph_are_told_apart(make_engine: MakeEngine, walker: Character) -> None:
    """Object at hand, object at body, body at hand: each pair of the graph shines alone."""
    engine = make_engine(4, walker)
    qpos = torch.tensor(walker.model.qpos0).float().repeat(4, 1)
    elbow, box = int(walker.model.joint("elbow").qposadr[0]), int(walker.model.joint("box").qposadr[0])
    qpos[0, box : box + 3] = torch.tensor([0.6, 0.0, 1.07])  # on the palm
    qpos[1, box : box + 3] = torch.tensor([0.0, 0.0, 1.14])  # on the torso
    qpos[2, elbow] = torch.pi  # the palm against the torso
    reset_all(engine, qpos)
    assert engine.state.contact_pairs.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert float(engine.state.contact_force_w[0, 0, 2]) < -1.0  # the box lies on the palm


def test_actuators_may_drive_sites(make_engine: MakeEngine) -> None:
    """A user's model whose drive acts on a site, not on a joint, is simulated like any other."""
    xml = """
    <mujoco model="flyer">
      <option timestep="0.008333333333333333"/>
      <worldbody>
        <body name="hull"><freejoint name="hull"/><geom size="0.1"/><site name="a"/><site name="rotor"/></body>
      </worldbody>
      <actuator><general name="lift" site="rotor" gear="0 0 1 0 0 0"/></actuator>
    </mujoco>
    """
    engine = make_engine(1, Character.from_mjcf(xml.strip()))
    reset_all(engine, torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]]))
    engine.step(torch.tensor([[100.0]]))
    assert float(engine.state.qvel[0, 2]) > 0.0


def test_results_do_not_depend_on_the_number_of_threads(hand_character: Character, differing: Differing) -> None:
    """One thread and two give the same bits."""
    one, two = CpuEngine(hand_character, 9, threads=1), CpuEngine(hand_character, 9, threads=2)
    for engine in (one, two):
        reset_all(engine, poses(PRESSED, 9), torch.linspace(-1, 1, 117).reshape(9, 13))
    for _ in range(20):
        targets = hold(9) + 0.3 * torch.randn(9, 7)
        one.step(targets)
        two.step(targets)
    assert differing(one.state, two.state) == []


def test_a_world_that_explodes_is_contained(make_engine: MakeEngine, differing: Differing) -> None:
    """A drive told to go a hundred thousand kilometres: flagged, counted, put back; the others never notice."""
    engine, calm = make_engine(3), make_engine(3)
    for each in (engine, calm):
        reset_all(each, poses(PRESSED, 3))
        each.step(hold(3))
    before = engine.state.rows(torch.arange(3))
    wild = hold(3)
    wild[1] = 1e8
    engine.step(wild)
    calm.step(hold(3))
    assert engine.state.diverged.tolist() == [False, True, False]
    assert engine.num_diverged == 1
    assert float(before.contact_force_w[1].norm()) > 0.1
    for name in set(vars(before)) - {"diverged"}:
        torch.testing.assert_close(getattr(engine.state, name)[1], getattr(before, name)[1], rtol=0, atol=1e-6)
    others = torch.tensor([0, 2])
    assert differing(engine.state.rows(others), calm.state.rows(others)) == []
    engine.step(hold(3))
    assert engine.state.diverged.tolist() == [False, False, False]
    assert engine.num_diverged == 1


def test_an_explosion_leaves_no_file(
    make_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """MuJoCo's own log of warnings appears neither where the user stands nor on the screen."""
    monkeypatch.chdir(tmp_path)
    engine = make_engine(2)
    reset_all(engine, poses(AWAY, 2), torch.full((2, 13), float("nan")))
    engine.step(torch.full((2, 7), 1e30))
    assert engine.num_diverged == 2
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("speed", [5e3, 1e12, float("nan"), float("inf")])
def test_an_impossible_velocity_is_a_divergence(make_engine: MakeEngine, differing: Differing, speed: float) -> None:
    """A world given an absurd or undefined velocity is flagged and counted, and every tensor of it is finite again."""
    engine, calm = make_engine(3), make_engine(3)
    qvel = torch.zeros(3, 13)
    reset_all(calm, poses(PRESSED, 3), qvel)
    qvel[2, 4] = speed
    reset_all(engine, poses(PRESSED, 3), qvel)
    engine.step(hold(3))
    calm.step(hold(3))
    assert engine.state.diverged.tolist() == [False, False, True]
    assert engine.num_diverged == 1
    assert len(engine.take_diverged()) == 1
    others = torch.tensor([0, 1])
    assert differing(engine.state.rows(others), calm.state.rows(others)) == []
    unfinished = [name for name, value in vars(engine.state).items() if not bool(value.isfinite().all())]
    assert unfinished == []


@pytest.mark.parametrize("coordinate", [0, 3, 5, 7, 10])
def test_an_undefined_position_is_a_divergence(make_engine: MakeEngine, coordinate: int) -> None:
    """A world given NaN in any position, a freely falling ball's included, is flagged, and finite afterwards."""
    engine = make_engine(2)
    qpos = poses(AWAY, 2)
    qpos[1, coordinate] = float("nan")
    reset_all(engine, qpos)
    engine.step(hold(2))
    assert engine.state.diverged.tolist() == [False, True]
    unfinished = [name for name, value in vars(engine.state).items() if not bool(value.isfinite().all())]
    assert unfinished == []


def test_undefined_targets_are_a_divergence(make_engine: MakeEngine) -> None:
    """A policy that says NaN is noticed; its world does not quietly go on with other targets."""
    engine = make_engine(2)
    reset_all(engine, poses(AWAY, 2))
    targets = hold(2)
    targets[1, 2] = float("nan")
    engine.step(targets)
    assert engine.state.diverged.tolist() == [False, True]


@pytest.mark.parametrize("masked", [False, True], ids=["numbered", "masked"])
def test_the_last_states_of_an_exploded_world_can_be_replayed(make_engine: MakeEngine, masked: bool) -> None:
    """The record begins at the last reset, ends with the fatal targets, and replays step by step to the explosion."""
    engine = make_engine(2)
    reset_all(engine, poses(PRESSED, 2))
    engine.step(hold(2))
    if masked:
        engine.reset_where(torch.tensor([False, True]), poses(PRESSED, 2), torch.zeros(2, 13))
    else:
        engine.reset(torch.tensor([1]), poses(PRESSED), torch.zeros(1, 13))
    for step in range(4):
        wild = hold(2) + 0.1 * torch.randn(2, 7)
        wild[1] = 1e8 if step == 3 else wild[1]
        engine.step(wild)
    (record,) = engine.take_diverged()
    assert engine.take_diverged() == []
    assert record.env == 1
    assert (record.qpos.shape, record.qvel.shape, record.targets.shape) == ((4, 14), (4, 13), (4, 7))
    torch.testing.assert_close(record.qpos[0].float(), poses(PRESSED)[0])
    torch.testing.assert_close(record.targets[-1].float(), torch.full((7,), 1e8))
    replay = make_engine(1)
    for step in range(4):
        replay.reset(torch.tensor([0]), record.qpos[step : step + 1], record.qvel[step : step + 1])
        replay.step(record.targets[step : step + 1])
        if step < 3:
            torch.testing.assert_close(replay.state.qpos[0], record.qpos[step + 1].float(), rtol=0, atol=1e-4)
    assert replay.state.diverged.tolist() == [True]


def test_records_of_explosions_are_few(make_engine: MakeEngine) -> None:
    """All explosions are counted, but only a handful is kept."""
    engine = make_engine(40)
    reset_all(engine, poses(AWAY, 40))
    engine.step(torch.full((40, 7), 1e8))
    assert engine.num_diverged == 40
    assert 1 <= len(engine.take_diverged()) <= 16


def test_a_reset_clears_the_flag(make_engine: MakeEngine) -> None:
    """A world that is started anew has not diverged."""
    engine = make_engine(2)
    reset_all(engine, poses(AWAY, 2))
    engine.step(torch.full((2, 7), 1e8))
    engine.reset(torch.tensor([0]), poses(AWAY), torch.zeros(1, 13))
    assert engine.state.diverged.tolist() == [False, True]


@pytest.mark.parametrize("fresh", [False, True], ids=["same engine", "new engine"])
def test_a_snapshot_goes_on_bit_for_bit(make_engine: MakeEngine, differing: Differing, fresh: bool) -> None:
    """Restored in the middle of a contact, an engine shows the same state and takes the same steps."""
    engine = make_engine(3)
    start = carrying(3)
    reset_all(engine, start)
    targets = [start[:, :7] + 0.02 * torch.randn(3, 7) for _ in range(20)]
    for target in targets[:10]:
        engine.step(target)
    snapshot, shown = engine.snapshot(), engine.state.rows(torch.arange(3))
    assert float(shown.contact_pairs[:, 0].max()) == 1.0
    expected = []
    for target in targets[10:]:
        engine.step(target)
        expected.append((engine.state.rows(torch.arange(3)), engine.snapshot()["integration_state"]))
    resumed = make_engine(3) if fresh else engine
    resumed.restore(snapshot)
    assert differing(resumed.state, shown) == []
    for target, (state, everything) in zip(targets[10:], expected, strict=True):
        resumed.step(target)
        assert differing(resumed.state, state) == []
        assert torch.equal(resumed.snapshot()["integration_state"], everything)


def test_a_snapshot_of_another_size_is_refused(make_engine: MakeEngine) -> None:
    """Three worlds cannot go on from a snapshot of two, and both shapes are named."""
    with pytest.raises(CheckpointError, match=r"\(2, \d+\).*\(3, \d+\)"):
        make_engine(3).restore(make_engine(2).snapshot())
