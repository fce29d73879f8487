"""Where a character's drives are: the targets at which they would hold it as it is.

Shape letters: E environments, Q position coordinates, U actuators.
"""

import mujoco
import numpy as np
import torch
from torch import Tensor

from skillfield.rotations import rotvec_from_quat

__all__ = ["DrivePositions"]

_BALL = mujoco.mjtJoint.mjJNT_BALL.value
_SCALAR = (mujoco.mjtJoint.mjJNT_SLIDE.value, mujoco.mjtJoint.mjJNT_HINGE.value)


class DrivePositions:
    """MuJoCo's actuator lengths, from positions: a joint's coordinate, or a component of its rotation vector.

    An actuator that drives no slide, hinge or ball joint counts as being at zero.
    """

    def __init__(self, model: mujoco.MjModel, device: torch.device | str = "cpu") -> None:
        on_joint = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value
        joints = np.where(on_joint, model.actuator_trnid[:, 0], 0)
        kinds = np.where(on_joint, model.jnt_type[joints], -1)
        first = model.jnt_qposadr[joints]

        def index(values: np.ndarray) -> Tensor:
            return torch.tensor(values, dtype=torch.long, device=device)

        scalar, ball = np.flatnonzero(np.isin(kinds, _SCALAR)), np.flatnonzero(kinds == _BALL)
        self._num_drives = int(model.nu)
        self._scalar, self._ball = index(scalar), index(ball)
        self._scalar_q, self._ball_q = index(first[scalar]), index(first[ball, None] + np.arange(4))
        gear = torch.tensor(model.actuator_gear, dtype=torch.float32, device=device)
        self._scalar_gear, self._ball_gear = gear[self._scalar, 0], gear[self._ball, :3]

    def __call__(self, qpos: Tensor) -> Tensor:
        """[E, Q] → [E, U]"""
        positions = qpos.new_zeros(*qpos.shape[:-1], self._num_drives)
        positions[..., self._scalar] = self._scalar_gear.to(qpos.dtype) * qpos[..., self._scalar_q]
        turn = rotvec_from_quat(qpos[..., self._ball_q])
        positions[..., self._ball] = (self._ball_gear.to(qpos.dtype) * turn).sum(dim=-1)
        return positions
