"""Present states beside their references: what the reward is made of.

Shape letters: E environments, O objects.
"""

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.imitation.anchoring import Anchor
from skillfield.imitation.config import EnvConfig
from skillfield.imitation.rewards import contact_graph_error, deepmimic_reward, skillmimic_reward
from skillfield.reference.kinematics import Kinematics, tracking_exponent
from skillfield.reference.motion import ReferenceMotion
from skillfield.simulation import Engine, SimulationState

__all__ = ["Comparison", "kinematics_of"]


def kinematics_of(state: SimulationState, key: Tensor, layout: Layout) -> Kinematics:
    """Simulated states as references are given. key: numbers of the key bodies.  [E]"""
    return Kinematics(
        key_pos_w=state.body_pos_w[:, key],
        key_vel_w=state.body_lin_vel_w[:, key],
        qpos=state.qpos,
        joint_vel=state.qvel[:, layout.joint_dofs],
        object_pos_w=state.object_pos_w,
        object_quat_w=state.object_quat_w,
        object_lin_vel_w=state.object_lin_vel_w,
        object_ang_vel_w=state.object_ang_vel_w,
    )


class Comparison:
    """Compares every environment with a frame of its reference, from where its anchor is."""

    def __init__(self, engine: Engine, motion: ReferenceMotion, config: EnvConfig) -> None:
        self._engine, self._motion, self._config = engine, motion, config
        self._layout = engine.character.layout(engine.device)
        self._key = torch.tensor(engine.character.key_body_index, device=engine.device)
        self.num_offsets = 3 + 3 * len(engine.character.object_names)
        self.anchor = Anchor(motion, self._layout, engine.num_envs, anywhere=config.carries)

    def current(self) -> Kinematics:
        """The present state as it is compared.  [E]"""
        state = kinematics_of(self._engine.state, self._key, self._layout)
        return self.anchor.moved(state) if self.anchor.needed else state

    def reward(self, current: Kinematics, reference: Kinematics, row: Tensor, away: Tensor) -> Tensor:
        """How well states imitate the reference in these rows; the body alone where objects are away.  [E]"""
        if self._config.reward == "dm":
            return deepmimic_reward(current, reference, self._config.deepmimic, self._layout, away)
        return self._product(current, reference, row, away)

    def earned(self, row: Tensor, away: Tensor) -> Tensor:
        """SkillMimic's product, whatever the reward is: DeepMimic's sum is never nothing, so it cannot say who has lost
        its demonstration.  [E]"""
        return self._product(self.current(), self._motion.kinematics(row), row, away)

    def _product(self, current: Kinematics, reference: Kinematics, row: Tensor, away: Tensor) -> Tensor:
        config = self._config
        tracking = tracking_exponent(current, reference, config.weights, self._layout, away)
        wanted = self._motion.contact_pairs[row]
        contacts = contact_graph_error(self._engine.state.contact_pairs, wanted, config.contact_weights)
        return skillmimic_reward(tracking, contacts.masked_fill(away, 0.0))

    def offsets(self, row: Tensor) -> Tensor:
        """From where the body and each object are to where the reference has them, on average over the key bodies.

        [E] → [E, 3 + 3 O]
        """
        current, reference = self.current(), self._motion.kinematics(row)
        body = (reference.key_pos_w - current.key_pos_w).mean(dim=1)
        return torch.cat((body, (reference.object_pos_w - current.object_pos_w).flatten(1)), dim=1)
