"""What is read out of Warp's data after a step: body poses, velocities, contact forces and contact pairs.

Contacts are read from Warp's contact list. Warp has MuJoCo's contact sensors too, but they visit every contact once per
sensor, which is a hundred times for a humanoid, and drop what exceeds a limit per sensor.

Shape letters: E worlds, S slots (worlds of the data that is read, which may be fewer), N bodies and objects, C contacts
of all slots together, F bodies with a force sensor, K contact pairs. `world_of` [S] says which world a slot stands for;
where it is -1 nothing is read out.
"""

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from skillfield.characters import Character

__all__ = ["Readout", "pairs_of_bodies"]

_IN_SOLVER = wp.constant(1)  # the bit of a contact that the solver knows; others exist for distance sensors only
_SUBTREE = mujoco.mjtObj.mjOBJ_XBODY.value

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _read_bodies(
    rows: wp.array[int],
    roots: wp.array[int],
    xpos: wp.array2d[wp.vec3],
    xquat: wp.array2d[wp.quat],
    cvel: wp.array2d[wp.spatial_vector],
    subtree_com: wp.array2d[wp.vec3],
    world_of: wp.array[int],
    pos: wp.array2d[wp.vec3],
    quat: wp.array2d[wp.quat],
    lin_vel: wp.array2d[wp.vec3],
    ang_vel: wp.array2d[wp.vec3],
) -> None:
    """Poses and velocities of the bodies' origins.  [S, N] threads"""
    slot, number = wp.tid()
    world = world_of[slot]
    if world < 0:
        return
    body = rows[number]
    turn = wp.spatial_top(cvel[slot, body])  # MuJoCo's spatial velocity is about the tree's centre of mass
    arm = xpos[slot, body] - subtree_com[slot, roots[number]]
    pos[world, number] = xpos[slot, body]
    quat[world, number] = xquat[slot, body]
    lin_vel[world, number] = wp.spatial_bottom(cvel[slot, body]) + wp.cross(turn, arm)
    ang_vel[world, number] = turn


@wp.kernel
def _clear_forces(world_of: wp.array[int], force: wp.array2d[wp.vec3]) -> None:
    """Forget the forces of the worlds that are about to be read.  [S, F] threads"""
    slot, number = wp.tid()
    if world_of[slot] >= 0:
        force[world_of[slot], number] = wp.vec3(0.0)


@wp.kernel
def _read_forces(
    num_contacts: wp.array[int],
    contact_type: wp.array[int],
    contact_slot: wp.array[int],
    contact_geom: wp.array[wp.vec2i],
    contact_wrench: wp.array[wp.spatial_vector],
    geom_body: wp.array[int],
    force_of_body: wp.array[int],
    world_of: wp.array[int],
    force: wp.array2d[wp.vec3],
) -> None:
    """Add each contact's force to the bodies that have a force sensor.  [C] threads"""
    contact = wp.tid()
    if contact >= num_contacts[0] or (contact_type[contact] & _IN_SOLVER) == 0:
        return
    world = world_of[contact_slot[contact]]
    geoms = contact_geom[contact]
    if world < 0 or geoms[0] < 0 or geoms[1] < 0:
        return
    first, second = force_of_body[geom_body[geoms[0]]], force_of_body[geom_body[geoms[1]]]
    push = wp.spatial_top(contact_wrench[contact])  # on the second body, in world axes
    if first >= 0:
        wp.atomic_sub(force, world, first, push)
    if second >= 0:
        wp.atomic_add(force, world, second, push)


@wp.kernel
def _clean_forces(broken: wp.array[wp.bool], force: wp.array2d[wp.vec3]) -> None:
    """A world that was reset into nonsense has felt nonsense: let it feel nothing.  [E] threads"""
    world = wp.tid()
    if not broken[world]:
        return
    for i in range(force.shape[1]):
        if not wp.isfinite(force[world, i]):
            force[world, i] = wp.vec3(0.0)


@wp.kernel
def _clear_pairs(world_of: wp.array[int], pairs: wp.array2d[float]) -> None:
    """Forget the contact pairs of the worlds that are about to be read.  [S, K] threads"""
    slot, number = wp.tid()
    if world_of[slot] >= 0:
        pairs[world_of[slot], number] = 0.0


@wp.kernel
def _read_pairs(
    num_contacts: wp.array[int],
    contact_type: wp.array[int],
    contact_slot: wp.array[int],
    contact_geom: wp.array[wp.vec2i],
    geom_body: wp.array[int],
    pairs_of_bodies: wp.array2d[int],
    world_of: wp.array[int],
    pairs: wp.array2d[float],
) -> None:
    """Light the pairs of the contact graph that a contact belongs to.  [C] threads"""
    contact = wp.tid()
    if contact >= num_contacts[0] or (contact_type[contact] & _IN_SOLVER) == 0:
        return
    world = world_of[contact_slot[contact]]
    geoms = contact_geom[contact]
    if world < 0 or geoms[0] < 0 or geoms[1] < 0:
        return
    lit = pairs_of_bodies[geom_body[geoms[0]], geom_body[geoms[1]]]
    for i in range(pairs.shape[1]):
        if ((lit >> i) & 1) == 1:
            pairs[world, i] = 1.0


