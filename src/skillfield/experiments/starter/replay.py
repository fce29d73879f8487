"""Can the character physically do what a demonstration shows? Open-loop replay with inverse dynamics.

From many frames of a motion the drives are told, without any feedback, what would make the hand follow it exactly; if
the ball then goes where the demonstration has it, the motion is one that this hand and this ball can do.
"""

import mujoco
import numpy as np
import torch

from skillfield.characters import Character
from skillfield.characters.hand import BALL
from skillfield.characters.physics import POLICY_HZ
from skillfield.experiments.starter.authoring import Motion, to_clip
from skillfield.reference import ReferenceMotion
from skillfield.simulation import CpuEngine

__all__ = ["replay_error"]

_GRAVITY = np.array([0.0, 0.0, 9.81])


def replay_error(skill: str, motion: Motion, character: Character, window: int = 15, stride: int = 3) -> np.ndarray:
    """Metres between simulated and demonstrated ball after `window` open-loop steps, from every `stride`-th frame."""
    reference = ReferenceMotion([to_clip(skill, motion, "")], character, [skill])
    targets = _feed_forward(character.model, reference.qpos.double().numpy(), motion)
    start = torch.arange(1, len(targets) - window - 1, stride)
    engine = CpuEngine(character, len(start))
    engine.reset(torch.arange(len(start)), reference.qpos[start], reference.qvel[start])
    for step in range(window):
        engine.step(torch.from_numpy(targets[start + step]).float())
    shown = reference.kinematics(start + window).object_pos_w[:, 0]
    return (engine.state.object_pos_w[:, 0] - shown).norm(dim=-1).numpy()


def _feed_forward(model: mujoco.MjModel, qpos: np.ndarray, motion: Motion) -> np.ndarray:
    """Targets at which the PD drives exert just the force that the motion and the ball in the hand need.  [T, U]"""
    joints = model.actuator_trnid[:, 0]
    position = qpos[:, model.jnt_qposadr[joints]]
    stiffness, damping = model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 2]
    force = damping * np.gradient(position, 1 / POLICY_HZ, axis=0)
    force += model.dof_M0[model.jnt_dofadr[joints]] * _acceleration(position)
    force[:, :3] += BALL.mass * (_acceleration(motion.ball) + _GRAVITY) * motion.touching[:, None]
    return position + force / stiffness


def _acceleration(position: np.ndarray) -> np.ndarray:
    result = np.zeros_like(position)
    result[1:-1] = (position[2:] - 2 * position[1:-1] + position[:-2]) * POLICY_HZ**2
    return result
