"""How a task is tested: a rule for each skill, how long a trial is, and where it begins."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.physics import POLICY_HZ
from skillfield.configuration import POSITIVE, check
from skillfield.errors import ConfigError, DeviceError
from skillfield.evaluation.success import SuccessRule
from skillfield.reference import Neighbourhood, ReferenceMotion, Starts
from skillfield.simulation.memory import device_memory

__all__ = ["TrialPlan", "check_trials", "shuffled_frames", "starts_at"]

_COPIES = 3  # of a trial's start state that there are at a time


@dataclass(frozen=True)
class TrialPlan:
    """How a task is tested."""

    rules: Mapping[str, SuccessRule]
    """Success rule of each skill; the keys are the skills, in the order of the one-hot condition."""
    seconds: float = 10.0
    """Length of an execution (paper: 10 s for BallPlay-M)."""
    start_before: Mapping[str, float] = field(default_factory=dict)
    """Latest start in a skill's clip, seconds, where the skill ends: a throw cannot be judged from its flight on."""
    box: Neighbourhood = field(default_factory=Neighbourhood)
    """ε of the neighbourhood test (paper: as in training)."""

    def __post_init__(self) -> None:
        check("trials", self, POSITIVE, "seconds")
        if not self.rules:
            raise ConfigError("trials: no skill has a rule")
        if strangers := [skill for skill in self.start_before if skill not in self.rules]:
            raise ConfigError(f"trials: start_before names {strangers}, the rules are of {list(self.rules)}")

    @property
    def skills(self) -> tuple[str, ...]:
        """Names in the order of the one-hot condition."""
        return tuple(self.rules)


def starts_at(motion: ReferenceMotion, clip: Tensor, frame: Tensor) -> Starts:
    """Start exactly in these reference frames."""
    row = motion.row(clip, frame)
    return Starts(
        motion.qpos[row],
        motion.qvel[row],
        clip,
        frame,
        torch.zeros_like(clip),
        row,
        torch.zeros_like(clip, dtype=torch.bool),
    )


def shuffled_frames(
    motion: ReferenceMotion, plan: TrialPlan, skill: str, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Frames of a skill's clips from which a trial may start, each as often as any other, or once more.  [count] ×2"""
    rows = torch.nonzero(motion.start_mask()).squeeze(1)
    clip = motion.clip_of_row[rows]
    frame = rows - motion.start[clip]
    latest = plan.start_before.get(skill, float("inf")) * POLICY_HZ
    chosen = torch.nonzero((motion.skill[clip] == plan.skills.index(skill)) & (frame <= latest)).squeeze(1)
    if not len(chosen):
        raise ConfigError(f"skill '{skill}' has no frame from which a trial could start")
    rounds = torch.rand(math.ceil(count / len(chosen)), len(chosen), generator=generator, device=chosen.device)
    drawn = chosen[rounds.argsort(dim=1).flatten()[:count]]
    return clip[drawn], frame[drawn]


def check_trials(
    plan: TrialPlan, character: Character, device: torch.device, trials: int, transition_trials: int | None = None
) -> None:
    """Refuse more trials than a device has memory for, and say how many it has.

    trials, transition_trials: see `evaluate_policy`.
    """
    size = _COPIES * _start_bytes(character)
    memory, num_skills = device_memory(device), len(plan.skills)
    num_pairs = num_skills * (num_skills - 1)
    across = trials if transition_trials is None else transition_trials
    own = 2 * num_skills + (num_pairs if transition_trials is None else 0)  # all are drawn before any is run
    for name, count, times in (("trials", trials, own), ("transition_trials", across, num_pairs)):
        if count * times * size > memory:
            possible = f"{memory / 2**30:.3g} GiB of memory are enough for about {memory / (times * size):,.0f}"
            raise DeviceError(f"{name} is {count}: {possible}")


def _start_bytes(character: Character) -> int:
    """Memory that a trial's start takes."""
    model, number = character.model, torch.zeros(1, dtype=torch.long)
    qpos, qvel = torch.zeros(1, model.nq), torch.zeros(1, model.nv)
    start = Starts(qpos, qvel, number, number, number, number, number.bool())
    return sum(column.nbytes for column in start.columns())
