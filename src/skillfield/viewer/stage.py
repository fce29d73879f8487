"""A MuJoCo model as a few instanced shapes, so that a whole pose is a handful of arrays on the wire.

Each shape is one mesh of unit size with many instances; a capsule is a tube and two caps, a ball a skin and its seams.
Shape letters: N instances.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillfield.characters import Character

if TYPE_CHECKING:
    import viser

__all__ = ["Figure", "Instances", "actors", "instances_of", "surroundings"]

Array = NDArray[np.float64]

_GHOST_RGB, _GHOST_OPACITY, _GHOST_SHARE, _GHOST_SIZE = np.array([0.35, 0.55, 0.95]), 0.35, 0.6, 0.97
_SEAM_RGB, _SEAM_WIDTH = np.array([0.16, 0.10, 0.07]), 0.04
_ROUND = 24  # corners of a circle
_NO_COLOUR = (0.5, 0.5, 0.5, 1.0)  # what MuJoCo gives a geom that asks for none: its material's counts then

_BOX, _CAPSULE = mujoco.mjtGeom.mjGEOM_BOX.value, mujoco.mjtGeom.mjGEOM_CAPSULE.value
_SPHERE, _CYLINDER = mujoco.mjtGeom.mjGEOM_SPHERE.value, mujoco.mjtGeom.mjGEOM_CYLINDER.value
_ELLIPSOID = mujoco.mjtGeom.mjGEOM_ELLIPSOID.value
_ROUNDED = (_SPHERE, _ELLIPSOID)


@dataclass(frozen=True)
class Instances:
    """Where the instances of one shape hang: each on a geom, shifted along its z axis, perhaps upside down."""

    shape: str  # sphere, skin, seam, tube, cap, cylinder, box
    geom: NDArray[np.intp]  # [N]
    body: NDArray[np.intp]  # [N]
    shift: Array  # [N] metres
    quat: Array  # [N, 4] in the frame of the body
    scale: Array  # [N, 3]
    rgb: Array  # [N, 3] 0 to 1

    def positions(self, data: mujoco.MjData) -> Array:
        """World frame.  [N, 3]"""
        axes = data.geom_xmat[self.geom].reshape(-1, 3, 3)[:, :, 2]
        return data.geom_xpos[self.geom] + self.shift[:, None] * axes

    def quaternions(self, data: mujoco.MjData) -> Array:
        """World frame.  [N, 4]"""
        return _product(data.xquat[self.body], self.quat)

    @property
    def turns(self) -> bool:
        """Whether anyone could see it turn."""
        return self.shape != "sphere" or bool(np.ptp(self.scale, axis=1).any())


def actors(character: Character) -> list[Instances]:
    """The character and its objects, with all that hangs on them; a ball gets seams, so that its spin can be seen."""
    model, owners = character.model, _owners(character)
    balls = []
    for thing in character.object_ids:
        geoms = _visible(model, [body for body, owner in owners.items() if owner == thing])
        balls += geoms if len(geoms) == 1 and model.geom_type[geoms[0]] in _ROUNDED else []
    return instances_of(model, owners, balls)


def surroundings(character: Character) -> list[Instances]:
    """Everything else in the model, such as a table: shapes of the world, and bodies that nobody asked for."""
    owners = _owners(character)
    return instances_of(character.model, [body for body in range(character.model.nbody) if body not in owners])


def instances_of(model: mujoco.MjModel, bodies: Collection[int], balls: Collection[int] = ()) -> list[Instances]:
    """The shapes of some bodies that can be seen. Geoms of other kinds, such as meshes and planes, are left out.

    balls: round geoms that have seams.
    """
    rows: dict[str, list[tuple[int, float, tuple[float, ...]]]] = {}

    def add(shape: str, geom: int, scale: tuple[float, ...], shift: float = 0.0) -> None:
        rows.setdefault(shape, []).append((geom, shift, scale))

    for geom in _visible(model, bodies):
        kind, size = model.geom_type[geom], model.geom_size[geom].tolist()
        if kind in _ROUNDED:
            for shape in ("skin", "seam") if geom in balls else ("sphere",):
                add(shape, geom, (size[0],) * 3 if kind == _SPHERE else tuple(size))
        elif kind == _BOX:
            add("box", geom, tuple(2 * side for side in size))
        elif kind == _CYLINDER:
            add("cylinder", geom, (size[0], size[0], 2 * size[1]))
        elif kind == _CAPSULE:
            add("tube", geom, (size[0], size[0], 2 * size[1]))
            add("cap", geom, (size[0],) * 3, size[1])
            add("cap", geom, (size[0],) * 3, -size[1])
    return [_instances(model, shape, found) for shape, found in rows.items()]


def _instances(model: mujoco.MjModel, shape: str, rows: list[tuple[int, float, tuple[float, ...]]]) -> Instances:
    geom = np.array([row[0] for row in rows], dtype=np.intp)
    shift = np.array([row[1] for row in rows])
    flip = np.where((shift < 0.0)[:, None], (0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))  # half a turn about x
    return Instances(
        shape=shape,
        geom=geom,
        body=model.geom_bodyid[geom].astype(np.intp),
        shift=shift,
        quat=_product(model.geom_quat[geom], flip),
        scale=np.array([row[2] for row in rows]),
        rgb=np.array([_SEAM_RGB if shape == "seam" else _rgba(model, row[0])[:3] for row in rows]),
    )


def _visible(model: mujoco.MjModel, bodies: Collection[int]) -> list[int]:
    """Geoms of some bodies, without those that are wholly transparent."""
    return [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] in bodies and _rgba(model, geom)[3] > 0.0]


def _owners(character: Character) -> dict[int, int]:
    """Body → what is meant by it: a body of the character itself, an object for everything that hangs on it."""
    owners = {body: body for body in (*character.body_ids, *character.object_ids)}
    for body in range(1, character.model.nbody):  # a parent comes before what hangs on it
        parent = int(character.model.body_parentid[body])
        if parent in owners:
            owners.setdefault(body, owners[parent])
    return owners


class Figure:
    """Shapes of a character's model on the page, or the ghost of them."""

    def __init__(
        self,
        server: "viser.ViserServer",
        character: Character,
        shapes: list[Instances],
        name: str,
        *,
        ghost: bool = False,
    ) -> None:
        self._model, self._owners = character.model, _owners(character)
        self._data = mujoco.MjData(self._model)
        mujoco.mj_kinematics(self._model, self._data)
        self._parts = []
        for part in shapes:
            vertices, faces = _unit_mesh(part.shape)
            handle = server.scene.add_batched_meshes_simple(
                f"/{name}/{part.shape}",
                vertices,
                faces,
                batched_wxyzs=part.quaternions(self._data),
                batched_positions=part.positions(self._data),
                batched_scales=(_GHOST_SIZE if ghost else 1.0) * part.scale,
                batched_colors=_linear(_tinted(part.rgb) if ghost else part.rgb),
                opacity=_GHOST_OPACITY if ghost else None,
                cast_shadow=not ghost,
                receive_shadow=not ghost,
                flat_shading=part.shape in ("box", "cylinder"),
                lod="off",
            )
            self._parts.append((part, handle))

    @property
    def grips(self) -> "list[tuple[viser.BatchedMeshHandle, list[int]]]":
        """What can be grabbed on the page, and the body that is pulled at by each of its instances."""
        return [(handle, [self._owners[body] for body in part.body.tolist()]) for part, handle in self._parts]

    def show(self, qpos: ArrayLike | None, offset: Array) -> None:
        """Draw a state, moved by an offset; None hides it.  [Q], [3]"""
        for _, handle in self._parts:
            handle.visible = qpos is not None
        if qpos is None or not self._parts:
            return
        self._data.qpos[:] = np.asarray(qpos, dtype=np.float64)
        mujoco.mj_kinematics(self._model, self._data)
        for part, handle in self._parts:
            handle.batched_positions = (part.positions(self._data) + offset).astype(np.float32)
            if part.turns:
                handle.batched_wxyzs = part.quaternions(self._data).astype(np.float32)


