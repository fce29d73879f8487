"""A character as tables of rows, and the one function that turns them into a MuJoCo spec."""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import mujoco
import numpy as np

from skillfield.characters.physics import PHYSICS_HZ, bounce_solref, stable_drive

__all__ = ["BodyRow", "ContactRow", "GeomRow", "JointRow", "ObjectRow", "build_spec"]

Vector = tuple[float, ...]

_GEOM_TYPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
}
_JOINT_TYPES = {
    "ball": mujoco.mjtJoint.mjJNT_BALL,
    "hinge": mujoco.mjtJoint.mjJNT_HINGE,
    "slide": mujoco.mjtJoint.mjJNT_SLIDE,
}

# Contact bit: the character has it as a type; whatever it can touch asks for it. Objects meet the floor through an
# explicit pair.
_CHARACTER_BIT = 1


@dataclass(frozen=True)
class ContactRow:
    """How a surface behaves when touched."""

    friction: Vector = (1.0, 0.005, 0.0001)
    restitution: float = 0.3


@dataclass(frozen=True)
class JointRow:
    """One driven joint: its axis, and the gains of its PD drive."""

    name: str
    type: Literal["slide", "hinge", "ball"]
    axis: Vector
    kp: float
    kd: float
    armature: float = 0.0


@dataclass(frozen=True)
class GeomRow:
    """One shape of a body. Metres, kilograms, degrees (extrinsic x, y, z)."""

    type: Literal["box", "capsule", "sphere"]
    size: Vector
    mass: float
    pos: Vector = (0.0, 0.0, 0.0)
    euler: Vector = (0.0, 0.0, 0.0)
    fromto: Vector = ()
    touches: bool = True
    rgba: Vector = (0.85, 0.66, 0.53, 1.0)


@dataclass(frozen=True)
class BodyRow:
    """One link: where it hangs, how it moves, what it is made of."""

    name: str
    parent: str
    pos: Vector = (0.0, 0.0, 0.0)
    quat: Vector = (1.0, 0.0, 0.0, 0.0)
    joints: tuple[JointRow, ...] = ()
    geoms: tuple[GeomRow, ...] = ()
    free: bool = False
    """Moves by a free joint, which nothing drives; `pos` and `quat` are then where it starts."""
    weightless: bool = False


@dataclass(frozen=True)
class ObjectRow:
    """A free ball. It touches the floor, the character and other objects."""

    name: str
    radius: float
    mass: float
    restitution: float
    friction: Vector = (0.6, 0.005, 0.0001)
    rgba: Vector = (0.93, 0.45, 0.13, 1.0)
    start: Vector = (0.0, 0.0)
    """Where on the floor it lies at first: x and y."""


def build_spec(
    name: str,
    bodies: tuple[BodyRow, ...],
    objects: tuple[ObjectRow, ...],
    contact: ContactRow,
    physics_hz: int = PHYSICS_HZ,
    *,
    stands: bool = False,
    self_collision: bool = False,
    strangers: tuple[tuple[str, str], ...] = (),
) -> mujoco.MjSpec:
    """The scene: floor, light, the character with stable PD drives, and its objects.

    stands: the floor carries the character; without it a floating one passes through.
    self_collision: the character touches itself, except for a body and the one it hangs on.
    strangers: more pairs of bodies that pass through one another.
    """
    spec = mujoco.MjSpec()
    spec.modelname = name
    timestep = 1.0 / physics_hz
    _set_options(spec, timestep)
    _add_surroundings(spec, stands)
    added = {"world": spec.worldbody}
    for row in bodies:
        body = added[row.parent].add_body(
            name=row.name, pos=row.pos, quat=row.quat, gravcomp=1.0 if row.weightless else 0.0
        )
        added[row.name] = body
        if row.free:
            body.add_freejoint(name=row.name)
        for joint in row.joints:
            _add_driven_joint(spec, body, joint, timestep)
        for geom in row.geoms:
            _add_geom(body, geom, contact, timestep, self_collision)
    for thing in objects:
        _add_object(spec, thing, contact, timestep)
    for one, other in combinations(objects, 2):
        _add_meeting(spec, one, other, timestep)
    for first, second in strangers:
        spec.add_exclude(bodyname1=first, bodyname2=second)
    return spec


def _set_options(spec: mujoco.MjSpec, timestep: float) -> None:
    spec.option.timestep = timestep
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.iterations = 8
    spec.option.ls_iterations = 8
    spec.option.tolerance = 1e-6  # as fine as float32 gets; coarser, the two engines stop at different points
    spec.option.disableflags = int(
        mujoco.mjtDisableBit.mjDSBL_EULERDAMP  # the stable PD drive replaces it
        | mujoco.mjtDisableBit.mjDSBL_AUTORESET  # engines notice a diverged world themselves
        | mujoco.mjtDisableBit.mjDSBL_ISLAND  # one character is one island: searching for more costs time
    )


