"""The paper's metrics over any number of trials, batched.

SR, success rate: share of trials, started in reference states of the skill, that the skill's rule calls a success.
εNSR: the same, started in the ε-neighbourhood of those states.
TSR, transition success rate: the same, started in reference states of another skill; a matrix over ordered pairs.
NR, normalised reward: mean over all start frames i of the mean reward from i to the clip's end.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from skillfield.errors import ConfigError
from skillfield.evaluation.crew import Crew, MakeEnv, Report
from skillfield.evaluation.judging import Closeness, Judge
from skillfield.evaluation.plan import TrialPlan
from skillfield.learning.networks import ActorCritic

__all__ = [
    "Evaluation",
    "evaluate_policy",
    "trials_in_words",
    "wilson_interval",
]


@dataclass(frozen=True)
class Evaluation:
    """Figures per skill. Rates are shares, 0 to 1; intervals are 95 % Wilson intervals."""

    trials: int
    """Per skill."""
    transition_trials: int
    """Per ordered pair of skills."""
    seconds: float
    seed: int
    success_rate: dict[str, float]
    success_interval: dict[str, tuple[float, float]]
    neighbourhood_rate: dict[str, float]
    neighbourhood_interval: dict[str, tuple[float, float]]
    transition_rate: dict[str, dict[str, float]]
    """Source skill → target skill → rate."""
    normalised_reward: dict[str, float]
    samples: int | None = None
    """Training samples of the checkpoint that was measured; older files do not say."""
    device: str | None = None
    """Where it was measured, cpu or cuda; older files do not say."""
    clips: str | None = None
    """The clips in whose states trials began, if not those of the training: their folder, or a task that has them."""

    def measured_with(self) -> str:
        """How many trials there were, how long they took and where they began, in words."""
        own = f"{trials_in_words(self.trials, self.seconds)} per skill"
        across = f", {self.transition_trials:,}" if self.transition_trials != self.trials else " and"
        elsewhere = f", beginning in clips from '{Path(self.clips).name}'" if self.clips else ""
        return f"{own}{across} per pair of skills{elsewhere}"

    def transitions_into(self) -> dict[str, float]:
        """Mean rate of all transitions into each skill."""
        into: dict[str, list[float]] = {}
        for targets in self.transition_rate.values():
            for target, rate in targets.items():
                into.setdefault(target, []).append(rate)
        return {skill: sum(rates) / len(rates) for skill, rates in into.items()}

    def averages(self) -> dict[str, float]:
        """Plain means over the skills, and over all ordered pairs."""
        pairs = [rate for targets in self.transition_rate.values() for rate in targets.values()]
        return {
            "success_rate": _mean(self.success_rate.values()),
            "neighbourhood_rate": _mean(self.neighbourhood_rate.values()),
            "transition_rate": _mean(pairs),
            "normalised_reward": _mean(self.normalised_reward.values()),
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"average": self.averages()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Evaluation":
        """Back from JSON. Older files have one number of trials for skills and pairs."""
        figures = {name: value for name, value in values.items() if name != "average"}
        known = {name: _with_nan(value) if isinstance(value, dict) else value for name, value in figures.items()}
        for name in ("success_interval", "neighbourhood_interval"):
            if name in known:
                known[name] = {skill: tuple(interval) for skill, interval in known[name].items()}
        known.setdefault("transition_trials", known.get("trials"))
        return Evaluation(**known)


def evaluate_policy(
    make_env: MakeEnv,
    model: ActorCritic,
    plan: TrialPlan,
    trials: int,
    seed: int = 0,
    transition_trials: int | None = None,
    workers: int = 1,
    report: Report | None = None,
) -> Evaluation:
    """Measure a policy's mean action.

    trials: executions per skill.
    transition_trials: executions per ordered pair of skills; as many as per skill if not given.
    workers: threads that run trials, on a CPU; the figures do not depend on it.
    report: is told how far it is.
    """
    across_trials = trials if transition_trials is None else transition_trials
    _check_counts(trials, across_trials, seed)
    num_skills = len(plan.skills)
    most = max(num_skills * trials, num_skills * (num_skills - 1) * across_trials)
    crew = Crew(make_env, next(model.parameters()).device, most, workers, report)
    judge = Judge(crew, model, plan, seed)
    judge.check_memory(trials, transition_trials)
    rounds = judge.own_states(trials), judge.neighbours(trials), judge.other_states(across_trials)
    closeness = Closeness(crew, model)
    own, near, across = (judge.run(each) for each in rounds)
    return Evaluation(
        trials=trials,
        transition_trials=across_trials,
        seconds=plan.seconds,
        seed=seed,
        success_rate={skill: _rate(own[skill, skill]) for skill in plan.skills},
        success_interval={skill: _interval(own[skill, skill]) for skill in plan.skills},
        neighbourhood_rate={skill: _rate(near[skill, skill]) for skill in plan.skills},
        neighbourhood_interval={skill: _interval(near[skill, skill]) for skill in plan.skills},
        transition_rate={
            source: {target: _rate(across[source, target]) for target in plan.skills if target != source}
            for source in plan.skills
        },
        normalised_reward=closeness.by_skill(),
    )


def _check_counts(trials: int, transition_trials: int, seed: int) -> None:
    for name, count in (("trials", trials), ("transition_trials", transition_trials)):
        if count < 1:
            raise ConfigError(f"{name} is {count}; at least 1 is needed")
    if not -(2**63) <= seed < 2**64:
        raise ConfigError(f"seed is {seed}, it must fit into 64 bits")


def trials_in_words(count: int, seconds: float) -> str:
    """How many there were, and how long each took."""
    return f"{count:,} trial{'s' if count != 1 else ''} of {seconds:g} s"


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """95 % confidence interval of a rate; sensible at 0 and 100 % too, and never without the rate itself."""
    rate, z = successes / trials, 1.96
    scale = 1 + z**2 / trials
    middle = (rate + z**2 / (2 * trials)) / scale
    half = z / scale * ((rate * (1 - rate) + z**2 / (4 * trials)) / trials) ** 0.5
    return max(0.0, min(rate, middle - half)), min(1.0, max(rate, middle + half))


def _with_nan(value: Any) -> Any:
    """JSON has no number for what could not be measured."""
    if isinstance(value, dict):
        return {name: _with_nan(each) for name, each in value.items()}
    return math.nan if value is None else value


def _rate(won: Tensor) -> float:
    return int(won.sum()) / len(won)


def _interval(won: Tensor) -> tuple[float, float]:
    return wilson_interval(int(won.sum()), len(won))


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known) if known else math.nan
