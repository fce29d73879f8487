"""The paper's metrics over any number of trials, batched.

SR, success rate: share of trials, started in reference states of the skill, that the skill's rule calls a success.
NR, normalised reward: mean over all start frames i of the mean reward from i to the clip's end.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from skillfield.characters.physics import POLICY_HZ
from skillfield.errors import ConfigError
from skillfield.evaluation.rollout import Trials, run_trials
from skillfield.evaluation.success import SuccessRule
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reference import ReferenceMotion, Starts

__all__ = ["Evaluation", "TrialPlan", "evaluate_policy", "normalised_reward", "success_rate", "wilson_interval"]

_BATCH = 2048  # trials simulated at once

MakeEnv = Callable[[int], ImitationEnv]


@dataclass(frozen=True)
class TrialPlan:
    """How a task is tested."""

    rules: Mapping[str, SuccessRule]
    """Success rule of each skill; the keys are the skills, in the order of the one-hot condition."""
    seconds: float = 10.0
    """Length of an execution (paper: 10 s for BallPlay-M)."""
    start_before: Mapping[str, float] = field(default_factory=dict)
    """Latest start in a skill's clip, seconds, where the skill ends: a throw cannot be judged from its flight on."""

    @property
    def skills(self) -> tuple[str, ...]:
        """Names in the order of the one-hot condition."""
        return tuple(self.rules)


@dataclass(frozen=True)
class Evaluation:
    """Figures per skill. Rates are shares, 0 to 1."""

    trials: int
    """Per skill."""
    seconds: float
    seed: int
    success_rate: dict[str, float]
    success_interval: dict[str, tuple[float, float]]
    """95 % Wilson interval of each success rate."""
    normalised_reward: dict[str, float]

    def averages(self) -> dict[str, float]:
        """Plain means over the skills."""
        skills = len(self.success_rate)
        return {
            "success_rate": sum(self.success_rate.values()) / skills,
            "normalised_reward": sum(self.normalised_reward.values()) / skills,
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"average": self.averages()}


def evaluate_policy(make_env: MakeEnv, model: ActorCritic, plan: TrialPlan, trials: int, seed: int = 0) -> Evaluation:
    """Measure a policy's mean action.

    make_env: gives a fresh environment with so many worlds.
    trials: executions per skill.
    """
    if trials < 1:
        raise ConfigError(f"trials is {trials}; at least 1 is needed")
    successes = success_rate(make_env, model, plan, trials, seed)
    return Evaluation(
        trials=trials,
        seconds=plan.seconds,
        seed=seed,
        success_rate={skill: float(won.float().mean()) for skill, won in successes.items()},
        success_interval={skill: wilson_interval(int(won.sum()), len(won)) for skill, won in successes.items()},
        normalised_reward=normalised_reward(make_env, model, plan.skills),
    )


def success_rate(make_env: MakeEnv, model: ActorCritic, plan: TrialPlan, trials: int, seed: int) -> dict[str, Tensor]:
    """Outcome of every trial, per skill, started in random reference states of that skill.  [trials] bool each"""
    generator = torch.Generator().manual_seed(seed)
    motion = make_env(1).motion
    clips, frames = [], []
    for name in plan.skills:
        clip, frame = _random_frames(motion, plan, name, trials, generator)
        clips.append(clip)
        frames.append(frame)
    skill = torch.arange(len(plan.skills)).repeat_interleave(trials)
    won = judge_trials(make_env, model, plan, skill, torch.cat(clips), torch.cat(frames))
    return {name: won[skill == number] for number, name in enumerate(plan.skills)}


def judge_trials(
    make_env: MakeEnv, model: ActorCritic, plan: TrialPlan, skill: Tensor, clip: Tensor, frame: Tensor
) -> Tensor:
    """Execute from given frames and let each skill's rule judge.  [N] bool"""
    steps = round(plan.seconds * POLICY_HZ)
    outcome = []
    for part in torch.arange(len(clip)).split(_BATCH):
        env = make_env(len(part))
        starts = starts_at(env.motion, clip[part], frame[part])
        trials = run_trials(env, model, starts, steps)
        outcome.append(_judge(trials, plan, skill[part]))
    return torch.cat(outcome)


@torch.no_grad()
def normalised_reward(make_env: MakeEnv, model: ActorCritic, skills: tuple[str, ...]) -> dict[str, float]:
    """NR of each skill: every frame of its clips is a start once."""
    motion = make_env(1).motion
    rows = torch.nonzero(motion.start_mask()).squeeze(1)
    clip = torch.searchsorted(motion.start, rows, right=True) - 1
    frame = rows - motion.start[clip]
    means = []
    for part in torch.arange(len(rows)).split(_BATCH):
        env = make_env(len(part))
        env.start(torch.arange(len(part)), starts_at(motion, clip[part], frame[part]))
        left = motion.length[clip[part]] - 1 - frame[part]  # steps to the clip's end
        total, counted = torch.zeros(len(part)), torch.zeros(len(part))
        for step in range(1, int(left.max()) + 1):
            env.advance(model.act(env.observe()))
            reward, scored, _ = env.score()
            running = step <= left
            total += reward * running
            counted += scored & running
        means.append(total / counted.clamp_min(1))
    mean = torch.cat(means)
    skill = motion.skill[clip]
    return {name: float(mean[skill == number].mean()) for number, name in enumerate(skills)}


def starts_at(motion: ReferenceMotion, clip: Tensor, frame: Tensor) -> Starts:
    """Start exactly in these reference frames."""
    row = motion.row(clip, frame)
    return Starts(motion.qpos[row], motion.qvel[row], clip, frame, torch.zeros_like(clip))


def wilson_interval(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """95 % confidence interval of a rate; sensible at 0 and 100 % too."""
    rate = successes / trials
    scale = 1 + z**2 / trials
    middle = (rate + z**2 / (2 * trials)) / scale
    half = z / scale * ((rate * (1 - rate) + z**2 / (4 * trials)) / trials) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


def _random_frames(
    motion: ReferenceMotion, plan: TrialPlan, skill: str, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Uniform over the frames of a skill's clips from which a trial may start."""
    rows = torch.nonzero(motion.start_mask()).squeeze(1)
    clip = torch.searchsorted(motion.start, rows, right=True) - 1
    frame = rows - motion.start[clip]
    latest = plan.start_before.get(skill, float("inf")) * POLICY_HZ
    chosen = torch.nonzero((motion.skill[clip] == plan.skills.index(skill)) & (frame <= latest)).squeeze(1)
    if not len(chosen):
        raise ConfigError(f"skill '{skill}' has no frame from which a trial could start")
    drawn = chosen[torch.randint(len(chosen), (count,), generator=generator)]
    return clip[drawn], frame[drawn]


def _judge(trials: Trials, plan: TrialPlan, skill: Tensor) -> Tensor:
    won = torch.zeros(len(skill), dtype=torch.bool)
    for number, name in enumerate(plan.skills):
        mine = skill == number
        if mine.any():
            won[mine] = plan.rules[name].judge(trials.only(mine))
    return won
