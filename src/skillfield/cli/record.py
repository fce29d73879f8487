"""`skillfield data record`: clips made by a trained policy."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated

import mujoco
import tyro

from skillfield.api import env_factory
from skillfield.clips import Clip, check_vacant, save_clips
from skillfield.errors import ConfigError, unknown_name
from skillfield.evaluation.recording import record_clips
from skillfield.experiments.loading import TrainedRun, load_run
from skillfield.experiments.recordings import task_clips

__all__ = ["DataRecord"]


@dataclass(frozen=True)
class DataRecord:
    """Record a trained policy as new clips, made from the demonstrations that it learned from, and about as long.

    What is recorded was simulated: forces made it, and things sink into one another as far as soft contacts let them,
    a hard dribble's ball by ten centimetres. An attempt counts if it never loses its demonstration and stands a while
    longer; those that succeed as a whole trial are preferred, and each clip says in its source which it was.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder with a checkpoint, or the name of a shipped policy, such as starter."""
    out: Path
    """Folder for the clips; it must be new or empty."""
    skills: tuple[str, ...] = ()
    """Which skills; all of them if not given."""
    after: float = 0.25
    """Seconds left out at the start of each attempt, which are nearly the demonstration's own."""
    stand: float = 1.0
    """Seconds that the character must stand on after the demonstration's end."""
    attempts: int = 12
    """Attempts per demonstration, one from each of its first frames."""
    takes: int = 1
    """Clips per demonstration: the best of the attempts."""
    prefix: str = ""
    """Clips are called SKILL_1, SKILL_2, …; with a prefix, PREFIX_SKILL_1, …"""
    source: str = ""
    """Where the clips come from, for whoever reads them; added to what is known anyway."""
    data: Path | None = None
    """Folder of imported recordings, if they lie elsewhere than in training."""

    def run(self) -> int:
        """Record everything, then write everything."""
        check_vacant(self.out)
        loaded = load_run(self.run_folder, data=self.data)
        config, chosen, model = loaded.config, loaded.task, loaded.networks
        for skill in self.skills:
            if skill not in chosen.skills:
                raise ConfigError(unknown_name("skill", skill, chosen.skills))
        waits = all(0 <= seconds < math.inf for seconds in (self.after, self.stand))
        if self.takes < 1 or self.attempts < self.takes or not waits:
            raise ConfigError(
                f"cannot record {self.takes} of {self.attempts} attempts, {self.after:g} s after their start,"
                f" {self.stand:g} s standing"
            )
        make_env = env_factory(chosen, config, model)
        clips = []
        for shown in task_clips(chosen, Path(config.data) if config.data else None):
            if self.skills and shown.skill not in self.skills:
                continue
            clips += record_clips(
                make_env, model, chosen.trials, shown, self.takes, self.after, self.attempts, self.stand
            )
        known = (_made_by(loaded), self.source)
        clips = [replace(clip, source="; ".join(filter(None, (clip.source, *known)))) for clip in clips]
        clips = _numbered(clips, self.prefix)
        save_clips(clips, self.out)
        for clip in clips:
            print(f"{clip.name}: {len(clip)} frames, {clip.source}")
        print(f"{len(clips)} clip(s) in {self.out}")
        return 0


def _made_by(run: TrainedRun) -> str:
    """The policy, the simulation and the day, for whoever reads the clip."""
    config = run.config
    policy = f"policy: task {config.task}, method {config.method}, {run.state.counters.samples:,} samples"
    if config.origin is not None:  # where it lay is nobody's business
        policy += f", begun with '{Path(config.origin.policy).name}' of {config.origin.samples:,} samples"
    return f"{policy}; simulated by MuJoCo {mujoco.__version__}; {date.today().isoformat()}"


def _numbered(clips: Sequence[Clip], prefix: str) -> list[Clip]:
    """The same clips, called by their skill and a number."""
    count: defaultdict[str, int] = defaultdict(int)
    named = []
    for clip in clips:
        count[clip.skill] += 1
        name = "_".join(filter(None, (prefix, clip.skill, str(count[clip.skill]))))
        named.append(replace(clip, name=name))
    return named
