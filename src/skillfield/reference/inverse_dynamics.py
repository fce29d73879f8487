"""What drives would have to be told to lead a character along its demonstrations: inverse dynamics, frame by frame.

A demonstration shows where joints are, not what moved them. Its accelerations, gravity and the contacts that its poses
make say which forces were at work, and a drive's law says which target brings such a force about.

Shape letters: N frames, D degrees of freedom, U actuators.
"""

import mujoco
import numpy as np
import torch
from torch import Tensor

from skillfield.characters.drives import DrivePositions
from skillfield.characters.physics import POLICY_HZ
from skillfield.reference.motion import ReferenceMotion

__all__ = ["leading_targets"]

_TRUST = 0.5
"""Share of the computed forces: at 60 frames per second they are those of the motion, and of its noise."""

_REACH = 0.12
"""Radians or metres by which a force may move a target: a foot that sinks in by a centimetre asks for thousands."""


def leading_targets(motion: ReferenceMotion, model: mujoco.MjModel) -> Tensor:
    """What drives are told to come to each frame as it was demonstrated.  [N, U]"""
    qpos, qvel = motion.qpos.cpu(), motion.qvel.cpu()
    velocity, force = _drive_motion(model, qpos.double().numpy(), qvel.double().numpy(), _accelerations(motion).numpy())
    gain, damping = _laws(model)
    pushed = np.clip(force * gain, -_REACH, _REACH) * _TRUST
    return DrivePositions(model)(qpos) + torch.from_numpy(velocity * damping + pushed).float()


def _laws(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """How far a target must move for a unit of force, and for a unit of speed that the drive brakes; zero for drives
    whose force does not follow at once from what they are told.  [U] each"""
    direct = model.actuator_dyntype == mujoco.mjtDyn.mjDYN_NONE.value
    direct &= model.actuator_gaintype == mujoco.mjtGain.mjGAIN_FIXED.value
    direct &= model.actuator_gainprm[:, 0] != 0
    affine = direct & (model.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE.value)
    gain = np.where(direct, model.actuator_gainprm[:, 0], 1.0)
    return np.where(direct, 1 / gain, 0.0), np.where(affine, -model.actuator_biasprm[:, 2] / gain, 0.0)


def _accelerations(motion: ReferenceMotion) -> Tensor:
    """By which each frame leads to the next; a clip's last one goes on as the one before.  [N, D]"""
    clip, qvel = motion.clip_of_row.cpu(), motion.qvel.cpu().double()
    row = torch.arange(len(qvel))
    last = torch.ones_like(clip, dtype=torch.bool)
    last[:-1] = clip[1:] != clip[:-1]
    first = (row - last.long()).clamp_min(0)
    return (qvel[first + 1] - qvel[first]) * POLICY_HZ


def _drive_motion(
    model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray, qacc: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How fast each drive moves in every frame, and the force that it would have to exert.  [N, U] each"""
    data, moment = mujoco.MjData(model), np.zeros((model.nu, model.nv))
    velocity, force = np.zeros((len(qpos), model.nu)), np.zeros((len(qpos), model.nu))
    for row in range(len(qpos)):
        data.qpos[:], data.qvel[:], data.qacc[:] = qpos[row], qvel[row], qacc[row]
        mujoco.mj_inverse(model, data)
        moment.fill(0.0)
        mujoco.mju_sparse2dense(
            moment, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
        )
        velocity[row] = data.actuator_velocity
        force[row] = np.linalg.lstsq(moment.T, data.qfrc_inverse, rcond=None)[0]
    return velocity, force
