"""What is read out of Warp's data after a step: body poses, velocities, contact forces and contact pairs.

Contacts are read from Warp's contact list. Warp has MuJoCo's contact sensors too, but they visit every contact once per
sensor, which is a hundred times for a humanoid, and drop what exceeds a limit per sensor.
"""

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from skillfield.characters import Character
from skillfield.simulation.gpu import kernels

__all__ = ["Readout", "pairs_of_bodies"]

_SUBTREE = mujoco.mjtObj.mjOBJ_XBODY.value


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
            kernels.read_bodies,
            dim=(data.nworld, self._rows.size),
            inputs=[self._rows, self._roots, data.xpos, data.xquat, data.cvel, data.subtree_com, world_of],
            outputs=[self.pos, self.quat, self.lin_vel, self.ang_vel],
        )

    def contacts(self, model: mjw.Model, data: mjw.Data, world_of: wp.array, contact_ids: wp.array) -> None:
        """Read the contacts of the last solution. contact_ids: 0, 1, 2, … for every contact there is room for."""
        wp.launch(kernels.clear_contacts, dim=data.nworld, inputs=[world_of], outputs=[self.force, self.pairs])
        wrench = wp.empty(data.naconmax, dtype=wp.spatial_vector)
        mjw.contact_force(model, data, contact_ids, True, wrench)
        contact = data.contact
        wp.launch(
            kernels.read_contacts,
            dim=data.naconmax,
            inputs=[
                data.nacon,
                contact.type,
                contact.worldid,
                contact.geom,
                wrench,
                self._geom_body,
                self._force_of_body,
                self._pairs_of_bodies,
                world_of,
            ],
            outputs=[self.force, self.pairs],
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
