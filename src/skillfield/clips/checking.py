"""What is wrong with a clip, as far as the clip alone can show it: what, where, and how bad.

Checks that need the character's shape are in `reference/checking.py`.
Shape letters: T frames, J joint columns, O objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from skillfield.clips.clip import Clip
from skillfield.rotations import quat_from_rotvec, rotvec_between

__all__ = [
    "Finding",
    "balls_by_name",
    "check_clip",
    "count_of",
    "joint_steps",
    "label_findings",
    "quaternion_findings",
    "usable_frames",
]

_POSES = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat")

_QUAT_TOLERANCE = 1e-3
"""Far above float32 rounding, far below what a plain average of two gives. A wrong order of the components has the
right length and goes unseen."""

_FPS_RANGE = (10.0, 480.0)
"""Slower than motion capture of any interaction, faster than any optical system in use."""

_MAX_HEIGHT = 20.0  # metres; in centimetres a hip is near 100
_MAX_ROOT_SPEED = 15.0  # m/s; sprinters reach 12
_MAX_OBJECT_SPEED = 30.0  # m/s; a hard throw of a basketball is about half of that
_MAX_JOINT_SPEED = 40.0  # rad/s; finger flips in real captures exceed 100


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. An error makes the clip useless for training; a warning makes it worse."""

    severity: Literal["error", "warning"]
    what: str
    where: str
    """The worst frame, or the column."""
    how_bad: str


def check_clip(clip: Clip, ball_columns: Sequence[int] | None = None) -> list[Finding]:
    """Everything suspicious about a clip that can be seen without its character's shapes.

    ball_columns: where in `joint_pos` each ball joint begins; None goes by the names.
    """
    findings = [*_length(clip), *_rate(clip), *_finite(clip), *_units(clip)]
    if len(clip):
        findings += [*quaternion_findings(clip), *label_findings(clip), *_speeds(clip, ball_columns)]
    return findings


def usable_frames(clip: Clip) -> NDArray[np.bool_]:
    """Frames that are present and whose poses are all numbers.  [T]"""
    return clip.valid & np.logical_and.reduce([_finite_frames(clip, column) for column in _POSES])


def count_of(mask: NDArray[np.bool_], of: str = "frames") -> str:
    """'3 of 60 frames'."""
    return f"{int(mask.sum())} of {len(mask)} {of}"


def balls_by_name(joint_names: Sequence[str]) -> list[int]:
    """Where ball joints seem to begin: at three columns named `…_x`, `…_y`, `…_z`; but hinges may be called so too."""
    bases = [name.removesuffix("_x") for name in joint_names]
    return [
        column
        for column, base in enumerate(bases)
        if tuple(joint_names[column : column + 3]) == (f"{base}_x", f"{base}_y", f"{base}_z")
    ]


def joint_steps(
    joint_pos: NDArray[np.float32], joint_names: Sequence[str], ball_columns: Sequence[int] | None = None
) -> dict[str, NDArray[np.float64]]:
    """How far each joint turns between consecutive frames, in radians.  [T - 1] each

    A ball joint's three columns are one rotation vector, whose numbers may jump across ±π while the joint hardly moves;
    so their relative rotation is measured. ball_columns: where these joints begin; None goes by the names.
    """
    balls = set(balls_by_name(joint_names) if ball_columns is None else ball_columns)
    steps: dict[str, NDArray[np.float64]] = {}
    column = 0
    while column < len(joint_names):
        if column in balls:
            quat = quat_from_rotvec(torch.from_numpy(joint_pos[:, column : column + 3]).double())
            steps[joint_names[column].removesuffix("_x")] = rotvec_between(quat[:-1], quat[1:]).norm(dim=-1).numpy()
            column += 3
        else:
            steps[joint_names[column]] = np.abs(np.diff(joint_pos[:, column].astype(np.float64)))
            column += 1
    return steps


def _length(clip: Clip) -> list[Finding]:
    if len(clip) < 2:
        return [
            Finding("error", "too short for a trajectory", "whole clip", f"{len(clip)} frame(s), at least 2 needed")
        ]
    if not clip.valid.any():
        return [Finding("error", "every frame is marked missing", "whole clip", f"0 of {len(clip)} frames are valid")]
    if clip.valid.sum() < 2:
        return [
            Finding("error", "all frames but one are marked missing", "whole clip", "1 valid frame, at least 2 needed")
        ]
    return []


