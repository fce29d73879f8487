"""A trained policy for plain MuJoCo: MjData in, joint targets out; it keeps its own memory."""

from pathlib import Path

import mujoco
import numpy as np
import torch
from torch import Tensor

from skillfield.deployment.controller import MJDATA, Controller
from skillfield.deployment.starts import spec_with_starts
from skillfield.errors import ConfigError, unknown_name
from skillfield.experiments.loading import load_run
from skillfield.experiments.task import Task

__all__ = ["Policy", "load_policy"]


class Policy:
    """Drives one world. Ask it once per policy step, `substeps` physics steps apart."""

    model: mujoco.MjModel
    """What it drives, with a keyframe per skill where the demonstrations are at hand."""
    skills: tuple[str, ...]
    substeps: int
    """Physics steps per action."""

    def __init__(self, controller: Controller, model: mujoco.MjModel) -> None:
        self.model, self.skills, self.substeps = model, controller.skills, controller.character.substeps
        self._controller = controller
        self._skill = self.skills[0]
        self._history: Tensor | None = None

    @property
    def skill(self) -> str:
        """What is asked of it; may be set at any time, and what happened so far stays remembered."""
        return self._skill

    @skill.setter
    def skill(self, skill: str) -> None:
        if skill not in self.skills:
            raise ConfigError(unknown_name("skill", skill, self.skills))
        self._skill = skill

    def reset(self, skill: str | None = None) -> None:
        """Forget the past: the next state counts as having always been."""
        if skill is not None:
            self.skill = skill
        self._history = None

    def start(self, skill: str) -> mujoco.MjData:
        """A fresh world at the beginning of a skill's demonstration, for which the past is forgotten."""
        self.reset(skill)
        known = [self.model.key(number).name for number in range(self.model.nkey)]
        if skill not in known:
            raise ConfigError(f"no demonstration of '{skill}' at hand to start from; make an MjData of your own")
        data = mujoco.MjData(self.model)
        mujoco.mj_resetDataKeyframe(self.model, data, known.index(skill))
        mujoco.mj_forward(self.model, data)
        return data

    @torch.no_grad()
    def act(self, state: mujoco.MjData) -> np.ndarray:
        """Targets of the drives, to be written to `ctrl`, and remember this state.  [U]

        state: poses, velocities and contact forces must be up to date, as `mj_forward` leaves them, or `mj_step`
            followed by `mj_step1`.
        """
        arrays = [torch.from_numpy(np.asarray(getattr(state, name), dtype=np.float32)[None]) for name in MJDATA]
        for name, array in zip(MJDATA, arrays, strict=True):
            wanted = self._controller.shapes[name]
            if tuple(array.shape[1:]) != wanted:
                raise ConfigError(f"state: {name} has shape {tuple(array.shape[1:])}, the policy's model {wanted}")
        skill = torch.zeros(1, len(self.skills))
        skill[0, self.skills.index(self._skill)] = 1.0
        if self._controller.window is None:
            (targets,) = self._controller(*arrays, skill)
            return targets[0].double().numpy()
        first = self._history is None
        history = torch.zeros(1, *self._controller.window) if self._history is None else self._history
        targets, self._history = self._controller(*arrays, skill, history, torch.tensor([first]))
        return targets[0].double().numpy()


def load_policy(run: Path | str, *, task: Task | None = None, data: Path | str | None = None) -> Policy:
    """The policy of a run's newest checkpoint, ready to drive plain MuJoCo.

    run: its folder, or the name of a shipped policy.
    task: the `Task` that it was trained on, if it was one of your own.
    data: folder of imported recordings, if they lie elsewhere than in training.
    """
    loaded = load_run(run, task=task, data=data)
    character = loaded.task.character()
    return Policy(Controller.of(loaded, character), spec_with_starts(loaded, character).compile())
