"""Frames between frames: another frame rate, and gaps. Straight lines for positions, the short way round for rotations.

Shape letters: T frames, N new frames, J joint columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skillfield.clips import Clip
from skillfield.rotations import quat_from_rotvec, quat_slerp, rotvec_from_quat

__all__ = ["fill_gaps", "resample", "trimmed"]

_COLUMNS = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts")
_SAME_FRAME = 1e-4  # a new frame this close to an old one is the old one


def resample(clip: Clip, fps: float, ball_columns: Sequence[int] = ()) -> Clip:
    """The same motion at another frame rate.

    ball_columns: where in `joint_pos` the three columns of each ball joint begin; the others are plain numbers.
    """
    if abs(clip.fps - fps) < 1e-6:
        return clip
    times = np.arange(int(np.floor(clip.seconds * fps + 1e-6)) + 1) / fps * clip.fps
    low = np.minimum(times.astype(int), max(len(clip) - 2, 0))
    high = np.minimum(low + 1, len(clip) - 1)
    share = (times - low).astype(np.float32)
    # a new frame is missing if a frame that it is made of is missing
    valid = (clip.valid[low] | (share > 1 - _SAME_FRAME)) & (clip.valid[high] | (share < _SAME_FRAME))
    between = _between(fill_gaps(clip, ball_columns), low, high, share, ball_columns)
    return replace(clip, fps=fps, valid=valid, **between)


def trimmed(clip: Clip) -> Clip:
    """The clip from its first frame that is not missing to its last: where nothing is, nothing begins or ends."""
    present = np.flatnonzero(clip.valid)
    if not len(present) or len(present) == len(clip):
        return clip
    kept = slice(present[0], present[-1] + 1)
    return replace(clip, valid=clip.valid[kept], **{name: getattr(clip, name)[kept] for name in _COLUMNS})


def fill_gaps(clip: Clip, ball_columns: Sequence[int] = ()) -> Clip:
    """Missing frames as the way from one neighbour to the other, so that a gap throws nothing."""
    if clip.valid.all():
        return clip
    frames, present = np.arange(len(clip)), np.flatnonzero(clip.valid)
    if not len(present):
        return replace(clip, **{name: np.nan_to_num(getattr(clip, name)) for name in _COLUMNS})
    after = np.searchsorted(present, frames)
    high = present[np.minimum(after, len(present) - 1)]
    low = np.where(clip.valid, frames, present[np.maximum(after - 1, 0)])
    share = np.clip((frames - low) / np.maximum(high - low, 1), 0, 1).astype(np.float32)
    return replace(clip, **_between(clip, low, high, share, ball_columns))


def _between(
    clip: Clip,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    share: NDArray[np.float32],
    ball_columns: Sequence[int],
) -> dict[str, Any]:
    """Columns of new frames, each a share of the way from one frame of the clip to another."""

    def mixed(column: NDArray[np.float32], mix: Callable[[Tensor, Tensor, Tensor], Tensor]) -> NDArray[np.float32]:
        first, second = (torch.from_numpy(column[rows]).double() for rows in (low, high))
        weight = torch.from_numpy(share).double().reshape(-1, *[1] * (column.ndim - 1))
        return mix(first, second, weight).float().numpy()

    joint_pos = mixed(clip.joint_pos, torch.lerp)
    for start in ball_columns:
        joint_pos[:, start : start + 3] = mixed(clip.joint_pos[:, start : start + 3], _rotvec_slerp)
    return {
        "root_pos": mixed(clip.root_pos, torch.lerp),
        "root_quat": mixed(clip.root_quat, quat_slerp),
        "joint_pos": joint_pos,
        "object_pos": mixed(clip.object_pos, torch.lerp),
        "object_quat": mixed(clip.object_quat, quat_slerp),
        "contacts": clip.contacts[np.where(share < 0.5, low, high)],
    }


def _rotvec_slerp(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    return rotvec_from_quat(quat_slerp(quat_from_rotvec(first), quat_from_rotvec(second), share))
