"""What the viewer draws of a model, where, and in which colour."""

from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

from skillfield.characters import Character
from skillfield.viewer.stage import Figure, Instances, actors, surroundings

SCENE = """
<mujoco model="waiter">
  <option timestep="0.008333333333333333"/>
  <asset>
    <material name="red" rgba="1 0 0 1"/>
    <material name="glass" rgba="1 1 1 0"/>
    <texture name="sky" type="2d" builtin="flat" width="4" height="4" rgb1="0 0.2 1"/>
    <material name="sky" texture="sky"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <geom name="top" type="box" size=".4 .4 .02" pos="0 1 .7" rgba="0 1 0 1"/>
    <body name="stool" pos="1 1 0"><geom name="seat" type="cylinder" size=".2 .2" pos="0 0 .2"/></body>
    <body name="door" pos="-1 0 1">
      <joint name="hinge" axis="0 0 1"/>
      <geom name="leaf" type="box" size=".4 .02 1"/>
    </body>
    <body name="trunk" pos="0 0 1">
      <freejoint name="trunk"/>
      <geom name="trunk" type="sphere" size="0.1" material="red"/>
      <geom name="nose" type="sphere" size="0.02" pos=".1 0 0" material="red" rgba="1 1 0 1"/>
      <geom name="badge" type="box" size=".01 .02 .02" pos=".1 0 -.05" material="sky"/>
      <geom name="reach" type="sphere" size=".3" rgba="1 1 1 0" contype="0" conaffinity="0" mass="0"/>
      <geom name="aura" type="sphere" size=".3" material="glass" contype="0" conaffinity="0" mass="0"/>
      <body name="arm">
        <joint name="shoulder" axis="0 1 0" damping="1"/>
        <geom name="arm" type="capsule" size=".03" fromto="0 0 0 .3 0 0"/>
      </body>
    </body>
    <body name="cup" pos="0 1 .8">
      <freejoint/>
      <geom name="cup" type="cylinder" size=".05 .06" material="red"/>
      <body name="handle" pos="0 .06 0"><geom name="handle" type="sphere" size=".02" rgba="0 0 1 1"/></body>
    </body>
    <body name="bat" pos="0 1 1.2" quat=".9 .3 .1 .2"><freejoint/><geom name="bat" type="capsule" size=".03 .2"/></body>
    <body name="ball" pos="0 2 1"><freejoint/><geom name="ball" type="sphere" size=".1" rgba="1 .5 0 1"/></body>
  </worldbody>
  <actuator><position name="shoulder" joint="shoulder" kp="40"/></actuator>
</mujoco>
"""


@pytest.fixture(scope="module")
def waiter() -> Character:
    """Somebody with a cup that has a handle, a bat and a ball, between a table, a stool and a door."""
    return Character.from_mjcf(SCENE, root="trunk", objects=("cup", "bat", "ball"), hands=("arm",))


def names(model: mujoco.MjModel, shapes: list[Instances]) -> dict[str, set[str]]:
    """Shape → what has it."""
    return {part.shape: {model.geom(geom).name for geom in part.geom} for part in shapes}


def test_everything_that_can_be_seen_is_drawn_once(waiter: Character) -> None:
    """What hangs on an object is a part of it, tables stand around; the floor is the page's, clear glass nobody's."""
    assert names(waiter.model, actors(waiter)) == {
        "sphere": {"trunk", "nose", "handle"},
        "box": {"badge"},
        "cylinder": {"cup"},
        "tube": {"arm", "bat"},
        "cap": {"arm", "bat"},
        "skin": {"ball"},
        "seam": {"ball"},
    }
    assert names(waiter.model, surroundings(waiter)) == {"box": {"top", "leaf"}, "cylinder": {"seat"}}


def test_nothing_stands_around_the_built_in_characters(hand_character: Character, full: Character) -> None:
    """Their floor is the page's own; only their ball has seams."""
    for character in (hand_character, full):
        assert surroundings(character) == []
        assert names(character.model, actors(character))["seam"] == {"ball"}


