"""`skillfield data degrade`: noisy and incomplete variants of clips."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.clips import Clip, clip_files, load_clip, save_clips
from skillfield.clips.degrading import Degradation, degrade
from skillfield.errors import ClipError
from skillfield.experiments.recordings import named_clips

__all__ = ["DataDegrade"]


@dataclass(frozen=True)
class DataDegrade:
    """Make clips worse: noise on the objects, missing frames. The clips themselves stay as they are."""

    path: Annotated[Path, tyro.conf.Positional]
    """A clip, a folder of clips, or the name of a task, such as starter."""
    out: Path
    """Folder for the worse clips; it must be new or empty."""
    how: Annotated[Degradation, tyro.conf.arg(name="")] = Degradation()  # noqa: RUF009  # a frozen value

    def run(self) -> int:
        """Degrade everything, then write everything."""
        clips = [self._degraded(file) for file in clip_files(named_clips(self.path))]
        save_clips(clips, self.out)
        for clip in clips:
            print(f"{clip.name}: {int((~clip.valid).sum())} of {len(clip)} frames missing")
        print(f"{len(clips)} clip(s) in {self.out}")
        return 0

    def _degraded(self, file: Path) -> Clip:
        clip = load_clip(file)
        try:
            return degrade(clip, self.how)
        except ClipError as problem:
            raise ClipError(f"{file}: {problem}") from None