def _units(clip: Clip) -> list[Finding]:
    height = np.where(usable_frames(clip), np.abs(clip.root_pos[:, 2]), 0.0)
    if not len(height) or height.max() <= _MAX_HEIGHT:
        return []
    text = f"{height.max():.3g} m; positions are metres, and the world's z axis points up"
    return [Finding("warning", "root far from the floor", f"frame {height.argmax()}", text)]


def _rate(clip: Clip) -> list[Finding]:
    low, high = _FPS_RANGE
    if low <= clip.fps <= high:
        return []
    return [
        Finding("warning", "implausible frame rate", "fps", f"{clip.fps:g} per second, expected {low:g} to {high:g}")
    ]


def _finite(clip: Clip) -> list[Finding]:
    findings = []
    for column in (*_POSES, "contacts"):
        bad = clip.valid & ~_finite_frames(clip, column)
        if bad.any():
            findings.append(Finding("error", f"{column} is NaN or infinite", _frame(bad.argmax()), count_of(bad)))
    return findings


def quaternion_findings(clip: Clip) -> list[Finding]:
    """Columns of orientations that are none in a frame that is present."""
    findings = []
    columns = {"root_quat": clip.root_quat}
    columns |= {f"object_quat of '{name}'": clip.object_quat[:, o] for o, name in enumerate(clip.object_names)}
    for column, quat in columns.items():
        off = np.abs(np.linalg.norm(quat.astype(np.float64), axis=-1) - 1.0)
        off = np.where(clip.valid & np.isfinite(off), off, 0.0)
        bad = off > _QUAT_TOLERANCE
        if bad.any():
            worst = int(off.argmax())
            length = np.linalg.norm(quat[worst])
            text = f"length {length:.4f} instead of 1, {count_of(bad)}"
            findings.append(Finding("error", f"{column} is no unit quaternion", _frame(worst), text))
    return findings


def label_findings(clip: Clip) -> list[Finding]:
    """Contact labels that are neither 0 nor 1 in a frame that is present; errors where rounding does not help."""
    findings = []
    for column, pair in enumerate(clip.contact_names):
        label = clip.contacts[:, column].astype(np.float64)
        off = np.where(clip.valid & np.isfinite(label), np.minimum(np.abs(label), np.abs(label - 1.0)), 0.0)
        bad = off > 1e-6
        if bad.any():
            worst = int(off.argmax())
            # between 0 and 1 rounding still makes sense of it
            severity: Literal["error", "warning"] = "error" if off[worst] > 0.5 else "warning"
            text = f"value {label[worst]:g}, {count_of(bad)}"
            findings.append(Finding(severity, f"contact label '{pair}' is neither 0 nor 1", _frame(worst), text))
    return findings


def _speeds(clip: Clip, ball_columns: Sequence[int] | None) -> list[Finding]:
    """Jumps between consecutive frames that no body could make."""
    usable = usable_frames(clip)
    both = usable[:-1] & usable[1:]
    findings = _too_fast("root", _distances(clip.root_pos), _MAX_ROOT_SPEED, "m/s", clip.fps, both)
    for o, name in enumerate(clip.object_names):
        moved = _distances(clip.object_pos[:, o])
        findings += _too_fast(f"object '{name}'", moved, _MAX_OBJECT_SPEED, "m/s", clip.fps, both)
    for name, turned in joint_steps(np.nan_to_num(clip.joint_pos), clip.joint_names, ball_columns).items():
        findings += _too_fast(f"joint '{name}'", turned, _MAX_JOINT_SPEED, "rad/s", clip.fps, both)
    return findings


def _too_fast(
    what: str, step: NDArray[np.float64], limit: float, unit: str, fps: float, both: NDArray[np.bool_]
) -> list[Finding]:
    """step: distance from each frame to the next.  [T - 1]"""
    speed = np.where(both, step, 0.0) * fps
    bad = speed > limit
    if not bad.any():
        return []
    worst = int(speed.argmax())
    text = f"{speed[worst]:.1f} {unit}, {count_of(bad, 'steps')}"
    return [Finding("warning", f"{what} moves faster than {limit:g} {unit}", _frame(worst + 1), text)]


def _distances(pos: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.linalg.norm(np.diff(np.nan_to_num(pos).astype(np.float64), axis=0), axis=-1)


def _finite_frames(clip: Clip, column: str) -> NDArray[np.bool_]:
    values = getattr(clip, column)
    return np.isfinite(values).all(axis=tuple(range(1, values.ndim)))


def _frame(number: int | np.integer) -> str:
    return f"frame {int(number)}"
