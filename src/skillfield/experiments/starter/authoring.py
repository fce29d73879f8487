"""How the starter's demonstrations were made: ballistics and smooth hand motion, then deliberate damage.

`python -m skillfield.experiments.starter.authoring` writes the shipped clips again, byte for byte.
Each motion is first authored clean, as a physicist would draw it, and then degraded as motion capture is: the hand
lags a frame behind, both hand and ball drift by a centimetre or two, and surfaces end up inside each other.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillfield.characters.hand import BALL, GRIP_CLOSED, GRIP_OPEN, PALM_TO_BALL
from skillfield.characters.physics import PHYSICS_HZ, POLICY_HZ, bounce_solref
from skillfield.clips import Clip, save_clip

__all__ = ["CLIP_FOLDER", "DRIBBLE_SPEED", "Motion", "author_clean", "author_noisy", "degrade", "to_clip"]

CLIP_FOLDER = Path(__file__).parent / "clips"

_G = 9.81
_DT = 1.0 / POLICY_HZ
DRIBBLE_SPEED = 0.8
"""Of all three dribbles over the ground, m/s."""
# The simulated ball bounces on a soft contact: half a swing of a damped spring, during which it is squashed.
_STIFFNESS, _DAMPING = (-value for value in bounce_solref(BALL.restitution, 1.0 / PHYSICS_HZ))
_DECAY = 0.5 * _DAMPING
_SWING = math.sqrt(_STIFFNESS - _DECAY**2)
_FLOOR_TIME = math.pi / _SWING

Array = NDArray[np.float64]


@dataclass
class Motion:
    """One demonstration before it becomes a clip."""

    palm: Array  # [T, 3]
    roll_pitch: Array  # [T, 2]
    grip: Array  # [T]
    ball: Array  # [T, 3]
    touching: Array  # [T]


class Dribble:
    """One cycle of a ball between palm and floor: cushion, push, fall, rise. Heights are of the ball's centre."""

    def __init__(self, release: float, catch: float, peak: float, push_speed: float) -> None:
        """Ball leaves the palm downwards at `release` with `push_speed`, meets it again at `catch`, turns at `peak`."""
        r = BALL.radius
        self.release, self.catch, self.peak, self.push_speed = release, catch, peak, push_speed
        self.impact = math.sqrt(push_speed**2 + 2 * _G * (release - r))
        self.rebound = BALL.restitution * self.impact
        self.meet_speed = math.sqrt(self.rebound**2 - 2 * _G * (catch - r))
        self.cushion_time = 2 * (peak - catch) / self.meet_speed
        self.push_time = 2 * (peak - release) / push_speed
        self.fall_time = (self.impact - push_speed) / _G
        self.rise_time = (self.rebound - self.meet_speed) / _G
        self.touch_time = self.cushion_time + self.push_time
        self.period = self.touch_time + self.fall_time + _FLOOR_TIME + self.rise_time

    def ball_height(self, phase: float) -> float:
        """Phase 0 is the catch."""
        if phase < self.cushion_time:
            return self.catch + self.meet_speed * phase * (1 - 0.5 * phase / self.cushion_time)
        phase -= self.cushion_time
        if phase < self.push_time:
            return self.peak - 0.5 * self.push_speed / self.push_time * phase**2
        phase -= self.push_time
        if phase < self.fall_time:
            return self.release - self.push_speed * phase - 0.5 * _G * phase**2
        phase -= self.fall_time
        if phase < _FLOOR_TIME:
            return float(_squashed(self.impact, phase))
        phase -= _FLOOR_TIME
        return BALL.radius + self.rebound * phase - 0.5 * _G * phase**2

    def palm_height(self, phase: float) -> float:
        """The palm rides on the ball while they touch, and swings back in between."""
        if phase < self.touch_time:
            return self.ball_height(phase) + PALM_TO_BALL
        away = self.period - self.touch_time
        return PALM_TO_BALL + _hermite(
            (phase - self.touch_time) / away,
            self.release,
            -0.8 * self.push_speed,
            self.catch,
            0.6 * self.meet_speed,
            away,
        )


_FORWARD = Dribble(release=0.50, catch=0.66, peak=0.80, push_speed=4.0)
_LOW = Dribble(release=0.38, catch=0.50, peak=0.62, push_speed=3.4)
_HIGH = Dribble(release=0.62, catch=0.80, peak=0.95, push_speed=4.4)


def author_clean() -> dict[str, Motion]:
    """The five skills, physically consistent."""
    return {
        "dribble_forward": _dribble(_FORWARD, direction=(1.0, 0.0), seconds=1.85, first_phase=0.05),
        "dribble_left": _dribble(_LOW, direction=(0.0, 1.0), seconds=1.75, first_phase=0.20),
        "dribble_right": _dribble(_HIGH, direction=(0.0, -1.0), seconds=2.0, first_phase=0.35),
        "hold": _hold(seconds=1.15),
        "toss": _toss(still_seconds=0.5),
    }


