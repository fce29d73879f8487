"""What is wrong with a clip once its character is known: names, reach, and bodies inside one another."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import mujoco
import numpy as np
from numpy.typing import NDArray

from skillfield.characters import Character
from skillfield.characters.physics import POLICY_HZ
from skillfield.clips import CONTACT_PAIRS, Clip
from skillfield.clips.checking import Finding, balls_by_name, check_clip, count_of, usable_frames
from skillfield.errors import ClipError, unknown_name
from skillfield.reference.clearance import GeomPairs, floor_geoms, nearest, solid_geoms
from skillfield.reference.interpolation import resample
from skillfield.reference.motion import clip_positions

__all__ = ["check_against_character"]

_MAX_DEPTH = 0.01
"""Metres that one thing may sink into another before it counts: skin and a ball give way that much."""

_MAX_GAP = 0.05
"""Metres between two things that a label calls touching; captures place hands about that precisely."""


def check_against_character(clip: Clip, character: Character, skills: Sequence[str] | None = None) -> list[Finding]:
    """Everything `check_clip` sees, and what only the character's names and shapes can show.

    skills: the skills of a task; a clip of another one is an error. None accepts any.
    """
    findings = check_clip(clip, _ball_columns(clip, character))
    if skills is not None and clip.skill not in skills:
        findings.append(Finding("error", "unknown skill", "skill", unknown_name("skill", clip.skill, tuple(skills))))
    usable = usable_frames(clip)
    if not usable.any():
        return findings
    findings += _resampled(clip, usable)
    try:
        qpos = clip_positions(replace(clip, valid=usable), character).numpy()
    except ClipError as problem:
        text = str(problem).removeprefix(f"clip '{clip.name}': ")
        return [*findings, Finding("error", f"does not fit character '{character.name}'", "whole clip", text)]
    return findings + _geometry(clip, character, qpos, np.flatnonzero(usable))


def _ball_columns(clip: Clip, character: Character) -> list[int]:
    """Where the clip's ball joints begin. The character knows its own; columns that it lacks go by their names."""
    names, balls = character.joint_names, character.layout().ball_columns
    hinges = set(names) - {names[column] for column in balls}
    return [column for column in balls_by_name(clip.joint_names) if clip.joint_names[column] not in hinges]


def _resampled(clip: Clip, usable: NDArray[np.bool_]) -> list[Finding]:
    """What the policy's frame rate leaves of a clip that has enough frames of its own."""
    bare = replace(
        clip,
        valid=usable,
        joint_names=(),
        object_names=(),
        contact_names=(),
        **{name: getattr(clip, name)[:, :0] for name in ("joint_pos", "object_pos", "object_quat", "contacts")},
    )
    left = resample(bare, POLICY_HZ).valid
    if usable.sum() < 2 or left.sum() >= 2:
        return []
    what = f"too little is left at the policy's {POLICY_HZ} frames per second"
    how_bad = f"{count_of(left)} present, at least 2 needed; the clip has {clip.fps:g} per second"
    return [Finding("error", what, "whole clip", how_bad)]


def _geometry(clip: Clip, character: Character, qpos: NDArray[np.float64], frames: NDArray[np.int64]) -> list[Finding]:
    """Penetration, and labels that the shapes contradict.

    frames: numbers of the usable frames.
    """
    model = character.model
    floor = floor_geoms(model)
    own = solid_geoms(model, character.body_ids)
    things = {
        name: solid_geoms(model, _with_parts(model, body))
        for name, body in zip(character.object_names, character.object_ids, strict=True)
    }
    findings = []
    for name, thing in things.items():
        findings += _sunk(f"object '{name}' is below the floor", model, qpos, frames, floor, thing)
        findings += _sunk(f"object '{name}' is inside the character", model, qpos, frames, thing, own)
    for (one, inner), (other, outer) in combinations(things.items(), 2):
        findings += _sunk(f"object '{one}' is inside object '{other}'", model, qpos, frames, inner, outer)
    findings += _sunk("the character is below the floor", model, qpos, frames, floor, own)
    for column, pair in enumerate(clip.contact_names):
        labelled = frames[clip.contacts[frames, column] > 0.5]
        findings += _apart(pair, character, qpos, labelled)
    return findings


def _sunk(
    what: str,
    model: mujoco.MjModel,
    qpos: NDArray[np.float64],
    frames: NDArray[np.int64],
    first: list[int],
    second: list[int],
) -> list[Finding]:
    closest = nearest(model, qpos[frames], list(product(first, second)))
    bad = closest.distance < -_MAX_DEPTH
    if not bad.any():
        return []
    worst = int(closest.distance.argmin())
    body = model.body(model.geom_bodyid[closest.pair[worst][1]]).name
    text = f"{-100 * closest.distance[worst]:.1f} cm deep at '{body}', {count_of(bad)}"
    return [Finding("warning", what, f"frame {frames[worst]}", text)]


def _apart(pair: str, character: Character, qpos: NDArray[np.float64], labelled: NDArray[np.int64]) -> list[Finding]:
    geom_pairs = _label_geoms(character, CONTACT_PAIRS.index(pair))
    if not len(labelled):
        return []
    if not geom_pairs:
        text = f"{len(labelled)} frames; the character has no such pair of groups"
        return [Finding("warning", f"labelled '{pair}' can never touch", f"frame {labelled[0]}", text)]
    distance = nearest(character.model, qpos[labelled], geom_pairs).distance
    bad = distance > _MAX_GAP
    if not bad.any():
        return []
    worst = int(distance.argmax())
    text = f"{100 * distance[worst]:.1f} cm apart, {count_of(bad, 'labelled frames')} ({100 * bad.mean():.0f} %)"
    return [Finding("warning", f"labelled '{pair}' but apart", f"frame {labelled[worst]}", text)]


def _label_geoms(character: Character, pair: int) -> GeomPairs:
    """Pairs of geoms behind one label: the groups that the character's own contact sensors watch."""
    model = character.model
    pairs: GeomPairs = []
    for address in character.pair_sensors[pair]:
        sensor = int(np.flatnonzero(model.sensor_adr == address)[0])
        pairs += product(
            _group_geoms(model, model.sensor_objtype[sensor], int(model.sensor_objid[sensor])),
            _group_geoms(model, model.sensor_reftype[sensor], int(model.sensor_refid[sensor])),
        )
    return pairs


def _group_geoms(model: mujoco.MjModel, kind: int, body: int) -> list[int]:
    """Shapes of a body, or of a body with everything below it."""
    return solid_geoms(model, _with_parts(model, body) if kind == mujoco.mjtObj.mjOBJ_XBODY.value else [body])


def _with_parts(model: mujoco.MjModel, body: int) -> list[int]:
    """A body and everything below it."""
    parts = [body]
    for below in range(body + 1, model.nbody):
        if int(model.body_parentid[below]) in parts:
            parts.append(below)
    return parts
