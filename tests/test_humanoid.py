"""The humanoid: the figures of its table, two kinds of hands, and physics that survives falls and flailing."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from skillfield.characters import Character, character, humanoid
from skillfield.characters.drives import DrivePositions
from skillfield.characters.hand import BALL
from skillfield.characters.humanoid import FINGERS, STANDING_HEIGHT
from skillfield.clips import CONTACT_PAIRS
from skillfield.errors import CharacterError
from skillfield.reporting.scene import SceneRenderer
from skillfield.simulation import CpuEngine

MakeEngine = Callable[..., CpuEngine]

GAINS = {
    "hip": (500, 50),
    "knee": (500, 50),
    "ankle": (400, 40),
    "toe": (200, 20),
    **dict.fromkeys(("torso", "spine", "upper_spine", "chest"), (1000, 100)),
    **dict.fromkeys(("neck", "head", "wrist", *FINGERS), (100, 10)),
    **dict.fromkeys(("thorax", "shoulder"), (400, 40)),
    "elbow": (300, 30),
}
"""Spring and damper of each joint (release, skeleton file)."""

CUP = {"left": (0.073, -0.1313, 0.018), "right": (-0.073, -0.131, 0.014)}
"""Where a ball lies in the fused hand, in the frame of the wrist."""


@pytest.fixture(scope="module", params=["humanoid", "humanoid_fused"])
def anyone(request: pytest.FixtureRequest) -> Character:
    """Either kind of hands."""
    return character(request.param)


@pytest.fixture(scope="module")
def fused() -> Character:
    """Fingers fixed in a cup."""
    return humanoid("fused")


def part(name: str) -> str:
    """'left_index_2' is an 'index'."""
    return name.removeprefix("left_").removeprefix("right_").rstrip("_123")


def at_rest(who: Character) -> mujoco.MjData:
    """The rest pose, with its contacts."""
    data = mujoco.MjData(who.model)
    mujoco.mj_forward(who.model, data)
    return data


def rest(who: Character, count: int) -> torch.Tensor:
    """The rest pose for several worlds.  [count, Q]"""
    return torch.tensor(who.model.qpos0).float().expand(count, -1).clone()


def start(engine: CpuEngine, qpos: torch.Tensor) -> None:
    """Every world at a position, without motion."""
    engine.reset(torch.arange(engine.num_envs), qpos, torch.zeros(engine.num_envs, engine.character.model.nv))


@pytest.mark.parametrize(("hands", "dofs", "drives"), [("full", 168, 156), ("fused", 78, 66)])
def test_degrees_of_freedom(hands, dofs: int, drives: int) -> None:
    """A free root, three per joint, a free ball; a drive and an action for every joint column."""
    who = humanoid(hands)
    assert (who.model.nv, who.model.nu, len(who.actions), len(who.joint_names)) == (dofs, drives, drives, drives)
    assert (len(who.body_names), who.object_names, who.substeps) == (53, ("ball",), 2)


def test_total_mass_is_that_of_the_release(anyone: Character) -> None:
    """66.59 kg, whatever the hands; flesh that is only shown weighs nothing."""
    model = anyone.model
    assert model.body_subtreemass[model.body("pelvis").id] == pytest.approx(66.59, abs=0.005)
    assert model.body_mass[model.body("ball").id] == 0.6


def test_gains_are_those_of_the_release(anyone: Character) -> None:
    """Spring, damper and armature of every joint, read back through the stable drive."""
    model = anyone.model
    step = model.opt.timestep
    for drive in range(model.nu):
        joint = int(model.actuator_trnid[drive, 0])
        kp = model.actuator_gainprm[drive, 0]
        kd = -model.actuator_biasprm[drive, 2] - step * kp
        assert (kp, pytest.approx(kd)) == GAINS[part(model.joint(joint).name)]
        armature = model.dof_armature[model.jnt_dofadr[joint]]
        assert armature - step * kd - step**2 * kp == pytest.approx(0.02)


def test_the_table_is_the_published_skeleton(full: Character, demonstrations: Path) -> None:
    """Order, parents, offsets, masses from densities, and gains agree with the skeleton beside the data."""
    published = json.loads((demonstrations / "skeletons" / "ballplay.json").read_text())["bodies"]
    model = full.model
    assert len(published) == len(full.body_names)
    names = [row["name"] for row in published]
    for body, row in zip(full.body_ids, published, strict=True):
        parent = "" if row["parent"] is None else full.body_names[names.index(row["parent"])]
        assert model.body(model.body_parentid[body]).name == (parent or "world")
        if parent:
            np.testing.assert_allclose(model.body_pos[body], row["offset"], atol=1e-6)
            assert GAINS[part(model.body(body).name)] == (row["kp"], row["kd"])
        (geom,) = row["geoms"]
        radius, *others = geom["size"]
        match geom["type"]:
            case "sphere":
                volume = 4 / 3 * math.pi * radius**3
            case "capsule":
                length = math.dist(geom["fromto"][:3], geom["fromto"][3:])
                volume = math.pi * radius**2 * (length + 4 / 3 * radius)
            case _:
                volume = 8 * radius * math.prod(others)
        assert model.body_mass[body] == pytest.approx(geom["density"] * volume, rel=1e-5)


def test_key_bodies_are_the_eighteen_of_the_release(anyone: Character) -> None:
    """Root, head, knees, elbows, ankles, and ten fingertips, whose forces are observed too."""
    assert len(anyone.key_bodies) == 18
    assert anyone.key_bodies[:4] == ("pelvis", "head", "left_knee", "right_knee")
    assert anyone.key_bodies[8:] == anyone.force_bodies
    assert all(body.endswith("_3") for body in anyone.force_bodies)


def test_the_rest_pose_stands_on_the_floor_and_faces_ahead(anyone: Character) -> None:
    """Soles within a millimetre of the floor, left hand to +y, toes towards +x, and nothing of it touching anything."""
    data = at_rest(anyone)
    names = {anyone.model.body(anyone.model.geom_bodyid[geom]).name for pair in data.contact.geom for geom in pair}
    assert names <= {"world", "ball"}
    data.qpos[2] -= 0.001
    mujoco.mj_forward(anyone.model, data)
    touching = {anyone.model.body(anyone.model.geom_bodyid[pair[1]]).name for pair in data.contact.geom}
    assert {"left_toe", "right_toe"} <= touching
    assert data.body("left_wrist").xpos[1] > 0.5
    assert data.body("left_toe").xpos[0] > 0.1
    assert data.body("head").xpos[2] > 1.5


def test_it_stands_still_for_ten_seconds(anyone: Character, make_engine: MakeEngine) -> None:
    """No action holds the rest pose: it neither falls, nor drifts, nor trembles."""
    engine = make_engine(1, anyone)
    start(engine, rest(anyone, 1))
    for _ in range(600):
        engine.step(anyone.action_map().targets(torch.zeros(1, len(anyone.actions)), engine.state.qpos))
    assert engine.num_diverged == 0
    assert float(engine.state.qpos[0, 2]) == pytest.approx(STANDING_HEIGHT, abs=0.01)
    assert float(engine.state.qvel.abs().max()) < 0.02


def test_falls_from_two_metres_in_any_pose_are_survived(anyone: Character, make_engine: MakeEngine) -> None:
    """Eight worlds drop from 2 m, turned and bent at random: nothing diverges, and all lie on the floor after 3 s."""
    engine, layout = make_engine(8, anyone), anyone.layout()
    change = 0.5 * torch.randn(8, anyone.model.nv).clamp(-2, 2)
    change[:, :3], change[:, 3:6] = torch.tensor([0.0, 0.0, 1.0]), 2 * torch.randn(8, 3)
    change[:, -6:] = 0.0
    start(engine, layout.integrate(rest(anyone, 8), change))
    for _ in range(180):
        engine.step(torch.zeros(8, anyone.model.nu))
    assert engine.num_diverged == 0
    assert float(engine.state.qpos[:, 2].max()) < 1.0
    assert float(engine.state.body_pos_w[..., 2].min()) > -0.05
    assert float(engine.state.qvel.abs().max()) < 20.0


@pytest.mark.parametrize("self_collision", [True, False])
def test_ten_seconds_of_flailing_diverge_nowhere(hands, self_collision: bool, make_engine: MakeEngine) -> None:
    """Targets with a spread of 0.2 rad, new at every step, and a ball dropped on it: every world stays finite."""
    who = humanoid(hands, self_collision)
    engine = make_engine(4, who, threads=2)
    qpos = rest(who, 4)
    qpos[:, -7:-4] = torch.tensor([0.4, 0.0, 1.6])
    start(engine, qpos)
    fastest = 0.0
    for _ in range(600):
        engine.step(0.2 * torch.randn(4, who.model.nu))
        fastest = max(fastest, float(engine.state.qvel.abs().max()))
    assert engine.num_diverged == 0
    assert bool(engine.state.qpos.isfinite().all())
    assert fastest < 100.0


@pytest.fixture(params=["full", "fused"])
def hands(request: pytest.FixtureRequest) -> str:
    """Kinds of hands."""
    return request.param


def test_an_action_is_a_rotation_vector_over_pi(full: Character) -> None:
    """No action is the rest pose, and one component at its limit is half a turn about one axis."""
    mapping = full.action_map()
    assert mapping.num_actions == 156
    targets = mapping.targets(torch.eye(156)[:2], rest(full, 2))
    torch.testing.assert_close(targets, math.pi * torch.eye(156)[:2])
    assert [action.name for action in full.actions] == list(full.joint_names)


@pytest.mark.parametrize("height", [0.3, 0.8, 1.5, 2.0])
def test_its_ball_bounces_with_restitution_four_fifths(full: Character, height: float) -> None:
    """Floor and ball meet through a pair of their own, as lively as the starter's."""
    model, data = full.model, mujoco.MjData(full.model)
    data.joint("ball").qpos[:3] = (2.0, 0.0, BALL.radius + height)
    fell = rose = False
    while not (fell and rose):
        mujoco.mj_step(model, data)
        speed, gap = data.joint("ball").qvel[2], data.joint("ball").qpos[2] - BALL.radius
        fell |= gap < 0
        rose = fell and gap > 0 and speed > 0
    rebound = gap + speed**2 / (2 * 9.81)
    assert np.sqrt(rebound / height) == pytest.approx(BALL.restitution, abs=0.05)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_fused_hand_fits_a_basketball(fused: Character, side: str) -> None:
    """With the ball in the cup every segment of every finger is within 4 mm of it, and none is inside."""
    model, data = fused.model, at_rest(fused)
    wrist = data.body(f"{side}_wrist")
    data.joint("ball").qpos[:3] = wrist.xpos + wrist.xmat.reshape(3, 3) @ CUP[side]
    mujoco.mj_kinematics(model, data)
    ball = model.geom("ball").id
    for name in (f"{side}_{finger}_{segment}" for finger in FINGERS for segment in (1, 2, 3)):
        gap = mujoco.mj_geomDistance(model, data, ball, int(model.body(name).geomadr[0]), 1.0, None)
        assert 0.0 <= gap < 0.004, name


