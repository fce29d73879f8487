"""What is wrong with a clip once its character is known: names, reach, and bodies inside one another.

Shape letters: T frames, P pairs of geoms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import mujoco
import numpy as np
from numpy.typing import NDArray

from skillfield.characters import Character
from skillfield.clips import CONTACT_PAIRS, Clip
from skillfield.clips.checking import Finding, check_clip, count_of, usable_frames
from skillfield.errors import ClipError, unknown_name
from skillfield.reference.motion import clip_positions

__all__ = ["check_against_character"]

_MAX_DEPTH = 0.01
"""Metres that one thing may sink into another before it counts: skin and a ball give way that much."""

_MAX_GAP = 0.05
"""Metres between two things that a label calls touching; captures place hands about that precisely."""

_FAR = 100.0  # metres; beyond any scene

GeomPairs = list[tuple[int, int]]


def check_against_character(clip: Clip, character: Character, skills: Sequence[str] | None = None) -> list[Finding]:
    """Everything `check_clip` sees, and what only the character's names and shapes can show.

    skills: the skills of a task; a clip of another one is an error. None accepts any.
    """
    findings = check_clip(clip)
    if skills is not None and clip.skill not in skills:
        findings.append(Finding("error", "unknown skill", "skill", unknown_name("skill", clip.skill, tuple(skills))))
    usable = usable_frames(clip)
    if not usable.any():
        return findings
    try:
        qpos = clip_positions(replace(clip, valid=usable), character).numpy()
    except ClipError as problem:
        text = str(problem).removeprefix(f"clip '{clip.name}': ")
        return [*findings, Finding("error", f"does not fit character '{character.name}'", "whole clip", text)]
    return findings + _geometry(clip, character, qpos, np.flatnonzero(usable))


def _geometry(clip: Clip, character: Character, qpos: NDArray[np.float64], frames: NDArray[np.int64]) -> list[Finding]:
    """Penetration, and labels that the shapes contradict.

    frames: numbers of the usable frames.
    """
    model = character.model
    floor = [g for g in range(model.ngeom) if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_PLANE.value]
    own = _geoms(model, character.body_ids)
    findings = []
    for name, body in zip(character.object_names, character.object_ids, strict=True):
        thing = _geoms(model, [body])
        findings += _sunk(f"object '{name}' is below the floor", model, qpos, frames, floor, thing)
        findings += _sunk(f"object '{name}' is inside the character", model, qpos, frames, thing, own)
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
    nearest = _nearest(model, qpos[frames], list(product(first, second)))
    bad = nearest.distance < -_MAX_DEPTH
    if not bad.any():
        return []
    worst = int(nearest.distance.argmin())
    body = model.body(model.geom_bodyid[nearest.pair[worst][1]]).name
    text = f"{-100 * nearest.distance[worst]:.1f} cm deep at '{body}', {count_of(bad)}"
    return [Finding("warning", what, f"frame {frames[worst]}", text)]


def _apart(pair: str, character: Character, qpos: NDArray[np.float64], labelled: NDArray[np.int64]) -> list[Finding]:
    geom_pairs = _label_geoms(character, CONTACT_PAIRS.index(pair))
    if not len(labelled):
        return []
    if not geom_pairs:
        text = f"{len(labelled)} frames; the character has no such pair of groups"
        return [Finding("warning", f"labelled '{pair}' can never touch", f"frame {labelled[0]}", text)]
    distance = _nearest(character.model, qpos[labelled], geom_pairs).distance
    bad = distance > _MAX_GAP
    if not bad.any():
        return []
    worst = int(distance.argmax())
    text = f"{100 * distance[worst]:.1f} cm apart, {count_of(bad, 'labelled frames')} ({100 * bad.mean():.0f} %)"
    return [Finding("warning", f"labelled '{pair}' but apart", f"frame {labelled[worst]}", text)]


@dataclass(frozen=True)
class _Nearest:
    distance: NDArray[np.float64]  # [T] metres, negative inside
    pair: GeomPairs  # [T] the pair at that distance


def _nearest(model: mujoco.MjModel, qpos: NDArray[np.float64], pairs: GeomPairs) -> _Nearest:
    """In each frame, the pair of geoms that is closest, or deepest inside one another.

    Bounding spheres rule out nearly all pairs before their exact distance is asked for.
    """
    distance, found = np.full(len(qpos), _FAR), [(-1, -1)] * len(qpos)
    if not pairs:
        return _Nearest(distance, found)
    data = mujoco.MjData(model)
    first, second = np.array(pairs).T
    radius = np.where(model.geom_rbound > 0, model.geom_rbound, np.inf)  # a plane has no bound
    for frame, q in enumerate(qpos):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        centre = data.geom_xpos
        bound = np.linalg.norm(centre[first] - centre[second], axis=1) - radius[first] - radius[second]
        for number in bound.argsort():
            if bound[number] >= distance[frame]:
                break
            exact = mujoco.mj_geomDistance(model, data, *pairs[number], distance[frame], None)
            if exact < distance[frame]:
                distance[frame], found[frame] = exact, pairs[number]
    return _Nearest(distance, found)


def _geoms(model: mujoco.MjModel, bodies: Sequence[int]) -> list[int]:
    """Shapes of these bodies that can touch something; the others are for show."""
    solid = (model.geom_contype | model.geom_conaffinity) != 0
    return [g for g in range(model.ngeom) if model.geom_bodyid[g] in bodies and solid[g]]


def _label_geoms(character: Character, pair: int) -> GeomPairs:
    """Pairs of geoms behind one label: the groups that the character's own contact sensors watch."""
    model = character.model
    pairs: GeomPairs = []
    for address in character.pair_sensors[pair]:
        sensor = int(np.flatnonzero(model.sensor_adr == address)[0])
        body, other = int(model.sensor_objid[sensor]), int(model.sensor_refid[sensor])
        group = [body]
        if model.sensor_objtype[sensor] == mujoco.mjtObj.mjOBJ_XBODY.value:
            group = [b for b in character.body_ids if _is_below(model, b, body)]
        pairs += product(_geoms(model, group), _geoms(model, [other]))
    return pairs


def _is_below(model: mujoco.MjModel, body: int, ancestor: int) -> bool:
    while body not in (0, ancestor):
        body = int(model.body_parentid[body])
    return body == ancestor
