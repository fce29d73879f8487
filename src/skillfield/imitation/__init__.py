"""Following a reference: observations, rewards, termination, and the vector environment. Knows nothing of PPO."""

from skillfield.imitation.config import EnvConfig
from skillfield.imitation.env import ImitationEnv
from skillfield.imitation.outcome import StepResult

__all__ = ["EnvConfig", "ImitationEnv", "StepResult"]
