"""Measuring a policy: trials, success rules, and the paper's metrics. Knows nothing of training."""

from skillfield.evaluation.metrics import Evaluation, evaluate_policy
from skillfield.evaluation.plan import TrialPlan
from skillfield.evaluation.rollout import Trials
from skillfield.evaluation.success import KeepRule, SuccessRule

__all__ = ["Evaluation", "KeepRule", "SuccessRule", "TrialPlan", "Trials", "evaluate_policy"]
