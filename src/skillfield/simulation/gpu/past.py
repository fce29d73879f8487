"""What worlds did before they blew up, kept on the device until someone asks.

Shape letters: E worlds, H remembered steps, W numbers per remembered step (positions, velocities, targets), R records.
"""

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from skillfield.simulation.engine import MAX_SPEED, DivergedWorld
from skillfield.simulation.gpu.counting import Counter

__all__ = ["Past"]

_KEEP_RECORDS = 8
_MAX_NUMBER = wp.constant(1e10)  # where MuJoCo's own check of positions and targets gives up

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _remember(
    clock: wp.array[int],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    ctrl: wp.array2d[float],
    past: wp.array3d[float],
    past_length: wp.array[int],
) -> None:
    """Note every world's state and targets before a step.  [E, W] threads"""
    world, column = wp.tid()
    slot = clock[0] % past.shape[0]
    nq, nv = qpos.shape[1], qvel.shape[1]
    if column < nq:
        past[slot, world, column] = qpos[world, column]
    elif column < nq + nv:
        past[slot, world, column] = qvel[world, column - nq]
    else:
        past[slot, world, column] = ctrl[world, column - nq - nv]
    if column == 0:
        past_length[world] = past_length[world] + 1


@wp.kernel
def _find_broken(
    clock: wp.array[int],
    past: wp.array3d[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    max_speed: float,
    broken: wp.array[wp.bool],
    intact_world: wp.array[int],
) -> None:
    """Which worlds blew up; `intact_world` is -1 for them and the world's number for the others.  [E] threads"""
    world = wp.tid()
    bad = wp.bool(False)
    for i in range(qvel.shape[1]):
        if not (wp.abs(qvel[world, i]) < max_speed):  # true for NaN as well
            bad = True
    for i in range(qpos.shape[1]):
        if not (wp.abs(qpos[world, i]) < _MAX_NUMBER):
            bad = True
    slot = clock[0] % past.shape[0]
    for i in range(past.shape[2]):
        # Warp would quietly make a unit quaternion out of NaN, and go on with a target that no drive can reach.
        if not (wp.abs(past[slot, world, i]) < _MAX_NUMBER):
            bad = True
    broken[world] = bad
    if bad:
        intact_world[world] = -1
    else:
        intact_world[world] = world


@wp.kernel
def _claim_records(
    broken: wp.array[wp.bool],
    clock: wp.array[int],
    past_length: wp.array[int],
    num_remembered: int,
    counters: wp.array[wp.int64],
    num_records: wp.array[int],
    record_env: wp.array[int],
    record_clock: wp.array[int],
    record_length: wp.array[int],
) -> None:
    """Count broken worlds, and give the first of them a record.  [E] threads"""
    world = wp.tid()
    if not broken[world]:
        return
    wp.atomic_add(counters, wp.static(int(Counter.DIVERGED)), wp.int64(1))
    record = wp.atomic_add(num_records, 0, 1)
    if record < record_env.shape[0]:
        record_env[record] = world
        record_clock[record] = clock[0]
        record_length[record] = wp.min(past_length[world], num_remembered)


@wp.kernel
def _copy_records(
    clock: wp.array[int],
    past: wp.array3d[float],
    record_env: wp.array[int],
    record_clock: wp.array[int],
    records: wp.array3d[float],
) -> None:
    """Keep the past of the worlds that got a record in this step.  [R, H, W] threads"""
    record, step, column = wp.tid()
    if record_clock[record] == clock[0]:
        records[record, step, column] = past[step, record_env[record], column]


@wp.kernel
def _roll_back(
    broken: wp.array[wp.bool],
    clock: wp.array[int],
    past: wp.array3d[float],
    rest: wp.array[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    warmstart: wp.array2d[float],
    ctrl: wp.array2d[float],
    act: wp.array2d[float],
) -> None:
    """Return broken worlds to their state before the step, or to rest if even that was not finite.  [E] threads"""
    world = wp.tid()
    if not broken[world]:
        return
    slot = clock[0] % past.shape[0]
    nq, nv = qpos.shape[1], qvel.shape[1]
    finite = wp.bool(True)
    for i in range(nq + nv):
        if not wp.isfinite(past[slot, world, i]):
            finite = False
    for i in range(nq):
        if finite:
            qpos[world, i] = past[slot, world, i]
        else:
            qpos[world, i] = rest[i]
    for i in range(nv):
        if finite:
            qvel[world, i] = past[slot, world, nq + i]
        else:
            qvel[world, i] = 0.0
        warmstart[world, i] = 0.0
    for i in range(ctrl.shape[1]):
        ctrl[world, i] = 0.0
    for i in range(act.shape[1]):
        act[world, i] = 0.0


@wp.kernel
def _tick(clock: wp.array[int]) -> None:
    """One step is over.  [1] thread"""
    clock[0] = clock[0] + 1


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
            _remember,
            dim=(data.nworld, sum(self._widths)),
            inputs=[self._clock, data.qpos, data.qvel, data.ctrl],
            outputs=[self._ring, self._length],
        )

    def find_broken(self, broken: wp.array, intact_world: wp.array) -> None:
        """Device work, after a step: which worlds blew up, or were told or put into nonsense before it."""
        data = self._data
        wp.launch(
            _find_broken,
            dim=data.nworld,
            inputs=[self._clock, self._ring, data.qpos, data.qvel, MAX_SPEED],
            outputs=[broken, intact_world],
        )

    def roll_back(self, broken: wp.array, counters: wp.array) -> None:
        """Device work, after that: return broken worlds to their last good state, and remember how they broke."""
        data, steps = self._data, self._ring.shape[0]
        wp.launch(
            _claim_records,
            dim=data.nworld,
            inputs=[broken, self._clock, self._length, steps],
            outputs=[counters, self._num_records, self._record_env, self._record_clock, self._record_length],
        )
        wp.launch(
            _copy_records,
            dim=self._records.shape,
            inputs=[self._clock, self._ring, self._record_env, self._record_clock],
            outputs=[self._records],
        )
        wp.launch(
            _roll_back,
            dim=data.nworld,
            inputs=[broken, self._clock, self._ring, self._rest],
            outputs=[data.qpos, data.qvel, data.qacc_warmstart, data.ctrl, data.act],
        )
        wp.launch(_tick, dim=1, outputs=[self._clock])

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
