"""The contract between everything that learns and the engine that simulates.

An engine holds E worlds of one character. Tensors in, tensors out; the same results from every engine.
Shape letters: E worlds, B bodies of the character, O objects, F bodies with a force sensor, K contact pairs,
Q position coordinates, D degrees of freedom, U actuators.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.characters import Character

__all__ = ["MAX_SPEED", "DivergedWorld", "Engine", "SimulationState"]

MAX_SPEED = 1e3
"""m/s or rad/s; anything faster is a numerical explosion."""


@dataclass
class SimulationState:
    """What can be read after a reset or a step. World frame, SI units, quaternions w, x, y, z.

    An engine may overwrite these tensors with the next step: what must outlive it is copied, for example by `rows`.
    """

    qpos: Tensor  # [E, Q]
    qvel: Tensor  # [E, D]
    body_pos_w: Tensor  # [E, B, 3]
    body_quat_w: Tensor  # [E, B, 4]
    body_lin_vel_w: Tensor  # [E, B, 3]
    body_ang_vel_w: Tensor  # [E, B, 3]
    object_pos_w: Tensor  # [E, O, 3]
    object_quat_w: Tensor  # [E, O, 4]
    object_lin_vel_w: Tensor  # [E, O, 3]
    object_ang_vel_w: Tensor  # [E, O, 3]
    contact_force_w: Tensor  # [E, F, 3] net force on each force body
    contact_pairs: Tensor  # [E, K] 1 where the groups of the pair touch
    diverged: Tensor  # [E] bool: the last step blew this world up; it holds its state from before that step

    @staticmethod
    def of_poses(
        bodies: int,
        pos: Tensor,
        quat: Tensor,
        lin_vel: Tensor,
        ang_vel: Tensor,
        *,
        qpos: Tensor,
        qvel: Tensor,
        contact_force_w: Tensor,
        contact_pairs: Tensor,
        diverged: Tensor,
    ) -> "SimulationState":
        """From poses and velocities of all bodies and, after the first so many, all objects.  [E, B + O, …]"""
        return SimulationState(
            qpos=qpos,
            qvel=qvel,
            body_pos_w=pos[:, :bodies],
            body_quat_w=quat[:, :bodies],
            body_lin_vel_w=lin_vel[:, :bodies],
            body_ang_vel_w=ang_vel[:, :bodies],
            object_pos_w=pos[:, bodies:],
            object_quat_w=quat[:, bodies:],
            object_lin_vel_w=lin_vel[:, bodies:],
            object_ang_vel_w=ang_vel[:, bodies:],
            contact_force_w=contact_force_w,
            contact_pairs=contact_pairs,
            diverged=diverged,
        )

    def rows(self, envs: Tensor) -> "SimulationState":
        """The same state for a few worlds only."""
        return SimulationState(**{name: value[envs] for name, value in vars(self).items()})


@dataclass(frozen=True)
class DivergedWorld:
    """The last states of a world that blew up, oldest first, and the targets that followed each: enough to replay."""

    env: int
    qpos: Tensor  # [H, Q]
    qvel: Tensor  # [H, D]
    targets: Tensor  # [H, U]


class Engine(ABC):
    """E worlds of one character, stepped together at the policy's rate."""

    character: Character
    num_envs: int
    device: torch.device
    state: SimulationState

    @abstractmethod
    def reset(self, envs: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Put some worlds into given states. `state` is true for them at once: kinematics, velocities and contacts.

        envs: world numbers, sorted and unique.  [n]
        qpos, qvel: [n, Q], [n, D]
        """

    @abstractmethod
    def reset_where(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """The same for the worlds that a mask names; rows of the others are ignored. Never waits for the device.

        mask: [E] bool
        qpos, qvel: [E, Q], [E, D]
        """

    @abstractmethod
    def step(self, targets: Tensor) -> None:
        """Hold the drives' targets [E, U] for one policy step and simulate it."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """What went wrong since the engine was made, by name; `diverged` counts worlds that blew up.

        Waits for the device, so ask once per update and not once per step.
        """

    @property
    def num_diverged(self) -> int:
        """How many worlds have blown up since the engine was made."""
        return self.counters()["diverged"]

    @abstractmethod
    def take_diverged(self) -> list[DivergedWorld]:
        """Records of worlds that blew up since the last call, at most a few, for replay."""

    @abstractmethod
    def snapshot(self) -> dict[str, Tensor]:
        """Everything needed to go on from here bit for bit."""

    @abstractmethod
    def restore(self, snapshot: dict[str, Tensor]) -> None:
        """Go on from a snapshot of an engine of the same character and size."""
