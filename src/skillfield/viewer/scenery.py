"""Floor, light and camera of the page.

The camera belongs to each browser, and people turn it with the mouse. So to follow the character the world is moved
instead, under a camera that stays where they put it.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from skillfield.reference import ReferenceMotion
from skillfield.viewer.loop import PAGE_HZ

if TYPE_CHECKING:
    import viser

__all__ = ["Scenery", "top_of"]

_TILE = 1.0  # metres; the floor looks the same after each
_CALM = 0.25  # seconds in which two thirds of the way to the character are made up for
_CUT = 0.5  # metres in one picture: a reset, not a motion
_AZIMUTH, _ELEVATION = math.radians(-38.0), math.radians(17.0)  # in front of a character that faces +x, to its right
_SUN = (1.6, -2.0, 4.0)
_FIELD_OF_VIEW = math.radians(42.0)

Array = NDArray[np.float64]


def top_of(motion: ReferenceMotion) -> float:
    """The highest place that a body or an object comes to in a demonstration, metres."""
    shown = motion.kinematics(torch.arange(len(motion.qpos), device=motion.device))
    return max(float(points[..., 2].max()) for points in (shown.key_pos_w, shown.object_pos_w) if points.numel())


class Scenery:
    """The surroundings, and where they are shifted to."""

    def __init__(self, server: "viser.ViserServer", motion: ReferenceMotion) -> None:
        """motion: what will be looked at; the camera stands as far off as it takes to see all of it."""
        height = max(1.0, top_of(motion))
        server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(214, 106, 30))
        # One sun and a sky of our own: viser's draw three maps of shadows per picture, too many without a good GPU.
        server.scene.configure_default_lights(enabled=False)
        server.scene.configure_environment_map(None)
        server.scene.add_light_directional("/sun", intensity=2.0, cast_shadow=True, position=_SUN)
        server.scene.add_light_hemisphere(
            "/sky", sky_color=(255, 255, 255), ground_color=(205, 192, 174), intensity=1.9, position=(0.0, 0.0, 5.0)
        )
        self._floor = server.scene.add_grid(
            "/floor",
            infinite_grid=True,
            cell_size=_TILE / 2,
            section_size=_TILE,
            cell_color=(214, 200, 178),
            section_color=(186, 167, 138),
            plane_color=(228, 216, 196),
            plane_opacity=1.0,
            shadow_opacity=0.35,
            fade_distance=30.0,
            fade_strength=1.5,
        )
        aim, distance = np.array([0.0, 0.0, 0.46 * height]), 1.7 * height + 0.8
        level = math.cos(_ELEVATION)
        away = np.array([level * math.cos(_AZIMUTH), level * math.sin(_AZIMUTH), math.sin(_ELEVATION)])
        camera = server.initial_camera
        camera.look_at, camera.position, camera.fov = aim, aim + distance * away, _FIELD_OF_VIEW
        self.follows = True
        self._aim = np.zeros(3)
        self._last: Array | None = None

    def offset(self, root: Array) -> Array:
        """How far to move everything so that the camera sees the character. Called once per picture.  [3]"""
        place = np.array([root[0], root[1], 0.0])
        if self.follows:
            cut = self._last is None or math.dist(place, self._last) > _CUT
            self._aim += (1.0 if cut else 1.0 - math.exp(-1.0 / (_CALM * PAGE_HZ))) * (place - self._aim)
        self._last = place
        self._floor.position = -np.mod(self._aim, _TILE)
        return -self._aim
