"""Where a character's drives are: the targets at which they would hold it as it is.

Shape letters: E environments, Q position coordinates, U actuators, M numbers that drives remember.
"""

import mujoco
import numpy as np
import torch
from torch import Tensor

from skillfield.rotations import rotvec_from_quat

__all__ = ["DrivePositions", "driven_joints", "holding_places", "seeks_place"]

_BALL = mujoco.mjtJoint.mjJNT_BALL.value
_SCALAR = (mujoco.mjtJoint.mjJNT_SLIDE.value, mujoco.mjtJoint.mjJNT_HINGE.value)
_ON_JOINT, _IN_PARENT = mujoco.mjtTrn.mjTRN_JOINT.value, mujoco.mjtTrn.mjTRN_JOINTINPARENT.value
_FIXED_GAIN, _AFFINE_BIAS = mujoco.mjtGain.mjGAIN_FIXED.value, mujoco.mjtBias.mjBIAS_AFFINE.value
_INTEGRATOR = mujoco.mjtDyn.mjDYN_INTEGRATOR.value
_FILTERS = (mujoco.mjtDyn.mjDYN_FILTER.value, mujoco.mjtDyn.mjDYN_FILTEREXACT.value)
_MEMORYLESS = mujoco.mjtDyn.mjDYN_NONE.value


def holding_places(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """The target at which a drive pushes nothing, as factor · length + offset; zero for those that seek no place.  [U]

    A drive with the force g·u + b₀ + b₁·length seeks a place; a motor (b₁ = 0) and a muscle do not.
    """
    gain, bias = model.actuator_gainprm[:, 0], model.actuator_biasprm
    seeks = (model.actuator_gaintype == _FIXED_GAIN) & (model.actuator_biastype == _AFFINE_BIAS)
    seeks &= (gain != 0) & (bias[:, 1] != 0)
    seeks &= np.isin(model.actuator_dyntype, (_MEMORYLESS, _INTEGRATOR, *_FILTERS))
    safe = np.where(seeks, gain, 1.0)
    return np.where(seeks, -bias[:, 1] / safe, 0.0), np.where(seeks, -bias[:, 0] / safe, 0.0)


def seeks_place(model: mujoco.MjModel) -> np.ndarray:
    """Which actuators are told a place: neither a force nor a speed.  [U]"""
    return (holding_places(model)[0] != 0) & (model.actuator_dyntype != _INTEGRATOR)


def driven_joints(model: mujoco.MjModel) -> np.ndarray:
    """The joint that each actuator drives, -1 where it drives something else.  [U]

    In the parent's frame (`jointinparent`) a slide or hinge is driven as in its own; no other joint counts there.
    """
    kinds, joints = model.actuator_trntype, model.actuator_trnid[:, 0]
    on_joint = np.isin(kinds, (_ON_JOINT, _IN_PARENT))
    on_joint[kinds == _IN_PARENT] = np.isin(model.jnt_type[joints[kinds == _IN_PARENT]], _SCALAR)
    return np.where(on_joint, joints, -1)


class DrivePositions:
    """The targets at which drives hold a character, from its positions.

    For an ordinary position drive that is MuJoCo's actuator length: a joint's coordinate, or a component of its
    rotation vector, times the gear. An actuator that seeks no place, or drives no slide, hinge or ball joint, is told
    zero.
    """

    def __init__(self, model: mujoco.MjModel, device: torch.device | str = "cpu") -> None:
        joints = driven_joints(model)
        on_joint, kinds = joints >= 0, np.full(model.nu, -1)
        kinds[on_joint] = model.jnt_type[joints[on_joint]]
        factor, offset = holding_places(model)
        kinds[factor == 0] = -1  # seeks no place
        scalar, ball = np.flatnonzero(np.isin(kinds, _SCALAR)), np.flatnonzero(kinds == _BALL)
        first = np.zeros(model.nu, dtype=int)
        first[on_joint] = model.jnt_qposadr[joints[on_joint]]

        def index(values: np.ndarray) -> Tensor:
            return torch.tensor(values, dtype=torch.long, device=device)

        def numbers(values: np.ndarray) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        self._num_drives, self._num_memories = int(model.nu), int(model.na)
        self._scalar, self._ball = index(scalar), index(ball)
        self._scalar_q, self._ball_q = index(first[scalar]), index(first[ball, None] + np.arange(4))
        gear = model.actuator_gear * factor[:, None]
        self._scalar_gear, self._ball_gear = numbers(gear[scalar, 0]), numbers(gear[ball, :3])
        self._offset = numbers(np.where(kinds < 0, 0.0, offset)) if offset[kinds >= 0].any() else None
        # What an integrator is told is a speed; its place is what it remembers. A filter remembers what it was told.
        remembers = np.flatnonzero(np.isin(model.actuator_dyntype, (_INTEGRATOR, *_FILTERS)) & (kinds >= 0))
        self._remembers, self._memory = index(remembers), index(model.actuator_actadr[remembers])
        speeds = np.flatnonzero(model.actuator_dyntype == _INTEGRATOR)
        self._speeds = index(speeds) if len(speeds) else None

    def __call__(self, qpos: Tensor) -> Tensor:
        """[E, Q] → [E, U]"""
        targets = self._places(qpos)
        if self._speeds is not None:
            targets[..., self._speeds] = 0.0
        return targets

    def memory(self, qpos: Tensor) -> Tensor:
        """What drives remember that have held the character there for long.  [E, Q] → [E, M]"""
        memory = qpos.new_zeros(*qpos.shape[:-1], self._num_memories)
        if self._num_memories:
            memory[..., self._memory] = self._places(qpos)[..., self._remembers]
        return memory

    def _places(self, qpos: Tensor) -> Tensor:
        positions = qpos.new_zeros(*qpos.shape[:-1], self._num_drives)
        positions[..., self._scalar] = self._scalar_gear.to(qpos.dtype) * qpos[..., self._scalar_q]
        turn = rotvec_from_quat(qpos[..., self._ball_q])
        positions[..., self._ball] = (self._ball_gear.to(qpos.dtype) * turn).sum(dim=-1)
        return positions if self._offset is None else positions + self._offset.to(qpos.dtype)
