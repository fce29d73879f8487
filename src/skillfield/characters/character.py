"""A character: a MuJoCo model, and the only place that knows the names of its bodies, joints and objects."""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import mujoco
import torch

from skillfield.characters.actions import Action, ActionMap, default_actions
from skillfield.characters.layout import Layout, joint_columns
from skillfield.characters.physics import POLICY_HZ
from skillfield.errors import CharacterError, SkillfieldNote, unknown_name

__all__ = ["Character"]

_CONTACT = mujoco.mjtSensor.mjSENS_CONTACT
_FOUND, _FOUND_AND_FORCE, _NET_FORCE = 1, 3, 3  # data bits and reduction of MuJoCo's contact sensor
_BODY, _SUBTREE = mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_XBODY

_MAX_SUBSTEPS = 10_000
"""Physics steps per action; more would be a mistyped time step."""

_MOVED_NOTE = 0.01
"""A time step that moves by more than this part of itself is told."""


@dataclass(frozen=True, eq=False)
class Character:
    """What is simulated. Names are looked up here once, at build time; everything else uses indices."""

    name: str
    spec: mujoco.MjSpec  # what the model was compiled from, sensors included
    model: mujoco.MjModel
    root: str
    body_names: tuple[str, ...]  # the root and everything below it, in model order
    joint_names: tuple[str, ...]  # columns of a clip's joint_pos
    object_names: tuple[str, ...]
    key_bodies: tuple[str, ...]  # bodies that the reward compares
    force_bodies: tuple[str, ...]  # bodies whose net contact force is observed
    actions: tuple[Action, ...]
    pair_sensors: tuple[tuple[int, ...], ...]  # per contact pair of the graph: where its sensors' counts lie
    force_sensors: tuple[int, ...]  # per force body: where its force begins
    clips_of: str  # name that its clips carry; variants of one skeleton share it
    fixed_columns: Mapping[str, float]  # joint columns of those clips that it cannot move, and where they are

    @staticmethod
    def build(
        spec: mujoco.MjSpec,
        *,
        root: str,
        objects: Sequence[str] = (),
        hands: Sequence[str] = (),
        key_bodies: Sequence[str] | None = None,
        force_bodies: Sequence[str] = (),
        actions: Sequence[Action] | None = None,
        name: str | None = None,
        clips_of: str | None = None,
        fixed_columns: Mapping[str, float] | None = None,
    ) -> "Character":
        """Compile a copy of a spec with the contact sensors that the contact graph needs.

        hands: bodies that, with everything below them, count as the 'hand' group; the rest of the character is the
            'body' group, and the objects are the 'object' group.
        clips_of, fixed_columns: the character whose clips this variant follows, and the joint columns that it cannot
            move, with the angles at which they stay.
        """
        spec, title = spec.copy(), name or spec.modelname
        _own_flags(spec)
        known = [body.name for body in spec.bodies]
        for wanted in (root, *objects, *hands, *(key_bodies or ()), *force_bodies):
            if wanted not in known:
                raise CharacterError(f"character '{title}': {unknown_name('body', wanted, known)}")
        body_names = _subtree(spec, root)
        _check_roles(spec, title, root, body_names, objects=objects, hands=hands, force_bodies=force_bodies)
        if "" in body_names:
            raise CharacterError(f"character '{title}': every body below '{root}' needs a name")
        hand_names = {below for hand in hands for below in _subtree(spec, hand)}
        pairs = _contact_pairs(list(objects), list(hands), [body for body in body_names if body not in hand_names])
        pair_sensors = [
            [_add_pair_sensor(spec, first, second, second in objects) for first, second in pair] for pair in pairs
        ]
        force_names = [_add_force_sensor(spec, body) for body in force_bodies]
        try:
            model = spec.compile()
        except ValueError as problem:
            raise CharacterError(f"character '{title}': does not compile: {problem}") from None
        _check(model, title, body_names, key_bodies or ())
        for thing in objects:
            joints = model.body(thing).jntnum[0]
            if joints != 1 or model.jnt_type[model.body(thing).jntadr[0]] != mujoco.mjtJoint.mjJNT_FREE.value:
                raise CharacterError(f"object '{thing}' has {joints} joints; it needs exactly one free joint")
            if set(_subtree(spec, thing)) & set(body_names):
                raise CharacterError(f"character '{title}': object '{thing}' and root '{root}' share bodies")
        bodies = [model.body(body).id for body in body_names]
        joint_names, _ = joint_columns(model, model.body(root).id, bodies)

        def address(sensor: str) -> int:
            return int(model.sensor(sensor).adr[0])

        return Character(
            name=title,
            spec=spec,
            model=model,
            root=root,
            body_names=tuple(body_names),
            joint_names=tuple(joint_names),
            object_names=tuple(objects),
            key_bodies=tuple(key_bodies or body_names),
            force_bodies=tuple(force_bodies),
            actions=tuple(actions) if actions is not None else default_actions(model),
            pair_sensors=tuple(tuple(address(sensor) for sensor in sensors) for sensors in pair_sensors),
            force_sensors=tuple(address(sensor) + 1 for sensor in force_names),
            clips_of=clips_of or title,
            fixed_columns=dict(fixed_columns or {}),
        )

    @staticmethod
    def from_mjcf(
        mjcf: str | Path,
        *,
        root: str | None = None,
        objects: Sequence[str] = (),
        hands: Sequence[str] = (),
        key_bodies: Sequence[str] | None = None,
        force_bodies: Sequence[str] = (),
        actions: Sequence[Action] | None = None,
    ) -> "Character":
        """Any MJCF file, or XML text, whose bodies and joints have names. The root defaults to the first body.

        A time step that does not divide the policy's step is moved to the nearest one that does; a `SkillfieldNote`
        tells it where that is more than a hundredth.
        """
        try:
            text = isinstance(mjcf, str) and mjcf.lstrip().startswith("<")
            spec = mujoco.MjSpec.from_string(str(mjcf)) if text else mujoco.MjSpec.from_file(str(mjcf))
        except (ValueError, OSError) as problem:
            where = "XML text" if text else str(mjcf)
            raise CharacterError(f"{where}: not a MuJoCo model: {problem}") from None
        asked = spec.option.timestep
        substeps = _substeps(asked, spec.modelname)
        spec.option.timestep = 1.0 / (POLICY_HZ * substeps)
        movable = [body.name for body in spec.worldbody.bodies if body.name not in objects]
        if root is None and not movable:
            raise CharacterError(f"model '{spec.modelname}' has no body besides its objects {list(objects)}")
        character = Character.build(
            spec,
            root=root or movable[0],
            objects=objects,
            hands=hands,
            key_bodies=key_bodies,
            force_bodies=force_bodies,
            actions=actions,
        )
        if abs(spec.option.timestep - asked) > _MOVED_NOTE * asked:
            told = f"time step {asked:g} s does not divide the policy's 1/{POLICY_HZ} s"
            note = f"character '{character.name}': {told}: simulated at 1/{POLICY_HZ * substeps} s"
            warnings.warn(note, SkillfieldNote, stacklevel=2)
        return character

    @property
    def substeps(self) -> int:
        """Physics steps per action."""
        return _substeps(self.model.opt.timestep, self.name)

    @cached_property
    def body_ids(self) -> list[int]:
        """MuJoCo's ids of `body_names`."""
        return [self.model.body(body).id for body in self.body_names]

    @cached_property
    def object_ids(self) -> list[int]:
        """MuJoCo's ids of `object_names`."""
        return [self.model.body(thing).id for thing in self.object_names]

    @cached_property
    def key_body_index(self) -> list[int]:
        """Where `key_bodies` lie in `body_names`."""
        return [self.body_names.index(body) for body in self.key_bodies]

    def layout(self, device: torch.device | str = "cpu") -> Layout:
        """The index tables on a device."""
        root = self.model.body(self.root).id
        _, joints = joint_columns(self.model, root, self.body_ids)
        return Layout(self.model, root, joints, self.object_ids, device)

    def action_map(self, device: torch.device | str = "cpu") -> ActionMap:
        """The action table on a device."""
        return ActionMap(self.model, self.actions, device)