def test_colours_are_those_that_mujoco_draws(waiter: Character) -> None:
    """A geom's own, else its material's; most of a texture where there is one; seams are dark."""
    drawn = {
        (part.shape, waiter.model.geom(geom).name): rgb
        for part in actors(waiter) + surroundings(waiter)
        for geom, rgb in zip(part.geom, part.rgb, strict=True)
    }
    scene, data = mujoco.MjvScene(waiter.model, 100), mujoco.MjData(waiter.model)
    mujoco.mj_forward(waiter.model, data)
    mujoco.mjv_updateScene(
        waiter.model, data, mujoco.MjvOption(), None, mujoco.MjvCamera(), mujoco.mjtCatBit.mjCAT_ALL, scene
    )
    wanted = {waiter.model.geom(geom.objid).name: geom.rgba[:3] for geom in scene.geoms[: scene.ngeom]}
    for (shape, name), rgb in drawn.items():
        if shape == "seam":
            assert rgb.max() < 0.2
        elif name == "badge":
            assert rgb == pytest.approx([0.0, 0.2, 1.0], abs=0.01)
        else:
            assert rgb == pytest.approx(wanted[name], abs=1e-6), name
    assert wanted["cup"] == pytest.approx([1.0, 0.0, 0.0])


def test_a_bat_has_its_caps_at_its_ends(waiter: Character) -> None:
    """As an arm has, turned as it is; each is bent outwards."""
    data = mujoco.MjData(waiter.model)
    mujoco.mj_kinematics(waiter.model, data)
    caps = next(part for part in actors(waiter) if part.shape == "cap")
    bat = waiter.model.geom("bat").id
    mine = caps.geom == bat
    along = data.geom_xmat[bat].reshape(3, 3)[:, 2]
    assert caps.positions(data)[mine] - data.geom_xpos[bat] == pytest.approx(np.outer((0.2, -0.2), along), abs=1e-9)
    for side, quat in zip((1.0, -1.0), caps.quaternions(data)[mine], strict=True):
        top = np.zeros(3)
        mujoco.mju_rotVecQuat(top, np.array([0.0, 0.0, 1.0]), quat)
        assert top == pytest.approx(side * along, abs=1e-6)


def test_a_figure_moves_as_the_model_does(waiter: Character) -> None:
    """Every instance is sent where its geom is, an object's like a body's; who grabs a handle pulls the cup."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    sent: dict[str, Any] = {}

    def add(name: str, vertices: np.ndarray, faces: np.ndarray, **settings: Any) -> Any:
        sent[name] = SimpleNamespace(**settings)
        return sent[name]

    server: Any = SimpleNamespace(scene=SimpleNamespace(add_batched_meshes_simple=add))
    shapes = actors(waiter)
    figure = Figure(server, waiter, shapes, "it")
    data = mujoco.MjData(waiter.model)
    data.qpos[:] = waiter.model.qpos0 + np.random.default_rng(1).normal(size=waiter.model.nq)
    mujoco.mj_normalizeQuat(waiter.model, data.qpos)
    figure.show(data.qpos, np.array([0.0, 0.0, 5.0]))
    mujoco.mj_kinematics(waiter.model, data)
    cup = waiter.model.body("cup").id
    for part, (handle, bodies) in zip(shapes, figure.grips, strict=True):
        centre = data.geom_xpos[part.geom] + [0.0, 0.0, 5.0]
        away = np.linalg.norm(handle.batched_positions - centre, axis=1)
        assert away == pytest.approx(np.abs(part.shift), abs=1e-5)
        for geom, quat, body in zip(part.geom, handle.batched_wxyzs, bodies, strict=True):
            matrix = np.zeros(9)
            mujoco.mju_quat2Mat(matrix, quat.astype(float))
            if part.turns and part.shape != "cap":
                assert matrix == pytest.approx(data.geom_xmat[geom], abs=1e-5)
            own = int(waiter.model.geom_bodyid[geom])
            assert body == (cup if waiter.model.body(own).name == "handle" else own)
    figure.show(None, np.zeros(3))
    assert not any(part.visible for part in sent.values())
