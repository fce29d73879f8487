"""Clips as a character sees them: every frame with positions, velocities, body poses and contacts, on one device.

Frames of all clips lie in one row after another; a frame is (clip, number) and `row` finds it.
Shape letters: N frames of all clips, C clips, Q, D as in MuJoCo, B key bodies, O objects, K contact pairs.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.characters.physics import POLICY_HZ
from skillfield.clips import CONTACT_PAIRS, Clip
from skillfield.clips.checking import label_findings, quaternion_findings
from skillfield.errors import ClipError, unknown_name
from skillfield.reference.interpolation import fill_gaps, resample, trimmed
from skillfield.reference.kinematics import Kinematics
from skillfield.reference.velocities import differences, velocities
from skillfield.rotations import quat_rotate, rotvec_between

__all__ = ["Detour", "ReferenceMotion", "Tail", "clip_positions"]

_POSES = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat")
_COLUMNS = (*_POSES, "contacts")

_MAX_ROOT_ERROR = 0.05
"""A clip whose root the character cannot reach to within this (metres, radians) belongs to another character."""


@dataclass(frozen=True)
class Tail:
    """Frames in a row: as demonstrated, or moved in the plane to follow others."""

    row: Tensor  # [n] which frames of the motion they are, or repeat
    qpos: Tensor  # [n, Q]
    qvel: Tensor  # [n, D]
    valid: Tensor  # [n] bool: False on masked states

    def rows(self, rows: list[int]) -> "Tail":
        """Some of them."""
        return Tail(self.row[rows], self.qpos[rows], self.qvel[rows], self.valid[rows])

    @staticmethod
    def joined(parts: Sequence["Tail"]) -> "Tail":
        """One after another."""
        return Tail(*(torch.cat([vars(part)[name] for part in parts]) for name in vars(parts[0])))


@dataclass(frozen=True)
class Detour:
    """A way onto a skill from states of another one."""

    name: str
    skill: int
    """The skill that it leads to."""
    frames: Tail
    entries: int
    """How many of its first frames are states to begin with."""


class ReferenceMotion:
    """All demonstrations of a task, ready for batched look-up."""

    def __init__(
        self,
        clips: Sequence[Clip],
        character: Character,
        skills: Sequence[str],
        device: torch.device | str = "cpu",
        max_velocity: float = 40.0,
    ) -> None:
        """max_velocity: limit on all velocities (m/s, rad/s), because real clips jump within single frames."""
        if not clips:
            raise ClipError(f"no clips for character '{character.name}'")
        for clip in clips:
            if clip.skill not in skills:
                raise ClipError(f"clip '{clip.name}': {unknown_name('skill', clip.skill, tuple(skills))}")
            _check_finite(clip, _COLUMNS)
            _check_values(clip)
        layout = character.layout()
        balls = layout.ball_columns
        recorded_fps = [clip.fps for clip in clips]
        clips = [resample(_columns_of(clip, character), POLICY_HZ, balls) for clip in clips]
        for clip in clips:
            if (present := int(clip.valid.sum())) < 2:
                found = (
                    f"{present} frame(s)" if clip.valid.all() else f"all but {present} of {len(clip)} frames missing"
                )
                raise ClipError(f"clip '{clip.name}': {found}; a trajectory needs at least 2")
        clips = [fill_gaps(trimmed(clip), balls) for clip in clips]
        seen = [torch.from_numpy(clip.valid) for clip in clips]
        self.names = tuple(clip.name for clip in clips)
        self.skills = tuple(skills)
        qpos = [clip_positions(clip, character) for clip in clips]
        qvel = [
            velocities(layout, q, valid, fps).clamp(-max_velocity, max_velocity)
            for q, valid, fps in zip(qpos, seen, recorded_fps, strict=True)
        ]
        poses = [_body_poses(character, q) for q in qpos]

        def rows(parts: Sequence[Tensor]) -> Tensor:
            return torch.cat(list(parts)).float().to(device)

        lengths = [len(clip) for clip in clips]
        self.device = torch.device(device)
        self.qpos, self.qvel = rows(qpos), rows(qvel)  # [N, Q], [N, D]
        self.contact_pairs = rows([_contacts(clip) for clip in clips])  # [N, K]
        self.valid = torch.cat(seen).to(device)  # [N]
        self.demonstrated = torch.ones_like(self.valid)  # [N] False on frames that follow a clip or are a detour's
        self.origin = torch.arange(len(self.valid), device=device)  # [N] the demonstrated frame that each is or repeats
        self.entry = torch.zeros_like(self.valid)  # [N] frames of a detour, where a state of another skill may begin
        self.length = torch.tensor(lengths, device=device)  # [C]
        self.recorded_length = self.length  # [C] of the clips that are no detours, as they were recorded
        self.skill = torch.tensor([skills.index(clip.skill) for clip in clips], device=device)  # [C]
        self._number_rows()
        root = character.body_names.index(character.root)
        height = rows([pos[:, root, 2] for pos, _ in poses])
        skill = self.skill[self.clip_of_row]
        self.lowest_root = height.new_full((len(skills),), float("inf")).scatter_reduce(0, skill, height, "amin")
        """Height of the root where the demonstrations of each skill have it lowest; infinite without any.  [S]"""
        key = character.key_body_index
        things = slice(len(character.body_ids), None)
        kinematics = Kinematics(
            key_pos_w=rows([pos[:, key] for pos, _ in poses]),
            key_vel_w=rows([differences(pos[:, key].diff(dim=0), v) for (pos, _), v in zip(poses, seen, strict=True)]),
            qpos=self.qpos,
            joint_vel=self.qvel[:, layout.joint_dofs.to(device)],
            object_pos_w=rows([pos[:, things] for pos, _ in poses]),
            object_quat_w=rows([quat[:, things] for _, quat in poses]),
            object_lin_vel_w=rows([v[:, layout.fields["object_pos"]].unflatten(1, (-1, 3)) for v in qvel]),
            object_ang_vel_w=rows(
                [
                    quat_rotate(quat[:, things], v[:, layout.fields["object_rot"]].unflatten(1, (-1, 3)))
                    for v, (_, quat) in zip(qvel, poses, strict=True)
                ]
            ),
        )
        # one wide table, so that a look-up is one gather and its fields are views
        self._shapes = [field.shape[1:] for field in kinematics]
        self._table = torch.cat([field.flatten(1) for field in kinematics], dim=1)  # [N, …]

    @property
    def num_clips(self) -> int:
        """How many clips there are, detours among them."""
        return len(self.names)

    def _number_rows(self) -> None:
        self.start = torch.cumsum(self.length, 0) - self.length  # [C] row of each clip's first frame
        self.clip_of_row = torch.repeat_interleave(torch.arange(self.num_clips, device=self.device), self.length)  # [N]

    def frames(self, rows: Tensor) -> "Tail":
        """Some frames as they were demonstrated.  [n]"""
        return Tail(rows, self.qpos[rows], self.qvel[rows], self.valid[rows])

    def row(self, clip: Tensor, frame: Tensor) -> Tensor:
        """Row of a frame; a number past the clip's end is its last frame."""
        return self.start[clip] + torch.minimum(frame, self.length[clip] - 1)

    def skill_of(self, row: Tensor) -> Tensor:
        """Number of the skill that a frame belongs to."""
        return self.skill[self.clip_of_row[row]]

    def kinematics(self, row: Tensor) -> Kinematics:
        """What the demonstrations show in these rows."""
        fields = self._table[row].split([shape.numel() for shape in self._shapes], dim=-1)
        return Kinematics(*(field.unflatten(-1, shape) for field, shape in zip(fields, self._shapes, strict=True)))

    def start_mask(self) -> Tensor:
        """Frames that an episode may start from: demonstrated, present, and not the last of their clip.  [N]"""
        return self.valid & self.demonstrated & ~self.final_mask()

    def final_mask(self) -> Tensor:
        """The last frame of each demonstration.  [N]"""
        length, mask = self.demonstrated_length(), torch.zeros_like(self.valid)
        mask[(self.start + length - 1)[length > 0]] = True
        return mask

    def demonstrated_length(self) -> Tensor:
        """Frames of each clip that were demonstrated.  [C]"""
        return torch.zeros_like(self.length).index_add_(0, self.clip_of_row, self.demonstrated.long())

    def shortened(self, length: Tensor) -> "ReferenceMotion":
        """The same clips up to so many frames of each; before anything follows them.  [C]"""
        every = torch.arange(len(self.qpos), device=self.device)
        kept = every - self.start[self.clip_of_row] < length[self.clip_of_row]
        result = copy.copy(self)
        for name in ("qpos", "qvel", "contact_pairs", "valid", "demonstrated", "entry", "_table"):
            setattr(result, name, getattr(self, name)[kept])
        result.origin, result.length = every[: int(kept.sum())], length
        result._number_rows()
        return result

    def followed_by(self, tails: Sequence[Tail], states: Callable[[Tensor, Tensor], Kinematics]) -> "ReferenceMotion":
        """The same clips, each followed by more frames.  tails: one for each clip."""
        device, own = self.device, torch.arange(len(self.qpos), device=self.device)
        parts: list[Tail] = []
        for rows, tail in zip(own.split(self.length.tolist()), tails, strict=True):
            parts += [self.frames(rows), tail]
        every = Tail.joined(parts)
        lengths = torch.tensor([len(part.row) for part in parts], device=device)
        result = copy.copy(self)
        result.demonstrated = torch.repeat_interleave(torch.arange(len(parts), device=device) % 2 == 0, lengths)
        result.origin = torch.nonzero(result.demonstrated).squeeze(1)[every.row]
        result.qpos, result.qvel, result.valid = every.qpos, every.qvel, every.valid
        result.contact_pairs = self.contact_pairs[every.row]
        result.length = lengths.reshape(-1, 2).sum(dim=1)
        result._number_rows()
        result._table = torch.cat([field.flatten(1) for field in states(every.qpos, every.qvel)], dim=1)
        result._table[result.demonstrated] = self._table
        result.entry = torch.zeros_like(result.valid)
        return result

    def with_detours(
        self, detours: Sequence[Detour], states: Callable[[Tensor, Tensor], Kinematics]
    ) -> "ReferenceMotion":
        """The same clips, and after them ways onto them from other skills, each as a clip in which nothing is
        demonstrated."""
        if not detours:
            return self
        result = copy.copy(self)
        more = Tail.joined([detour.frames for detour in detours])
        lengths = [len(detour.frames.row) for detour in detours]
        result.names = (*self.names, *(detour.name for detour in detours))
        result.qpos, result.qvel = torch.cat((self.qpos, more.qpos)), torch.cat((self.qvel, more.qvel))
        result.valid = torch.cat((self.valid, more.valid))
        result.contact_pairs = torch.cat((self.contact_pairs, self.contact_pairs[more.row]))
        result.demonstrated = torch.cat((self.demonstrated, torch.zeros_like(more.valid)))
        result.origin = torch.cat((self.origin, self.origin[more.row]))
        first = [torch.arange(len(detour.frames.row), device=self.device) < detour.entries for detour in detours]
        result.entry = torch.cat((self.entry, *first)) & result.valid
        result.length = torch.cat((self.length, self.length.new_tensor(lengths)))
        result.skill = torch.cat((self.skill, self.skill.new_tensor([detour.skill for detour in detours])))
        result._number_rows()
        table = torch.cat([field.flatten(1) for field in states(more.qpos, more.qvel)], dim=1)
        result._table = torch.cat((self._table, table))
        return result


