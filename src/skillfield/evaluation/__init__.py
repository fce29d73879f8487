"""Measuring a policy: trials, success rules, and the paper's metrics. Knows nothing of training."""

from skillfield.evaluation.metrics import Evaluation, TrialPlan, evaluate_policy

__all__ = ["Evaluation", "TrialPlan", "evaluate_policy"]
