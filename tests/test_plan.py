"""How a task is tested: what cannot be meant is refused."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from skillfield.errors import ConfigError
from skillfield.evaluation import KeepRule, TrialPlan

PLAN = TrialPlan(rules={"sway": KeepRule(1.0), "swing": KeepRule(1.0)}, start_before={"swing": 0.1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 0.0}, "trials: seconds is 0.0"),
        ({"seconds": math.nan}, "trials: seconds is nan"),
        ({"rules": {}, "start_before": {}}, "trials: no skill has a rule"),
        ({"start_before": {"swign": 0.1}}, "trials: start_before names ['swign'], the rules are of ['sway', 'swing']"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(changes: dict[str, Any], message: str) -> None:
    """Before anything is run: a misspelt skill would be tested from everywhere."""
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        replace(PLAN, **changes)
