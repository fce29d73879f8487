"""The paper's metrics over any number of trials, batched.

SR, success rate: share of trials, started in reference states of the skill, that the skill's rule calls a success.
εNSR: the same, started in the ε-neighbourhood of those states.
TSR, transition success rate: the same, started in reference states of another skill; a matrix over ordered pairs.
NR, normalised reward: mean over all start frames i of the mean reward from i to the clip's end.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skillfield.characters.physics import POLICY_HZ
from skillfield.errors import ConfigError
from skillfield.evaluation.plan import TrialPlan, check_trials, shuffled_frames, starts_at
from skillfield.evaluation.rollout import Trials, run_trials
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.learning.rollout import full_batches
from skillfield.reference import Starts
from skillfield.reference.neighbourhood import neighbour

__all__ = [
    "Evaluation",
    "Judge",
    "evaluate_policy",
    "normalised_reward",
    "trials_in_words",
    "wilson_interval",
]

_BATCH = {"cpu": 2048, "cuda": 8192}  # trials simulated at once

MakeEnv = Callable[[int], ImitationEnv]
"""Gives an environment with so many worlds; every one of them is started anew before it is used."""


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
        elsewhere = f", beginning in clips of {Path(self.clips).name}" if self.clips else ""
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
) -> Evaluation:
    """Measure a policy's mean action.

    trials: executions per skill.
    transition_trials: executions per ordered pair of skills; as many as per skill if not given.
    """
    across_trials = trials if transition_trials is None else transition_trials
    _check_counts(trials, across_trials, seed)
    num_skills = len(plan.skills)
    most = max(num_skills * trials, num_skills * (num_skills - 1) * across_trials)
    judge = Judge(make_env, model, plan, trials, seed, most)
    judge.check_memory(transition_trials)
    own, near, across = judge.success(), judge.neighbourhood(), judge.transitions(across_trials)
    return Evaluation(
        trials=trials,
        transition_trials=across_trials,
        seconds=plan.seconds,
        seed=seed,
        success_rate={skill: _rate(won) for skill, won in own.items()},
        success_interval={skill: wilson_interval(int(won.sum()), len(won)) for skill, won in own.items()},
        neighbourhood_rate={skill: _rate(won) for skill, won in near.items()},
        neighbourhood_interval={skill: wilson_interval(int(won.sum()), len(won)) for skill, won in near.items()},
        transition_rate={
            source: {target: _rate(across[source, target]) for target in plan.skills if target != source}
            for source in plan.skills
        },
        normalised_reward=normalised_reward(make_env, model, plan.skills, most),
    )


class Judge:
    """Runs trials of one policy and lets each skill's rule judge them."""

    def __init__(
        self,
        make_env: MakeEnv,
        model: ActorCritic,
        plan: TrialPlan,
        trials: int,
        seed: int,
        most: int | None = None,
    ) -> None:
        """most: trials that there will be at a time, as far as is known."""
        self._make_env, self._model, self._plan, self._trials = make_env, model, plan, trials
        self._most = most or trials * len(plan.skills)
        env = make_env(_worlds(1, self._most, model))
        self._character, self._motion = env.engine.character, env.motion
        self._layout = self._character.layout(env.device)
        self._generator = torch.Generator(env.device).manual_seed(seed)

    def check_memory(self, transition_trials: int | None) -> None:
        """Refuse more trials than there is memory for."""
        check_trials(self._plan, self._character, self._motion.device, self._trials, transition_trials)

    def success(self) -> dict[str, Tensor]:
        """SR: from reference states of the skill itself.  [trials] bool each"""
        starts = [self._starts(skill, skill, self._trials) for skill in self._plan.skills]
        return self._by_skill(self._judge(self._plan.skills, starts, in_frames=True))

    def neighbourhood(self) -> dict[str, Tensor]:
        """εNSR: from the neighbourhood of those.  [trials] bool each"""
        starts = [self._starts(skill, skill, self._trials, near=True) for skill in self._plan.skills]
        return self._by_skill(self._judge(self._plan.skills, starts))

    def transitions(self, trials: int) -> dict[tuple[str, str], Tensor]:
        """TSR: from reference states of every other skill, so many each.  (source, target) → [trials] bool"""
        skills = self._plan.skills
        pairs = [(source, target) for source in skills for target in skills if source != target]
        starts = [self._starts(*pair, trials) for pair in pairs]
        won = self._judge([target for _, target in pairs], starts, in_frames=True)
        return dict(zip(pairs, won.split(trials), strict=True)) if pairs else {}

    def _by_skill(self, won: Tensor) -> dict[str, Tensor]:
        return dict(zip(self._plan.skills, won.split(self._trials), strict=True))

    def _starts(self, source: str, target: str, count: int, near: bool = False) -> Starts:
        """Frames of the source skill, to be continued as the target skill."""
        clip, frame = shuffled_frames(self._motion, self._plan, source, count, self._generator)
        starts = starts_at(self._motion, clip, frame)
        if source != target:
            goal = int(torch.nonzero(self._motion.skill == self._plan.skills.index(target))[0])
            starts = replace(starts, clip=torch.full_like(clip, goal))
        if not near:
            return starts
        qpos, qvel = neighbour(starts.qpos, starts.qvel, self._plan.box, self._layout, self._generator)
        return replace(starts, qpos=qpos, qvel=qvel)

    def _judge(self, targets: Sequence[str], parts: Sequence[Starts], in_frames: bool = False) -> Tensor:
        """Outcome of all trials, in order; every part has the same number.  [len(parts) · trials] bool

        in_frames: all begin in reference frames, so on a CPU those of one skill from one frame are one trial.
        """
        if not parts:
            return torch.zeros(0, dtype=torch.bool)
        plan = self._plan
        numbers = torch.tensor([plan.skills.index(name) for name in targets], device=self._motion.device)
        skill = numbers.repeat_interleave(len(parts[0].clip))
        starts = Starts(*(torch.cat(columns) for columns in zip(*(part.columns() for part in parts), strict=True)))
        if in_frames and skill.device.type == "cpu":
            once, like = _one_of_each(skill * len(self._motion.qpos) + starts.past_row)
            return self._outcome(skill[once], starts.rows(once))[like]
        return self._outcome(skill, starts)

    def _outcome(self, skill: Tensor, starts: Starts) -> Tensor:
        """Run trials, as many at once as there are worlds for, and let the rule of each one's skill judge it.  [n]"""
        outcome = []
        for chunk in _batches(len(skill), self._most, self._model):
            env = self._make_env(len(chunk))
            trials = run_trials(env, self._model, starts.rows(chunk), round(self._plan.seconds * POLICY_HZ))
            outcome.append(_verdict(trials, self._plan, skill[chunk]))
        return torch.cat(outcome)[: len(skill)]


