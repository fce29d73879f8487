"""Joints that turn faster than anybody can: slowed to a limit, and left alone below it."""

import pytest
import torch

from skillfield.clips.repair import limit_turning
from skillfield.errors import ClipError
from skillfield.rotations import (
    quat_from_rotvec,
    rotvec_between,
    rotvec_from_quat,
)


def test_slow_turns_are_left_alone_to_the_last_bit() -> None:
    """Below the limit nothing changes at all."""
    quat = quat_from_rotvec(torch.randn(1, 4, 3).double() * torch.linspace(0, 0.3, 30).double()[:, None, None])
    smooth, changed = limit_turning(quat, torch.arange(30).double() / 60, 5.0)
    assert torch.equal(smooth, quat)
    assert not bool(changed.any())


@pytest.mark.parametrize("present", [range(40), [0, 1, 2, 5, 6, 9, 15, 16, 17, 20, 30, 31, 39]])
def test_no_turn_is_faster_than_the_limit(present: list[int]) -> None:
    """However wild the joint and however the frames lie in time, the limit holds afterwards, and twice is once."""
    time = torch.tensor([float(frame) for frame in present]).double() / 60
    wild = quat_from_rotvec(2 * torch.randn(len(time), 3, 3).double())
    smooth, changed = limit_turning(wild, time, 20.0)
    speed = rotvec_between(smooth[:-1], smooth[1:]).norm(dim=-1) / time.diff()[:, None]
    assert float(speed.max()) <= 20.0 * 1.0001
    assert torch.equal(smooth[~changed], wild[~changed])
    assert torch.equal(limit_turning(smooth, time, 20.0)[0], smooth)


def test_a_clip_that_is_all_flip_ends_all_the_same() -> None:
    """Two frames that no window can join are left; a spike in three becomes the even way."""
    half_turn = quat_from_rotvec(torch.tensor([[[0.0, 0.0, 0.0]], [[3.0, 0.0, 0.0]]]).double())
    assert torch.equal(limit_turning(half_turn, torch.tensor([0.0, 1 / 60]).double(), 20.0)[0], half_turn)
    spike = quat_from_rotvec(torch.tensor([[[0.0, 0.0, 0.0]], [[3.0, 0.0, 0.0]], [[0.2, 0.0, 0.0]]]).double())
    smooth, _ = limit_turning(spike, torch.arange(3).double() / 60, 20.0)
    torch.testing.assert_close(rotvec_from_quat(smooth)[1, 0], torch.tensor([0.1, 0.0, 0.0]).double())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_turn_that_is_no_number_is_refused(value: float) -> None:
    """No window could ever join it with its neighbours."""
    quat = quat_from_rotvec(torch.zeros(9, 2, 3).double())
    quat[4, 1, 2] = value
    with pytest.raises(ClipError, match="joint 1 in frame 4 is not finite"):
        limit_turning(quat, torch.arange(9).double() / 60, 20.0)
