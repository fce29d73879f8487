"""Pictures of a character and its objects, with or without the ghost of another state and the trail of an object.

Shape letters: T frames, Q position coordinates, S points of a trail.
"""

from types import TracebackType

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from skillfield.characters import Character
from skillfield.characters.physics import POLICY_HZ
from skillfield.reporting.camera import TrackingCamera
from skillfield.reporting.offscreen import offscreen_renderer
from skillfield.reporting.stage import add_lights, drawn_size, stage_model

__all__ = ["SceneRenderer"]

_GHOST_TINT = np.array([0.35, 0.55, 0.95])
_GHOST_SHARE = 0.6  # how far a ghost's colours move towards the tint
_GHOST_ALPHA = 0.3
_GHOST_SIZE = 0.97  # a ghost in the same place hides inside, instead of flickering on the surface

_TRAIL_RGB = (0.95, 0.30, 0.05)
_TRAIL_RADIUS, _TRAIL_ALPHA = 0.011, 0.75  # metres and opacity at its fresh end

_LEASH, _LOST = 2.0, 5.0  # metres from the character: an object is held back in the picture, and given up


class SceneRenderer:
    """Draws states of one character from a camera that follows it."""

    def __init__(
        self,
        character: Character,
        width: int = 640,
        height: int = 480,
        *,
        fps: float = POLICY_HZ,
        azimuth: float = 140.0,
        elevation: float = -16.0,
    ) -> None:
        """fps: how many frames will be drawn per second of motion, for the camera's calm.

        azimuth, elevation: where the camera looks, in degrees; the default sees a character that faces +x from its
        front right.
        """
        self.width, self.height = width, height
        self._model = stage_model(character.model, width, height)
        self._renderer = offscreen_renderer(self._model, *drawn_size(width, height))
        self._data, self._ghost = mujoco.MjData(self._model), mujoco.MjData(self._model)
        self._options, self._perturb = mujoco.MjvOption(), mujoco.MjvPerturb()
        fovy = float(self._model.vis.global_.fovy)
        self._camera = TrackingCamera(fovy, width / height, fps, azimuth, elevation)
        shown = np.isin(self._model.geom_bodyid, [*character.body_ids, *character.object_ids])
        self._shown = np.flatnonzero(shown)
        self._is_object = np.isin(self._model.geom_bodyid[self._shown], character.object_ids)
        self._root = self._model.body(character.root).id

    def frame(
        self,
        qpos: ArrayLike,
        ghost: ArrayLike | None = None,
        *,
        trail: NDArray[np.float64] | None = None,
        place: NDArray[np.float64] | None = None,
    ) -> NDArray[np.uint8]:
        """The picture of one state.  [height, width, 3]

        ghost: another state of the same scene, drawn translucent: usually the reference.
        trail: where something has been, oldest first.  [S, 3]
        place: where the camera is, from `camera_path`; it follows by itself if not given.  [4]
        """
        self._place(self._data, qpos)
        if place is None:
            self._camera.follow(self._centres(), self._radius)
        else:
            self._camera.look(place)
        self._renderer.update_scene(self._data, self._camera.view, self._options)
        add_lights(self._renderer.scene, self._camera.view.lookat)
        if ghost is not None:
            self._place(self._ghost, ghost)
            self._add_ghost()
        if trail is not None:
            self._add_trail(trail)
        return _smaller(self._renderer.render(), self.width, self.height)

    def hold_view(self, qpos: ArrayLike) -> None:
        """Keep one distance and height that suit all these states, so that pictures of them can be compared.

        qpos: [T, Q]
        """
        self._camera.hold(self._all_centres(qpos), self._radius)

    def camera_path(self, qpos: ArrayLike) -> NDArray[np.float64]:
        """Where the camera should be in each of these states, known beforehand: aim and distance.  [T, 4]

        qpos: [T, Q]
        """
        return self._camera.path(self._all_centres(qpos), self._radius)

    def close(self) -> None:
        """Give the graphics memory back."""
        self._renderer.close()

    def __enter__(self) -> "SceneRenderer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _radius(self) -> NDArray[np.float64]:
        return self._model.geom_rbound[self._shown]

    def _centres(self) -> NDArray[np.float64]:
        """Of everything that shall be in the picture; what went far away matters less and less."""
        centres = self._data.geom_xpos[self._shown]  # a copy
        away = centres[self._is_object] - self._data.xpos[self._root]
        length = np.linalg.norm(away[:, :2], axis=1, keepdims=True)
        kept = np.minimum(1.0, _LEASH / np.maximum(length, _LEASH)) * np.clip((_LOST - length) / (_LOST - _LEASH), 0, 1)
        centres[self._is_object] -= away * (1.0 - kept)
        return centres

    def _all_centres(self, qpos: ArrayLike) -> NDArray[np.float64]:
        centres = []
        for state in np.asarray(qpos, dtype=np.float64):
            self._place(self._data, state)
            centres.append(self._centres())
        return np.stack(centres)

    def _place(self, data: mujoco.MjData, qpos: ArrayLike) -> None:
        """Positions only: drawing needs no forces."""
        data.qpos[:] = np.asarray(qpos, dtype=np.float64)
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_camlight(self._model, data)

    def _add_ghost(self) -> None:
        scene, moving = self._renderer.scene, mujoco.mjtCatBit.mjCAT_DYNAMIC.value
        first = scene.ngeom
        mujoco.mjv_addGeoms(self._model, self._ghost, self._options, self._perturb, moving, scene)
        for geom in scene.geoms[first : scene.ngeom]:
            geom.rgba[:3] = (1 - _GHOST_SHARE) * geom.rgba[:3] + _GHOST_SHARE * _GHOST_TINT
            geom.rgba[3] = _GHOST_ALPHA
            geom.size[:] *= _GHOST_SIZE
            geom.matid = -1  # a texture would hide the tint
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR.value  # a ghost throws no shadow

    def _add_trail(self, trail: NDArray[np.float64]) -> None:
        """A thread that grows thinner and paler towards its old end."""
        scene = self._renderer.scene
        for number in range(1, len(trail)):
            if scene.ngeom >= scene.maxgeom:
                return
            fresh = number / (len(trail) - 1)
            geom = scene.geoms[scene.ngeom]
            colour = np.array([*_TRAIL_RGB, _TRAIL_ALPHA * fresh], dtype=np.float32)
            capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
            mujoco.mjv_initGeom(geom, capsule, np.zeros(3), np.zeros(3), np.zeros(9), colour)
            mujoco.mjv_connector(geom, capsule, _TRAIL_RADIUS * fresh**0.5, trail[number - 1], trail[number])
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR.value
            geom.emission = 0.4
            scene.ngeom += 1


def _smaller(picture: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    image = Image.fromarray(picture)
    if image.size == (2 * width, 2 * height):
        return np.asarray(image.reduce(2))
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