def clip_positions(clip: Clip, character: Character) -> Tensor:
    """A clip's columns as MuJoCo positions of its character, or an error that says what does not fit.  [T, Q]"""
    clip = _columns_of(clip, character)
    _check_finite(clip, _POSES)
    layout = character.layout()
    clip = fill_gaps(clip, layout.ball_columns)
    columns = (clip.root_pos, clip.root_quat, clip.joint_pos, clip.object_pos, clip.object_quat)
    qpos = layout.pack(*(torch.from_numpy(column).double() for column in columns))
    _check_root(clip, character, qpos)
    return qpos


def _columns_of(clip: Clip, character: Character) -> Clip:
    """The clip with the joint columns that the character has; an error shows what does not fit."""
    if clip.character not in (character.clips_of, character.name):
        raise ClipError(f"clip '{clip.name}' is for character '{clip.character}', not '{character.clips_of}'")
    kept = [column for column, name in enumerate(clip.joint_names) if name not in character.fixed_columns]
    joint_names = tuple(clip.joint_names[column] for column in kept)
    for kind, have, want in (
        ("joint", joint_names, character.joint_names),
        ("object", clip.object_names, character.object_names),
    ):
        if have != want:
            raise ClipError(
                f"clip '{clip.name}': {kind}_pos has {len(have)} {kind} columns, "
                f"character '{character.name}' has {len(want)}; {_difference(have, want)}"
            )
    return replace(clip, joint_names=joint_names, joint_pos=clip.joint_pos[:, kept])


