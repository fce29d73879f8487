"""The starter: authored demonstrations of a floating hand, and the task that learns from them."""

from skillfield.experiments.starter.task import starter

__all__ = ["starter"]
