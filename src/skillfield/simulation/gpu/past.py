"""What worlds did before they blew up, kept on the device until someone asks."""

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from skillfield.simulation.engine import MAX_SPEED, DivergedWorld
from skillfield.simulation.gpu import kernels

__all__ = ["Past"]

_KEEP_RECORDS = 8


class Past:
    """A ring of each world's last states and targets, and copies of it for the first few worlds that broke."""

    def __init__(self, model: mujoco.MjModel, data: mjw.Data, steps: int) -> None:
        self._data, self._widths = data, [model.nq, model.nv, model.nu]
        width = sum(self._widths)
        with wp.ScopedDevice(data.qpos.device):
            self._rest = wp.array(model.qpos0, dtype=float)
            self._ring = wp.zeros((steps, data.nworld, width), dtype=float)
            self._clock, self._num_records = wp.zeros(1, dtype=int), wp.zeros(1, dtype=int)
            self._length = wp.zeros(data.nworld, dtype=int)
            self._records = wp.zeros((_KEEP_RECORDS, steps, width), dtype=float)
            self._record_env, self._record_length = (wp.zeros(_KEEP_RECORDS, dtype=int) for _ in range(2))
            self._record_clock = wp.full(_KEEP_RECORDS, -1, dtype=int)
        self.length: Tensor = wp.to_torch(self._length)  # [E] steps since the last reset, which sets it to zero
        self._num_records_tensor = wp.to_torch(self._num_records)

    def remember(self) -> None:
        """Device work, before a step."""
        data = self._data
        wp.launch(
            kernels.remember,
            dim=(data.nworld, sum(self._widths)),
            inputs=[self._clock, data.qpos, data.qvel, data.ctrl],
            outputs=[self._ring, self._length],
        )

    def find_broken(self, broken: wp.array, intact_world: wp.array) -> None:
        """Device work, after a step: which worlds blew up, or were told or put into nonsense before it."""
        data = self._data
        wp.launch(
            kernels.find_broken,
            dim=data.nworld,
            inputs=[self._clock, self._ring, data.qpos, data.qvel, MAX_SPEED],
            outputs=[broken, intact_world],
        )

    def roll_back(self, broken: wp.array, counters: wp.array) -> None:
        """Device work, after that: return broken worlds to their last good state, and remember how they broke."""
        data, steps = self._data, self._ring.shape[0]
        wp.launch(
            kernels.claim_records,
            dim=data.nworld,
            inputs=[broken, self._clock, self._length, steps],
            outputs=[counters, self._num_records, self._record_env, self._record_clock, self._record_length],
        )
        wp.launch(
            kernels.copy_records,
            dim=self._records.shape,
            inputs=[self._clock, self._ring, self._record_env, self._record_clock],
            outputs=[self._records],
        )
        wp.launch(
            kernels.roll_back,
            dim=data.nworld,
            inputs=[broken, self._clock, self._ring, self._rest],
            outputs=[data.qpos, data.qvel, data.qacc_warmstart, data.ctrl, data.act],
        )
        wp.launch(kernels.tick, dim=1, outputs=[self._clock])

    def take(self) -> list[DivergedWorld]:
        """The records since the last call. Waits for the device."""
        count = min(int(self._num_records_tensor[0]), _KEEP_RECORDS)
        self._num_records_tensor.zero_()
        arrays = (self._record_env, self._record_length, self._record_clock)
        known = zip(*(wp.to_torch(array)[:count].tolist() for array in arrays), strict=True)
        records = wp.to_torch(self._records)[:count].cpu()
        return [
            DivergedWorld(env, *_in_order(records[number], length, clock).split(self._widths, dim=1))
            for number, (env, length, clock) in enumerate(known)
        ]


def _in_order(ring: Tensor, length: int, clock: int) -> Tensor:
    """The last `length` rows of a ring whose newest row was written at `clock`, oldest first."""
    return ring[(torch.arange(clock - length + 1, clock + 1)) % len(ring)].clone()
