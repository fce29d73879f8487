"""MJCF becomes a character: its root, its clock, its roles, and models that are refused in plain words."""

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from skillfield.characters import Character, character
from skillfield.errors import CharacterError, SkillfieldNote

MUJOCO_MODEL = Path(mujoco.__file__).parent / "testdata" / "model.xml"


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
    with pytest.warns(SkillfieldNote, match=f"time step {timestep:g} s .* simulated at 1/{60 * substeps} s"):
        character = Character.from_mjcf(walker_xml.replace("0.008333333333333333", repr(timestep)))
    assert character.substeps == substeps
    assert character.model.opt.timestep * substeps == pytest.approx(1 / 60)


def test_a_time_step_that_hardly_moves_is_no_news(walker_xml: str, recwarn: pytest.WarningsRecorder) -> None:
    """Rounded to four digits it is still what was asked for."""
    assert Character.from_mjcf(walker_xml.replace("0.008333333333333333", "0.008333")).substeps == 2
    assert not recwarn.list


@pytest.mark.parametrize("timestep", ["0", "-1", "nan", "1e-300"])
def test_a_time_step_that_is_none_is_refused(walker_xml: str, timestep: str) -> None:
    """No clock can run on it."""
    with pytest.raises(CharacterError, match="timestep"):
        Character.from_mjcf(walker_xml.replace("0.008333333333333333", timestep))


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


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"hands": ("box",)}, "hand 'box' is neither its root 'torso' nor below it"),
        ({"root": "box"}, "object 'box' and root 'box' share bodies"),
        ({"root": "world"}, "its root cannot be the world"),
        ({"objects": ("box", "box")}, r"objects name \['box'\] more than once"),
        ({"force_bodies": ("palm", "arm", "palm")}, r"force_bodies name \['palm'\] more than once"),
    ],
    ids=["hand of another tree", "root is an object", "root is the world", "object twice", "force twice"],
)
def test_roles_that_contradict_one_another_are_refused(walker_xml: str, roles: dict[str, Any], message: str) -> None:
    """A body is a part of the character or of an object, and has each role once."""
    with pytest.raises(CharacterError, match=message):
        Character.from_mjcf(walker_xml, **{"objects": ("box",), **roles})


def test_a_model_may_have_sensors_of_its_own(walker_xml: str) -> None:
    """Even under the names that ours would have."""
    own = '</actuator><sensor><framepos name="force palm" objtype="body" objname="palm"/></sensor>'
    character = Character.from_mjcf(walker_xml.replace("</actuator>", own), force_bodies=("palm",))
    assert character.model.nsensor == 2
    assert character.force_sensors == (4,)  # behind three numbers of theirs and a count of ours


def test_a_spec_can_be_built_again(walker_xml: str) -> None:
    """Building leaves a spec as it was."""
    spec = mujoco.MjSpec.from_string(walker_xml)
    first, second = (Character.build(spec, root="torso", objects=("box",), hands=("palm",)) for _ in range(2))
    assert first.model.nsensor == second.model.nsensor > 0
    assert len(spec.sensors) == 0


def test_a_drive_with_a_delay_is_refused(walker_xml: str) -> None:
    """Its memory of past commands would outlive a reset."""
    late = walker_xml.replace('joint="elbow" kp="5"', 'joint="elbow" kp="5" nsample="4" delay="0.02"')
    with pytest.raises(CharacterError, match="has a delay"):
        Character.from_mjcf(late)


def test_a_drive_with_several_targets_is_refused(walker_xml: str) -> None:
    """One action, one target."""
    several = walker_xml.replace('<position name="elbow" joint="elbow" kp="5"/>', '<pid name="elbow" joint="elbow"/>')
    with pytest.raises(CharacterError, match="several targets"):
        Character.from_mjcf(several)


@pytest.mark.parametrize("name", ["hand", "humanoid", "humanoid_fused"])
def test_built_in_characters_keep_their_flags(name: str) -> None:
    """What any model needs they have always had."""
    bits = mujoco.mjtDisableBit
    wanted = bits.mjDSBL_EULERDAMP.value | bits.mjDSBL_AUTORESET.value | bits.mjDSBL_ISLAND.value
    options = character(name).model.opt
    assert (options.disableflags, options.enableflags) == (wanted, 0)
