"""The card beside an exported policy: all that someone needs to know who has never seen this package."""

from dataclasses import asdict
from typing import Any

import mujoco

from skillfield.characters import Character
from skillfield.characters.physics import POLICY_HZ
from skillfield.deployment.controller import MJDATA, Controller
from skillfield.experiments.loading import TrainedRun
from skillfield.experiments.shipped import is_shipped

__all__ = ["CARD_VERSION", "make_card"]

CARD_VERSION = 1

_MEANINGS = {
    "qpos": "m, rad; quaternions w x y z",
    "xpos": "m: origin of every body frame, world frame",
    "xquat": "orientation of every body frame in the world, w x y z",
    "cvel": "rad/s, then m/s: velocity of every body in world axes, taken at the centre of mass of its kinematic tree "
    "(subtree_com of body_rootid), as MuJoCo has it",
    "subtree_com": "m: centre of mass of the subtree of every body, world frame",
    "sensordata": "contact sensors of the model: counts, and net forces that a body exerts, N, world frame",
    "skill": "one-hot over `skills`",
    "history": "what came before, oldest first: `next_history` of the step before; ignored where `first` is true",
    "first": "true where nothing came before: the present state then counts as having always been",
}
_SOURCES = {"skill": "you", "history": "next_history", "first": "you"}
_HISTORY = "root height; bodies but the root, then objects, from the root in heading axes; joint coordinates of qpos"
_TARGETS = "target of every actuator, m or rad: write it to MjData.ctrl and hold it for `substeps` steps"
_LICENCE = "Apache-2.0, as skillfield, which it comes with"
_OWN_LICENCE = "for whoever trained it to say; the terms of its demonstrations and of its origin apply"
_JOINTS = {
    mujoco.mjtJoint.mjJNT_FREE.value: "free",
    mujoco.mjtJoint.mjJNT_BALL.value: "ball",
    mujoco.mjtJoint.mjJNT_SLIDE.value: "slide",
    mujoco.mjtJoint.mjJNT_HINGE.value: "hinge",
}


def make_card(run: TrainedRun, controller: Controller, model: mujoco.MjModel, licence: str | None) -> dict[str, Any]:
    """Everything but what is measured. model: with the keyframes."""
    character = controller.character
    return {
        "card": CARD_VERSION,
        "task": run.config.task,
        "method": run.config.method,
        "seed": run.config.seed,
        "samples": run.state.counters.samples,
        "origin": None if run.config.origin is None else asdict(run.config.origin),
        "licence": licence or (_LICENCE if is_shipped(run.folder) else _OWN_LICENCE),
        "skills": list(controller.skills),
        "policy_hz": POLICY_HZ,
        "timestep": 1.0 / (POLICY_HZ * character.substeps),
        "substeps": character.substeps,
        "loop": "mj_resetDataKeyframe, mj_forward; then at each policy step: run the policy, write ctrl, mj_step "
        "`substeps` times, mj_step1 (which brings poses and velocities up to date; contact forces are those of the "
        "last physics step)",
        "inputs": _inputs(controller),
        "outputs": _outputs(controller),
        "frames": "world: z up, metres, seconds, radians, newtons; quaternions w x y z; heading axes: the world's, "
        "turned about z so that x points where the root's x axis does",
        "history": {"kind": controller.history, "features": _HISTORY if controller.window else None},
        "model": _model(character, model),
        "physics": _physics(model),
    }


def _inputs(controller: Controller) -> dict[str, Any]:
    return {
        name: {
            "shape": ["worlds", *shape],
            "type": "bool" if name == "first" else "float32",
            "from": f"MjData.{name}" if name in MJDATA else _SOURCES[name],
            "meaning": _MEANINGS[name],
        }
        for name, shape in controller.shapes.items()
    }


def _outputs(controller: Controller) -> dict[str, Any]:
    actuators = int(controller.character.model.nu)
    outputs = {"ctrl": {"shape": ["worlds", actuators], "type": "float32", "meaning": _TARGETS}}
    if controller.window is not None:
        meaning = "`history` of the next step"
        outputs["next_history"] = {"shape": ["worlds", *controller.window], "type": "float32", "meaning": meaning}
    return outputs


def _model(character: Character, model: mujoco.MjModel) -> dict[str, Any]:
    """Names in the order of the arrays."""

    def names(count: int, get: Any) -> list[str]:
        return [get(number).name for number in range(count)]

    joints = {
        model.joint(j).name: {
            "type": _JOINTS[int(model.jnt_type[j])],
            "qpos": int(model.jnt_qposadr[j]),
            "qvel": int(model.jnt_dofadr[j]),
        }
        for j in range(model.njnt)
    }
    actuators = {
        model.actuator(i).name: {
            "joint": model.joint(model.actuator_trnid[i, 0]).name,
            "unit": "m" if model.jnt_type[model.actuator_trnid[i, 0]] == mujoco.mjtJoint.mjJNT_SLIDE.value else "rad",
        }
        for i in range(model.nu)
        if model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT.value
    }
    return {
        "character": character.name,
        "root": character.root,
        "objects": list(character.object_names),
        "bodies": names(model.nbody, model.body),
        "joints": joints,
        "actuators": actuators,
        "sensors": {model.sensor(i).name: int(model.sensor_adr[i]) for i in range(model.nsensor)},
        "keyframes": names(model.nkey, model.key),
    }


def _physics(model: mujoco.MjModel) -> dict[str, Any]:
    option = model.opt
    disabled = [
        name.removeprefix("mjDSBL_").lower()
        for name, bit in mujoco.mjtDisableBit.__members__.items()
        if name.startswith("mjDSBL_") and int(option.disableflags) & bit.value
    ]
    return {
        "mujoco": mujoco.__version__,
        "integrator": mujoco.mjtIntegrator(option.integrator).name.removeprefix("mjINT_").lower(),
        "solver": mujoco.mjtSolver(option.solver).name.removeprefix("mjSOL_").lower(),
        "cone": mujoco.mjtCone(option.cone).name.removeprefix("mjCONE_").lower(),
        "iterations": int(option.iterations),
        "ls_iterations": int(option.ls_iterations),
        "tolerance": float(option.tolerance),
        "disabled": disabled,
        "notes": "the drives are PD controllers made stable through the joints' armature: keep integrator, timestep "
        "and armature as they are in the model file",
    }