def _add_surroundings(spec: mujoco.MjSpec, stands: bool) -> None:
    spec.add_texture(
        name="floor",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=(0.86, 0.80, 0.70),
        rgb2=(0.80, 0.73, 0.62),
        mark=mujoco.mjtMark.mjMARK_EDGE,
        markrgb=(0.70, 0.62, 0.50),
        width=512,
        height=512,
    )
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=(0.93, 0.95, 0.98),
        rgb2=(0.62, 0.72, 0.85),
        width=256,
        height=256,
    )
    floor = spec.add_material(name="floor", texrepeat=(2, 2), texuniform=True, reflectance=0.0)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=(0, 0, 1),
        material="floor",
        contype=0,
        conaffinity=_CHARACTER_BIT if stands else 0,
        condim=3,
    )
    spec.worldbody.add_light(
        name="sun",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=(0, 0, 4),
        dir=(-0.4, 0.5, -1.0),
        diffuse=(0.62, 0.61, 0.58),
        ambient=(0.0, 0.0, 0.0),
        castshadow=True,
    )
    spec.visual.headlight.ambient = (0.42, 0.42, 0.44)
    spec.visual.headlight.diffuse = (0.25, 0.25, 0.25)
    spec.visual.headlight.specular = (0.05, 0.05, 0.05)
    spec.visual.quality.shadowsize = 2048


def _add_driven_joint(spec: mujoco.MjSpec, body: mujoco.MjsBody, row: JointRow, timestep: float) -> None:
    drive = stable_drive(row.kp, row.kd, row.armature, timestep)
    body.add_joint(name=row.name, type=_JOINT_TYPES[row.type], axis=row.axis, armature=drive.armature)
    axes = {"": row.axis}
    if row.type == "ball":  # one actuator per component of the rotation vector
        axes = {"_x": (1.0, 0.0, 0.0), "_y": (0.0, 1.0, 0.0), "_z": (0.0, 0.0, 1.0)}
    for suffix, axis in axes.items():
        actuator = spec.add_actuator(
            name=row.name + suffix,
            target=row.name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
        )
        actuator.gear[:3] = axis if row.type == "ball" else (1.0, 0.0, 0.0)
        actuator.gainprm[0] = drive.kp
        actuator.biasprm[1] = -drive.kp
        actuator.biasprm[2] = -drive.kd


def _add_geom(body: mujoco.MjsBody, row: GeomRow, contact: ContactRow, timestep: float, self_collision: bool) -> None:
    geom = body.add_geom(
        type=_GEOM_TYPES[row.type],
        size=(*row.size, 0.0, 0.0)[:3],
        mass=row.mass,
        rgba=row.rgba,
        contype=_CHARACTER_BIT if row.touches else 0,
        conaffinity=_CHARACTER_BIT if row.touches and self_collision else 0,
        condim=3,
        friction=contact.friction,
    )
    geom.solref[:2] = bounce_solref(contact.restitution, timestep)
    if row.fromto:
        geom.fromto = row.fromto
    else:
        geom.pos = row.pos
        geom.quat = _quat_from_degrees(row.euler)


def _add_object(spec: mujoco.MjSpec, row: ObjectRow, contact: ContactRow, timestep: float) -> None:
    body = spec.worldbody.add_body(name=row.name, pos=(*row.start, row.radius))
    body.add_freejoint(name=row.name)
    spec.add_texture(  # seams, so that spin can be seen
        name=row.name,
        type=mujoco.mjtTexture.mjTEXTURE_CUBE,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
        rgb1=row.rgba[:3],
        rgb2=row.rgba[:3],
        mark=mujoco.mjtMark.mjMARK_CROSS,
        markrgb=(0.12, 0.07, 0.04),
        width=100,
        height=100,
    )
    skin = spec.add_material(name=row.name, specular=0.2, shininess=0.3)
    skin.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = row.name
    geom = body.add_geom(
        name=row.name,
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=(row.radius, 0, 0),
        mass=row.mass,
        material=row.name,
        contype=0,
        conaffinity=_CHARACTER_BIT,
        condim=3,
        friction=row.friction,
    )
    # The same soft values as the character, so that every way of mixing two surfaces gives the same contact; only the
    # floor is lively, through a pair of its own: the one form on which MuJoCo and MuJoCo-Warp agree.
    geom.solref[:2] = bounce_solref(contact.restitution, timestep)
    pair = spec.add_pair(name=f"{row.name}-floor", geomname1=row.name, geomname2="floor", condim=3)
    pair.friction[:] = (row.friction[0], row.friction[0], row.friction[1], row.friction[2], row.friction[2])
    pair.solref[:2] = bounce_solref(row.restitution, timestep)


def _add_meeting(spec: mujoco.MjSpec, one: ObjectRow, other: ObjectRow, timestep: float) -> None:
    """Two objects touch: as rough as the rougher of them, as lively as the duller."""
    pair = spec.add_pair(name=f"{one.name}-{other.name}", geomname1=one.name, geomname2=other.name, condim=3)
    slide, spin, roll = (max(each) for each in zip(one.friction, other.friction, strict=True))
    pair.friction[:] = (slide, slide, spin, roll, roll)
    pair.solref[:2] = bounce_solref(min(one.restitution, other.restitution), timestep)


def _quat_from_degrees(euler: Vector) -> np.ndarray:
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, np.deg2rad(euler), "XYZ")
    return quat
