"""Filming takes: panels side by side, captions, trails; as a film or as a strip of pictures."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.takes import VIDEO_FPS, Take

__all__ = ["TRAIL_SECONDS", "Picture", "draw_strips", "draw_takes", "mosaic_size", "panel_grid", "panel_size"]

TRAIL_SECONDS = 1.2
"""How long the trail of an object stays."""

Picture = NDArray[np.uint8]  # [height, width, 3]

_GAP = 4  # pixels between panels
_GAP_COLOUR = 255
_PILL, _PILL_TEXT, _PILL_SOFT = (24, 30, 40, 185), (255, 255, 255, 255), (255, 255, 255, 175)


def panel_grid(count: int) -> tuple[int, int]:
    """Columns and rows for so many panels: one row of up to three, then as square as it goes."""
    columns = count if count <= 3 else math.ceil(math.sqrt(count))
    return columns, math.ceil(count / columns)


def panel_size(size: tuple[int, int], count: int) -> tuple[int, int]:
    """Width and height of each of so many panels that share a picture."""
    columns, rows = panel_grid(count)
    return (size[0] - _GAP * (columns - 1)) // columns, (size[1] - _GAP * (rows - 1)) // rows


def mosaic_size(panel: tuple[int, int], count: int) -> tuple[int, int]:
    """Width and height of a picture of so many panels."""
    columns, rows = panel_grid(count)
    return columns * (panel[0] + _GAP) - _GAP, rows * (panel[1] + _GAP) - _GAP


def draw_takes(
    takes: Sequence[Take], renderer: SceneRenderer, *, labels: Sequence[str] = (), trail: bool = False
) -> Iterator[Picture]:
    """Pictures of takes that run side by side, all of one length.

    renderer: of the size of one panel.
    labels: whose take each is; nothing is written if not given.
    """
    paths = [renderer.camera_path(take.qpos) for take in takes]
    distance = np.max([path[:, 3] for path in paths], axis=0)
    for frame in range(min(map(len, takes))):
        panels = []
        for number, (take, path) in enumerate(zip(takes, paths, strict=True)):
            place = np.array([*path[frame, :3], distance[frame]])
            tail = take.trail(frame, TRAIL_SECONDS) if trail else None
            picture = renderer.frame(take.qpos[frame], take.ghosts[frame], trail=tail, place=place)
            image = Image.fromarray(picture)
            if number == 0:
                _caption(image, take.skills[frame].replace("_", " "), f"{frame / VIDEO_FPS:.1f} s")
            if labels:
                _label(image, labels[number])
            panels.append(np.asarray(image))
        yield _mosaic(panels)


def draw_strips(
    takes: Sequence[Take], renderer: SceneRenderer, count: int, *, trail: bool = False
) -> list[tuple[list[Picture], list[str]]]:
    """So many pictures spread evenly over each take, all from one distance so that sizes can be compared.

    With a caption for each picture: time, and skill if there are several.
    """
    chosen = [np.unique(np.linspace(0, len(take) - 1, count).round().astype(int)).tolist() for take in takes]
    renderer.hold_view(np.concatenate([take.qpos[frames] for take, frames in zip(takes, chosen, strict=True)]))
    strips = []
    for take, frames in zip(takes, chosen, strict=True):
        pictures, captions = [], []
        for frame in frames:
            tail = take.trail(frame, TRAIL_SECONDS) if trail else None
            pictures.append(renderer.frame(take.qpos[frame], take.ghosts[frame], trail=tail))
            skill = take.skills[frame].replace("_", " ") if len(set(take.skills)) > 1 else ""
            captions.append(f"{frame / VIDEO_FPS:.1f} s\n{skill}")
        strips.append((pictures, captions))
    return strips


def _mosaic(panels: Sequence[Picture]) -> Picture:
    if len(panels) == 1:
        return panels[0]
    columns, _ = panel_grid(len(panels))
    height, width = panels[0].shape[:2]
    whole = mosaic_size((width, height), len(panels))
    page = np.full((whole[1], whole[0], 3), _GAP_COLOUR, np.uint8)
    for number, panel in enumerate(panels):
        top, left = number // columns * (height + _GAP), number % columns * (width + _GAP)
        page[top : top + height, left : left + width] = panel
    return page


def _caption(image: Image.Image, skill: str, time: str) -> None:
    """Bottom left: what was asked for, and for how long this has gone on."""
    size = _text_size(image)
    pill = _pill(skill, time, size)
    image.paste(pill, (size, image.height - size - pill.height), pill)


def _label(image: Image.Image, text: str) -> None:
    """Top left: whose take it is."""
    size = _text_size(image)
    pill = _pill(text, "", size)
    image.paste(pill, (size, size), pill)


def _text_size(image: Image.Image) -> int:
    return max(11, min(image.height // 24, image.width // 22))


@lru_cache(maxsize=512)
def _pill(text: str, soft: str, size: int) -> Image.Image:
    """Light text on a dark rounded plate, so that it reads on any floor."""
    font = ImageFont.load_default(size)
    gap = size * 0.8 if soft else 0.0
    widest = "0" * len(soft)  # the plate must not twitch with every tenth of a second
    width = font.getlength(text) + gap + font.getlength(widest)
    plate = Image.new("RGBA", (round(width + 1.5 * size), round(1.9 * size)), (0, 0, 0, 0))
    draw = ImageDraw.Draw(plate)
    draw.rounded_rectangle((0, 0, plate.width - 1, plate.height - 1), radius=0.45 * size, fill=_PILL)
    draw.text((0.75 * size, plate.height / 2), text, font=font, fill=_PILL_TEXT, anchor="lm")
    draw.text(
        (0.75 * size + font.getlength(text) + gap, plate.height / 2), soft, font=font, fill=_PILL_SOFT, anchor="lm"
    )
    return plate
