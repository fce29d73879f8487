"""A character's model as Warp's, with every known difference between Warp and MuJoCo put right."""

import copy

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from skillfield.errors import CharacterError

__all__ = ["for_warp", "put_model"]

_PLANE, _CAPSULE = mujoco.mjtGeom.mjGEOM_PLANE.value, mujoco.mjtGeom.mjGEOM_CAPSULE.value
_PASSIVE = [f"{thing}{poly}" for thing in ("jnt_stiffness", "dof_damping", "actuator_damping") for poly in ("", "poly")]
_EXPLICIT = (mujoco.mjtIntegrator.mjINT_EULER.value, mujoco.mjtIntegrator.mjINT_RK4.value)
_UPRIGHT = wp.constant(1e-5)  # a capsule that stands straighter has no direction on the plane

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _turn_tangents(
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


def for_warp(model: mujoco.MjModel) -> mujoco.MjModel:
    """The same physics in the words that Warp understands."""
    model = copy.copy(model)
    # Warp never resets a world by itself and does not know the flag that forbids it.
    model.opt.disableflags &= ~mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    # Two boxes: with this flag Warp takes the collider that MuJoCo takes without it (up to eight contacts, not four).
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD.value
    # Contacts are read by kernels of our own.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR.value
    # Warp would compute their zeros, gravity compensation above all. (With an implicit integrator the flags would also
    # leave out how drives that brake depend on velocity.)
    if model.opt.integrator in _EXPLICIT and not _passive_forces(model):
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SPRING.value | mujoco.mjtDisableBit.mjDSBL_DAMPER.value
    return model


def _passive_forces(model: mujoco.MjModel) -> bool:
    """Whether anything but drives, contacts and limits could push it."""
    counts = (model.ngravcomp, model.ntendon, model.nflex, model.nplugin, model.flg_adhesion)
    medium = (model.opt.density, model.opt.viscosity)
    return any(counts) or any(medium) or any(getattr(model, name).any() for name in _PASSIVE)


def put_model(model: mujoco.MjModel, name: str) -> mjw.Model:
    """What `for_warp` gave, on the current Warp device."""
    try:
        warp_model = mjw.put_model(model)
    except (NotImplementedError, ValueError) as problem:
        raise CharacterError(f"character '{name}' cannot be simulated on the GPU: {problem}") from None
    warp_model.opt.warn_overflow = 0  # counted instead: printing from a kernel is slow
    # Newton's method starts from the last acceleration; the one without contacts, which would only tell where else to
    # start, costs a factorisation of the mass matrix.
    warp_model.opt.run_qacc_smooth = False
    if np.isin((_PLANE, _CAPSULE), model.geom_type).all():
        warp_model.callback.contactfilter = _align_capsules
    return warp_model


def _align_capsules(model: mjw.Model, data: mjw.Data) -> None:
    """Device work, between finding contacts and solving them.

    A capsule on a plane: MuJoCo lays the first axis of friction along the capsule, however steeply it stands. Warp does
    so only below 60 degrees. Pyramidal friction is not the same in all directions, so it matters.
    """
    contact = data.contact
    wp.launch(
        _turn_tangents,
        dim=data.naconmax,
        inputs=[data.nacon, contact.geom, contact.worldid, model.geom_type, data.geom_xmat, _PLANE, _CAPSULE],
        outputs=[contact.frame],
    )
