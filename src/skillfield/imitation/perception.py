"""What a character perceives of a state: one place for training, for tests and for exported policies."""

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.imitation.history import history_features
from skillfield.imitation.observations import observation_size, observe
from skillfield.simulation import SimulationState

__all__ = ["Perception"]


class Perception:
    """Hands the right tensors of a state to `observe` and `history_features`."""

    def __init__(self, character: Character, device: torch.device | str = "cpu") -> None:
        self._character = character
        self._root = character.body_names.index(character.root)
        self._joints = character.layout(device).joint_qpos

    def size(self, skills: int) -> int:
        """Width of `observation`."""
        character = self._character
        return observation_size(
            len(character.body_names), len(character.force_bodies), len(character.object_names), skills
        )

    def observation(self, state: SimulationState, condition: Tensor) -> Tensor:
        """What the policy sees of the present. condition: one-hot skill.  [E, S] → [E, obs]"""
        return observe(
            root_pos_w=state.body_pos_w[:, self._root],
            root_quat_w=state.body_quat_w[:, self._root],
            body_pos_w=state.body_pos_w,
            body_quat_w=state.body_quat_w,
            body_lin_vel_w=state.body_lin_vel_w,
            body_ang_vel_w=state.body_ang_vel_w,
            contact_force_w=state.contact_force_w,
            object_pos_w=state.object_pos_w,
            object_quat_w=state.object_quat_w,
            object_lin_vel_w=state.object_lin_vel_w,
            object_ang_vel_w=state.object_ang_vel_w,
            condition=condition,
        )

    def features(self, state: SimulationState) -> Tensor:
        """What is remembered of it.  [E, F]"""
        return history_features(
            state.body_pos_w[:, self._root],
            state.body_quat_w[:, self._root],
            state.body_pos_w,
            state.qpos[:, self._joints],
            state.object_pos_w,
        )
