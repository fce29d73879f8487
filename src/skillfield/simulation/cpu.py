"""The CPU engine: MuJoCo's batch, many worlds on a pool of threads."""

import mujoco
import numpy as np
import torch
from mujoco.batch import Batch, SimulationError
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.drives import DrivePositions
from skillfield.characters.physics import POLICY_HZ, bounce_solref
from skillfield.errors import CheckpointError
from skillfield.simulation.engine import MAX_SPEED, DivergedWorld, Engine, SimulationState
from skillfield.simulation.readout import MujocoReadout

__all__ = ["CpuEngine"]

_VELOCITY_STAGE = mujoco.mjtStage.mjSTAGE_VEL.value  # body poses and velocities of the new state, not one substep old
_KEEP_STATES = 32  # states remembered per world, for replaying a divergence
_KEEP_RECORDS = 8
_MAX_TARGET = 1e10  # further targets MuJoCo takes for zero


class CpuEngine(Engine):
    """Thousands of worlds on a few cores; results do not depend on the number of threads."""

    def __init__(self, character: Character, num_envs: int, threads: int = 0) -> None:
        self.character, self.num_envs, self.device = character, num_envs, torch.device("cpu")
        self._num_diverged = 0
        if mujoco.get_mju_user_warning() is None:
            # Diverged worlds are noticed and counted here; MuJoCo would also write MUJOCO_LOG.TXT where we stand.
            mujoco.set_mju_user_warning(lambda _: None)
        model = character.model
        self._batch = Batch(model, num_envs, threads)
        self._qpos, self._qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._ctrl, self._act = self._batch.bind("ctrl"), self._batch.bind("act")
        self._warmstart, self._forces = self._batch.bind("qacc_warmstart"), self._batch.bind("xfrc_applied")
        shown = ("xpos", "xquat", "cvel", "subtree_com", "sensordata")
        self._arrays = {"qpos": self._qpos, "qvel": self._qvel} | {name: self._batch.bind(name) for name in shown}
        self._readout = MujocoReadout(character)
        self._drive_positions = DrivePositions(model)

        self._past = np.zeros((_KEEP_STATES, num_envs, model.nq + model.nv + model.nu))
        self._past_length = np.zeros(num_envs, dtype=int)
        self._pushed = False
        self._step_number = 0
        self._records: list[DivergedWorld] = []
        self._batch.reset()
        self._diverged = np.zeros(num_envs, dtype=bool)
        self.state = self._read()

    def reset(self, envs: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        ids = envs.numpy()
        self._qpos[ids], self._qvel[ids], self._warmstart[ids] = qpos.numpy(), qvel.numpy(), 0.0
        self._forces[ids] = 0.0
        # Contact forces of the first observation are those of a character that holds still.
        self._ctrl[ids], self._act[ids] = (
            self._drive_positions(qpos).numpy(),
            self._drive_positions.memory(qpos).numpy(),
        )
        self._batch.forward(ids)
        self._past_length[ids] = 0
        self._diverged[ids] = False
        for name, value in vars(self._read(ids)).items():
            getattr(self.state, name)[envs] = value

    def reset_where(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        envs = torch.nonzero(mask).squeeze(1)
        if len(envs):
            self.reset(envs, qpos[envs], qvel[envs])

    def step(self, targets: Tensor) -> None:
        self._ctrl[:] = targets.numpy()
        slot = self._past[self._step_number % _KEEP_STATES]
        np.concatenate((self._qpos, self._qvel, self._ctrl), axis=1, out=slot)
        self._past_length += 1
        self._step_number += 1
        try:
            self._batch.step(nstep=self.character.substeps, stage=_VELOCITY_STAGE)
            raised = np.zeros(0, dtype=int)
        except SimulationError as problem:
            raised = problem.ids
        if self._pushed:
            self._forces[:] = 0.0
            self._pushed = False
        broken = ~(np.abs(self._qvel).max(axis=1) < MAX_SPEED)  # true for NaN as well
        broken[raised] = True
        broken |= ~(np.abs(self._ctrl) < _MAX_TARGET).all(axis=1)  # MuJoCo would quietly take zero
        self._diverged = broken
        if not broken.any():
            self.state = self._read()
            return
        shown = self.state
        self._roll_back(np.flatnonzero(broken), slot)
        self.state = self._read()
        # A broken world holds what was shown before the step, its contact forces included.
        where = torch.from_numpy(broken)
        self.state.contact_force_w[where] = shown.contact_force_w[where].nan_to_num(0.0, 0.0, 0.0)

    def push(self, body: int, impulse: np.ndarray) -> None:
        """Push a body of every world through its centre of mass, evenly over the next step.

        body: MuJoCo's id. impulse: newton seconds, world frame.  [3]
        """
        self._forces[:, body, :3] += impulse * POLICY_HZ
        self._pushed = True

    def set_object_mass(self, number: int, mass: float) -> None:
        """Change an object's mass, kilograms, in every world; its inertia follows."""
        body = self.character.object_ids[number]
        masses, inertias = self._batch.expand("body_mass"), self._batch.expand("body_inertia")
        inertias[:, body] *= mass / masses[:, body, None]
        masses[:, body] = mass
        self._batch.set_const()

    def set_object_bounce(self, number: int, restitution: float) -> None:
        """Change how an object bounces off the floor, in every world."""
        model = self.character.model
        pair = model.pair(f"{self.character.object_names[number]}-floor").id
        self._batch.expand("pair_solref")[:, pair, :2] = bounce_solref(restitution, model.opt.timestep)

    def present_model(self) -> mujoco.MjModel:
        """A copy of the model as the first world has it by now."""
        return self._batch.get_model(0)

    def counters(self) -> dict[str, int]:
        return {"diverged": self._num_diverged}

    def take_diverged(self) -> list[DivergedWorld]:
        records, self._records = self._records, []
        return records

    def snapshot(self) -> dict[str, Tensor]:
        # After a step contact forces are one substep old: no state brings them back, so they go along.
        contacts = {name: getattr(self.state, name).clone() for name in ("contact_force_w", "contact_pairs")}
        return contacts | {"integration_state": torch.from_numpy(self._batch.state.copy())}

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        rows = snapshot["integration_state"].cpu().numpy()
        if rows.shape != self._batch.state.shape:
            raise CheckpointError(f"engine state has shape {rows.shape}, this engine needs {self._batch.state.shape}")
        self._batch.state[:] = rows
        self._pushed = bool(self._forces.any())
        self._batch.forward()
        self._past_length[:] = 0
        self._diverged[:] = False
        self.state = self._read()
        self.state.contact_force_w.copy_(snapshot["contact_force_w"])
        self.state.contact_pairs.copy_(snapshot["contact_pairs"])

    def _roll_back(self, ids: np.ndarray, before: np.ndarray) -> None:
        """Return broken worlds to their last good state, and remember how they broke."""
        model = self.character.model
        self._num_diverged += len(ids)
        for env in ids[: _KEEP_RECORDS - len(self._records)]:
            length = min(self._past_length[env], _KEEP_STATES)
            order = [(self._step_number - length + i) % _KEEP_STATES for i in range(length)]
            past = torch.from_numpy(self._past[order, env].copy())
            qpos, qvel, targets = past.split([model.nq, model.nv, model.nu], dim=1)
            self._records.append(DivergedWorld(int(env), qpos, qvel, targets))
        good = before[ids, : model.nq + model.nv]
        finite = np.isfinite(good).all(axis=1, keepdims=True)  # a world may have been reset into nonsense
        good = np.where(finite, good, np.concatenate((model.qpos0, np.zeros(model.nv))))
        self._batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._qpos[ids], self._qvel[ids] = good[:, : model.nq], good[:, model.nq :]
        self._batch.forward(ids)

    def _read(self, ids: np.ndarray | slice = slice(None)) -> SimulationState:
        arrays = {name: torch.from_numpy(bound[ids].astype(np.float32)) for name, bound in self._arrays.items()}
        return self._readout(**arrays, diverged=torch.from_numpy(self._diverged[ids].copy()))