def _check(model: mujoco.MjModel, name: str, body_names: Sequence[str], key_bodies: Sequence[str]) -> None:
    """What a model must have beyond compiling: names, key bodies of its own, and a clock that fits the policy's."""
    for body in key_bodies:
        if body not in body_names:
            raise CharacterError(f"character '{name}': key {unknown_name('body', body, tuple(body_names))}")
    joints = [model.joint(j) for j in range(model.njnt) if model.body(model.jnt_bodyid[j]).name in body_names]
    if any(not joint.name and joint.type[0] != mujoco.mjtJoint.mjJNT_FREE.value for joint in joints):
        raise CharacterError(f"character '{name}': every joint needs a name")
    if (model.actuator_ctrlnum != 1).any():
        raise CharacterError(f"character '{name}': an actuator takes several targets at once; use one per target")
    if any(not model.actuator(i).name for i in range(model.nu)):
        raise CharacterError(f"character '{name}': every actuator needs a name")
    if model.nhistory:
        raise CharacterError(
            f"character '{name}': an actuator or sensor has a delay (nsample, delay), which a reset cannot forget"
        )
    substeps = _substeps(model.opt.timestep, name)
    if abs(1.0 / (POLICY_HZ * model.opt.timestep) - substeps) > 1e-3:
        raise CharacterError(
            f"character '{name}': timestep {model.opt.timestep} s does not divide the policy's 1/{POLICY_HZ} s"
        )