def author_noisy(seed: int = 7) -> dict[str, Motion]:
    """The five skills as they are shipped."""
    rng = np.random.default_rng(seed)
    return {skill: degrade(motion, rng) for skill, motion in author_clean().items()}


def degrade(
    motion: Motion, rng: np.random.Generator, drift: float = 0.012, jitter: float = 0.003, lag: int = 1
) -> Motion:
    """What motion capture does to a demonstration.

    drift: slow wander of the ball (metres, one spread); the hand wanders by half of it.
    jitter: independent error of every frame, metres.
    lag: frames by which the hand trails the ball.
    """
    frames = len(motion.grip)

    def late(column: Array) -> Array:
        return np.concatenate((np.repeat(column[:1], lag, axis=0), column[: frames - lag]))

    return Motion(
        palm=late(motion.palm) + 0.5 * drift * _wander(rng, frames) + jitter * rng.normal(size=(frames, 3)),
        roll_pitch=late(motion.roll_pitch) + 0.015 * rng.normal(size=(frames, 2)),
        grip=late(motion.grip),
        ball=motion.ball + drift * _wander(rng, frames) + jitter * rng.normal(size=(frames, 3)),
        touching=motion.touching,
    )


def to_clip(skill: str, motion: Motion, source: str) -> Clip:
    """Columns of the hand's clips."""
    frames = len(motion.grip)
    return Clip(
        name=skill,
        skill=skill,
        character="hand",
        fps=float(POLICY_HZ),
        root_pos=motion.palm.astype(np.float32),
        root_quat=_quat_roll_pitch(motion.roll_pitch).astype(np.float32),
        joint_pos=np.stack((motion.grip, motion.grip), axis=1).astype(np.float32),
        object_pos=motion.ball[:, None].astype(np.float32),
        object_quat=np.tile(np.array([1, 0, 0, 0], dtype=np.float32), (frames, 1, 1)),
        contacts=motion.touching[:, None].astype(np.float32),
        joint_names=("finger_left", "finger_right"),
        object_names=("ball",),
        source=source,
    )


def _dribble(cycle: Dribble, direction: tuple[float, float], seconds: float, first_phase: float) -> Motion:
    time = np.arange(round(seconds * POLICY_HZ)) * _DT
    phase = (time + first_phase) % cycle.period
    way = np.outer(time * DRIBBLE_SPEED, direction)
    # the palm leans a little into the push
    lean = 0.15 * np.exp(-(((phase - 0.7 * cycle.touch_time) / 0.1) ** 2))
    return Motion(
        palm=np.column_stack((way, [cycle.palm_height(p) for p in phase])),
        roll_pitch=np.outer(lean, (direction[1], -direction[0])),
        grip=np.full(len(time), GRIP_OPEN),
        ball=np.column_stack((way, [cycle.ball_height(p) for p in phase])),
        touching=(phase < cycle.touch_time).astype(float),
    )


def _gather(fly_seconds: float = 0.12, settle_frames: int = 4) -> Motion:
    """A rising ball meets the palm, the fingers close under it, and both come to rest at the peak."""
    cycle = _FORWARD
    fly, close = round(fly_seconds * POLICY_HZ), round(cycle.cushion_time * POLICY_HZ)
    phase = np.concatenate(
        (
            cycle.period - np.arange(fly, 0, -1) * _DT,
            np.minimum(np.arange(close + settle_frames) * _DT, cycle.cushion_time),
        )
    )
    closed = np.clip((np.arange(len(phase)) - fly) / close, 0.0, 1.0)
    zeros = np.zeros(len(phase))
    return Motion(
        palm=np.column_stack((zeros, zeros, [cycle.palm_height(p) for p in phase])),
        roll_pitch=np.zeros((len(phase), 2)),
        grip=GRIP_OPEN + (GRIP_CLOSED - GRIP_OPEN) * _smooth(closed),
        ball=np.column_stack((zeros, zeros, [cycle.ball_height(p) for p in phase])),
        touching=(np.arange(len(phase)) >= fly).astype(float),
    )


def _hold(seconds: float, lift: float = 0.35, lift_frames: int = 20) -> Motion:
    """Gather the ball, lift it, keep it."""
    start = _gather()
    extra = round(seconds * POLICY_HZ) - len(start.grip)
    up = lift * _smooth(np.clip(np.arange(1, extra + 1) / lift_frames, 0.0, 1.0))
    rise = np.column_stack((np.zeros((extra, 2)), up))
    return _append(
        start, palm=start.palm[-1] + rise, grip=np.full(extra, GRIP_CLOSED), ball=start.ball[-1] + rise, touching=1.0
    )


