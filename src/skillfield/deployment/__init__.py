"""Trained policies at work outside of training: in plain MuJoCo, and as ONNX files."""

from skillfield.deployment.export import export_policy
from skillfield.deployment.policy import Policy, load_policy

__all__ = ["Policy", "export_policy", "load_policy"]
