"""`skillfield play`: a character in real time in the browser."""

import math
import sys
import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.errors import ConfigError
from skillfield.experiments.recordings import named_clips
from skillfield.viewer.opening import clip_viewer, policy_viewer
from skillfield.viewer.serving import LOOPBACK, is_loopback

__all__ = ["Play"]


@dataclass(frozen=True)
class Play:
    """Play with a trained policy in the browser: ask for skills, push, throw off, film; or look at clips.

    Everything runs on this machine's CPU, one character in real time. Stop it with Ctrl-C.
    """

    run_folder: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(name="run")] = None
    """Run folder with a checkpoint, or the name of a shipped policy, such as starter."""
    clips: Path | None = None
    """Instead of a policy: a clip, a folder of clips, or the name of a task, whose clips are played as they are."""
    character: str | None = None
    """With --clips: built-in character that shows them; by default the one that they name."""
    data: Path | None = None
    """Of a policy: folder of imported recordings, if they lie elsewhere than in training."""
    port: int = 8080
    """Of the page; 0 takes any that is free."""
    host: str = LOOPBACK
    """Address to listen on; by default no other machine can see the page."""
    open: bool = False
    """Open the page in a browser."""
    films: Path = Path("films")
    """Of a policy: folder for recordings."""
    seconds: float | None = None
    """Stop by itself after so long, and say how fast it was."""

    def run(self) -> int:
        """Serve until interrupted."""
        if (self.run_folder is None) == (self.clips is None):
            raise ConfigError("say what to play: a run folder, a shipped policy such as starter, or --clips FOLDER")
        self._check_useful()
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise ConfigError(f"--seconds is {self.seconds:g}; it must be positive and finite")
        if self.clips is not None:
            viewer = clip_viewer(named_clips(self.clips), self.character, host=self.host, port=self.port)
        else:
            assert self.run_folder is not None
            viewer = policy_viewer(self.run_folder, self.data, host=self.host, port=self.port, films=self.films)
        with viewer:
            if not is_loopback(self.host):
                print(f"warning: everyone who can reach {self.host} can see and steer this page", file=sys.stderr)
            print(f"{viewer.url}  (stop with Ctrl-C)", flush=True)
            if self.open:
                webbrowser.open(viewer.url)
            began = time.perf_counter()
            try:
                viewer.loop.run(self.seconds)
            except KeyboardInterrupt:
                print()
            if self.seconds is not None:
                print(viewer.summary(time.perf_counter() - began))
        return 0

    def _check_useful(self) -> None:
        """Raise if an option is given that belongs to what is not played."""
        if self.clips is None:
            given, where = {"--character": self.character is not None}, "without"
        else:
            given, where = {"--data": self.data is not None, "--films": self.films != Play.films}, "with"
        for option, is_given in given.items():
            if is_given:
                raise ConfigError(f"{option} means nothing {where} --clips; leave it out")
