"""Takes: what a policy did, recorded before it is drawn, so that a camera can know what will happen.

Shape letters: F frames of the film, S policy steps, Q position coordinates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.physics import POLICY_HZ
from skillfield.evaluation.plan import starts_at
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reference import ReferenceMotion
from skillfield.reference.endings import returns
from skillfield.reference.states import StateKinematics
from skillfield.reporting.script import Part

__all__ = ["STEPS_PER_FRAME", "VIDEO_FPS", "Take", "record_take"]

VIDEO_FPS = 30
STEPS_PER_FRAME = POLICY_HZ // VIDEO_FPS


@dataclass(frozen=True)
class Take:
    """One execution without a cut."""

    qpos: NDArray[np.float32]  # [F, Q]
    skills: tuple[str, ...]  # [F] what was asked for
    object_pos_w: NDArray[np.float64]  # [S, 3] of the first object at every policy step; S = 0 where there is none
    ghosts: tuple[NDArray[np.float32] | None, ...]  # [F] the reference, where there is one

    def __len__(self) -> int:
        return len(self.qpos)

    def trail(self, frame: int, seconds: float) -> NDArray[np.float64]:
        """Where the first object has been lately, oldest first.  [S, 3]"""
        end = frame * STEPS_PER_FRAME + 1
        return self.object_pos_w[max(0, end - round(seconds * POLICY_HZ)) : end]


@torch.no_grad()
def record_take(
    env: ImitationEnv, model: ActorCritic, parts: Sequence[Part], *, start_frame: int = 2, ghost: bool = False
) -> Take:
    """Execute a script from a frame of its first skill's first clip.

    env: an environment with a single world on the CPU.
    ghost: also record the demonstration: in step with the first skill, for later ones from the frame that is most like
        the state in which they were asked for. It begins again where a demonstration goes on, and ends where not.
    """
    motion = env.motion
    clip = _first_clip(motion, parts[0].skill)
    frame = min(start_frame, int(motion.length[clip]) - 2)
    env.start(torch.zeros(1, dtype=torch.long), starts_at(motion, torch.tensor([clip]), torch.tensor([frame])))
    shadow = _Shadow(env) if ghost else None
    states, objects, ghosts, skills = [], [], [], []
    for number, part in enumerate(parts):
        clip = _first_clip(motion, part.skill)
        if number:
            _ask(env, clip)
        if shadow:
            shadow.begin(clip, None if number else frame)
        frames = max(1, round(part.seconds * VIDEO_FPS))
        for step in range(frames * STEPS_PER_FRAME):
            qpos = env.engine.state.qpos[0]
            if step % STEPS_PER_FRAME == 0:
                states.append(qpos.numpy().copy())
                skills.append(part.skill)
                ghosts.append(shadow.state() if shadow else None)
            if env.engine.state.object_pos_w.shape[1]:
                objects.append(env.engine.state.object_pos_w[0, 0].double().numpy().copy())
            env.advance(model.act(env.observe()))
            if shadow:
                shadow.advance()
    return Take(np.stack(states), tuple(skills), np.array(objects).reshape(-1, 3), tuple(ghosts))


def _first_clip(motion: ReferenceMotion, skill: str) -> int:
    return int(torch.nonzero(motion.skill == motion.skills.index(skill))[0])


def _ask(env: ImitationEnv, clip: int) -> None:
    """Ask for another skill from now on; memory of the past stays."""
    env.clip[:] = clip
    for clock in (env.frame, env.progress, env.masked):
        clock[:] = 0


class _Shadow:
    """The demonstration that the character would follow, moved to where the character is."""

    def __init__(self, env: ImitationEnv) -> None:
        self._env, self._motion = env, env.motion
        character: Character = env.engine.character
        self._layout = character.layout(env.device)
        self._goes_on = returns(env.motion, StateKinematics(character, env.device), env.config.weights)
        self._moved = torch.zeros(0, 0)
        self._now, self._clip = 0, 0

    def begin(self, clip: int, frame: int | None) -> None:
        """Follow a clip from a frame; from the one that is most like the present state if none is given."""
        motion, layout = self._motion, self._layout
        first, length = int(motion.start[clip]), int(motion.length[clip])
        rows = slice(first, first + length)
        present = self._env.engine.state.qpos[0]
        target, heading = layout.plane_frame(present)
        origins, headings = layout.plane_frame(motion.qpos[rows])
        moved = layout.move_in_plane(
            motion.qpos[rows], motion.qvel[rows], _turn(headings, heading), origins, target.expand_as(origins)
        )[0]
        if frame is None:  # what is left of the clip must be worth following
            away = layout.difference(present.expand_as(moved), moved).square().sum(1)
            frame = int(away[: max(1, length // 2)].argmin())
        anchor_origin, anchor_heading = origins[frame], headings[frame]
        turn = _turn(anchor_heading, heading).expand(length, 2)
        self._moved = layout.move_in_plane(
            motion.qpos[rows], motion.qvel[rows], turn, anchor_origin.expand(length, 2), target.expand(length, 2)
        )[0]
        self._now, self._clip = frame, clip

    def advance(self) -> None:
        """One policy step."""
        self._now += 1
        if self._now >= len(self._moved) and bool(self._goes_on[self._clip]):
            self.begin(self._clip, None)

    def state(self) -> NDArray[np.float32] | None:
        """Its positions; nothing after the end of a demonstration that does not go on."""
        return self._moved[self._now].numpy().copy() if self._now < len(self._moved) else None


def _turn(start: Tensor, end: Tensor) -> Tensor:
    """Cosine and sine of the angle from one heading to another.  [..., 2]"""
    (a, b), (c, d) = start.unbind(-1), end.unbind(-1)
    return torch.stack((a * c + b * d, a * d - b * c), dim=-1)
