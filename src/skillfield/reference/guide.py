"""A guide along the demonstrations: what drives would have to be told, and how to come back after a mistake.

The targets that lead from frame to frame follow from inverse dynamics. Played back they fail within a second, because
nothing corrects what goes wrong. So each frame also has a linear law of correction, the best one for small errors of
position and speed, of the body and the ball alike (a linear-quadratic regulator along the clip, from MuJoCo's own
derivatives). The guide knows where in its clip it is, and sees every coordinate; a policy does not. It is a teacher.

Shape letters: E environments, N frames, n demonstrated frames, D degrees of freedom, X = 2 D errors, U actuators.
"""

import mujoco
import numpy as np
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.layout import Layout
from skillfield.reference.inverse_dynamics import leading_targets
from skillfield.reference.motion import ReferenceMotion

__all__ = ["Guide"]

_IMPORTANCE = {"root_pos": 10.0, "root_rot": 10.0, "joint": 1.0, "object_pos": 5.0}
"""What a squared error costs, by the field of the state: per m² and rad²; an object may be turned as it likes."""

_HASTE = 0.01
"""What an error of speed costs, as a share of the same error of position."""

_EFFORT = 0.3
"""What a squared change of a target costs."""

_NUDGE = 1e-4
"""By which states are changed to see what follows: large enough not to fall into the cracks of a contact."""

_STEEPEST = 20.0
"""Derivatives are cut off here: where a contact begins or ends they are thousands, and true for a hair's breadth."""

_WORST = 1e6
"""And so are the costs that follow from them."""

_REACH = 0.5
"""Radians or metres by which an error may move a target."""


class Guide:
    """Targets for characters on their way along a motion."""

    def __init__(self, motion: ReferenceMotion, character: Character) -> None:
        model, device, layout = character.model, motion.device, character.layout(motion.device)
        self._motion, self._layout = motion, layout
        targets = leading_targets(motion, model)
        self._targets = targets.to(device)  # [N, U]
        gains = _correcting_gains(motion, character.layout(), model, targets.double().numpy(), character.substeps)
        self._gains = torch.from_numpy(gains).to(device)  # [n, U, X]
        self._of_body = torch.ones(layout.num_dofs, dtype=torch.bool, device=device)
        self._of_body[torch.cat((layout.fields["object_pos"], layout.fields["object_rot"]))] = False  # [D]
        self._number = (torch.cumsum(motion.demonstrated, 0) - 1)[motion.origin]  # [N] of a frame's gains

    def targets(self, row: Tensor, ahead: Tensor, qpos: Tensor, qvel: Tensor, away: Tensor) -> tuple[Tensor, Tensor]:
        """What leads these states from a frame to the next one, and the positions that it is said for: moved to where
        the frame was demonstrated.

        row, ahead: the frames, numbers of the motion [E]. qpos, qvel: as compared with them [E, Q], [E, D].
        away: whose objects are out of reach, which nothing corrects [E] bool.  [E, U], [E, Q]
        """
        motion, layout = self._motion, self._layout
        home = motion.origin[row]  # another round repeats a frame at another place
        move = layout.alignment(motion.qpos[row], motion.qpos[home])
        qpos, qvel = layout.move_in_plane(qpos, qvel, *move)
        error = torch.stack((layout.difference(motion.qpos[home], qpos), qvel - motion.qvel[home]), dim=1)  # [E, 2, D]
        error = torch.where(self._of_body | ~away[:, None, None], error, 0.0).flatten(1)
        change = torch.einsum("eux,ex->eu", self._gains[self._number[row]], error)
        return self._targets[motion.origin[ahead]] - change.clamp(-_REACH, _REACH), qpos


def _correcting_gains(
    motion: ReferenceMotion, layout: Layout, model: mujoco.MjModel, targets: np.ndarray, substeps: int
) -> np.ndarray:
    """By how much targets give way to errors, for every demonstrated frame, clip after clip.  [n, U, X]"""
    cost, effort = np.diag(_costs(layout)), _EFFORT * np.eye(model.nu)
    qpos, qvel = (values.cpu().double().numpy() for values in (motion.qpos, motion.qvel))
    gains = []
    for first, length in zip(motion.start.tolist(), motion.demonstrated_length().tolist(), strict=True):
        ahead, clip = cost, []
        for row in reversed(range(first, first + length)):
            told = targets[min(row + 1, first + length - 1)]
            onward, push = _derivatives(model, qpos[row], qvel[row], told, substeps)
            gain, ahead = _regulate(onward, push, cost, effort, ahead)
            clip.append(gain)
        gains += clip[::-1]
    return np.array(gains, dtype=np.float32).reshape(-1, model.nu, 2 * model.nv)


def _costs(layout: Layout) -> np.ndarray:
    """[X]"""
    place = np.zeros(layout.num_dofs)
    for name, importance in _IMPORTANCE.items():
        place[layout.fields[name].numpy()] = importance
    return np.concatenate((place, _HASTE * place))


def _derivatives(
    model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray, told: np.ndarray, substeps: int
) -> tuple[np.ndarray, np.ndarray]:
    """How a policy step carries errors on, and what targets do to them; what drives remember is left out.
    [X, X], [X, U]"""
    data, errors = mujoco.MjData(model), 2 * model.nv
    data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, told
    size = errors + model.na
    a, b = np.zeros((size, size)), np.zeros((size, model.nu))
    onward, push = np.eye(errors), np.zeros((errors, model.nu))
    for _ in range(substeps):
        mujoco.mjd_transitionFD(model, data, _NUDGE, True, a, b, None, None)
        onward, push = a[:errors, :errors] @ onward, a[:errors, :errors] @ push + b[:errors]
        mujoco.mj_step(model, data)
    return np.clip(onward, -_STEEPEST, _STEEPEST), np.clip(push, -_STEEPEST, _STEEPEST)


def _regulate(
    onward: np.ndarray, push: np.ndarray, cost: np.ndarray, effort: np.ndarray, ahead: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One step of Riccati's recursion: the law of this frame, and what errors cost from here on, given what they cost
    from the next.  [U, X], [X, X]"""
    pressed = push.T @ ahead
    gain = np.linalg.solve(pressed @ push + effort, pressed @ onward)
    total = cost + onward.T @ ahead @ (onward - push @ gain)
    total = 0.5 * (total + total.T)
    return gain, total * min(1.0, _WORST / np.abs(total).max())
