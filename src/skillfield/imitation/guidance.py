"""What a guide would do in every environment: what an untrained policy is shown.

Shape letters: E environments, A actions.
"""

from torch import Tensor

from skillfield.imitation.env import ImitationEnv
from skillfield.reference.guide import Guide

__all__ = ["Guidance"]


class Guidance:
    """The guide's actions in the present states of an environment."""

    def __init__(self, env: ImitationEnv) -> None:
        character = env.engine.character
        self._env, self._guide = env, Guide(env.motion, character)
        self._layout, self._actions = character.layout(env.device), character.action_map(env.device)

    def __call__(self) -> Tensor:
        """[E, A]"""
        env, state = self._env, self._env.engine.state
        place = self._layout.move_in_plane(state.qpos, state.qvel, *env.anchor.place.unbind(1))  # as it is compared
        row, ahead = (env.motion.row(env.clip, env.now() + frames) for frames in (0, 1))
        return self._actions.actions(*self._guide.targets(row, ahead, *place, env.away))
