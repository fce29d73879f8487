"""What was seen, kept to be filmed later: simulating and drawing at once would slow both down."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillfield.characters import Character
from skillfield.characters.physics import POLICY_HZ
from skillfield.errors import ConfigError, ViewerError
from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.video import write_video

__all__ = ["MAX_SECONDS", "Recording", "check_films", "film"]

MAX_SECONDS = 120
"""A recording that runs longer stops by itself."""

_FPS = 30
_SIZE = (640, 480)

State = NDArray[np.float32]


@dataclass
class Recording:
    """States at the policy's rate, each with the ghost as it was shown, if it was."""

    qpos: list[State] = field(default_factory=list)
    ghost: list[State | None] = field(default_factory=list)

    def add(self, qpos: State, ghost: State | None) -> None:
        """One policy step."""
        self.qpos.append(qpos)
        self.ghost.append(ghost)

    @property
    def seconds(self) -> float:
        """Of simulated time."""
        return len(self.qpos) / POLICY_HZ

    @property
    def full(self) -> bool:
        """Whether it is time to stop."""
        return self.seconds >= MAX_SECONDS


def check_films(folder: Path) -> None:
    """Raise if recordings could not be written there. Makes nothing."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise ConfigError(f"--films {folder}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"--films {folder}: {there} may not be written to by you")


def film(recording: Recording, character: Character, path: Path, dropped: threading.Event | None = None) -> None:
    """Draw a recording as MP4, at the speed at which it was simulated.

    dropped: once it is set, nothing more is drawn, and what was drawn is gone.
    """

    def pictures() -> Iterator[NDArray[np.uint8]]:
        every = POLICY_HZ // _FPS
        with SceneRenderer(character, *_SIZE, fps=_FPS) as renderer:
            for qpos, ghost in zip(recording.qpos[::every], recording.ghost[::every], strict=True):
                if dropped is not None and dropped.is_set():
                    raise ViewerError("the recording is dropped")
                yield renderer.frame(qpos, ghost=ghost)

    write_video(pictures(), path, _FPS)
