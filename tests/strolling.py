"""Clips, motions and states that the tests of augmentation share."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.imitation import ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.reference import Kinematics, ReferenceMotion, TrackingWeights, tracking_exponent
from skillfield.reference.states import StateKinematics
from skillfield.rotations import (
    quat_from_rotvec,
    quat_multiply,
    quat_rotate,
)

EVERYTHING = TrackingWeights(3.0, 2.0, 0.05, 0.07, 1.0, 0.9, 0.03, 0.02, 4.0)
"""Every term is felt, each with a weight of its own."""

COLUMNS = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts")
NEVER = Termination(min_root_height=None)


def walker_clip(frames: int = 14, phase: float = 0.0, **changes: Any) -> Clip:
    """A walker that wanders and turns while it waves its arm, the box beside it; phase: where in its motion it is."""
    time = phase + torch.arange(frames) / 60.0
    zero = torch.zeros_like(time)
    root = torch.stack((0.8 * time, 0.3 * torch.sin(2 * time), 1.0 + 0.1 * torch.sin(5 * time)), dim=1)
    tilt = torch.stack((0.2 * torch.sin(4 * time), 0.2 * torch.cos(3 * time), 1.5 * time), dim=1)
    shoulder = torch.stack((0.4 * torch.sin(5 * time), 0.3 * torch.cos(4 * time), 0.5 * torch.sin(3 * time)), dim=1)
    box = root + torch.stack((0.5 * torch.cos(time), 0.5 * torch.sin(3 * time), -0.2 + 0.1 * time), dim=1)
    clip = Clip(
        name="stroll",
        skill="stroll",
        character="walker",
        fps=60.0,
        root_pos=root.numpy(),
        root_quat=quat_from_rotvec(tilt).numpy(),
        joint_pos=torch.cat((shoulder, torch.sin(4 * time).unsqueeze(1)), dim=1).numpy(),
        object_pos=box.unsqueeze(1).numpy(),
        object_quat=quat_from_rotvec(torch.stack((time, zero, 2 * time), dim=1)).unsqueeze(1).numpy(),
        contacts=np.zeros((frames, 1), dtype=np.float32),
        joint_names=("shoulder_x", "shoulder_y", "shoulder_z", "elbow"),
        object_names=("box",),
    )
    return replace(clip, **changes)


def elsewhere(clip: Clip, angle: float, shift: Sequence[float]) -> Clip:
    """The same motion recorded at another place of the ground plane, turned about the vertical."""
    turn = quat_from_rotvec(torch.tensor([0.0, 0.0, angle]))
    away = torch.tensor([*shift, 0.0])

    def turned(quat: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(quat)
        return quat_multiply(turn.expand_as(given), given).numpy()

    def moved(pos: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(pos)
        return (quat_rotate(turn.expand(*given.shape[:-1], 4), given) + away).numpy()

    return replace(
        clip,
        root_pos=moved(clip.root_pos),
        root_quat=turned(clip.root_quat),
        object_pos=moved(clip.object_pos),
        object_quat=turned(clip.object_quat),
    )


def missing(clip: Clip, frames: list[int]) -> Clip:
    """The clip with these frames missing: marked so, and NaN in every column."""
    gone = {name: getattr(clip, name).copy() for name in (*COLUMNS, "valid")}
    for name in COLUMNS:
        gone[name][frames] = np.nan
    gone["valid"][frames] = False
    return replace(clip, **gone)


def lifted(clip: Clip, height: float) -> Clip:
    """The clip that much higher, character and object."""
    up = np.array([0.0, 0.0, height], dtype=np.float32)
    return replace(clip, root_pos=clip.root_pos + up, object_pos=clip.object_pos + up)


def everyone(count: int) -> Tensor:
    """All of these episodes have ended."""
    return torch.ones(count, dtype=torch.bool)


def motion_of(clips: Sequence[Clip], character: Character) -> ReferenceMotion:
    """Clips of the character, their skills in order of appearance."""
    return ReferenceMotion(clips, character, tuple(dict.fromkeys(clip.skill for clip in clips)))


def clip_of(motion: ReferenceMotion, row: Tensor) -> Tensor:
    """Which clip a row belongs to."""
    return torch.searchsorted(motion.start, row, right=True) - 1


def startable(motion: ReferenceMotion) -> Tensor:
    """Rows that an episode may start from."""
    return torch.nonzero(motion.start_mask()).squeeze(1)


def random_states(character: Character, count: int, away: float = 0.0) -> tuple[Tensor, Tensor]:
    """States at random, as far from the origin as asked."""
    layout = character.layout()
    rest = torch.tensor(character.model.qpos0).float().expand(count, -1)
    change = torch.randn(count, layout.num_dofs)
    change[:, layout.fields["root_pos"]] += away
    change[:, layout.fields["object_pos"]] += away
    return layout.integrate(rest, change), torch.randn(count, layout.num_dofs)


def against(state: Kinematics, reference: Kinematics) -> tuple[Kinematics, Kinematics]:
    """Every state beside every reference: [n, 1, …] and [1, m, …]."""
    return Kinematics(*(x.unsqueeze(1) for x in state)), Kinematics(*(x.unsqueeze(0) for x in reference))


def brute_force(
    motion: ReferenceMotion, character: Character, weights: TrackingWeights, qpos: Tensor, qvel: Tensor, clip: Tensor
) -> Tensor:
    """Exponents of every state with every row; infinite where a row is no target of that state's clip.  [n, N]"""
    rows, states = torch.arange(len(motion.qpos)), StateKinematics(character)
    pair = against(states(qpos, qvel), states(motion.qpos, motion.qvel))
    exponent = tracking_exponent(*pair, weights, character.layout())
    return exponent.masked_fill(~motion.start_mask() | (clip_of(motion, rows) != clip.unsqueeze(1)), torch.inf)


def follow_first_clip(env: ImitationEnv) -> None:
    """A puppet that is always on the first clip's frame of the same number."""

    def pose() -> tuple[Tensor, Tensor]:
        row = env.motion.row(torch.zeros_like(env.clip), env.frame + (env.progress + 1 - env.masked).clamp_min(0))
        return env.motion.qpos[row], env.motion.qvel[row]

    engine: Any = env.engine
    engine.pose = pose


def places(who: Character, thing: str) -> tuple[slice, slice]:
    """Where the position of an object and its linear velocity lie in the model's states."""
    body = who.model.body(thing)
    q, d = int(who.model.jnt_qposadr[body.jntadr[0]]), int(who.model.jnt_dofadr[body.jntadr[0]])
    return slice(q, q + 3), slice(d, d + 3)
