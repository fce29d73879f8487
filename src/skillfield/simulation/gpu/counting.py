"""What went wrong, counted on the device and read only when someone asks."""

from enum import IntEnum

import mujoco_warp as mjw
import warp as wp

__all__ = ["Counter", "count_limits"]

wp.set_module_options({"enable_backward": False})


class Counter(IntEnum):
    """What is counted on the device. Overflows and limits count worlds once per physics step, peaks are maxima."""

    DIVERGED = 0
    CONTACT_OVERFLOW = 1
    CONSTRAINT_OVERFLOW = 2
    SOLVER_LIMIT = 3
    LINESEARCH_LIMIT = 4
    PEAK_CONTACTS = 5
    PEAK_CONSTRAINTS = 6


_COLLIDER_LIMITS = wp.constant(
    int(mjw.OverflowType.CCD | mjw.OverflowType.HFIELD | mjw.OverflowType.EPA_HORIZON | mjw.OverflowType.NARROWPHASE)
)
_STORAGE_LIMIT = wp.constant(int(mjw.OverflowType.NJMAX_NNZ))
_ITERATION_LIMIT = wp.constant(int(mjw.OverflowType.ITERATIONS))
_LINESEARCH_LIMIT = wp.constant(int(mjw.OverflowType.LS_ITERATIONS))


@wp.kernel
def _count_limits(
    world_of: wp.array[int],
    overflow: wp.array[int],
    num_constraints: wp.array[int],
    num_contacts: wp.array[int],
    num_candidates: wp.array[int],
    max_contacts: int,
    max_constraints: int,
    counters: wp.array[wp.int64],
) -> None:
    """Count buffers that were too small and solvers that ran out of iterations, and forget them.  [S] threads"""
    slot = wp.tid()
    bits = overflow[slot]
    overflow[slot] = 0
    if world_of[slot] < 0:
        return
    full = num_contacts[0] > max_contacts or num_candidates[0] > max_contacts  # one buffer for all worlds
    if full or (bits & _COLLIDER_LIMITS) != 0:
        wp.atomic_add(counters, wp.static(int(Counter.CONTACT_OVERFLOW)), wp.int64(1))
    if num_constraints[slot] > max_constraints or (bits & _STORAGE_LIMIT) != 0:
        wp.atomic_add(counters, wp.static(int(Counter.CONSTRAINT_OVERFLOW)), wp.int64(1))
    if (bits & _ITERATION_LIMIT) != 0:
        wp.atomic_add(counters, wp.static(int(Counter.SOLVER_LIMIT)), wp.int64(1))
    if (bits & _LINESEARCH_LIMIT) != 0:
        wp.atomic_add(counters, wp.static(int(Counter.LINESEARCH_LIMIT)), wp.int64(1))
    constraints = wp.int64(num_constraints[slot])
    if constraints > counters[wp.static(int(Counter.PEAK_CONSTRAINTS))]:
        wp.atomic_max(counters, wp.static(int(Counter.PEAK_CONSTRAINTS)), constraints)
    used = wp.max(num_contacts[0], num_candidates[0])
    contacts = wp.int64((used + overflow.shape[0] - 1) / overflow.shape[0])  # per world, rounded up
    if contacts > counters[wp.static(int(Counter.PEAK_CONTACTS))]:
        wp.atomic_max(counters, wp.static(int(Counter.PEAK_CONTACTS)), contacts)


def count_limits(data: mjw.Data, world_of: wp.array, counters: wp.array) -> None:
    """Device work: note what the last physics step had no room or no time for. world_of: as in `Readout`."""
    wp.launch(
        _count_limits,
        dim=data.nworld,
        inputs=[world_of, data.overflow, data.nefc, data.nacon, data.ncollision, data.naconmax, data.njmax],
        outputs=[counters],
    )
