"""How far shapes are apart, or how deep inside one another, in each frame of a motion.

Shape letters: T frames, P pairs of geoms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

__all__ = ["GeomPairs", "Nearest", "floor_geoms", "nearest", "solid_geoms"]

_FAR = 100.0  # metres; beyond any scene

GeomPairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Nearest:
    """The closest pair of geoms in each frame."""

    distance: NDArray[np.float64]  # [T] metres, negative inside
    pair: GeomPairs  # [T] the pair at that distance


def nearest(model: mujoco.MjModel, qpos: NDArray[np.float64], pairs: GeomPairs) -> Nearest:
    """In each frame, the pair of geoms that is closest, or deepest inside one another.

    Bounding spheres rule out nearly all pairs before their exact distance is asked for.
    """
    distance, found = np.full(len(qpos), _FAR), [(-1, -1)] * len(qpos)
    if not pairs:
        return Nearest(distance, found)
    data = mujoco.MjData(model)
    first, second = np.array(pairs).T
    radius = np.where(model.geom_rbound > 0, model.geom_rbound, np.inf)  # a plane has no bound
    for frame, q in enumerate(qpos):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        centre = data.geom_xpos
        bound = np.linalg.norm(centre[first] - centre[second], axis=1) - radius[first] - radius[second]
        for number in bound.argsort():
            if bound[number] >= distance[frame]:
                break
            exact = mujoco.mj_geomDistance(model, data, *pairs[number], distance[frame], None)
            if exact < distance[frame]:
                distance[frame], found[frame] = exact, pairs[number]
    return Nearest(distance, found)


def solid_geoms(model: mujoco.MjModel, bodies: Sequence[int]) -> list[int]:
    """Shapes of these bodies that can touch something, by their masks or in a pair; the others are for show."""
    solid = (model.geom_contype | model.geom_conaffinity) != 0
    solid[model.pair_geom1] = solid[model.pair_geom2] = True
    return [g for g in range(model.ngeom) if model.geom_bodyid[g] in bodies and solid[g]]


def floor_geoms(model: mujoco.MjModel) -> list[int]:
    """Every plane of the scene."""
    return [g for g in range(model.ngeom) if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_PLANE.value]
