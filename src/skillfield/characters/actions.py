"""From what a policy says, numbers in [-1, 1], to what the drives are told, targets in metres and radians.

Shape letters: E environments, A actions, U actuators, Q position coordinates.
"""

from dataclasses import dataclass

import mujoco
import torch
from torch import Tensor

from skillfield.characters.drives import driven_joints, holding_places, seeks_place
from skillfield.errors import CharacterError, unknown_name

__all__ = ["Action", "ActionMap", "default_actions"]


@dataclass(frozen=True)
class Action:
    """One number of the policy: `target = neutral + scale · action`, from the drive's present place if `relative`."""

    name: str
    actuators: tuple[str, ...]
    scale: float
    neutral: float = 0.0
    relative: bool = False
    low: float = -float("inf")
    high: float = float("inf")


def default_actions(model: mujoco.MjModel) -> tuple[Action, ...]:
    """One action per actuator that spans its control range, or ±π where it has none (the paper's targets)."""
    actions = []
    for index in range(model.nu):
        name = model.actuator(index).name
        low, high = model.actuator_ctrlrange[index] if model.actuator_ctrllimited[index] else (-torch.pi, torch.pi)
        actions.append(Action(name, (name,), scale=float(high - low) / 2, neutral=float(high + low) / 2))
    return tuple(actions)


class ActionMap:
    """The table of actions as tensors, so that a whole batch maps in one go."""

    def __init__(self, model: mujoco.MjModel, actions: tuple[Action, ...], device: torch.device | str = "cpu") -> None:
        known = [model.actuator(i).name for i in range(model.nu)]
        driven: dict[int, tuple[int, Action]] = {}
        for index, action in enumerate(actions):
            for name in action.actuators:
                if name not in known:
                    raise CharacterError(f"action '{action.name}': {unknown_name('actuator', name, known)}")
                actuator = known.index(name)
                if actuator in driven:
                    raise CharacterError(f"actuator '{name}' is driven by two actions")
                driven[actuator] = (index, action)
        missing = [model.actuator(i).name for i in range(model.nu) if i not in driven]
        if missing:
            raise CharacterError(f"actuators {missing} are driven by no action")
        rows = [driven[i] for i in range(model.nu)]

        def column(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        self.num_actions = len(actions)
        self._action = torch.tensor([index for index, _ in rows], dtype=torch.long, device=device)  # [U]
        self._scale = column([action.scale for _, action in rows])
        factor, offset = holding_places(model)
        self._neutral = column([action.neutral + action.relative * offset[i] for i, (_, action) in enumerate(rows)])
        self._low = column([action.low for _, action in rows])
        self._high = column([action.high for _, action in rows])
        self._relative = column([float(action.relative) for _, action in rows])
        self._reach = self._relative * column((factor * model.actuator_gear[:, 0]).tolist())
        addresses = [_qpos_address(model, i, action) for i, (_, action) in enumerate(rows)]
        self._qpos = torch.tensor(addresses, dtype=torch.long, device=device)

    def targets(self, actions: Tensor, qpos: Tensor) -> Tensor:
        """Targets of the drives for actions [E, A] taken in positions [E, Q].  [E, U]"""
        asked = self._neutral + self._scale * actions.clamp(-1.0, 1.0)[:, self._action]
        return (asked + self._reach * qpos[:, self._qpos]).clamp(self._low, self._high)

    def actions(self, targets: Tensor, qpos: Tensor | None = None) -> Tensor:
        """The actions that ask for these targets [E, U], as well as actions can, in positions [E, Q]; without those,
        relative ones stay zero.  [E, A]"""
        if qpos is None:
            wanted = (targets - self._neutral) * (1.0 - self._relative)
        else:
            wanted = targets - self._neutral - self._reach * qpos[:, self._qpos]
        wanted = (wanted / self._scale).clamp(-1.0, 1.0)
        drives = torch.zeros(self.num_actions, device=wanted.device).index_add_(
            0, self._action, torch.ones_like(self._scale)
        )
        total = torch.zeros(len(targets), self.num_actions, device=wanted.device).index_add_(1, self._action, wanted)
        return total / drives.clamp_min(1)


def _qpos_address(model: mujoco.MjModel, actuator: int, action: Action) -> int:
    """Where the driven joint's position lies; only a relative action on a slide or hinge reads it."""
    joint_id = int(driven_joints(model)[actuator])
    scalar = joint_id >= 0 and model.jnt_type[joint_id] in (
        mujoco.mjtJoint.mjJNT_SLIDE.value,
        mujoco.mjtJoint.mjJNT_HINGE.value,
    )
    if action.relative and not scalar:
        raise CharacterError(f"action '{action.name}' is relative, but its actuator drives no slide or hinge joint")
    if action.relative and not seeks_place(model)[actuator]:
        raise CharacterError(
            f"action '{action.name}' is relative, but its actuator seeks no place: it is no position drive"
        )
    return int(model.jnt_qposadr[joint_id]) if scalar else 0
