"""Filming a policy: simulate one character and draw what it does."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from skillfield.evaluation.metrics import starts_at
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reporting.scene import SceneRenderer

__all__ = ["VIDEO_FPS", "film_skill"]

VIDEO_FPS = 30
_STEPS_PER_FRAME = 2

Picture = NDArray[np.uint8]


@torch.no_grad()
def film_skill(
    env: ImitationEnv,
    model: ActorCritic,
    renderer: SceneRenderer,
    skill: str,
    seconds: float,
    *,
    start_frame: int = 2,
    ghost: bool = False,
) -> Iterator[Picture]:
    """Pictures of one execution, from a frame of the skill's first clip.

    env: an environment with a single world.
    ghost: draw the demonstration beside it for as long as it lasts.
    """
    motion = env.motion
    clip = int(torch.nonzero(motion.skill == motion.skills.index(skill))[0])
    frame = min(start_frame, int(motion.length[clip]) - 2)
    env.start(torch.zeros(1, dtype=torch.long), starts_at(motion, torch.tensor([clip]), torch.tensor([frame])))
    for step in range(round(seconds * VIDEO_FPS * _STEPS_PER_FRAME)):
        env.advance(model.act(env.observe()))
        if step % _STEPS_PER_FRAME:
            continue
        now = frame + step + 1
        shown = ghost and now < int(motion.length[clip])
        reference = motion.qpos[int(motion.start[clip]) + now].numpy() if shown else None
        yield _caption(renderer.frame(env.engine.state.qpos[0].numpy(), ghost=reference), skill.replace("_", " "))


def _caption(picture: Picture, text: str) -> Picture:
    image = Image.fromarray(picture)
    size = max(14, image.height // 18)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size)
    draw.text((size, image.height - 2 * size), text, font=font, fill="white", stroke_width=2, stroke_fill=(40, 40, 40))
    return np.asarray(image)