def test_every_joint_column_belongs_to_a_ball_joint(anyone: Character) -> None:
    """Whoever interpolates a clip is told where rotation vectors begin: at every third column."""
    assert anyone.layout().ball_columns == list(range(0, len(anyone.joint_names), 3))


def test_both_kinds_of_hands_have_the_same_shapes(full: Character, fused: Character) -> None:
    """Fusing fingers fixes joints; it removes no body and no shape."""
    assert full.body_names == fused.body_names
    for table in ("geom_type", "geom_size", "geom_contype", "body_mass"):
        np.testing.assert_array_equal(getattr(full.model, table), getattr(fused.model, table))
    assert set(full.joint_names) - set(fused.joint_names) == set(fused.fixed_columns)
    assert (full.clips_of, fused.clips_of, full.fixed_columns) == ("humanoid", "humanoid", {})


def folded(who: Character) -> torch.Tensor:
    """The rest pose with the left elbow bent all the way, so that the hand lies in the shoulder.  [1, Q]"""
    qpos = rest(who, 1)
    elbow = int(who.model.joint("left_elbow").qposadr[0])
    qpos[0, elbow : elbow + 4] = torch.tensor([0.0, 0.0, 1.0, 0.0])
    return qpos


@pytest.mark.parametrize("self_collision", [True, False])
def test_self_collision_is_a_choice(self_collision: bool, make_engine: MakeEngine) -> None:
    """A hand folded into its own shoulder touches the body, or passes through."""
    who = humanoid(self_collision=self_collision)
    engine = make_engine(1, who)
    start(engine, folded(who))
    assert engine.state.contact_pairs[0].tolist() == [0.0, 0.0, float(self_collision)]


