"""One demonstration: what a character and its objects did, frame by frame.

Shape letters: T frames, J joint columns, O objects, K contact labels.
"""

from dataclasses import dataclass, field
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from skillfield.errors import ClipError

__all__ = ["ARRAYS", "CONTACT_PAIRS", "Clip"]

CONTACT_PAIRS = ("object-hand", "object-body", "body-hand")
"""The contact graph of the paper: which pairs of groups may touch. A label that a clip lacks counts as 'apart'."""

_MIN_FPS = 0.1
"""Far below any recording; a slower one would be hours of frames at the policy's rate."""

ARRAYS = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts")
"""The columns with numbers."""

_NOT_IN_SKILLS = "/\\,;"
"""Skills are parts of file names and of scripts such as "shot 2s, left 3s"."""


@dataclass(frozen=True, eq=False)
class Clip:
    """A demonstration. Units are SI, world axes are z-up, quaternions are w, x, y, z.

    Velocities and body poses are not stored: they follow from these columns and the character.
    """

    name: str
    skill: str
    character: str
    fps: float
    root_pos: NDArray[np.float32]  # [T, 3]
    root_quat: NDArray[np.float32]  # [T, 4]
    joint_pos: NDArray[np.float32]  # [T, J] radians; a ball joint has three columns, its rotation vector
    object_pos: NDArray[np.float32]  # [T, O, 3]
    object_quat: NDArray[np.float32]  # [T, O, 4]
    contacts: NDArray[np.float32]  # [T, K] 1 touching, 0 apart
    joint_names: tuple[str, ...]
    object_names: tuple[str, ...]
    contact_names: tuple[str, ...] = ("object-hand",)
    valid: NDArray[np.bool_] = field(default=None)  # type: ignore[arg-type]  # [T] False where a frame is missing
    source: str = ""
    corrections: tuple[str, ...] = ()  # what was changed on the way from the source, a sentence each

    def __post_init__(self) -> None:
        if not self.skill.strip() or set(self.skill) & set(_NOT_IN_SKILLS):
            raise ClipError(f"clip '{self.name}': skill '{self.skill}' must be a name without any of {_NOT_IN_SKILLS}")
        columns = {column: getattr(self, column) for column in (*ARRAYS, *(() if self.valid is None else ("valid",)))}
        strange = {name: type(each).__name__ for name, each in columns.items() if not isinstance(each, np.ndarray)}
        if strange:
            raise ClipError(f"clip '{self.name}': columns must be NumPy arrays, found {strange}")
        if self.valid is None:
            object.__setattr__(self, "valid", np.ones(len(self.root_pos), dtype=bool))
        frames, joints = len(self.root_pos), len(self.joint_names)
        objects, labels = len(self.object_names), len(self.contact_names)
        expected = {
            "root_pos": (frames, 3),
            "root_quat": (frames, 4),
            "joint_pos": (frames, joints),
            "object_pos": (frames, objects, 3),
            "object_quat": (frames, objects, 4),
            "contacts": (frames, labels),
            "valid": (frames,),
        }
        for column, shape in expected.items():
            found = getattr(self, column).shape
            if found != shape:
                raise ClipError(f"clip '{self.name}': {column} has shape {found}, its names and frames ask for {shape}")
            object.__setattr__(self, column, _in_a_row(getattr(self, column)))
        unknown = [pair for pair in self.contact_names if pair not in CONTACT_PAIRS]
        if unknown:
            raise ClipError(f"clip '{self.name}': contact labels {unknown} are none of {list(CONTACT_PAIRS)}")
        if not (isinstance(self.fps, SupportsFloat) and np.isfinite(self.fps) and self.fps >= _MIN_FPS):
            raise ClipError(f"clip '{self.name}': fps is {self.fps}, it must be finite and at least {_MIN_FPS:g}")

    def __len__(self) -> int:
        return len(self.root_pos)

    @property
    def seconds(self) -> float:
        """Duration from the first frame to the last."""
        return (len(self) - 1) / self.fps


def _in_a_row(column: NDArray[Any]) -> NDArray[Any]:
    """The column with its numbers one after the other in memory; a copy only where they are not.

    NumPy overlooks the stride of an axis of one, PyTorch does not and refuses what runs backwards.
    """
    return column if column.flags.c_contiguous and min(column.strides) >= 0 else column.copy()