def _difference(have: Sequence[str], want: Sequence[str]) -> str:
    """What is wrong with the names of columns that are not those wanted."""
    missing, unknown = (
        [name for name in names if name not in others] for names, others in ((want, have), (have, want))
    )
    if missing or unknown:
        return f"missing {missing}, unknown {unknown}"
    first = next((number for number, pair in enumerate(zip(have, want, strict=False)) if pair[0] != pair[1]), len(want))
    return f"the same names, but column {first} is '{have[first]}'" + (
        f" in place of '{want[first]}'" if first < len(want) else ", which is there already"
    )


def _check_finite(clip: Clip, columns: Sequence[str]) -> None:
    for name in columns:
        column = getattr(clip, name)
        finite = np.isfinite(column).all(axis=tuple(range(1, column.ndim)))
        bad = np.flatnonzero(clip.valid & ~finite)
        if len(bad):
            raise ClipError(f"clip '{clip.name}': {name} is not finite in frame {bad[0]} ({len(bad)} such frames)")


def _check_values(clip: Clip) -> None:
    """Refuse orientations and labels that `data check` calls useless."""
    for finding in (*quaternion_findings(clip), *label_findings(clip)):
        if finding.severity == "error":
            raise ClipError(f"clip '{clip.name}': {finding.what} in {finding.where} ({finding.how_bad})")