def _on_seam(points: Array) -> NDArray[np.bool_]:
    """Which points of a unit sphere lie on a basketball's seams: two great circles and two curves.  [n, 3]"""
    x, y, z = points.T
    curve = np.abs(np.abs(x) - 0.62 - 0.25 * np.abs(z))
    return (np.abs(y) < _SEAM_WIDTH) | (np.abs(z) < _SEAM_WIDTH) | (curve < _SEAM_WIDTH)


def _unit_mesh(shape: str) -> tuple[Array, NDArray[np.int64]]:
    """A sphere of radius 1, its upper half, a cylinder of radius and height 1, its wall alone, or a box of side 1."""
    import trimesh

    if shape == "tube":
        return _revolved(np.array([[1.0, -0.5], [1.0, 0.5]]))
    if shape == "cap":
        angle = np.linspace(0.0, np.pi / 2, _ROUND // 4 + 1)
        return _revolved(np.column_stack((np.cos(angle), np.sin(angle))))
    if shape in ("skin", "seam"):
        ball = trimesh.creation.icosphere(subdivisions=5)
        on_seam = _on_seam(ball.vertices[ball.faces].mean(axis=1))
        return np.asarray(ball.vertices), np.asarray(ball.faces)[on_seam if shape == "seam" else ~on_seam]
    if shape == "sphere":
        mesh = trimesh.creation.icosphere(subdivisions=3)
    elif shape == "cylinder":
        mesh = trimesh.creation.cylinder(1.0, 1.0, sections=_ROUND)
    else:
        mesh = trimesh.creation.box()
    return np.asarray(mesh.vertices), np.asarray(mesh.faces)


def _revolved(profile: Array) -> tuple[Array, NDArray[np.int64]]:
    """The surface that a line of (radius, height) sweeps about z, seen from outside.  [n, 2]"""
    angle = 2 * np.pi * np.arange(_ROUND) / _ROUND
    ring = np.column_stack((np.cos(angle), np.sin(angle)))
    vertices = [np.column_stack((radius * ring, np.full(_ROUND, height))) for radius, height in profile]
    here, on = np.arange(_ROUND), (np.arange(_ROUND) + 1) % _ROUND
    band = np.concatenate((np.stack((here, on, on + _ROUND)).T, np.stack((here, on + _ROUND, here + _ROUND)).T))
    return np.concatenate(vertices), np.concatenate([band + level * _ROUND for level in range(len(profile) - 1)])


def _rgba(model: mujoco.MjModel, geom: int) -> Array:
    """As MuJoCo draws a geom: in its own colour, else its material's, times most of what its texture shows.  [4]"""
    own, material = model.geom_rgba[geom].astype(float), model.geom_matid[geom]
    if material < 0:
        return own
    rgba = own if (own != _NO_COLOUR).any() else model.mat_rgba[material].astype(float)
    texture = model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB.value]
    if texture >= 0:
        first = model.tex_adr[texture]
        size = int(model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture])
        pixels = model.tex_data[first : first + size].reshape(-1, model.tex_nchannel[texture])
        rgba[:3] *= np.median(pixels[:, :3], axis=0) / 255.0
    return rgba


def _tinted(rgb: Array) -> Array:
    """A colour as a ghost has it."""
    return (1 - _GHOST_SHARE) * rgb + _GHOST_SHARE * _GHOST_RGB


def _linear(rgb: Array) -> NDArray[np.uint8]:
    """Colours of instances are taken for amounts of light, not for what a screen is told."""
    return np.round(255 * rgb**2.2).astype(np.uint8)


def _product(a: Array, b: Array) -> Array:
    """The rotation b followed by the rotation a, of quaternions.  [N, 4]"""
    scalar = a[:, :1] * b[:, :1] - (a[:, 1:] * b[:, 1:]).sum(axis=1, keepdims=True)
    return np.hstack((scalar, a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + np.cross(a[:, 1:], b[:, 1:])))