def _own_flags(spec: mujoco.MjSpec) -> None:
    """What the engines need of any model, whatever it asks for."""
    # Engines notice a diverged world themselves; MuJoCo would quietly begin anew.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    # Contacts are read from sensors.
    spec.option.disableflags &= ~mujoco.mjtDisableBit.mjDSBL_SENSOR.value
    # A sleeping body would not notice that it was put elsewhere.
    spec.option.enableflags &= ~mujoco.mjtEnableBit.mjENBL_SLEEP.value
    # A body without joints has a name as well, that a role may give.
    spec.compiler.fusestatic = False


def _check_roles(spec: mujoco.MjSpec, name: str, root: str, body_names: Sequence[str], **roles: Sequence[str]) -> None:
    """Bodies are named once in each role, the world is no root, and hands are the character's."""
    for role, bodies in roles.items():
        twice = [body for body, count in Counter(bodies).items() if count > 1]
        if twice:
            raise CharacterError(f"character '{name}': {role} name {twice} more than once")
    if root == "world":
        raise CharacterError(f"character '{name}': its root cannot be the world")
    for hand in roles["hands"]:
        if hand not in body_names:
            raise CharacterError(f"character '{name}': hand '{hand}' is neither its root '{root}' nor below it")


def _substeps(timestep: float, name: str) -> int:
    """The number of physics steps per action that comes closest, at least one."""
    if not (math.isfinite(timestep) and timestep > 0) or 1.0 / (POLICY_HZ * timestep) > _MAX_SUBSTEPS:
        least = f"it must be at least {1.0 / (POLICY_HZ * _MAX_SUBSTEPS):.1g} s"
        raise CharacterError(f"character '{name}': timestep is {timestep:g} s, {least}")
    return max(1, round(1.0 / (POLICY_HZ * timestep)))


def _subtree(spec: mujoco.MjSpec, root: str) -> list[str]:
    names = []
    pending = [spec.body(root)]
    while pending:
        body = pending.pop(0)
        names.append(body.name)
        pending[:0] = list(body.bodies)
    return names


def _contact_pairs(objects: list[str], hands: list[str], others: list[str]) -> list[list[tuple[str, str]]]:
    """(hand subtree or body, other body or object) for each pair of the contact graph, in order of CONTACT_PAIRS."""
    return [
        [(f"subtree:{hand}", thing) for thing in objects for hand in hands],
        [(body, thing) for thing in objects for body in others],
        [(f"subtree:{hand}", body) for body in others for hand in hands],
    ]


def _add_pair_sensor(spec: mujoco.MjSpec, first: str, second: str, whole: bool) -> str:
    """whole: the second is an object and counts with everything below it."""
    subtree = first.startswith("subtree:")
    first = first.removeprefix("subtree:")
    name = _new_name(spec, f"contact {first} {second}")
    parts = whole and len(spec.body(second).bodies) > 0
    sensor = spec.add_sensor(name=name, type=_CONTACT, reftype=_SUBTREE if parts else _BODY, refname=second)
    sensor.objtype, sensor.objname = (_SUBTREE if subtree else _BODY), first
    sensor.intprm[:3] = (_FOUND, 0, 1)
    return name


def _add_force_sensor(spec: mujoco.MjSpec, body: str) -> str:
    name = _new_name(spec, f"force {body}")
    sensor = spec.add_sensor(name=name, type=_CONTACT, objtype=_BODY, objname=body)
    sensor.intprm[:3] = (_FOUND_AND_FORCE, _NET_FORCE, 1)
    return name


def _new_name(spec: mujoco.MjSpec, name: str) -> str:
    """The name, or one like it that no sensor has: a model may have sensors of its own."""
    while spec.sensor(name) is not None:
        name += "'"
    return name
