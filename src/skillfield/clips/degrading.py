"""Clips made worse on purpose: noise on the objects and missing frames, for studies of robustness.

Shape letters: T frames, O objects.
"""

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillfield.clips.clip import Clip
from skillfield.errors import ClipError, ConfigError

__all__ = ["Degradation", "degrade"]

_MAX_MM = 1e6
"""A kilometre: more is a mistake."""

_POSES = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts")


@dataclass(frozen=True)
class Degradation:
    """How to make a clip worse. The same seed does the same to the same clip, whatever other clips there are."""

    noise_mm: float = 0.0
    """In each frame every coordinate of every object moves by a number drawn evenly from ± this (paper: 10, 20, 30)."""
    missing: float = 0.0
    """Share of the frames to take away, as nearly as whole gaps come to it."""
    gap: int = 1
    """Frames that go missing at a time."""
    mask_below_mm: float = 0.0
    """After the noise, frames with an object's centre lower than this go missing (release: 120, the ball's radius)."""
    seed: int = 0
    """Of the random numbers."""

    def __post_init__(self) -> None:
        for name in ("noise_mm", "mask_below_mm"):
            value = getattr(self, name)
            if not 0 <= value <= _MAX_MM:
                raise ConfigError(f"{name} is {value}, it must be 0 or more, and at most {_MAX_MM:g}")
        if not 0 <= self.missing < 1:
            raise ConfigError(f"missing is {self.missing}, it must be at least 0 and below 1")
        if self.gap < 1:
            raise ConfigError(f"gap is {self.gap}, it must be 1 or more")
        if self.gap > 1 and not self.missing:
            raise ConfigError(f"gap is {self.gap}, which means nothing without missing; leave it out")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}, it must be 0 or more")


def degrade(clip: Clip, how: Degradation) -> Clip:
    """The clip made worse; what was done is told in its `corrections`. Missing frames hold NaN."""
    if not (how.noise_mm or how.missing or how.mask_below_mm):
        raise ConfigError("nothing to degrade: noise_mm, missing and mask_below_mm are all 0")
    told = []
    object_pos, valid = clip.object_pos.copy(), clip.valid.copy()
    if how.noise_mm:
        reach = how.noise_mm / 1000
        object_pos += _random(clip, how).uniform(-reach, reach, object_pos.shape).astype(np.float32)
        told.append(f"object positions moved at random by up to {how.noise_mm:g} mm along each axis")
    if how.mask_below_mm:
        low = valid & (object_pos[..., 2] < how.mask_below_mm / 1000).any(axis=1)
        valid &= ~low
        told.append(f"{int(low.sum())} frames with an object below {how.mask_below_mm:g} mm marked missing")
    if how.missing:
        count = _number_of_gaps(len(clip), how.missing, how.gap)
        if count == 0:
            share = f"{100 * how.missing:g}% of {len(clip)} frames"
            raise ClipError(f"clip '{clip.name}': {share} is less than one gap of {how.gap}")
        gone = valid & _gaps(len(clip), count, how.gap, _random(clip, how))
        valid &= ~gone
        told.append(f"{int(gone.sum())} frames taken away in gaps of {how.gap}")
    if valid.sum() < 2 or not valid[:-1].any():
        raise ClipError(f"clip '{clip.name}': {int(valid.sum())} of {len(clip)} frames would be left, 2 are needed")
    worse = replace(clip, object_pos=object_pos, valid=valid)
    holed: dict[str, Any] = {name: _without(getattr(worse, name), ~valid) for name in _POSES}
    return replace(worse, corrections=(*clip.corrections, *(f"{text} (seed {how.seed})" for text in told)), **holed)


def _random(clip: Clip, how: Degradation) -> np.random.Generator:
    """A generator for one effect: each has its own, so that none changes what another draws."""
    return np.random.default_rng([how.seed, zlib.crc32(clip.name.encode())])


def _number_of_gaps(frames: int, share: float, gap: int) -> int:
    """How many gaps come closest to the share, and fit."""
    return min(round(share * frames / gap), frames // gap)


def _gaps(frames: int, count: int, gap: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Frames to take away: so many gaps at random places that do not overlap.  [T]"""
    # places of the gaps among what is left, then moved apart by the gaps before them
    starts = np.sort(random.choice(frames - count * gap + count, size=count, replace=False))
    starts = starts + np.arange(count) * (gap - 1)
    mask = np.zeros(frames, dtype=bool)
    mask[(starts[:, None] + np.arange(gap)).ravel()] = True
    return mask


def _without(column: NDArray[np.float32], frames: NDArray[np.bool_]) -> NDArray[np.float32]:
    column = column.copy()
    column[frames] = np.nan
    return column
