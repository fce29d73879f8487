"""`skillfield data record`: clips made by a trained policy."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.api import env_factory
from skillfield.clips import save_clips
from skillfield.errors import ConfigError, unknown_name
from skillfield.evaluation.recording import record_clip
from skillfield.experiments.loading import load_run
from skillfield.experiments.recordings import task_clips

__all__ = ["DataRecord"]


@dataclass(frozen=True)
class DataRecord:
    """Record a trained policy as new clips: one for each demonstration that it learned from, and as long.

    What is recorded is physically valid: no foot in the floor, no ball beside the hand that holds it. An attempt
    counts only if the skill's success rule calls it good.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder with a checkpoint, or the name of a shipped policy, such as starter."""
    out: Path
    """Folder for the clips; it must be new or empty."""
    skills: tuple[str, ...] = ()
    """Which skills; all of them if not given."""
    after: float = 0.25
    """Seconds left out at the start of each attempt, which are nearly the demonstration's own."""
    attempts: int = 24
    """Attempts per clip, from its first frames."""
    source: str = ""
    """Where the clips come from, for whoever reads them; added to what is known anyway."""
    data: Path | None = None
    """Folder of imported recordings, if they lie elsewhere than in training."""

    def run(self) -> int:
        """Record everything, then write everything."""
        loaded = load_run(self.run_folder, data=self.data)
        config, chosen, model = loaded.config, loaded.task, loaded.networks
        for skill in self.skills:
            if skill not in chosen.skills:
                raise ConfigError(unknown_name("skill", skill, chosen.skills))
        if self.attempts < 1 or self.after < 0:
            raise ConfigError(f"cannot record {self.attempts} attempts, {self.after:g} s after their start")
        make_env = env_factory(chosen, config, model)
        clips = []
        for demonstration in task_clips(chosen, Path(config.data) if config.data else None):
            if self.skills and demonstration.skill not in self.skills:
                continue
            clip = record_clip(make_env, model, chosen.trials, demonstration, self.after, self.attempts)
            clips.append(replace(clip, source="; ".join(filter(None, (clip.source, self.source)))))
            print(f"{clip.name}: {len(clip)} frames, {clip.source}")
        save_clips(clips, self.out)
        print(f"{len(clips)} clip(s) in {self.out}")
        return 0