def _check_root(clip: Clip, character: Character, qpos: Tensor) -> None:
    pos, quat = _body_poses(character, qpos)
    root = character.body_names.index(character.root)
    valid = torch.from_numpy(clip.valid)
    far = (pos[:, root] - torch.from_numpy(clip.root_pos)).norm(dim=-1)
    turned = rotvec_between(quat[:, root], torch.from_numpy(clip.root_quat).double()).norm(dim=-1)
    error = torch.where(valid, torch.maximum(far, turned), torch.zeros_like(far))
    if float(error.max()) > _MAX_ROOT_ERROR:
        frame = int(error.argmax())
        raise ClipError(
            f"clip '{clip.name}': character '{character.name}' cannot take the root pose of frame {frame}: "
            f"off by {float(far[frame]):.3f} m and {float(turned[frame]):.3f} rad"
        )


def _body_poses(character: Character, qpos: Tensor) -> tuple[Tensor, Tensor]:
    """Poses of all bodies, then all objects.  [T, B + O, 3], [T, B + O, 4]"""
    return ForwardKinematics(character.model, [*character.body_ids, *character.object_ids])(qpos.double())


def _contacts(clip: Clip) -> Tensor:
    """Labels in the order of the contact graph; a pair without a label is apart.  [T, K]"""
    labels = torch.zeros(len(clip), len(CONTACT_PAIRS))
    for column, pair in enumerate(clip.contact_names):
        labels[:, CONTACT_PAIRS.index(pair)] = torch.from_numpy(clip.contacts[:, column]).round()
    return labels
