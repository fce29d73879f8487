"""From a BallPlay recording to a clip: rotations fitted to positions, flips repaired, feet on the floor.

Shape letters: T frames, B bodies, J joints.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.clips import Clip
from skillfield.clips.ballplay import BODIES, FPS, Recording
from skillfield.clips.repair import limit_turning
from skillfield.clips.skeleton import Skeleton, refit
from skillfield.errors import CharacterError, ClipError
from skillfield.reference.clearance import floor_geoms, nearest, solid_geoms
from skillfield.reference.motion import clip_positions
from skillfield.rotations import rotvec_between, rotvec_from_quat

__all__ = ["Imported", "Quality", "import_recording"]

MAX_JOINT_SPEED = 30.0
"""rad/s. In the public recordings only wrists and fingers are ever faster, and those within single frames."""

_GROUND_SHARE = 0.25
"""The part of a clip for which its lower foot may stay below the floor's level: steps and landings are not exact."""

_MAX_BONE_ERROR = 0.01
"""Metres by which a bone may be longer or shorter than the character's; in the public files it is a thousandth of a
millimetre. The shortest bone has twice as much, so one that has vanished is found."""

_FEET = ("ankle", "toe")


@dataclass(frozen=True)
class Quality:
    """How well a motion fits its character and the floor, over the present frames."""

    fit_mean: float
    """Metres between where the character's bodies are and where the capture saw them."""
    fit_max: float
    depth_mean: float
    """Metres that the lower foot is inside the floor."""
    depth_max: float
    joint_speed: float
    """rad/s of the fastest joint."""


@dataclass(frozen=True)
class Imported:
    """A clip, and what the way from its recording was good for."""

    clip: Clip
    before: Quality
    after: Quality


def import_recording(recording: Recording, character: Character) -> Imported:
    """The clip of a recording. Every change that was made is told in the clip's `corrections`."""
    skeleton = _skeleton(character)
    _check_bones(recording, skeleton)
    valid = recording.valid
    seen_pos, turn = recording.body_pos[valid], recording.turn[valid]
    before = _quality(_clip(recording, character, recording.root_pos, recording.turn), character, seen_pos)

    fitted = refit(skeleton, seen_pos, turn)
    time = torch.arange(len(valid), dtype=torch.float64)[valid] / FPS
    smooth, changed = limit_turning(fitted[:, 1:], time, MAX_JOINT_SPEED)
    root_pos, turns = seen_pos[:, 0], torch.cat((fitted[:, :1], smooth), dim=1)
    clip = _clip(recording, character, _spread(root_pos, valid), _spread(turns, valid))
    lift = -float(np.quantile(_foot_height(clip_positions(clip, character)[valid], character), _GROUND_SHARE))
    clip = _lifted(clip, lift)

    moved = _distance(root_pos, recording.root_pos[valid]).mean()
    corrections = [
        f"root taken from the stored pelvis, {100 * float(moved):.2f} cm away on average",
        _refit_told(turn, fitted, skeleton),
        *_repair_told(changed, skeleton),
        f"whole scene lifted by {100 * lift:.2f} cm to put the feet on the floor",
    ]
    if not bool(valid.all()):
        corrections.append(f"{int((~valid).sum())} rows of zeros marked missing")
    if recording.skill_note:
        corrections.append(recording.skill_note)
    after = _quality(clip, character, seen_pos + torch.tensor([0.0, 0.0, lift]))
    return Imported(replace(clip, corrections=tuple(corrections)), before, after)


def _skeleton(character: Character) -> Skeleton:
    """The character's bodies as the file orders them: root first, one ball joint each."""
    model, names = character.model, character.body_names
    if len(names) != BODIES or len(character.joint_names) != 3 * (BODIES - 1):
        raise CharacterError(
            f"character '{character.name}' has {len(names)} bodies and {len(character.joint_names)} joint columns; "
            f"a BallPlay recording moves {BODIES} bodies by {3 * (BODIES - 1)}"
        )
    parents = [model.body(model.body_parentid[body]).name for body in character.body_ids]
    return Skeleton(
        names,
        tuple(names.index(parent) if parent in names else -1 for parent in parents),
        torch.tensor(model.body_pos[character.body_ids]),
    )


