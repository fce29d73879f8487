"""What the GPU engine computes beside physics, as Warp kernels: reading states out, counting, rolling back.

Shape letters: E worlds, S slots (worlds of the data that is read, which may be fewer), N bodies and objects, C contacts
of all slots together, H remembered steps, W numbers per remembered step (positions, velocities, targets), R records.
`world_of` [S] says which world a slot stands for; where it is -1 nothing is read out.
"""

from enum import IntEnum

import mujoco_warp as mjw
import warp as wp

__all__ = [
    "Counter",
    "align_capsules",
    "begin_slots",
    "claim_records",
    "clean_contacts",
    "clear_contacts",
    "copy_records",
    "count_limits",
    "fill_slots",
    "find_broken",
    "next_slots",
    "read_bodies",
    "read_contacts",
    "remember",
    "roll_back",
    "tick",
]

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
_IN_SOLVER = wp.constant(1)  # the bit of a contact that the solver knows; others exist for distance sensors only
_UPRIGHT = wp.constant(1e-5)  # a capsule that stands straighter has no direction on the plane
_MAX_POSITION = wp.constant(1e10)  # where MuJoCo's own check of positions gives up


@wp.kernel
def remember(
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
def tick(clock: wp.array[int]) -> None:
    """One step is over.  [1] thread"""
    clock[0] = clock[0] + 1


@wp.kernel
def find_broken(
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
        if not (wp.abs(qpos[world, i]) < _MAX_POSITION):
            bad = True
    slot = clock[0] % past.shape[0]
    for i in range(past.shape[2]):
        if not wp.isfinite(past[slot, world, i]):  # Warp would quietly make a unit quaternion out of NaN
            bad = True
    broken[world] = bad
    if bad:
        intact_world[world] = -1
    else:
        intact_world[world] = world


@wp.kernel
def claim_records(
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
def copy_records(
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
def roll_back(
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
def read_bodies(
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
def align_capsules(
    num_contacts: wp.array[int],
    contact_geom: wp.array[wp.vec2i],
    contact_slot: wp.array[int],
    geom_type: wp.array[int],
    geom_xmat: wp.array2d[wp.mat33],
    plane: int,
    capsule: int,
    frame: wp.array[wp.mat33],
) -> None:
    """Where a capsule touches a plane, turn the tangents so that the first follows the capsule.  [C] threads"""
    contact = wp.tid()
    if contact >= num_contacts[0]:
        return
    geoms = contact_geom[contact]
    if geoms[0] < 0 or geoms[1] < 0 or geom_type[geoms[0]] != plane or geom_type[geoms[1]] != capsule:
        return
    turn = geom_xmat[contact_slot[contact], geoms[1]]
    axis = wp.vec3(turn[0, 2], turn[1, 2], turn[2, 2])
    normal = wp.vec3(frame[contact][0, 0], frame[contact][0, 1], frame[contact][0, 2])
    along = axis - wp.dot(axis, normal) * normal
    if wp.length(along) > _UPRIGHT:
        along = wp.normalize(along)
        across = wp.cross(normal, along)
        frame[contact] = wp.matrix_from_rows(normal, along, across)


@wp.kernel
def clean_contacts(broken: wp.array[wp.bool], force: wp.array2d[wp.vec3]) -> None:
    """A world that was reset into nonsense has felt nonsense: let it feel nothing.  [E] threads"""
    world = wp.tid()
    if not broken[world]:
        return
    for i in range(force.shape[1]):
        if not wp.isfinite(force[world, i]):
            force[world, i] = wp.vec3(0.0)


@wp.kernel
def clear_contacts(world_of: wp.array[int], force: wp.array2d[wp.vec3], pairs: wp.array2d[float]) -> None:
    """Forget the contacts of the worlds that are about to be read.  [S] threads"""
    world = world_of[wp.tid()]
    if world < 0:
        return
    for i in range(force.shape[1]):
        force[world, i] = wp.vec3(0.0)
    for i in range(pairs.shape[1]):
        pairs[world, i] = 0.0


@wp.kernel
def read_contacts(
    num_contacts: wp.array[int],
    contact_type: wp.array[int],
    contact_slot: wp.array[int],
    contact_geom: wp.array[wp.vec2i],
    contact_wrench: wp.array[wp.spatial_vector],
    geom_body: wp.array[int],
    force_of_body: wp.array[int],
    pairs_of_bodies: wp.array2d[int],
    world_of: wp.array[int],
    force: wp.array2d[wp.vec3],
    pairs: wp.array2d[float],
) -> None:
    """Add each contact's force to the bodies that have a force sensor, and light its pair of the graph.  [C] threads"""
    contact = wp.tid()
    if contact >= num_contacts[0] or (contact_type[contact] & _IN_SOLVER) == 0:
        return
    world = world_of[contact_slot[contact]]
    geoms = contact_geom[contact]
    if world < 0 or geoms[0] < 0 or geoms[1] < 0:
        return
    first, second = geom_body[geoms[0]], geom_body[geoms[1]]
    push = wp.spatial_top(contact_wrench[contact])  # on the second body, in world axes
    if force_of_body[first] >= 0:
        wp.atomic_sub(force, world, force_of_body[first], push)
    if force_of_body[second] >= 0:
        wp.atomic_add(force, world, force_of_body[second], push)
    lit = pairs_of_bodies[first, second]
    for i in range(pairs.shape[1]):
        if ((lit >> i) & 1) == 1:
            pairs[world, i] = 1.0


@wp.kernel
def count_limits(
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


@wp.kernel
def begin_slots(num_chosen: wp.array[int], first: wp.array[int], pending: wp.array[int]) -> None:
    """Start at the first of the chosen worlds, if there is one.  [1] thread"""
    first[0] = 0
    pending[0] = wp.where(num_chosen[0] > 0, 1, 0)


@wp.kernel
def fill_slots(
    chosen: wp.array[int],
    num_chosen: wp.array[int],
    first: wp.array[int],
    rest: wp.array[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    ctrl: wp.array2d[float],
    world_of: wp.array[int],
    slot_qpos: wp.array2d[float],
    slot_qvel: wp.array2d[float],
    slot_ctrl: wp.array2d[float],
    slot_warmstart: wp.array2d[float],
) -> None:
    """Lay the next of the chosen worlds into the slots; slots left over rest.  [S, W] threads"""
    slot, column = wp.tid()
    at = first[0] + slot
    nq, nv = qpos.shape[1], qvel.shape[1]
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
        slot_warmstart[slot, column - nq] = 0.0
    elif world >= 0:
        slot_ctrl[slot, column - nq - nv] = ctrl[world, column - nq - nv]
    else:
        slot_ctrl[slot, column - nq - nv] = 0.0


@wp.kernel
def next_slots(num_slots: int, num_chosen: wp.array[int], first: wp.array[int], pending: wp.array[int]) -> None:
    """Go on behind the slots that are done.  [1] thread"""
    first[0] = first[0] + num_slots
    pending[0] = wp.where(first[0] < num_chosen[0], 1, 0)
