"""A camera that follows the action the way a person would hold it: calm, and always far enough away.

Shape letters: T frames, N spheres that must be in the picture.
"""

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

__all__ = ["TrackingCamera"]

_MARGIN = 1.12  # room around the action, as a factor on the distance
_NEAREST = 1.2  # metres; closer looks like a fish-eye

# Seconds in which two thirds of a change are made up for. Dribbling must not shake the picture, so up and down is slow;
# something that leaves the picture must be caught quickly, and zooming in can wait.
_ALONG, _UP, _OUT, _IN = 0.25, 1.0, 0.15, 3.0

# The same for a motion known beforehand, as the spread of a bell curve in seconds: a camera that knows what will
# happen neither lags nor hurries. Distances are the largest needed within so many seconds before they are smoothed.
_PATH_ALONG, _PATH_UP, _PATH_DISTANCE, _PATH_AHEAD = 0.35, 0.7, 0.4, 0.6

_CUT = 0.5  # metres in one frame: a reset, not a motion


class TrackingCamera:
    """A free MuJoCo camera at a constant angle whose aim and distance follow what it is told to show."""

    def __init__(self, fovy: float, aspect: float, fps: float, azimuth: float, elevation: float) -> None:
        """fovy: vertical field of view, degrees. aspect: width over height. fps: how often `follow` will be called."""
        self.view = mujoco.MjvCamera()
        self.view.type = mujoco.mjtCamera.mjCAMERA_FREE
        self.view.azimuth, self.view.elevation = azimuth, elevation
        self._axes = _camera_axes(azimuth, elevation)
        self._slope_y = math.tan(math.radians(fovy) / 2)
        self._slope_x = self._slope_y * aspect
        self._fps = fps
        self._last_aim: NDArray[np.float64] | None = None
        self._held: tuple[float, float] | None = None  # height of the aim, and distance

    def follow(self, centre: NDArray[np.float64], radius: NDArray[np.float64]) -> None:
        """Move so that these spheres and the ground below them are seen.

        centre: [N, 3]  radius: [N]
        """
        centre, radius = _with_ground(centre, radius)
        aim, lookat = _middle(centre, radius), self.view.lookat
        if self._held is not None:
            lookat[:] = aim[0], aim[1], self._held[0]
            self.view.distance = self._held[1]
            return
        cut = self._last_aim is None or math.dist(aim[:2], self._last_aim[:2]) > _CUT
        self._last_aim = aim
        if cut:
            lookat[:] = aim
            self.view.distance = self._fit(centre, radius, aim)
            return
        lookat[:2] += self._share(_ALONG) * (aim[:2] - lookat[:2])
        lookat[2] += self._share(_UP) * (aim[2] - lookat[2])
        missing = self._fit(centre, radius, lookat) - self.view.distance
        self.view.distance += self._share(_OUT if missing > 0 else _IN) * missing

    def hold(self, centres: NDArray[np.float64], radius: NDArray[np.float64]) -> None:
        """Choose one height and one distance for a whole motion, so that its pictures can be compared.

        centres: [T, N, 3]  radius: [N]
        """
        top = float((centres[..., 2] + radius).max())
        distance = 0.0
        for centre in centres:
            spheres = _with_ground(centre, radius)
            aim = _middle(*spheres)
            aim[2] = top / 2
            distance = max(distance, self._fit(*spheres, aim))
        self._held = (top / 2, distance)

    def path(self, centres: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aim and distance for every frame of a motion that is known beforehand.  [T, 4]

        centres: [T, N, 3]  radius: [N]
        """
        spheres = [_with_ground(centre, radius) for centre in centres]
        aims = np.stack([_middle(*some) for some in spheres])
        aims[:, :2] = _smooth(aims[:, :2], _PATH_ALONG * self._fps)
        aims[:, 2:] = _smooth(aims[:, 2:], _PATH_UP * self._fps)
        needed = np.array([self._fit(*some, aim) for some, aim in zip(spheres, aims, strict=True)])
        reach = round(_PATH_AHEAD * self._fps)
        padded = np.pad(needed, reach, mode="edge")
        largest = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).max(axis=1)
        return np.column_stack((aims, _smooth(largest[:, None], _PATH_DISTANCE * self._fps)))

    def look(self, place: NDArray[np.float64]) -> None:
        """Go to one place of a path.  [4]"""
        self.view.lookat[:], self.view.distance = place[:3], place[3]

    def _fit(self, centre: NDArray[np.float64], radius: NDArray[np.float64], aim: NDArray[np.float64]) -> float:
        """The smallest distance from which every sphere is inside the picture."""
        right, up, ahead = self._axes @ (centre - aim).T  # [N] each
        needed_x = (np.abs(right) + radius) / self._slope_x - ahead
        needed_y = (np.abs(up) + radius) / self._slope_y - ahead
        return max(_NEAREST, _MARGIN * float(max(needed_x.max(), needed_y.max())))

    def _share(self, seconds: float) -> float:
        return 1.0 - math.exp(-1.0 / (seconds * self._fps))


def _with_ground(
    centre: NDArray[np.float64], radius: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Also show the ground under everything, where the shadows fall: without it nobody can tell a height."""
    return np.concatenate((centre, centre * (1.0, 1.0, 0.0))), np.concatenate((radius, 0.0 * radius))


def _smooth(values: NDArray[np.float64], spread: float) -> NDArray[np.float64]:
    """Along the first axis, with a bell curve of this spread in frames; the ends are held.  [T, n]"""
    reach = max(1, round(3 * spread))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / spread) ** 2)
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=0)  # [T, n, window]
    return windows @ (weights / weights.sum())


def _middle(centre: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = (centre - radius[:, None]).min(axis=0), (centre + radius[:, None]).max(axis=0)
    return (low + high) / 2


def _camera_axes(azimuth: float, elevation: float) -> NDArray[np.float64]:
    """Right, up and ahead of a MuJoCo free camera in world coordinates.  [3, 3]"""
    a, e = math.radians(azimuth), math.radians(elevation)
    ahead = np.array([math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)])
    right = np.array([math.sin(a), -math.cos(a), 0.0])
    return np.stack((right, np.cross(right, ahead), ahead))