@torch.no_grad()
def normalised_reward(
    make_env: MakeEnv, model: ActorCritic, skills: tuple[str, ...], most: int = 1024
) -> dict[str, float]:
    """NR of each skill: every frame of its clips that an episode may start from is a start once.

    most: see `Judge`.
    """
    motion = make_env(_worlds(1, most, model)).motion
    rows = torch.nonzero(motion.start_mask()).squeeze(1)
    clip = motion.clip_of_row[rows]
    frame = rows - motion.start[clip]
    totals, counts = [], []
    for part in _batches(len(rows), most, model):
        env = make_env(len(part))
        env.start(torch.arange(len(part), device=rows.device), starts_at(motion, clip[part], frame[part]))
        left = motion.length[clip[part]] - 1 - frame[part]  # steps to the clip's end
        total, counted = torch.zeros_like(left, dtype=torch.float), torch.zeros_like(left)
        for step in range(1, int(left.max()) + 1):
            env.advance(model.act(env.observe()))
            reward, scored, _ = env.score()
            running = step <= left
            total += reward * running
            counted += scored & running
        totals.append(total)
        counts.append(counted)
    earned, steps = torch.cat(totals)[: len(rows)], torch.cat(counts)[: len(rows)]
    mean, skill = earned / steps, motion.skill[clip]  # a clip's last frame is there, so a step at least is scored
    return {name: float(mean[skill == number].mean()) for number, name in enumerate(skills)}


def _batches(count: int, most: int, model: ActorCritic) -> list[Tensor]:
    """Numbers of trials, as many at once as there are worlds for them."""
    device, size = next(model.parameters()).device, _worlds(count, most, model)
    return list(torch.arange(count).split(size)) if device.type == "cpu" else full_batches(count, size, device)


def _worlds(count: int, most: int, model: ActorCritic) -> int:
    """How many worlds run so many trials, on the policy's device.

    On a GPU always the same number: an engine takes many seconds to make, and a few worlds more cost nothing.
    """
    kind = next(model.parameters()).device.type
    return min(_BATCH[kind], count if kind == "cpu" else most)


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


def _one_of_each(key: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of every key, and for each row the number of the one that has its key.  [n] → [m], [n]"""
    keys, like = torch.unique(key, return_inverse=True)
    first = torch.full_like(keys, len(key)).scatter_reduce(0, like, torch.arange(len(key)), "amin")
    return first, like


def _with_nan(value: Any) -> Any:
    """JSON has no number for what could not be measured."""
    if isinstance(value, dict):
        return {name: _with_nan(each) for name, each in value.items()}
    return math.nan if value is None else value


def _rate(won: Tensor) -> float:
    return int(won.sum()) / len(won)


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known) if known else math.nan


def _verdict(trials: Trials, plan: TrialPlan, skill: Tensor) -> Tensor:
    won = torch.zeros_like(skill, dtype=torch.bool)
    for number, name in enumerate(plan.skills):
        mine = skill == number
        if mine.any():
            rule = plan.rules[name]
            judged: Any = rule.judge(trials.only(mine))
            found = f"{judged.dtype} {tuple(judged.shape)}" if isinstance(judged, Tensor) else type(judged).__name__
            if found != (wanted := f"{torch.bool} {(int(mine.sum()),)}"):
                raise ConfigError(f"skill '{name}': {type(rule).__name__}.judge gave {found}, it must give {wanted}")
            won[mine] = judged
    return won