def _toss(
    still_seconds: float, speed: float = 1.2, swing_frames: int = 12, open_frames: int = 4, fly_seconds: float = 0.4
) -> Motion:
    """Gather the ball, keep it still for half a second, then swing ahead and let it go. It does not loop."""
    gathered = _gather()
    still = round(still_seconds * POLICY_HZ)
    waiting = _append(
        gathered,
        palm=np.tile(gathered.palm[-1], (still, 1)),
        grip=np.full(still, GRIP_CLOSED),
        ball=np.tile(gathered.ball[-1], (still, 1)),
        touching=1.0,
    )
    time = np.arange(1, swing_frames + 1) * _DT
    ahead = np.column_stack((0.5 * speed / (swing_frames * _DT) * time**2, np.zeros((swing_frames, 2))))
    swung = _append(
        waiting,
        palm=waiting.palm[-1] + ahead,
        grip=np.full(swing_frames, GRIP_CLOSED),
        ball=waiting.ball[-1] + ahead,
        touching=1.0,
    )
    # The fingers open while the palm coasts above the ball at the same speed; then the palm stays behind.
    fly = round(fly_seconds * POLICY_HZ)
    time = np.arange(1, fly + 1) * _DT
    opening = np.clip(np.arange(1, fly + 1) / open_frames, 0.0, 1.0)
    coast = open_frames * _DT
    brake = np.clip((time - coast) / 0.2, 0.0, 1.0)
    way = np.where(
        time <= coast, speed * time, speed * coast + _hermite(brake, 0.0, speed, 0.5 * speed * 0.2, 0.0, 0.2)
    )
    palm = np.column_stack((way, np.zeros(fly), 0.1 * _smooth(np.clip(time / 0.25, 0.0, 1.0))))
    return _append(
        swung,
        palm=swung.palm[-1] + palm,
        grip=GRIP_CLOSED + (GRIP_OPEN - GRIP_CLOSED) * opening,
        ball=np.column_stack((swung.ball[-1, 0] + speed * time, np.zeros(fly), _falling(swung.ball[-1, 2], time))),
        touching=0.0,
    )


def _append(motion: Motion, palm: Array, grip: Array, ball: Array, touching: float) -> Motion:
    return Motion(
        palm=np.concatenate((motion.palm, palm)),
        roll_pitch=np.concatenate((motion.roll_pitch, np.zeros((len(grip), 2)))),
        grip=np.concatenate((motion.grip, grip)),
        ball=np.concatenate((motion.ball, ball)),
        touching=np.concatenate((motion.touching, np.full(len(grip), touching))),
    )


def _falling(height: float, time: NDArray[np.floating]) -> Array:
    """Height of a ball dropped from `height`, with its first bounce."""
    impact = math.sqrt(2 * _G * (height - BALL.radius))
    fallen = impact / _G
    after = time - fallen - _FLOOR_TIME
    risen = BALL.radius + BALL.restitution * impact * after - 0.5 * _G * after**2
    return np.where(
        time < fallen, height - 0.5 * _G * time**2, np.where(after < 0, _squashed(impact, time - fallen), risen)
    )


def _squashed(impact, time):  # type: ignore[no-untyped-def]
    """Height of the ball's centre while it is on the floor."""
    return BALL.radius - impact / _SWING * np.exp(-_DECAY * time) * np.sin(_SWING * time)


def _hermite(share, start: float, start_speed: float, end: float, end_speed: float, seconds: float):  # type: ignore[no-untyped-def]
    """Cubic from one height and speed to another; share runs from 0 to 1."""
    s2, s3 = share**2, share**3
    return (
        start * (2 * s3 - 3 * s2 + 1)
        + seconds * start_speed * (s3 - 2 * s2 + share)
        + end * (3 * s2 - 2 * s3)
        + seconds * end_speed * (s3 - s2)
    )


def _smooth(share: Array) -> Array:
    return share**2 * (3 - 2 * share)


def _wander(rng: np.random.Generator, frames: int, width: int = 13) -> Array:
    """Slow noise of spread one, cut at 1.7 spreads.  [T, 3]"""
    kernel = np.hanning(width)
    kernel /= np.sqrt((kernel**2).sum())
    white = rng.normal(size=(frames + width - 1, 3))
    return np.clip(np.stack([np.convolve(axis, kernel, "valid") for axis in white.T], axis=1), -1.7, 1.7)


def _quat_roll_pitch(roll_pitch: Array) -> Array:
    """Rx(roll) · Ry(pitch) as w, x, y, z.  [T, 4]"""
    roll, pitch = (roll_pitch / 2).T
    return np.stack(
        (
            np.cos(roll) * np.cos(pitch),
            np.sin(roll) * np.cos(pitch),
            np.cos(roll) * np.sin(pitch),
            np.sin(roll) * np.sin(pitch),
        ),
        axis=1,
    )


def main() -> None:
    """Write the shipped clips."""
    for skill, motion in author_noisy().items():
        save_clip(
            to_clip(skill, motion, "authored by skillfield.experiments.starter.authoring, degraded with seed 7"),
            CLIP_FOLDER / f"{skill}.npz",
        )


if __name__ == "__main__":
    main()
