"""Draws the README's picture: `python docs/make_teaser.py RUN` with a trained starter run, or the shipped `starter`."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from skillfield.cli.films import load_performers
from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.script import Part
from skillfield.reporting.takes import VIDEO_FPS

WIDTH, HEIGHT, FRAMES = 300, 300, 4


def main(run: str) -> None:
    """A row per skill, time runs to the right."""
    (performer,) = load_performers([run])
    rows = []
    with SceneRenderer(performer.env.engine.character, WIDTH, HEIGHT, fps=VIDEO_FPS) as renderer:
        for skill, first, every in (("dribble_forward", 8, 6), ("dribble_right", 8, 6), ("toss", 18, 7)):
            take = performer.play([Part(skill, 2.0)])
            path = renderer.camera_path(take.qpos)
            frames = range(first, first + FRAMES * every, every)
            rows.append(np.concatenate([renderer.frame(take.qpos[k], place=path[k]) for k in frames], axis=1))
    colours = Image.Quantize.MAXCOVERAGE  # the median cut would take the sleeve for a shadow
    picture = Image.fromarray(np.concatenate(rows)).quantize(256, colours, kmeans=1, dither=Image.Dither.NONE)
    picture.save(Path(__file__).parent / "images" / "starter.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
