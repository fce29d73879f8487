"""Both engines: states that are true at once, snapshots that go on, and results that are the same every time."""

import mujoco
import numpy as np
import pytest
import torch

from engines import (
    AWAY,
    PRESSED,
    Differing,
    MakeEngine,
    carrying,
    either_engine,
    forward,
    hold,
    poses,
    reset_all,
    scattered,
)
from skillfield.characters import Character
from skillfield.errors import CheckpointError
from skillfield.simulation import CpuEngine, Engine

make_engine = either_engine
"""Tests that make engines are run with both."""


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


@pytest.mark.parametrize("fresh", [False, True], ids=["same engine", "new engine"])
def test_a_push_in_a_snapshot_lasts_for_one_step(hand_character: Character, differing: Differing, fresh: bool) -> None:
    """Restored before the step that it is for, it is felt in that step alone, as without the snapshot."""
    engine = CpuEngine(hand_character, 2, 1)
    reset_all(engine, poses(AWAY, 2))
    engine.push(hand_character.object_ids[0], np.array([0.6, 0.0, 0.0]))
    snapshot, expected = engine.snapshot(), []
    for _ in range(3):
        engine.step(hold(2))
        expected.append(engine.state)
    resumed = CpuEngine(hand_character, 2, 1) if fresh else engine
    resumed.restore(snapshot)
    for state in expected:
        resumed.step(hold(2))
        assert differing(resumed.state, state) == []
    assert resumed.state.object_lin_vel_w[:, 0, 0].tolist() == pytest.approx([1.0, 1.0], abs=0.01)  # 0.6 Ns, 0.6 kg


class OnDevice(torch.Tensor):
    """A tensor that NumPy cannot see before it is fetched, as on a GPU."""

    def numpy(self, *, force: bool = False) -> np.ndarray:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self, memory_format: torch.memory_format = torch.preserve_format) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)


def test_a_snapshot_may_lie_on_a_gpu(hand_character: Character, differing: Differing) -> None:
    """The CPU engine fetches it."""
    engine, resumed = CpuEngine(hand_character, 2, 1), CpuEngine(hand_character, 2, 1)
    reset_all(engine, poses(PRESSED, 2))
    resumed.restore({name: value.as_subclass(OnDevice) for name, value in engine.snapshot().items()})
    assert differing(resumed.state, engine.state) == []
