"""A MuJoCo model as a few instanced shapes, so that a whole pose is a handful of arrays on the wire.

Each shape is one mesh of unit size with many instances; a capsule is a tube and two spheres.
Shape letters: N instances.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillfield.characters import Character

if TYPE_CHECKING:
    import viser

__all__ = ["Figure", "Instances", "instances_of"]

Array = NDArray[np.float64]

_GHOST_RGB, _GHOST_OPACITY, _GHOST_SHARE, _GHOST_SIZE = np.array([89.0, 140.0, 242.0]), 0.35, 0.6, 0.97
_SEAM_RGB, _SEAM_WIDTH = np.array([31, 18, 10]), 0.055
_ROUND = 24  # corners of a circle

_BOX, _CAPSULE = mujoco.mjtGeom.mjGEOM_BOX.value, mujoco.mjtGeom.mjGEOM_CAPSULE.value
_SPHERE, _CYLINDER = mujoco.mjtGeom.mjGEOM_SPHERE.value, mujoco.mjtGeom.mjGEOM_CYLINDER.value
_ELLIPSOID = mujoco.mjtGeom.mjGEOM_ELLIPSOID.value


@dataclass(frozen=True)
class Instances:
    """Where the instances of one shape hang: each on a geom, shifted along its z axis."""

    shape: str  # sphere, tube, cylinder, box
    geom: NDArray[np.intp]  # [N]
    shift: Array  # [N] metres
    scale: Array  # [N, 3]
    rgb: NDArray[np.uint8]  # [N, 3]

    def positions(self, data: mujoco.MjData) -> Array:
        """World frame.  [N, 3]"""
        axes = data.geom_xmat[self.geom].reshape(-1, 3, 3)[:, :, 2]
        return data.geom_xpos[self.geom] + self.shift[:, None] * axes

    def quaternions(self, data: mujoco.MjData) -> Array:
        """World frame.  [N, 4]"""
        model = data.model
        w, *v = data.xquat[model.geom_bodyid[self.geom]].T
        u, *t = model.geom_quat[self.geom].T
        a, b = np.stack(v, axis=1), np.stack(t, axis=1)
        vector = w[:, None] * b + u[:, None] * a + np.cross(a, b)
        return np.column_stack((w * u - (a * b).sum(axis=1), vector))

    @property
    def turns(self) -> bool:
        """Whether anyone could see it turn."""
        return self.shape != "sphere" or bool(np.ptp(self.scale, axis=1).any())


def instances_of(model: mujoco.MjModel, bodies: list[int]) -> list[Instances]:
    """The shapes of some bodies. Geoms of other kinds, such as meshes, are left out."""
    rows: dict[str, list[tuple[int, float, tuple[float, ...]]]] = {
        shape: [] for shape in ("sphere", "tube", "cylinder", "box")
    }
    for geom in np.flatnonzero(np.isin(model.geom_bodyid, bodies)).tolist():
        kind, size = model.geom_type[geom], model.geom_size[geom]
        if kind == _SPHERE:
            rows["sphere"].append((geom, 0.0, (size[0],) * 3))
        elif kind == _ELLIPSOID:
            rows["sphere"].append((geom, 0.0, tuple(size)))
        elif kind == _BOX:
            rows["box"].append((geom, 0.0, tuple(2 * size)))
        elif kind == _CYLINDER:
            rows["cylinder"].append((geom, 0.0, (size[0], size[0], 2 * size[1])))
        elif kind == _CAPSULE:
            rows["tube"].append((geom, 0.0, (size[0], size[0], 2 * size[1])))
            rows["sphere"] += [(geom, end * size[1], (size[0],) * 3) for end in (-1.0, 1.0)]
    return [
        Instances(
            shape,
            np.array([geom for geom, _, _ in found], dtype=np.intp),
            np.array([shift for _, shift, _ in found]),
            np.array([scale for _, _, scale in found]),
            np.round(255 * _colours(model, [geom for geom, _, _ in found])).astype(np.uint8),
        )
        for shape, found in rows.items()
        if found
    ]


class Figure:
    """A character and its objects on the page, or the ghost of them."""

    def __init__(self, server: "viser.ViserServer", character: Character, name: str, *, ghost: bool = False) -> None:
        self._model = character.model
        self._data = mujoco.MjData(self._model)
        mujoco.mj_kinematics(self._model, self._data)
        self._parts = []
        for part in instances_of(self._model, character.body_ids):
            vertices, faces = _unit_mesh(part.shape)
            rgb = part.rgb.astype(float)
            handle = server.scene.add_batched_meshes_simple(
                f"/{name}/{part.shape}",
                vertices,
                faces,
                batched_wxyzs=np.tile((1.0, 0.0, 0.0, 0.0), (len(part.geom), 1)),
                batched_positions=part.positions(self._data),
                batched_scales=(_GHOST_SIZE if ghost else 1.0) * part.scale,
                batched_colors=_tinted(rgb) if ghost else part.rgb,
                opacity=_GHOST_OPACITY if ghost else None,
                cast_shadow=not ghost,
                receive_shadow=not ghost,
                flat_shading=part.shape in ("box", "cylinder"),
                lod="off",
            )
            self._parts.append((part, handle))
        self._balls = [
            (part, number, _add_ball(server, f"/{name}/{thing}", part, number, ghost))
            for thing, body in zip(character.object_names, character.object_ids, strict=True)
            for part in instances_of(self._model, [body])
            for number in range(len(part.geom))
        ]
        self._shift: Array | None = None

    @property
    def handles(self) -> list[tuple["viser.BatchedMeshHandle | viser.MeshHandle | viser.GlbHandle", list[int]]]:
        """What can be grabbed on the page, and the body of each of its instances."""
        grips: list[tuple[viser.BatchedMeshHandle | viser.MeshHandle | viser.GlbHandle, list[int]]] = []
        grips += [(handle, self._model.geom_bodyid[part.geom].tolist()) for part, handle in self._parts]
        grips += [(handle, [int(self._model.geom_bodyid[part.geom[number]])]) for part, number, handle in self._balls]
        return grips

    def show(self, qpos: ArrayLike | None, offset: Array) -> None:
        """Draw a state, moved by an offset; None hides it.  [Q], [3]"""
        for _, handle in self._parts:
            handle.visible = qpos is not None
        for *_, ball in self._balls:
            ball.visible = qpos is not None
        if qpos is None:
            return
        self._data.qpos[:] = np.asarray(qpos, dtype=np.float64)
        mujoco.mj_kinematics(self._model, self._data)
        for part, handle in self._parts:
            handle.batched_positions = (part.positions(self._data) + offset).astype(np.float32)
            if part.turns:
                handle.batched_wxyzs = part.quaternions(self._data).astype(np.float32)
        for part, number, ball in self._balls:
            ball.position = part.positions(self._data)[number] + offset
            ball.wxyz = part.quaternions(self._data)[number]


def _add_ball(
    server: "viser.ViserServer", name: str, part: Instances, number: int, ghost: bool
) -> "viser.MeshHandle | viser.GlbHandle":
    """An object; a ball gets seams, so that its spin can be seen."""
    import trimesh

    vertices, faces = _unit_mesh(part.shape, fine=True)
    rgb = part.rgb[number].astype(float)
    scaled = (_GHOST_SIZE if ghost else 1.0) * part.scale[number] * vertices
    if ghost:
        colour = tuple(int(channel) for channel in _tinted(rgb))
        return server.scene.add_mesh_simple(
            name, scaled, faces, color=(colour[0], colour[1], colour[2]), opacity=_GHOST_OPACITY, cast_shadow=False
        )
    colours = np.tile(rgb.astype(np.uint8), (len(vertices), 1))
    if part.shape == "sphere":
        x, y, z = vertices.T
        curve = np.abs(np.abs(x) - 0.62 - 0.25 * np.abs(z))  # the two curved seams of a basketball
        seam = (np.abs(y) < _SEAM_WIDTH) | (np.abs(z) < _SEAM_WIDTH) | (curve < _SEAM_WIDTH)
        colours[seam] = _SEAM_RGB
    return server.scene.add_mesh_trimesh(name, trimesh.Trimesh(scaled, faces, vertex_colors=colours, process=False))


def _unit_mesh(shape: str, fine: bool = False) -> tuple[Array, NDArray[np.int64]]:
    """A sphere of radius 1, a cylinder of radius 1 and height 1, the same without lids, or a box of side 1."""
    import trimesh

    if shape == "tube":  # without lids, or the light would see them as round edges
        angle = 2 * np.pi * np.arange(_ROUND) / _ROUND
        ring = np.column_stack((np.cos(angle), np.sin(angle)))
        low, high = (np.column_stack((ring, np.full(_ROUND, height))) for height in (-0.5, 0.5))
        here, on = np.arange(_ROUND), (np.arange(_ROUND) + 1) % _ROUND
        faces = np.concatenate(
            (np.column_stack((here, on, on + _ROUND)), np.column_stack((here, on + _ROUND, here + _ROUND)))
        )
        return np.concatenate((low, high)), faces
    if shape == "sphere":
        mesh = trimesh.creation.icosphere(subdivisions=5 if fine else 3)
    elif shape == "cylinder":
        mesh = trimesh.creation.cylinder(1.0, 1.0, sections=_ROUND)
    else:
        mesh = trimesh.creation.box()
    return np.asarray(mesh.vertices), np.asarray(mesh.faces)


def _colours(model: mujoco.MjModel, geoms: list[int]) -> Array:
    """A geom's own colour, or that of its texture where it has one.  [N, 3]"""
    colours = model.geom_rgba[geoms, :3].astype(float)
    for row, geom in enumerate(geoms):
        material = model.geom_matid[geom]
        texture = -1 if material < 0 else model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB.value]
        if texture >= 0:
            first = model.tex_adr[texture]
            size = int(model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture])
            pixels = model.tex_data[first : first + size].reshape(-1, model.tex_nchannel[texture])
            colours[row] = np.median(pixels[:, :3], axis=0) / 255.0  # most of it, whatever is drawn on it
    return colours


def _tinted(rgb: Array) -> NDArray[np.uint8]:
    """A colour as a ghost has it."""
    return np.round((1 - _GHOST_SHARE) * rgb + _GHOST_SHARE * _GHOST_RGB).astype(np.uint8)
