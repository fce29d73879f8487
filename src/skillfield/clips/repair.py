"""Joints that flip: turns too fast for a body, replaced by the even way between what was before and after.

Shape letters: T frames, J joints.
"""

import torch
from torch import Tensor

from skillfield.errors import ClipError
from skillfield.rotations import quat_slerp, rotvec_between

__all__ = ["limit_turning"]


def limit_turning(quat: Tensor, time: Tensor, max_speed: float) -> tuple[Tensor, Tensor]:
    """Orientations that nowhere turn faster than a limit, and which of them were changed.  [T, J, 4], [T, J]

    Around the fastest step of a joint a window is widened, one frame on each side at a time, until its two ends can be
    joined within the limit; all between them is then on the short way at constant speed. So what is slow stays as it is
    to the last bit, and a spike that comes back leaves no trace.

    quat: [T, J, 4]
    time: of each frame, in seconds, rising.  [T]
    max_speed: rad/s
    """
    bad = (~quat.isfinite()).any(dim=-1).nonzero()
    if len(bad):
        frame, joint = bad[0].tolist()
        raise ClipError(f"the turn of joint {joint} in frame {frame} is not finite ({len(bad)} such turns)")
    quat, changed = quat.clone(), torch.zeros(quat.shape[:2], dtype=torch.bool)
    last = len(quat) - 1
    for joint in range(quat.shape[1]):
        turn = quat[:, joint]  # a view: repairs go into `quat`
        while last > 0:
            speed = _angle(turn[:-1], turn[1:]) / time.diff()
            low = int(speed.argmax())
            high = low + 1
            if float(speed[low]) <= max_speed * (1 + 1e-6):
                break
            while float(_angle(turn[low], turn[high])) > max_speed * float(time[high] - time[low]):
                if (low, high) == (0, last):
                    break
                low, high = max(low - 1, 0), min(high + 1, last)
            share = (time[low + 1 : high] - time[low]) / (time[high] - time[low])
            turn[low + 1 : high] = quat_slerp(turn[low], turn[high], share.unsqueeze(-1))
            changed[low + 1 : high, joint] = True
            if (low, high) == (0, last):
                break
    return quat, changed


def _angle(a: Tensor, b: Tensor) -> Tensor:
    return rotvec_between(a, b).norm(dim=-1)
