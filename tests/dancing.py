"""A recording of the public BallPlay format, flaws and all, that the tests of its import share."""

from collections.abc import Callable

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.clips.ballplay import COLUMNS
from skillfield.rotations import quat_from_rotvec, rotvec_from_quat

NAME = "013_018pickle_run_1.pt"
FLOOR_ERROR = 0.02
"""How far below the floor the synthetic recordings put their feet."""

MakeTable = Callable[..., Tensor]


def dance(full: Character, frames: int = 24) -> Tensor:
    """A slow dance on the spot whose stored rotations are 14 % too large, as in the public files.

    The feet stand 2 cm below the floor, the stored root is 1 cm off, and the ball circles at a height of 1 m.
    """
    random = torch.Generator().manual_seed(3)
    time = torch.arange(frames).double() / 60
    axis = 0.4 * torch.randn(52, 3, generator=random).double().clamp(-1.5, 1.5)
    phase = 6 * torch.rand(52, generator=random).double()
    joints = axis * torch.sin(4 * time[:, None] + phase)[..., None]  # [T, 52, 3]
    joints[:, :8] = 0.0  # the legs stand
    upright = rotvec_from_quat(torch.tensor([0.5, 0.5, 0.5, 0.5]).double())
    table = torch.zeros(frames, COLUMNS).double()
    qpos = torch.tensor(full.model.qpos0).repeat(frames, 1)
    qpos[:, 2] -= FLOOR_ERROR
    qpos[:, 7:215] = quat_from_rotvec(joints).flatten(1)
    body_pos, _ = ForwardKinematics(full.model, full.body_ids)(qpos)
    table[:, :3] = body_pos[:, 0] + torch.tensor([0.0, 0.0, 0.01])
    table[:, 3:9] = upright.repeat(2)
    table[:, 9:165] = 1.14 * joints.flatten(1)
    table[:, 165:324] = body_pos.flatten(1)
    table[:, 324:327] = torch.stack((time.cos(), time.sin(), 1 + 0 * time), dim=1)
    table[:, 336] = (torch.arange(frames) % 6 < 3).double()
    return table.float()
