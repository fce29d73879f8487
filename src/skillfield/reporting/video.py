"""Motion as a film: MP4 for reports, GIF for pages that show nothing else."""

import math
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from skillfield.errors import RenderError
from skillfield.files import atomic_file

__all__ = ["film_size", "write_video"]

Picture = NDArray[np.uint8]  # [height, width, 3]

_CRF, _PRESET = 20, "veryfast"  # of x264: quality, lower is better; a slower preset would cost as much as drawing
_COMPACT_CRF, _COMPACT_PRESET = 27, "slow"  # for small pictures, which are drawn quickly
_GIF_MAX_FPS = 25
_GIF_PALETTE_FRAMES = 8


def film_size(path: Path, size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of a film whose pictures have this size: those of an MP4 are even."""
    if path.suffix.lower() != ".mp4":
        return size
    return size[0] - size[0] % 2, size[1] - size[1] % 2  # yuv420p stores colour for 2 x 2 pixels


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
    width, height = film_size(path, (first.shape[1], first.shape[0]))
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    coding = ["-c:v", "libx264", "-crf", str(crf), "-preset", preset]
    played = ["-pix_fmt", "yuv420p", "-movflags", "+faststart"]  # by browsers, and before all of it is loaded
    command = [_ffmpeg(), "-y", "-v", "error", *source, *coding, *played, str(path)]
    with tempfile.TemporaryFile() as said:
        with (
            suppress(BrokenPipeError),  # it has ended, and said why
            subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said, start_new_session=True) as ffmpeg,
        ):
            assert ffmpeg.stdin is not None
            for frame in _chain(first, frames):
                ffmpeg.stdin.write(frame[:height, :width].tobytes())
        if ffmpeg.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
            why = re.sub(r"^(\[.*?\] )*", "", lines[0]) if lines else f"exit code {ffmpeg.returncode}"
            raise OSError(f"ffmpeg: {why}")


def _ffmpeg() -> str:
    try:
        return imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as problem:
        raise OSError(f"no ffmpeg to write MP4 with (a .gif needs none): {problem}") from None


def _write_gif(frames: Iterator[Picture], path: Path, fps: int) -> None:
    every = math.ceil(fps / _GIF_MAX_FPS)
    pictures = [Image.fromarray(frame) for number, frame in enumerate(frames) if number % every == 0]
    sample = pictures[:: math.ceil(len(pictures) / _GIF_PALETTE_FRAMES)]
    mosaic = Image.fromarray(np.concatenate([np.asarray(picture) for picture in sample]))
    palette = mosaic.quantize(256)  # one palette for all frames, or colours flicker
    indexed = [picture.quantize(palette=palette) for picture in pictures]
    ends = [round(100 * every * number / fps) for number in range(len(indexed) + 1)]  # a GIF counts centiseconds
    indexed[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=indexed[1:],
        duration=[10 * (end - start) for start, end in pairwise(ends)],
        loop=0,
        optimize=False,
    )


def _chain(first: Picture, rest: Iterator[Picture]) -> Iterator[Picture]:
    yield first
    yield from rest