class Readout:
    """The tensors behind `SimulationState`, and the kernels that fill them."""

    def __init__(self, character: Character, num_envs: int, device: wp.Device) -> None:
        model = character.model
        rows = np.array([*character.body_ids, *character.object_ids])
        forces = np.full(model.nbody, -1)
        forces[[model.body(body).id for body in character.force_bodies]] = np.arange(len(character.force_bodies))
        with wp.ScopedDevice(device):
            self._rows = wp.array(rows, dtype=int)
            self._roots = wp.array(model.body_rootid[rows], dtype=int)
            self._geom_body = wp.array(model.geom_bodyid, dtype=int)
            self._force_of_body = wp.array(forces, dtype=int)
            self._pairs_of_bodies = wp.array(pairs_of_bodies(character), dtype=int)
            self.pos = wp.zeros((num_envs, len(rows)), dtype=wp.vec3)
            self.quat = wp.zeros((num_envs, len(rows)), dtype=wp.quat)
            self.lin_vel = wp.zeros((num_envs, len(rows)), dtype=wp.vec3)
            self.ang_vel = wp.zeros((num_envs, len(rows)), dtype=wp.vec3)
            self.force = wp.zeros((num_envs, len(character.force_bodies)), dtype=wp.vec3)
            self.pairs = wp.zeros((num_envs, len(character.pair_sensors)), dtype=float)

    def bodies(self, data: mjw.Data, world_of: wp.array) -> None:
        """Read poses and velocities; positions and velocities of the data must be current."""
        wp.launch(
            _read_bodies,
            dim=(data.nworld, self._rows.size),
            inputs=[self._rows, self._roots, data.xpos, data.xquat, data.cvel, data.subtree_com, world_of],
            outputs=[self.pos, self.quat, self.lin_vel, self.ang_vel],
        )

    def forces(self, model: mjw.Model, data: mjw.Data, world_of: wp.array, contact_ids: wp.array) -> None:
        """Read the contact forces of the last solution. contact_ids: 0, 1, 2, … for all contacts there is room for."""
        wp.launch(_clear_forces, dim=(data.nworld, self.force.shape[1]), inputs=[world_of], outputs=[self.force])
        wrench = wp.empty(data.naconmax, dtype=wp.spatial_vector)
        mjw.contact_force(model, data, contact_ids, True, wrench)
        contact = data.contact
        wp.launch(
            _read_forces,
            dim=data.naconmax,
            inputs=[
                data.nacon,
                contact.type,
                contact.worldid,
                contact.geom,
                wrench,
                self._geom_body,
                self._force_of_body,
                world_of,
            ],
            outputs=[self.force],
        )

    def forget_nonsense(self, broken: wp.array) -> None:
        """Let broken worlds [E] that have felt forces which are no numbers feel none."""
        wp.launch(_clean_forces, dim=broken.size, inputs=[broken], outputs=[self.force])

    def touching(self, data: mjw.Data, world_of: wp.array) -> None:
        """Read the contact pairs; the contact list must be current."""
        wp.launch(_clear_pairs, dim=(data.nworld, self.pairs.shape[1]), inputs=[world_of], outputs=[self.pairs])
        contact = data.contact
        wp.launch(
            _read_pairs,
            dim=data.naconmax,
            inputs=[
                data.nacon,
                contact.type,
                contact.worldid,
                contact.geom,
                self._geom_body,
                self._pairs_of_bodies,
                world_of,
            ],
            outputs=[self.pairs],
        )

    def tensors(self) -> tuple[Tensor, ...]:
        """The same memory as tensors: pos, quat, lin_vel, ang_vel, force, pairs."""
        arrays = (self.pos, self.quat, self.lin_vel, self.ang_vel, self.force, self.pairs)
        return tuple(wp.to_torch(array) for array in arrays)


def pairs_of_bodies(character: Character) -> np.ndarray:
    """For two bodies, which pairs of the contact graph a contact between them lights, one bit each.  [bodies, bodies]

    It says what the character's contact sensors say, which the CPU engine reads.
    """
    model = character.model
    table = np.zeros((model.nbody, model.nbody), dtype=np.int32)
    sensor_at = {int(address): sensor for sensor, address in enumerate(model.sensor_adr)}
    for pair, addresses in enumerate(character.pair_sensors):
        for address in addresses:
            sensor = sensor_at[address]
            one = _group(model, model.sensor_objtype[sensor], model.sensor_objid[sensor])
            other = _group(model, model.sensor_reftype[sensor], model.sensor_refid[sensor])
            both = np.outer(one, other)
            table |= (both | both.T).astype(np.int32) << pair
    return table


def _group(model: mujoco.MjModel, kind: int, body: int) -> np.ndarray:
    """A body, or a body with everything below it.  [bodies] bool"""
    inside = np.arange(model.nbody) == body
    if kind == _SUBTREE:
        for below in range(body + 1, model.nbody):
            inside[below] = inside[model.body_parentid[below]]
    return inside


def as_ids(count: int, device: wp.Device) -> wp.array:
    """0, 1, 2, … as Warp wants it."""
    return wp.array(torch.arange(count).numpy(), dtype=int, device=device)