@pytest.mark.parametrize(
    ("body", "pair"),
    [("left_middle_3", 0), ("right_thumb_3", 0), ("head", 1), ("left_toe", 1), ("right_elbow", 1)],
)
def test_the_ball_tells_hands_from_body(full: Character, make_engine: MakeEngine, body: str, pair: int) -> None:
    """A ball pressed against fingers or wrist is an object-hand contact, against anything else object-body."""
    engine = make_engine(1, full)
    qpos, data = rest(full, 1), at_rest(full)
    geom = int(full.model.body(body).geomadr[0])
    ahead = np.array([0.0, 0.0, 1.0]) if "_" in body and body != "left_toe" else np.array([1.0, 0.0, 0.0])
    qpos[0, -7:-4] = torch.tensor(data.geom_xpos[geom] + BALL.radius * ahead)
    start(engine, qpos)
    assert engine.state.contact_pairs[0].tolist() == [float(index == pair) for index in range(len(CONTACT_PAIRS))]


def test_drives_know_where_they_are(full: Character, walker: Character, hand_character: Character) -> None:
    """Positions of the drives are MuJoCo's actuator lengths, for ball joints, hinges and slides."""
    for who in (full, walker, hand_character):
        data = at_rest(who)
        change = torch.randn(who.model.nv).clamp(-1.5, 1.5).double()
        data.qpos[:] = who.layout().integrate(torch.tensor(who.model.qpos0), change).numpy()
        mujoco.mj_forward(who.model, data)
        found = DrivePositions(who.model)(torch.tensor(data.qpos)[None])
        np.testing.assert_allclose(found[0], data.actuator_length, atol=1e-6)


def test_a_reset_holds_the_pose_that_it_puts(full: Character, make_engine: MakeEngine) -> None:
    """Right after a reset no finger is pulled back to rest: the hand in the air feels nothing."""
    engine = make_engine(1, full)
    qpos = full.layout().integrate(rest(full, 1), 0.3 * torch.randn(1, 168))
    start(engine, qpos)
    np.testing.assert_allclose(engine._ctrl, DrivePositions(full.model)(qpos), atol=1e-6)


def test_unknown_hands_are_refused_with_the_known_ones() -> None:
    """The message names both kinds."""
    with pytest.raises(CharacterError, match="unknown kind of hands 'mittens'; known: full, fused"):
        humanoid("mittens")  # type: ignore[arg-type]


def test_the_rest_pose_can_be_drawn(anyone: Character) -> None:
    """A picture with skin, shirt and ball in it."""
    with SceneRenderer(anyone, 160, 160) as scene:
        picture = scene.frame(anyone.model.qpos0).astype(int)
    red, green, blue = np.moveaxis(picture, -1, 0)
    assert ((blue > red + 30) & (blue > green + 15) & (blue < 150)).sum() > 100  # the shirt
    assert ((red > 180) & (blue < 80)).sum() > 50  # the ball
