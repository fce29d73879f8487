"""How much room the GPU engine sets aside, and whether it fits.

Warp cannot grow a buffer while it simulates: contacts and constraints beyond its size are dropped. Too large a buffer
costs memory and time, because many kernels run over all of it.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from skillfield.errors import ConfigError, DeviceError

__all__ = ["Buffers", "bytes_per_world", "check_memory"]

_PLENTY = 40
"""Contacts per world beyond which a scene of our kind does not go: a full humanoid on the floor has about 30."""

_MAX_CONTACTS = {
    ("plane", "capsule"): 2,
    ("plane", "cylinder"): 4,
    ("plane", "box"): 4,
    ("plane", "mesh"): 4,
    ("capsule", "capsule"): 2,
    ("capsule", "box"): 2,
    ("box", "box"): 8,
}
"""Most contacts that two shapes can have, where it is neither 1 nor `_MAX_CONTACTS_CONVEX`."""

_MAX_CONTACTS_CONVEX = 4
_ROUND = ("sphere", "ellipsoid")


@dataclass(frozen=True)
class Buffers:
    """Sizes that Warp needs to know beforehand; None takes them from the model."""

    contacts: int | None = None
    """Contacts per world. The room is shared: one world may have more if others have fewer."""
    constraints: int | None = None
    """Constraint rows per world, not shared. A contact with friction takes four (pyramidal) or three (elliptic)."""
    reset_worlds: int | None = None
    """Worlds that a reset computes at a time; as many as there are worlds computes all of them in one go."""
    past_steps: int = 16
    """Steps remembered per world, for replaying a divergence."""

    def resolved(self, model: mujoco.MjModel, num_envs: int) -> "Buffers":
        """The same with every size filled in, with room to spare for the model's rest pose, and checked against it."""
        rest = mujoco.MjData(model)
        mujoco.mj_forward(model, rest)
        contacts = max(min(_most_contacts(model), max(_PLENTY, _num_touching(model))), rest.ncon * 3 // 2)
        contacts = max(1, contacts) if self.contacts is None else self.contacts
        rows = _rows_per_contact(model)
        busiest = max(contacts, min(_most_contacts(model), contacts * 3 // 2))  # rows are not shared among the worlds
        constraints = max(1, busiest * rows + _other_rows(model), rest.nefc * 3 // 2)
        constraints = constraints if self.constraints is None else self.constraints
        slots = max(256, num_envs // 16) if self.reset_worlds is None else self.reset_worlds
        for name, value in (("contacts", contacts), ("constraints", constraints), ("reset_worlds", slots)):
            if value < 1:
                raise ConfigError(f"buffers: {name} is {value}; it must be at least 1")
        if self.past_steps < 1:
            raise ConfigError(f"buffers: past_steps is {self.past_steps}; it must be at least 1")
        if rest.ncon > contacts or rest.nefc > constraints:
            raise ConfigError(
                f"buffers: the rest pose has {rest.ncon} contacts and {rest.nefc} constraints; "
                f"there is room for {contacts} and {constraints}"
            )
        return Buffers(contacts, constraints, min(slots, num_envs), self.past_steps)


def bytes_per_world(model: mujoco.MjModel, buffers: Buffers) -> int:
    """What one world takes on the device: its data, the solver's workspace, its past and its share of the resets.

    Data is measured on one world; the workspace that Warp allocates while it steps is estimated, on the high side.
    """
    assert buffers.contacts is not None
    assert buffers.constraints is not None
    with wp.ScopedDevice("cpu"):
        data = mjw.make_data(model, nworld=1, nconmax=buffers.contacts, njmax=buffers.constraints)
    held = _bytes_of(data) + _bytes_of(data.contact) + _bytes_of(data.efc)
    padded = 16 * (model.nv // 16 + 1)
    newton = model.opt.solver == mujoco.mjtSolver.mjSOL_NEWTON.value
    workspace = padded * padded * (2 if newton else 0) + 16 * padded + 8 * buffers.constraints
    workspace += 4 * model.nC + 16 * buffers.contacts + 12 * model.nbody
    past = buffers.past_steps * (model.nq + model.nv + model.nu)
    return int(1.25 * (held + 4 * workspace)) + 4 * past


def check_memory(name: str, world: int, num_envs: int, free: int) -> None:
    """Refuse more worlds than fit, and say how many would."""
    if world * num_envs > free:
        raise DeviceError(
            f"{num_envs} worlds of '{name}' need about {world * num_envs / 2**30:.1f} GiB of GPU memory "
            f"({world / 2**10:.0f} KiB each); {free / 2**30:.1f} GiB are free, enough for about {free // world} worlds"
        )


def _bytes_of(struct: Any) -> int:
    values = (getattr(struct, field.name) for field in dataclasses.fields(struct))
    return sum(value.capacity for value in values if isinstance(value, wp.array))


def _num_touching(model: mujoco.MjModel) -> int:
    """Shapes that can touch anything."""
    alone = (model.geom_contype == 0) & (model.geom_conaffinity == 0)
    alone[model.pair_geom1] = alone[model.pair_geom2] = False
    return int((~alone).sum())


def _most_contacts(model: mujoco.MjModel) -> int:
    """Contacts if every pair of shapes that may touch did, each as often as it can."""
    kinds = [mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower() for kind in model.geom_type]
    touching = {(min(pair), max(pair)) for pair in zip(model.pair_geom1, model.pair_geom2, strict=True)}
    for first in range(model.ngeom):
        for second in range(first + 1, model.ngeom):
            if _may_touch(model, first, second):
                touching.add((first, second))
    return sum(_pair_contacts(kinds[first], kinds[second]) for first, second in touching)


def _may_touch(model: mujoco.MjModel, first: int, second: int) -> bool:
    wanted = model.geom_contype[first] & model.geom_conaffinity[second]
    wanted |= model.geom_contype[second] & model.geom_conaffinity[first]
    bodies = model.geom_bodyid[[first, second]]
    return bool(wanted) and model.body_weldid[bodies[0]] != model.body_weldid[bodies[1]]


def _pair_contacts(first: str, second: str) -> int:
    if first in _ROUND or second in _ROUND:
        return 1
    return _MAX_CONTACTS.get((first, second), _MAX_CONTACTS.get((second, first), _MAX_CONTACTS_CONVEX))


def _rows_per_contact(model: mujoco.MjModel) -> int:
    condim = int(max([1, *model.geom_condim, *model.pair_dim]))
    pyramidal = model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL.value
    return max(1, 2 * (condim - 1)) if pyramidal else condim


def _other_rows(model: mujoco.MjModel) -> int:
    """Constraint rows that no contact needs: equalities, friction in joints and tendons, and limits."""
    friction = np.count_nonzero(model.dof_frictionloss) + np.count_nonzero(model.tendon_frictionloss)
    limits = np.count_nonzero(model.jnt_limited) + np.count_nonzero(model.tendon_limited)
    return int(6 * model.neq + friction + limits)
