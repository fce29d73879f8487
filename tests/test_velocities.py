"""Velocities of demonstrations: what gaps and slow recordings must not do to them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.reference import ReferenceMotion

MakeClip = Callable[..., Clip]
IMPACT = 5.0  # m/s
GRAVITY = 9.81


def bouncing(make_clip: MakeClip, fps: float, first: float) -> Clip:
    """A hard ball that loses nothing, for two seconds, seen at some rate from some time on."""
    frames = round(2 * fps)
    since = np.mod(first + np.arange(frames) / fps, 2 * IMPACT / GRAVITY)
    clip = make_clip(frames, fps=fps)
    object_pos = clip.object_pos.copy()
    object_pos[:, 0] = [3.0, 0.0, 0.12]
    object_pos[:, 0, 2] += IMPACT * since - GRAVITY / 2 * since**2
    return replace(clip, object_pos=object_pos)


@pytest.mark.parametrize("fps", [120.0, 90.0, 60.0, 50.0, 30.0, 25.0])
def test_a_hard_ball_never_lies_dead(fps: float, make_clip: MakeClip, hand_character: Character) -> None:
    """At whatever rate it was recorded, and whenever: its speed is that of its height, in every frame."""
    for first in 0.31 + np.linspace(0.0, 1.0 / fps, 7, endpoint=False):
        motion = ReferenceMotion([bouncing(make_clip, fps, first)], hand_character, ["sway"])
        seen = motion.kinematics(torch.arange(len(motion.qpos)))
        height = (seen.object_pos_w[:, 0, 2] - 0.12).clamp_min(0.0)
        speed = (IMPACT**2 - 2 * GRAVITY * height).clamp_min(0.0).sqrt()
        assert (seen.object_lin_vel_w[:, 0, 2].abs() > speed - 1.0).all()


def test_a_ball_that_is_soft_or_slow_is_left_alone_at_any_rate(make_clip: MakeClip, hand_character: Character) -> None:
    """Up and down as on a spring, at half a hertz: every velocity is the one that led to its frame."""
    clip = make_clip(60, fps=30.0)
    object_pos = clip.object_pos.copy()
    object_pos[:, 0, 2] = 1.0 + 0.5 * np.cos(2 * np.pi * np.arange(60) / 60)
    motion = ReferenceMotion([replace(clip, object_pos=object_pos)], hand_character, ["sway"])
    height = motion.kinematics(torch.arange(len(motion.qpos))).object_pos_w[:, 0, 2]
    rise = motion.qvel[:, hand_character.layout().fields["object_pos"][2]]
    torch.testing.assert_close(rise[1:], 60 * height.diff(), rtol=0, atol=1e-3)


def test_the_first_frame_after_a_gap_does_not_move_as_the_gap_did(
    make_clip: MakeClip, hand_character: Character
) -> None:
    """Nobody saw what led to it: it moves as the next one does, bodies and objects alike."""
    clip, missing = make_clip(60), range(15, 30)
    object_pos = clip.object_pos.copy()
    object_pos[:, 0, 2] = 1.0 + 0.4 * np.sin(2 * np.pi * np.arange(60) / 30)
    clip = replace(clip, object_pos=object_pos)
    whole = ReferenceMotion([clip], hand_character, ["sway"])
    holed = ReferenceMotion([replace(clip, valid=~np.isin(np.arange(60), missing))], hand_character, ["sway"])
    assert torch.equal(holed.qvel[30], holed.qvel[31])
    seen = holed.kinematics(torch.arange(60))
    assert torch.equal(seen.key_vel_w[30], seen.key_vel_w[31])
    true, secant = whole.qvel[30], (whole.qpos[30] - whole.qpos[14])[hand_character.layout().fields["object_pos"]]
    rise = hand_character.layout().fields["object_pos"][2]
    assert abs(float(holed.qvel[30, rise] - true[rise])) < 0.5
    assert abs(float(secant[2]) * 60 / 16 - float(true[rise])) > 2.0  # which is what it had


def test_a_frame_between_two_gaps_has_the_velocity_that_led_there(
    make_clip: MakeClip, hand_character: Character
) -> None:
    """The next one is not known either."""
    valid = np.ones(40, dtype=bool)
    valid[[10, 11, 13, 14]] = False
    motion = ReferenceMotion([replace(make_clip(40), valid=valid)], hand_character, ["sway"])
    key = motion.kinematics(torch.arange(40))
    torch.testing.assert_close(key.key_vel_w[12], 60 * (key.key_pos_w[12] - key.key_pos_w[11]), rtol=0, atol=1e-3)
