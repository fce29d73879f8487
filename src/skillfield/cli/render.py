"""`skillfield render`: film a trained policy."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from skillfield.api import env_factory, load_policy
from skillfield.errors import ConfigError, unknown_name
from skillfield.experiments.run import load_config
from skillfield.experiments.shipped import is_shipped, run_folder
from skillfield.experiments.tasks import task
from skillfield.reporting.filming import VIDEO_FPS, film_skill
from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.video import write_video

__all__ = ["Render", "film_run"]


@dataclass(frozen=True)
class Render:
    """Film a trained policy: each skill in turn, from the start of its demonstration and well beyond its end."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder with a checkpoint, or the name of a shipped policy, such as starter."""
    out: Path | None = None
    """Video to write, .mp4 or .gif; RUN/video.mp4 (NAME.mp4 here for a shipped policy) if not given."""
    skills: tuple[str, ...] = ()
    """Which skills; all of them if not given."""
    seconds: float = 4.0
    """Per skill."""
    size: tuple[int, int] = (640, 480)
    """Width and height in pixels."""
    ghost: bool = False
    """Show the demonstration as a ghost while it lasts."""

    def run(self) -> int:
        """Film."""
        folder = run_folder(self.run_folder)
        out = self.out or (Path(f"{folder.name}.mp4") if is_shipped(folder) else folder / "video.mp4")
        film_run(folder, out, self.skills, self.seconds, self.size, self.ghost)
        print(out)
        return 0


def film_run(
    run: Path, out: Path, skills: tuple[str, ...], seconds: float, size: tuple[int, int], ghost: bool = False
) -> None:
    """Write a video of a run's newest checkpoint."""
    config = load_config(run)
    chosen = task(config.task)
    for skill in skills:
        if skill not in chosen.skills:
            raise ConfigError(unknown_name("skill", skill, chosen.skills))
    if seconds <= 0 or min(size) < 16:
        raise ConfigError(f"cannot film {seconds:g} s at {size[0]}×{size[1]}")
    model = load_policy(run)
    env = env_factory(chosen, config, model)(1)

    def pictures() -> Iterator[np.ndarray[Any, Any]]:
        for skill in skills or chosen.skills:
            with SceneRenderer(env.engine.character, *size, fps=VIDEO_FPS) as renderer:
                yield from film_skill(env, model, renderer, skill, seconds, ghost=ghost)

    write_video(pictures(), out, VIDEO_FPS)
