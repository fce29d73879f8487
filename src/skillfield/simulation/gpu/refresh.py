"""Poses, velocities and contacts of worlds that were just written, without a glance at which they are.

Which worlds are reset is known to the device only. Computing all of them would cost as much as half a policy step,
after every step; so the chosen ones are gathered into a smaller set of worlds, as often as it takes, in a loop that
the device runs by itself.

Shape letters: E worlds, S slots, W numbers of a state (positions, velocities, targets, drives' memory).
"""

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from skillfield.simulation.gpu.counting import count_limits
from skillfield.simulation.gpu.readout import Readout, as_ids
from skillfield.simulation.gpu.sizes import Buffers

__all__ = ["Refresher"]

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _begin_slots(num_chosen: wp.array[int], first: wp.array[int], pending: wp.array[int]) -> None:
    """Start at the first of the chosen worlds, if there is one.  [1] thread"""
    first[0] = 0
    pending[0] = wp.where(num_chosen[0] > 0, 1, 0)


@wp.kernel
def _fill_slots(
    chosen: wp.array[int],
    num_chosen: wp.array[int],
    first: wp.array[int],
    rest: wp.array[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    ctrl: wp.array2d[float],
    act: wp.array2d[float],
    world_of: wp.array[int],
    slot_qpos: wp.array2d[float],
    slot_qvel: wp.array2d[float],
    slot_ctrl: wp.array2d[float],
    slot_act: wp.array2d[float],
) -> None:
    """Lay the next of the chosen worlds into the slots; slots left over rest.  [S, W] threads"""
    slot, column = wp.tid()
    at = first[0] + slot
    nq, nv, nu = qpos.shape[1], qvel.shape[1], ctrl.shape[1]
    world = wp.int32(-1)
    if at < num_chosen[0]:
        world = chosen[at]
    if column == 0:
        world_of[slot] = world
    if column < nq:
        if world >= 0:
            slot_qpos[slot, column] = qpos[world, column]
        else:
            slot_qpos[slot, column] = rest[column]
    elif column < nq + nv:
        if world >= 0:
            slot_qvel[slot, column - nq] = qvel[world, column - nq]
        else:
            slot_qvel[slot, column - nq] = 0.0
    elif column < nq + nv + nu:
        if world >= 0:
            slot_ctrl[slot, column - nq - nv] = ctrl[world, column - nq - nv]
        else:
            slot_ctrl[slot, column - nq - nv] = 0.0
    elif world >= 0:
        slot_act[slot, column - nq - nv - nu] = act[world, column - nq - nv - nu]
    else:
        slot_act[slot, column - nq - nv - nu] = 0.0


@wp.kernel
def _next_slots(num_slots: int, num_chosen: wp.array[int], first: wp.array[int], pending: wp.array[int]) -> None:
    """Go on behind the slots that are done.  [1] thread"""
    first[0] = first[0] + num_slots
    pending[0] = wp.where(first[0] < num_chosen[0], 1, 0)


class Refresher:
    """Runs forward dynamics for some worlds and reads them out; the others keep every bit."""

    def __init__(
        self,
        host_model: mujoco.MjModel,
        model: mjw.Model,
        data: mjw.Data,
        readout: Readout,
        counters: wp.array,
        buffers: Buffers,
    ) -> None:
        """data: the worlds that are simulated; with as many slots as worlds it is used itself."""
        device, num_envs = data.qpos.device, data.nworld
        self._model, self._data, self._readout, self._counters = model, data, readout, counters
        assert buffers.reset_worlds is not None
        self._in_place = buffers.reset_worlds >= num_envs
        self._slots = data
        with wp.ScopedDevice(device):
            if not self._in_place:
                self._slots = mjw.make_data(
                    host_model, nworld=buffers.reset_worlds, nconmax=buffers.contacts, njmax=buffers.constraints
                )
            self._rest = wp.array(host_model.qpos0, dtype=float)
            self._world_of = wp.full(self._slots.nworld, -1, dtype=int)
            self._chosen = wp.zeros(num_envs + 1, dtype=int)  # the last place takes what was not chosen
            self._num_chosen, self._first, self._pending = (wp.zeros(1, dtype=int) for _ in range(3))
        self._contact_ids = as_ids(self._slots.naconmax, device)
        self._numbers = torch.arange(num_envs, device=wp.device_to_torch(device), dtype=torch.int32)
        self._chosen_tensor, self._num_chosen_tensor = wp.to_torch(self._chosen), wp.to_torch(self._num_chosen)
        self._world_of_tensor = wp.to_torch(self._world_of)

    def choose(self, envs: Tensor) -> None:
        """Take these worlds."""
        if self._in_place:
            self._world_of_tensor.fill_(-1)
            self._world_of_tensor[envs] = envs.int()
        else:
            self._chosen_tensor[: len(envs)] = envs
            self._num_chosen_tensor.fill_(len(envs))

    def choose_where(self, mask: Tensor) -> None:
        """Take the worlds of a mask [E]."""
        if self._in_place:
            self._world_of_tensor.copy_(torch.where(mask, self._numbers, -1))
        else:
            count = mask.cumsum(0)
            place = torch.where(mask, count - 1, len(mask))
            self._chosen_tensor.scatter_(0, place, self._numbers)
            self._num_chosen_tensor.copy_(count[-1:])

    def run(self) -> None:
        """Device work: refresh what was chosen."""
        if self._in_place:
            self._forward()
            return
        wp.launch(_begin_slots, dim=1, inputs=[self._num_chosen], outputs=[self._first, self._pending])
        wp.capture_while(self._pending, while_body=self._pass)

    def _pass(self) -> None:
        data, slots = self._data, self._slots
        state = [data.qpos, data.qvel, data.ctrl, data.act]
        wp.launch(
            _fill_slots,
            dim=(slots.nworld, sum(array.shape[1] for array in state)),
            inputs=[self._chosen, self._num_chosen, self._first, self._rest, *state],
            outputs=[self._world_of, slots.qpos, slots.qvel, slots.ctrl, slots.act],
        )
        self._forward()
        wp.launch(
            _next_slots,
            dim=1,
            inputs=[slots.nworld, self._num_chosen],
            outputs=[self._first, self._pending],
        )

    def _forward(self) -> None:
        slots = self._slots
        mjw.forward(self._model, slots)
        self._readout.forces(self._model, slots, self._world_of, self._contact_ids)
        self._readout.touching(slots, self._world_of)
        self._readout.bodies(slots, self._world_of)
        count_limits(slots, self._world_of, self._counters)
