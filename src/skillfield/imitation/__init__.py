"""Following a reference: observations, rewards, termination, and the vector environment. Knows nothing of PPO."""

from skillfield.imitation.config import EnvConfig
from skillfield.imitation.env import ImitationEnv, StepResult

__all__ = ["EnvConfig", "ImitationEnv", "StepResult"]
