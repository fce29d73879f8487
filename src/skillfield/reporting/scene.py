"""Pictures of a character and its objects, with or without the ghost of another state."""

import copy
from types import TracebackType

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from skillfield.characters import Character
from skillfield.characters.physics import POLICY_HZ
from skillfield.reporting.camera import TrackingCamera
from skillfield.reporting.offscreen import offscreen_renderer

__all__ = ["SceneRenderer"]

_OVERSAMPLING = 2
"""Pixels drawn per pixel shown, along each side: on a CPU as fast as OpenGL's smoothing, which leaves shadows rough."""

_SHADOW_REACH = 3.0  # metres around the aim where shadows are drawn
_SHADOW_PIXELS = 2048  # twice as many double the drawing time on a CPU and look the same

_GHOST_TINT = np.array([0.35, 0.55, 0.95])
_GHOST_SHARE = 0.6  # how far a ghost's colours move towards the tint
_GHOST_ALPHA = 0.3
_GHOST_SIZE = 0.97  # a ghost in the same place hides inside, instead of flickering on the surface


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
        self._model = _model_for_pictures(character.model, width, height)
        self._renderer = offscreen_renderer(self._model, _OVERSAMPLING * width, _OVERSAMPLING * height)
        self._data, self._ghost = mujoco.MjData(self._model), mujoco.MjData(self._model)
        self._options, self._perturb = mujoco.MjvOption(), mujoco.MjvPerturb()
        fovy = float(self._model.vis.global_.fovy)
        self._camera = TrackingCamera(fovy, width / height, fps, azimuth, elevation)
        shown = np.isin(self._model.geom_bodyid, [*character.body_ids, *character.object_ids])
        self._shown = np.flatnonzero(shown)

    def frame(self, qpos: ArrayLike, ghost: ArrayLike | None = None) -> NDArray[np.uint8]:
        """The picture of one state.  [height, width, 3]

        ghost: another state of the same scene, drawn translucent: usually the reference.
        """
        self._place(self._data, qpos)
        self._camera.follow(self._data.geom_xpos[self._shown], self._radius)
        self._renderer.update_scene(self._data, self._camera.view, self._options)
        self._bring_shadows()
        if ghost is not None:
            self._place(self._ghost, ghost)
            self._add_ghost()
        return np.asarray(Image.fromarray(self._renderer.render()).reduce(_OVERSAMPLING))

    def hold_view(self, qpos: ArrayLike) -> None:
        """Keep one distance and height that suit all these states, so that pictures of them can be compared.

        qpos: [T, Q]
        """
        centres = []
        for state in np.asarray(qpos, dtype=np.float64):
            self._place(self._data, state)
            centres.append(self._data.geom_xpos[self._shown])
        self._camera.hold(np.stack(centres), self._radius)

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

    def _place(self, data: mujoco.MjData, qpos: ArrayLike) -> None:
        """Positions only: drawing needs no forces."""
        data.qpos[:] = np.asarray(qpos, dtype=np.float64)
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_camlight(self._model, data)

    def _bring_shadows(self) -> None:
        """Move the sun along: its shadows reach only so far, and a character may run away from them."""
        for light in self._renderer.scene.lights[: self._renderer.scene.nlight]:
            if light.type == mujoco.mjtLightType.mjLIGHT_DIRECTIONAL.value and not light.headlight:
                light.pos[:] = self._camera.view.lookat * (1.0, 1.0, 0.0) - _SHADOW_REACH * light.dir

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


def _model_for_pictures(model: mujoco.MjModel, width: int, height: int) -> mujoco.MjModel:
    """A copy with the size of the picture and of its shadows written into it."""
    model = copy.copy(model)
    model.vis.global_.offwidth, model.vis.global_.offheight = _OVERSAMPLING * width, _OVERSAMPLING * height
    model.vis.quality.offsamples = 0
    model.vis.map.shadowclip = _SHADOW_REACH / model.stat.extent
    model.vis.quality.shadowsize = min(model.vis.quality.shadowsize, _SHADOW_PIXELS)
    return model
