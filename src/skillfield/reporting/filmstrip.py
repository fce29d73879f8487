"""A motion on one page: a row of pictures, each with a caption."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.errors import RenderError
from skillfield.files import atomic_file
from skillfield.reference.motion import clip_positions
from skillfield.reporting.scene import SceneRenderer

__all__ = ["TILE_HEIGHT", "TILE_WIDTH", "filmstrip", "stack_strips", "write_filmstrip", "write_picture"]

TILE_WIDTH, TILE_HEIGHT = 240, 320
"""Pixels of one picture in a clip's strip: upright, as characters are."""

_GAP = 6
_TITLE_HEIGHT, _CAPTION_HEIGHT = 44, 46
_TITLE_SIZE, _CAPTION_SIZE = 22, 15
_PAPER, _INK, _FAINT = (255, 255, 255), (32, 36, 44), (110, 116, 128)


def filmstrip(frames: Sequence[NDArray[np.uint8]], captions: Sequence[str], title: str = "") -> NDArray[np.uint8]:
    """Pictures side by side with a caption of up to two lines under each, and a title above."""
    if not frames or len(frames) != len(captions):
        raise RenderError(f"a filmstrip needs a caption per frame: {len(frames)} frames, {len(captions)} captions")
    height, width = frames[0].shape[:2]
    top = _TITLE_HEIGHT if title else _GAP
    page = Image.new("RGB", (len(frames) * (width + _GAP) + _GAP, top + height + _CAPTION_HEIGHT), _PAPER)
    draw = ImageDraw.Draw(page)
    if title:
        draw.text((_GAP + 2, top / 2), title, fill=_INK, font=_font(_TITLE_SIZE), anchor="lm")
    for number, (frame, caption) in enumerate(zip(frames, captions, strict=True)):
        left = _GAP + number * (width + _GAP)
        page.paste(Image.fromarray(frame), (left, top))
        for line, text in enumerate(caption.split("\n")[:2]):
            place = (left + width / 2, top + height + (line + 0.75) * _CAPTION_HEIGHT / 2.5)
            draw.text(place, text, fill=_FAINT if line else _INK, font=_font(_CAPTION_SIZE), anchor="mm")
    return np.asarray(page)


def write_filmstrip(clip: Clip, character: Character, path: Path, count: int = 8) -> None:
    """A PNG of a clip: frames spread evenly over those that are present."""
    qpos = clip_positions(clip, character).numpy()
    present = np.flatnonzero(clip.valid)
    if not len(present):
        raise RenderError(f"clip '{clip.name}': every frame is marked missing, there is nothing to draw")
    chosen = present[np.linspace(0, len(present) - 1, min(count, len(present))).round().astype(int)]
    with SceneRenderer(character, TILE_WIDTH, TILE_HEIGHT) as scene:
        scene.hold_view(qpos[chosen])
        frames = [scene.frame(qpos[frame]) for frame in chosen]
    title = f"{clip.skill} · {clip.name} · {clip.seconds:.2f} s"
    write_picture(filmstrip(frames, [_caption(clip, frame) for frame in chosen], title), path)


def stack_strips(strips: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Strips below each other on one sheet."""
    width = max(strip.shape[1] for strip in strips)
    padded = [np.pad(s, ((0, 0), (0, width - s.shape[1]), (0, 0)), constant_values=_PAPER[0]) for s in strips]
    return np.concatenate(padded)


def write_picture(picture: NDArray[np.uint8], path: Path) -> None:
    """Write a PNG, whole or not at all."""
    try:
        with atomic_file(path) as temporary:
            Image.fromarray(picture).save(temporary, format="PNG", optimize=True)
    except OSError as problem:
        raise RenderError(f"{path}: cannot be written: {problem.strerror or problem}") from None


def _caption(clip: Clip, frame: int) -> str:
    touching = [name for name, label in zip(clip.contact_names, clip.contacts[frame], strict=True) if label > 0.5]
    return f"frame {frame} · {frame / clip.fps:.2f} s\n{', '.join(touching)}"


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
