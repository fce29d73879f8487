"""A character's model as Warp's, with every known difference between Warp and MuJoCo put right."""

import copy

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from skillfield.errors import CharacterError
from skillfield.simulation.gpu import kernels

__all__ = ["for_warp", "put_model"]

_PLANE, _CAPSULE = mujoco.mjtGeom.mjGEOM_PLANE.value, mujoco.mjtGeom.mjGEOM_CAPSULE.value


def for_warp(model: mujoco.MjModel) -> mujoco.MjModel:
    """The same physics in the words that Warp understands."""
    model = copy.copy(model)
    # Warp never resets a world by itself and does not know the flag that forbids it.
    model.opt.disableflags &= ~mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    # Two boxes: with this flag Warp takes the collider that MuJoCo takes without it (up to eight contacts, not four).
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD.value
    # Contacts are read by kernels of our own.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR.value
    return model


def put_model(model: mujoco.MjModel, name: str) -> mjw.Model:
    """What `for_warp` gave, on the current Warp device."""
    try:
        warp_model = mjw.put_model(model)
    except (NotImplementedError, ValueError) as problem:
        raise CharacterError(f"character '{name}' cannot be simulated on the GPU: {problem}") from None
    warp_model.opt.warn_overflow = 0  # counted instead: printing from a kernel is slow
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
        kernels.align_capsules,
        dim=data.naconmax,
        inputs=[data.nacon, contact.geom, contact.worldid, model.geom_type, data.geom_xmat, _PLANE, _CAPSULE],
        outputs=[contact.frame],
    )