def _check_bones(recording: Recording, skeleton: Skeleton) -> None:
    """Refuse a capture of somebody else, and damaged frames: bones of another length cannot be fitted."""
    lengths = skeleton.bone_lengths(recording.body_pos[recording.valid])
    seen, wanted = lengths.median(dim=0).values, skeleton.offsets[1:].norm(dim=-1)
    off = (lengths - wanted).abs()  # [T, B - 1]
    worst = int((seen - wanted).abs().argmax())
    if float((seen - wanted)[worst].abs()) > _MAX_BONE_ERROR:
        raise ClipError(_bone_told(recording, skeleton, worst, seen[worst]) + ": this is another skeleton")
    bad = (off > _MAX_BONE_ERROR).any(dim=1).nonzero().squeeze(1)
    if len(bad):
        row = int(bad[0])
        worst, frame = int(off[row].argmax()), int(recording.valid.nonzero()[row])
        told = _bone_told(recording, skeleton, worst, lengths[row, worst], f" in frame {frame}")
        raise ClipError(f"{told}: a damaged frame ({len(bad)} such frames); a row of zeros marks it missing")


def _bone_told(recording: Recording, skeleton: Skeleton, bone: int, length: Tensor, when: str = "") -> str:
    wanted = float(skeleton.offsets[bone + 1].norm())
    found = f"'{skeleton.names[bone + 1]}' is {float(length):.3f} m away from the body it hangs on{when}"
    return f"{recording.path}: {found}, in the character {wanted:.3f} m"


def _clip(recording: Recording, character: Character, root_pos: Tensor, turn: Tensor) -> Clip:
    """Columns of a clip; missing frames hold whatever the recording held."""

    def column(values: Tensor) -> NDArray[np.float32]:
        return values.float().numpy()

    return Clip(
        name=recording.path.stem,
        skill=recording.skill,
        character=character.clips_of,
        fps=FPS,
        root_pos=column(root_pos),
        root_quat=column(turn[:, 0]),
        joint_pos=column(rotvec_from_quat(turn[:, 1:]).flatten(1)),
        object_pos=column(recording.object_pos[:, None]),
        object_quat=column(recording.object_quat[:, None]),
        contacts=column(recording.contact[:, None]),
        joint_names=character.joint_names,
        object_names=character.object_names,
        contact_names=("object-hand",),
        valid=recording.valid.numpy(),
        source=f"BallPlay recording {recording.path.name}",
    )


def _spread(present: Tensor, valid: Tensor) -> Tensor:
    """Rows of the present frames back among the missing ones, which repeat their neighbour."""
    return present[(valid.cumsum(0) - 1).clamp_min(0)]


def _lifted(clip: Clip, lift: float) -> Clip:
    up = np.array([0.0, 0.0, lift], dtype=np.float32)
    return replace(clip, root_pos=clip.root_pos + up, object_pos=clip.object_pos + up)


def _foot_height(qpos: Tensor, character: Character) -> NDArray[np.float64]:
    """How far the lower foot is above the floor.  [T]"""
    model = character.model
    feet = [model.body(name).id for name in character.body_names if name.endswith(_FEET)]
    return nearest(model, qpos.numpy(), list(product(floor_geoms(model), solid_geoms(model, feet)))).distance


def _quality(clip: Clip, character: Character, seen_pos: Tensor) -> Quality:
    """seen_pos: where the capture saw the bodies, in the present frames."""
    layout, frames = character.layout(), torch.from_numpy(np.flatnonzero(clip.valid))
    qpos = clip_positions(clip, character)[frames]
    body_pos, _ = ForwardKinematics(character.model, character.body_ids)(qpos)
    fit, depth = _distance(body_pos, seen_pos), np.maximum(-_foot_height(qpos, character), 0.0)
    turned = layout.difference(qpos[:-1], qpos[1:])[:, layout.joint_dofs].unflatten(1, (-1, 3)).norm(dim=-1)
    speed = turned * clip.fps / frames.diff().unsqueeze(1)
    return Quality(float(fit.mean()), float(fit.max()), float(depth.mean()), float(depth.max()), float(speed.max()))


def _refit_told(before: Tensor, after: Tensor, skeleton: Skeleton) -> str:
    change = rotvec_between(before, after).norm(dim=-1).rad2deg()
    largest = int(change.amax(dim=0).argmax())
    return (
        f"rotations re-fitted to the stored body positions, by {float(change.mean()):.1f} degrees on average and "
        f"{float(change.max()):.0f} at most ({skeleton.names[largest]})"
    )


def _repair_told(changed: Tensor, skeleton: Skeleton) -> Sequence[str]:
    if not bool(changed.any()):
        return ()
    joints = [skeleton.names[joint + 1] for joint in changed.any(dim=0).nonzero().squeeze(1).tolist()]
    return (
        f"turns faster than {MAX_JOINT_SPEED:g} rad/s smoothed in {int(changed.any(dim=1).sum())} frames: "
        + ", ".join(joints),
    )


def _distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).norm(dim=-1)
