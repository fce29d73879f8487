"""Motion as a film: MP4 for reports, GIF for pages that show nothing else."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from skillfield.errors import RenderError
from skillfield.files import atomic_file

__all__ = ["write_video"]

Picture = NDArray[np.uint8]  # [height, width, 3]

_CRF, _PRESET = 20, "veryfast"  # of x264: quality, lower is better; a slower preset would cost as much as drawing
_COMPACT_CRF, _COMPACT_PRESET = 27, "slow"  # for small pictures, which are drawn quickly
_GIF_MAX_FPS = 25
_GIF_MAX_WIDTH = 480
_GIF_PALETTE_FRAMES = 8


def write_video(frames: Iterable[Picture], path: Path, fps: int, *, compact: bool = False) -> None:
    """Write pictures as `.mp4` or `.gif`, by the path's suffix; the file appears whole or not at all.

    Frames are taken one by one, so a generator that draws them needs no memory for the whole film.
    compact: make an MP4 as small as a page with many of them needs.
    """
    writers: dict[str, Callable[[Iterator[Picture], Path, int], None]] = {
        ".mp4": partial(_write_mp4, compact=compact),
        ".gif": _write_gif,
    }
    write = writers.get(path.suffix.lower())
    if write is None:
        raise RenderError(f"{path}: unknown kind of video '{path.suffix}'; known: {', '.join(writers)}")
    try:
        with atomic_file(path) as temporary:
            write(_same_size(frames, path), temporary, fps)
    except OSError as problem:
        raise RenderError(f"{path}: cannot be written: {problem.strerror or problem}") from None


def _same_size(frames: Iterable[Picture], path: Path) -> Iterator[Picture]:
    shape = None
    for number, frame in enumerate(frames):
        shape = shape or frame.shape
        if frame.shape != shape or frame.dtype != np.uint8 or frame.shape[2:] != (3,):
            found = f"{frame.shape} {frame.dtype}"
            raise RenderError(f"{path}: frame {number} is {found}, expected {(*shape[:2], 3)} uint8")
        yield frame
    if shape is None:
        raise RenderError(f"{path}: a video needs at least one frame")


def _write_mp4(frames: Iterator[Picture], path: Path, fps: int, compact: bool) -> None:
    crf, preset = (_COMPACT_CRF, _COMPACT_PRESET) if compact else (_CRF, _PRESET)
    first = next(frames)
    height, width = (2 * (side // 2) for side in first.shape[:2])  # yuv420p stores colour for 2 x 2 pixels
    try:
        writer = imageio_ffmpeg.write_frames(
            str(path),
            (width, height),
            fps=fps,
            codec="libx264",
            pix_fmt_out="yuv420p",  # what browsers play
            quality=None,
            macro_block_size=2,
            # a page can start it before it is loaded
            output_params=["-crf", str(crf), "-preset", preset, "-movflags", "+faststart"],
        )
        writer.send(None)
    except RuntimeError as problem:
        raise RenderError(f"{path}: no ffmpeg to write MP4 with (a .gif needs none): {problem}") from None
    try:
        for frame in _chain(first, frames):
            writer.send(np.ascontiguousarray(frame[:height, :width]))
    finally:
        writer.close()


def _write_gif(frames: Iterator[Picture], path: Path, fps: int) -> None:
    every = math.ceil(fps / _GIF_MAX_FPS)
    pictures = [_shrink(Image.fromarray(frame)) for number, frame in enumerate(frames) if number % every == 0]
    sample = pictures[:: math.ceil(len(pictures) / _GIF_PALETTE_FRAMES)]
    mosaic = Image.fromarray(np.concatenate([np.asarray(picture) for picture in sample]))
    palette = mosaic.quantize(256)  # one palette for all frames, or colours flicker
    indexed = [picture.quantize(palette=palette) for picture in pictures]
    indexed[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=indexed[1:],
        duration=1000 * every / fps,
        loop=0,
        optimize=False,
    )


def _shrink(picture: Image.Image) -> Image.Image:
    if picture.width <= _GIF_MAX_WIDTH:
        return picture
    height = round(picture.height * _GIF_MAX_WIDTH / picture.width)
    return picture.resize((_GIF_MAX_WIDTH, height), Image.Resampling.LANCZOS)


def _chain(first: Picture, rest: Iterator[Picture]) -> Iterator[Picture]:
    yield first
    yield from rest
