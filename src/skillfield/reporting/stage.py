"""The stage that pictures are taken on: floor, sky, lights, and how finely all of it is drawn.

Nothing here touches a simulation: a picture has a copy of the model, and lights stand in the drawn scene alone.
"""

import copy
from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

__all__ = ["OVERSAMPLED_AREA", "add_lights", "drawn_size", "stage_model"]

Colours = NDArray[np.float64]  # [height, width, 3]

OVERSAMPLED_AREA = 400_000
"""Pixels up to which a picture is drawn twice as fine along each side; larger ones are drawn half as fine again."""

_SHADOW_REACH = 2.5  # metres around the aim, across the light
_SHADOW_PIXELS = (512, 1280)  # fewest and most along a side; 4 mm each where there are most
_SHADOW_SHARE = 0.67  # as many as this share of the picture's width
_LIGHT_DISTANCE = 4.5  # metres from the aim to the key light: a ball flies below it
_NEAREST, _FARTHEST = 0.15, 90.0  # metres that are drawn
_FOG = (7.0, 30.0)  # metres where the floor begins to fade into the sky, and where it has
_SLICES, _STACKS = 20, 12  # of a sphere: vertices are most of a humanoid's cost on a CPU

_SKY = (0.84, 0.88, 0.92)  # all of it: the fog lies over the sky too
_WOOD, _WOOD_SPREAD = np.array([0.80, 0.685, 0.535]), 0.022
_PLANKS, _PLANK_PARTS = 16, 2  # across the texture, and along it
_FLOOR_METRES = 2.0  # that the texture covers
_TILE_SHADE = 0.945  # every other square metre is this much darker: a measure of distance

_AMBIENT = 0.33


class _Lamp(NamedTuple):
    direction: tuple[float, float, float]
    colour: tuple[float, float, float]


_KEY = _Lamp((-0.45, 0.45, -1.0), (0.60, 0.58, 0.54))
_FILL = _Lamp((0.75, 0.55, -0.35), (0.15, 0.17, 0.21))
_BACK = _Lamp((0.45, -0.75, -0.25), (0.16, 0.16, 0.15))


def drawn_size(width: int, height: int) -> tuple[int, int]:
    """Pixels to draw for a picture, more than it has: smoother, shadows included, than OpenGL's own smoothing."""
    factor = 2.0 if width * height <= OVERSAMPLED_AREA else 1.5
    return round(factor * width), round(factor * height)


def stage_model(model: mujoco.MjModel, width: int, height: int) -> mujoco.MjModel:
    """A copy of a model, made for pictures of this size. The floor of another maker stays as it is."""
    model = copy.copy(model)
    drawn = drawn_size(width, height)
    model.vis.quality.offsamples = 0
    model.vis.quality.shadowsize = round(np.clip(_SHADOW_SHARE * drawn[0], *_SHADOW_PIXELS))
    model.vis.quality.numslices, model.vis.quality.numstacks = _SLICES, _STACKS
    model.vis.map.shadowclip = _SHADOW_REACH / model.stat.extent
    model.vis.map.znear, model.vis.map.zfar = _NEAREST / model.stat.extent, _FARTHEST / model.stat.extent
    model.vis.map.fogstart, model.vis.map.fogend = (metres / model.stat.extent for metres in _FOG)
    model.vis.rgba.fog[:] = model.vis.rgba.haze[:] = (*_SKY, 1.0)
    _paint(model, "floor", _parquet)
    floor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_MATERIAL, "floor")
    if floor >= 0:
        model.mat_texrepeat[floor] = 1.0 / _FLOOR_METRES
    return model


def add_lights(scene: mujoco.MjvScene, aim: NDArray[np.float64]) -> None:
    """Replace the scene's lights by a key light with shadows near the aim, a fill light, and a light from behind.

    The floor takes shadows and throws none, or MuJoCo would draw stripes on it where it is close to the camera.
    """
    for geom in scene.geoms[: scene.ngeom]:
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE.value:
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR.value
    scene.nlight = 4
    for light, lamp in zip(scene.lights[1:4], (_KEY, _FILL, _BACK), strict=True):
        direction = np.array(lamp.direction) / np.linalg.norm(lamp.direction)
        light.type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL.value
        light.headlight = 0
        light.castshadow = lamp is _KEY
        light.dir[:] = direction
        light.pos[:] = aim - _LIGHT_DISTANCE * direction  # shadows reach only so far from here
        light.diffuse[:] = lamp.colour
        light.ambient[:] = 0.0
        light.specular[:] = 0.25 if lamp is _KEY else 0.0
        light.attenuation[:] = (1.0, 0.0, 0.0)
    head = scene.lights[0]
    head.type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL.value
    head.headlight, head.castshadow = 1, 0
    head.ambient[:] = _AMBIENT
    head.diffuse[:] = 0.12
    head.specular[:] = 0.0
    head.attenuation[:] = (1.0, 0.0, 0.0)
    scene.flags[mujoco.mjtRndFlag.mjRND_FOG] = 1
    scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = 0  # the fog does better
    scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0


def _paint(model: mujoco.MjModel, name: str, draw: Callable[[int, int], Colours]) -> None:
    texture = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TEXTURE, name)
    if texture < 0 or model.tex_nchannel[texture] != 3:
        return
    picture = draw(int(model.tex_height[texture]), int(model.tex_width[texture]))
    start = int(model.tex_adr[texture])
    model.tex_data[start : start + picture.size] = np.rint(255 * picture.clip(0, 1)).astype(np.uint8).ravel()


def _parquet(height: int, width: int) -> Colours:
    """Planks of slightly different woods, and a faint board of square metres.  [height, width, 3]"""
    random = np.random.default_rng(3)
    row, column = np.mgrid[:height, :width]
    plank = row * _PLANKS // height
    shifted = (column + plank * (width // 5)) % width
    part = shifted * _PLANK_PARTS // width
    shade = random.normal(1.0, _WOOD_SPREAD, (_PLANKS, _PLANK_PARTS))[plank, part]
    grain = random.normal(0.0, 1.0, (height, 1)) * 0.006 * np.ones((1, width))
    seam = (row % (height // _PLANKS) == 0) | (shifted % (width // _PLANK_PARTS) == 0)
    tile = (row * 2 // height + column * 2 // width) % 2
    shade = (shade + grain) * np.where(seam, 0.88, 1.0) * np.where(tile, _TILE_SHADE, 1.0)
    return shade[..., None] * _WOOD
