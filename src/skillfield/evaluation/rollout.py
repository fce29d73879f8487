"""Trials: many executions of a policy at once, recorded for the success rules.

Shape letters: T steps, N trials.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.characters.physics import POLICY_HZ
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reference import Starts
from skillfield.simulation import SimulationState

__all__ = ["Trials", "run_trials"]


@dataclass(frozen=True)
class Trials:
    """What happened in N executions of T steps. World frame, after each step."""

    fps: float
    root_pos_w: Tensor  # [T, N, 3]
    object_pos_w: Tensor  # [T, N, 3] the first object; the root where there is none
    touching: Tensor  # [T, N] bool: object and hand
    alive: Tensor  # [T, N] bool: has neither fallen nor diverged so far, and does not lie in the end

    def only(self, trials: Tensor) -> "Trials":
        """Some of the trials, by a mask over them."""
        return Trials(
            self.fps,
            self.root_pos_w[:, trials],
            self.object_pos_w[:, trials],
            self.touching[:, trials],
            self.alive[:, trials],
        )

    @property
    def num_steps(self) -> int:
        """T."""
        return len(self.root_pos_w)


@torch.no_grad()
def run_trials(
    env: ImitationEnv,
    model: ActorCritic,
    starts: Starts,
    steps: int,
    watch: Callable[[SimulationState], None] | None = None,
) -> Trials:
    """Execute the policy's mean action from the given starts, one per environment, without any reset.

    watch: is shown the state after each step, which an engine may overwrite with the next one.
    """
    env.start(torch.arange(env.num_envs, device=env.device), starts)
    root = env.engine.character.body_names.index(env.engine.character.root)
    recorded: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    alive = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    for _ in range(steps):
        env.advance(model.act(env.observe()))
        state = env.engine.state
        alive = alive & ~state.diverged & ~env.fallen()
        if watch is not None:
            watch(state)
        root_pos_w = state.body_pos_w[:, root].clone()  # an engine may write the next state over this one
        object_pos_w = state.object_pos_w[:, 0].clone() if state.object_pos_w.shape[1] else root_pos_w
        recorded.append((root_pos_w, object_pos_w, state.contact_pairs[:, 0] > 0, alive))
    root_pos_w, object_pos_w, touching, survived = (torch.stack(column) for column in zip(*recorded, strict=True))
    survived[-1] &= ~env.down()
    return Trials(float(POLICY_HZ), root_pos_w, object_pos_w, touching, survived)
