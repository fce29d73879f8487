"""Draws the README's picture: `python docs/make_teaser.py RUN` with the folder of a trained starter run."""

import sys
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

from skillfield.api import env_factory, load_networks
from skillfield.experiments.run import load_config
from skillfield.experiments.tasks import starter
from skillfield.reporting.filming import film_skill
from skillfield.reporting.scene import SceneRenderer

WIDTH, HEIGHT, FRAMES = 300, 300, 4


def main(run: Path) -> None:
    """A row per skill, time runs to the right."""
    task, config, model = starter(), load_config(run), load_networks(run)
    env = env_factory(task, config, model)(1)
    rows = []
    for skill, first, every in (("dribble_forward", 4, 6), ("dribble_right", 4, 6), ("toss", 14, 7)):
        with SceneRenderer(env.engine.character, WIDTH, HEIGHT, fps=30) as renderer:
            pictures = film_skill(env, model, renderer, skill, 4.0, start_frame=8)
            rows.append(np.concatenate(list(islice(pictures, first, first + FRAMES * every, every)), axis=1))
    Image.fromarray(np.concatenate(rows)).save(Path(__file__).parent / "images" / "starter.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
