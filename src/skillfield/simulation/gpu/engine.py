"""The GPU engine: MuJoCo-Warp, thousands of worlds on one device, a policy step in one CUDA graph."""

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.drives import DrivePositions
from skillfield.errors import CheckpointError
from skillfield.recorded import Recorded
from skillfield.simulation.engine import DivergedWorld, Engine, SimulationState
from skillfield.simulation.gpu.agreement import for_warp, put_model
from skillfield.simulation.gpu.capture import Replay, Workspace
from skillfield.simulation.gpu.counting import Counter, count_limits
from skillfield.simulation.gpu.past import Past
from skillfield.simulation.gpu.readout import Readout, as_ids
from skillfield.simulation.gpu.refresh import Refresher
from skillfield.simulation.gpu.sizes import Buffers, bytes_per_world, check_memory

__all__ = ["WarpEngine"]

_INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION.value


class WarpEngine(Engine):
    """The contract on a GPU: nothing but `counters`, `take_diverged` and `snapshot` ever waits for the device.

    `state` is always the same set of tensors, filled anew by every step. On Warp's CPU device it does the same
    work in plain launches, slowly: that is for tests.
    """

    def __init__(
        self,
        character: Character,
        num_envs: int,
        device: torch.device | str = "cuda",
        buffers: Buffers | None = None,
    ) -> None:
        wp.config.log_level = wp.LOG_WARNING
        wp.init()
        self.character, self.num_envs, self.device = character, num_envs, torch.device(device)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        warp_device = wp.device_from_torch(self.device)
        host_model = for_warp(character.model)
        self.buffers = (buffers or Buffers()).resolved(character.model, num_envs)
        if self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            check_memory(character.name, bytes_per_world(host_model, self.buffers), num_envs, free)
        with wp.ScopedDevice(warp_device):
            self._model = put_model(host_model, character.name)
            self._data = mjw.make_data(
                host_model, nworld=num_envs, nconmax=self.buffers.contacts, njmax=self.buffers.constraints
            )
            self._counters = wp.zeros(len(Counter), dtype=wp.int64)
            self._broken = wp.zeros(num_envs, dtype=wp.bool)
            self._intact = wp.zeros(num_envs, dtype=int)
        self._worlds = as_ids(num_envs, warp_device)
        self._contact_ids = as_ids(self._data.naconmax, warp_device)
        self._readout = Readout(character, num_envs, warp_device)
        self._past = Past(host_model, self._data, self.buffers.past_steps)
        self._refresher = Refresher(host_model, self._model, self._data, self._readout, self._counters, self.buffers)
        self._drive_positions = DrivePositions(character.model, self.device)
        self._rest = torch.tensor(character.model.qpos0, dtype=torch.float32, device=self.device)
        data = self._data
        self._qpos, self._qvel, self._ctrl = (wp.to_torch(each) for each in (data.qpos, data.qvel, data.ctrl))
        self._warmstart, self._act = wp.to_torch(data.qacc_warmstart), wp.to_torch(data.act)
        self._time, self._counts = wp.to_torch(data.time), wp.to_torch(self._counters)
        self.state = self._views()

        self._workspace = workspace = Workspace(self.device)  # the recordings use its memory as long as they live
        self._refresher.choose(torch.arange(num_envs, device=self.device))
        self._refresh = Replay(self._refresher.run, self.device, workspace)
        self._step = Replay(self._simulate, self.device, workspace)
        self._pose = Replay(self._read_poses, self.device, workspace)
        self._write_where = Recorded(self._write_where_now, self.device)
        self._begin()

    def reset(self, envs: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        self._qpos[envs], self._qvel[envs] = qpos, qvel
        for memory in (self._warmstart, self._past.length, self.state.diverged):
            memory[envs] = 0
        # Contact forces of the first observation are those of a character that holds still.
        self._ctrl[envs], self._act[envs] = self._drive_positions(qpos), self._drive_positions.memory(qpos)
        self._refresher.choose(envs)
        self._refresh()

    def reset_where(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        self._write_where(mask, qpos, qvel)
        self._refresh()

    def _write_where_now(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        row = mask.unsqueeze(1)
        for memory, value in ((self._qpos, qpos), (self._qvel, qvel), (self._ctrl, self._drive_positions(qpos))):
            memory.copy_(torch.where(row, value, memory))
        if self._act.shape[1]:
            self._act.copy_(torch.where(row, self._drive_positions.memory(qpos), self._act))
        self._warmstart.masked_fill_(row, 0.0)
        self._past.length.masked_fill_(mask, 0)
        self.state.diverged.masked_fill_(mask, False)
        self._refresher.choose_where(mask)

    def step(self, targets: Tensor) -> None:
        self._ctrl.copy_(targets)
        self._step()

    def counters(self) -> dict[str, int]:
        """Beside `diverged`: worlds, once per physics step, for which a buffer was too small or the solver too short;
        and the most contacts and constraints that a world has needed, contacts as a mean over the worlds."""
        return dict(zip((counter.name.lower() for counter in Counter), self._counts.tolist(), strict=True))

    def take_diverged(self) -> list[DivergedWorld]:
        return self._past.take()

    def snapshot(self) -> dict[str, Tensor]:
        # After a step contact forces are one substep old: no state brings them back, so they go along.
        contacts = {name: getattr(self.state, name).clone() for name in ("contact_force_w", "contact_pairs")}
        width = mujoco.mj_stateSize(self.character.model, _INTEGRATION)
        rows = torch.zeros(self.num_envs, width, device=self.device)
        self._synchronize()
        with wp.ScopedDevice(self._data.qpos.device):
            mjw.get_state(self._model, self._data, wp.from_torch(rows), _INTEGRATION)
        self._synchronize()
        return contacts | {"integration_state": rows}

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        shape = (self.num_envs, mujoco.mj_stateSize(self.character.model, _INTEGRATION))
        rows = snapshot["integration_state"]
        if rows.shape != shape:
            raise CheckpointError(f"engine state has shape {tuple(rows.shape)}, this engine needs {shape}")
        rows = rows.to(self.device, torch.float32).contiguous()
        self._synchronize()
        with wp.ScopedDevice(self._data.qpos.device):
            mjw.set_state(self._model, self._data, wp.from_torch(rows), _INTEGRATION)
        self._synchronize()
        self._pose()
        self._past.length.zero_()
        self.state.diverged.zero_()
        self.state.contact_force_w.copy_(snapshot["contact_force_w"])
        self.state.contact_pairs.copy_(snapshot["contact_pairs"])

    def _simulate(self) -> None:
        """Device work: one policy step."""
        data = self._data
        self._past.remember()
        for _ in range(self.character.substeps):
            mjw.step(self._model, data)
            count_limits(data, self._worlds, self._counters)
        self._past.find_broken(self._broken, self._intact)
        # Forces are those of the last physics step. A broken world keeps the ones from before the policy step.
        self._readout.forces(self._model, data, self._intact, self._contact_ids)
        self._readout.forget_nonsense(self._broken)
        self._past.roll_back(self._broken, self._counters)
        self._read_poses()
        mjw.collision(self._model, data)
        self._readout.touching(data, self._worlds)

    def _read_poses(self) -> None:
        """Device work: body poses and velocities of the present state, not one physics step old."""
        mjw.kinematics(self._model, self._data)
        mjw.com_pos(self._model, self._data)
        mjw.com_vel(self._model, self._data)
        self._readout.bodies(self._data, self._worlds)

    def _begin(self) -> None:
        """Put every world to rest and every count to zero: recording the graphs has moved them."""
        self._qpos.copy_(self._rest.expand_as(self._qpos))
        for memory in (self._qvel, self._ctrl, self._warmstart, self._act, self._time, self._past.length):
            memory.zero_()
        self.state.diverged.zero_()
        self._refresher.choose(torch.arange(self.num_envs, device=self.device))
        self._refresh()
        self._past.take()
        self._counts.zero_()

    def _views(self) -> SimulationState:
        pos, quat, lin_vel, ang_vel, force, pairs = self._readout.tensors()
        return SimulationState.of_poses(
            len(self.character.body_ids),
            pos,
            quat,
            lin_vel,
            ang_vel,
            qpos=self._qpos,
            qvel=self._qvel,
            contact_force_w=force,
            contact_pairs=pairs,
            diverged=wp.to_torch(self._broken),
        )

    def _synchronize(self) -> None:
        """Wait for all work on the device: what is not recorded runs on Warp's own stream, not on PyTorch's."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
