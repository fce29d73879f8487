"""Draws the picture of a task of one's own: `python docs/make_ring.py runs/ring-full-0`, after examples/own_task.py.

To be run where the example was run: its clips are in ./ring_clips.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import own_task

import skillfield as sf
from skillfield.cli.films import load_performers
from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.script import Part
from skillfield.reporting.takes import VIDEO_FPS

PICTURE = Path(__file__).parent / "images" / "own_ring.png"
SECONDS, SHOWN = 2.0, (0.0, 0.5, 1.0, 1.5)  # a round, and when its pictures are taken
RING, PUCK, SHADE = "#294573", "#e6661a", "#c9cdd6"


def main(run: str) -> None:
    """The two of them from the side, and from above for each skill."""
    sf.tasks.add(own_task.task)
    (performer,) = load_performers([run])
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 150})
    figure, (view, *panels) = plt.subplots(1, 3, figsize=(8, 3.8), width_ratios=(0.7, 1, 1))
    panels[1].sharex(panels[0])
    panels[1].sharey(panels[0])
    for axes, clip in zip(panels, own_task.make_clips(), strict=True):
        take = performer.play([Part(clip.skill, SECONDS)])
        asked = clip.object_pos[:, 0]
        axes.plot(*asked[:, :2].T, color=SHADE, lw=7, label="puck, demonstrated")
        axes.plot(*take.qpos[:, :2].T, color=RING, lw=1.6, label="ring, simulated")
        axes.plot(*take.object_pos_w[:, :2].T, color=PUCK, lw=1.6, label="puck, simulated")
        for second in SHOWN:
            frame = round(second * VIDEO_FPS)
            ring, puck = take.qpos[frame, :2], take.object_pos_w[2 * frame, :2]
            corners = np.pi / 8 + np.pi / 4 * np.arange(9)
            axes.plot(*(ring[:, None] + 0.108 * np.stack((np.cos(corners), np.sin(corners)))), color=RING, lw=2.5)
            axes.add_patch(plt.Circle(tuple(puck), 0.06, color=PUCK, alpha=0.8, lw=0))
            axes.annotate(f"{second:g} s", puck, ha="center", va="center", fontsize=7)
        axes.set(aspect="equal", xlabel="x (m)", title=clip.skill.replace("_", " "))
    panels[0].set_ylabel("y (m)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    character = performer.env.engine.character
    with SceneRenderer(character, 480, 600, elevation=-50.0) as scene:
        view.imshow(scene.frame(take.qpos[0], place=np.array([*take.qpos[0, :3], 0.6])))
    view.axis("off")
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(PICTURE, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main(sys.argv[1])
