"""What one round of PPO collects and learns from, and the arithmetic between the two. Pure functions of tensors.

Shape letters: H steps of a rollout, E environments, n samples, M samples of a minibatch, A actions, I insights.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.imitation import ImitationEnv

__all__ = [
    "Lesson",
    "Rollout",
    "advantages",
    "batches_of",
    "clipped_objective",
    "full_batches",
    "normalised_within",
]


@dataclass
class Rollout:
    """H steps of E environments. Observations are stored normalised, as the policy saw them."""

    raw: Tensor  # [H, E, obs] before they were normalised
    observation: Tensor  # [H, E, obs]
    insight: Tensor  # [H, E, I] what the critic was told beside it
    action: Tensor  # [H, E, A]
    log_prob: Tensor  # [H, E]
    guide: Tensor  # [H, E, A] what leads along the demonstration; nothing unless the policy learns from that
    reward: Tensor  # [H, E]
    done: Tensor  # [H, E] the episode ended with this step
    skill: Tensor  # [H, E] which skill the step was part of
    away: Tensor  # [H, E] bool: the objects were out of reach
    scored: Tensor  # [H, E] bool: False on masked steps and without objects; the reported reward leaves these out
    earning: Tensor  # [H, E] bool: scored, and by SkillMimic's product worth something
    trained: Tensor  # [H, E] bool: False where the step is left out of the losses
    bootstrap: Tensor  # [H, E] value of what an episode saw last that was cut off though it could go on, 0 elsewhere
    cut: Tensor  # [H, E] bool: cut off like that, but what it saw last is not known
    last_observation: Tensor  # [E, obs] after the rollout
    last_insight: Tensor  # [E, I]

    @staticmethod
    def empty(horizon: int, env: ImitationEnv, guided: bool = False) -> "Rollout":
        """Room for a rollout."""

        def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(horizon, env.num_envs, *shape, dtype=dtype, device=env.device)

        return Rollout(
            raw=room(env.observation_size),
            observation=room(env.observation_size),
            insight=room(env.insight_size),
            action=room(env.num_actions),
            log_prob=room(),
            guide=room(env.num_actions if guided else 0),
            reward=room(),
            done=room(dtype=torch.bool),
            skill=room(dtype=torch.long),
            away=room(dtype=torch.bool),
            scored=room(dtype=torch.bool),
            earning=room(dtype=torch.bool),
            trained=room(dtype=torch.bool),
            bootstrap=room(),
            cut=room(dtype=torch.bool),
            last_observation=room(env.observation_size)[0],
            last_insight=room(env.insight_size)[0],
        )

    def kind(self, by_skill: bool) -> Tensor:
        """Which steps are compared with each other: those of one skill with objects, and those without.

        Without objects a policy soon earns several times as much as with them, on and on. In one group with them, its
        advantages would leave the others next to nothing.  [H, E] up to twice the number of skills
        """
        return 2 * self.skill + self.away if by_skill else torch.zeros_like(self.skill)

    def usual(self) -> Tensor:
        """What was seen with the objects in reach, by which inputs are normalised.  [n, obs]

        An object that is often metres away makes the centimetres by which a hand must meet it too small to be seen.
        """
        return self.raw[~self.away]


@dataclass(frozen=True)
class Lesson:
    """What is learned from a rollout, sample by sample; n = H·E."""

    rollout: Rollout
    """Whose memory the first six are."""
    observation: Tensor  # [n, obs]
    insight: Tensor  # [n, I]
    action: Tensor  # [n, A]
    log_prob: Tensor  # [n]
    guide: Tensor  # [n, A]
    reward: Tensor  # [n]
    advantage: Tensor  # [n] normalised
    target: Tensor  # [n] of the critic, on its own scale
    entropy_weight: Tensor  # []

    @staticmethod
    def of(rollout: Rollout) -> "Lesson":
        """Of whatever is or will be in this rollout."""
        observation, insight, action, guide = (
            each.flatten(0, 1) for each in (rollout.observation, rollout.insight, rollout.action, rollout.guide)
        )
        log_prob, reward = rollout.log_prob.flatten(), rollout.reward.flatten()
        advantage, target = (torch.zeros_like(reward) for _ in range(2))
        none = torch.zeros_like(target[0])
        return Lesson(rollout, observation, insight, action, log_prob, guide, reward, advantage, target, none)


def advantages(
    reward: Tensor,
    value: Tensor,
    last_value: Tensor,
    done: Tensor,
    bootstrap: Tensor,
    gamma: float,
    lam: float,
    cut: Tensor | None = None,
) -> Tensor:
    """Generalised advantage estimates.  [H, E]

    Where an episode ended, the next value is `bootstrap`: the value of its true final observation after a time-out,
    zero after a failure. Nothing leaks across the end. Where that observation is not known (`cut`), the last step is
    taken to be worth what was expected of it: the episode counts as cut off one step earlier.
    """
    result = torch.empty_like(reward)
    running = torch.zeros_like(last_value)
    next_value = last_value
    for step in reversed(range(len(reward))):
        ended = done[step]
        following = torch.where(ended, bootstrap[step], next_value)
        delta = reward[step] + gamma * following - value[step]
        if cut is not None:
            delta = torch.where(cut[step], 0.0, delta)
        running = delta + gamma * lam * torch.where(ended, torch.zeros_like(running), running)
        result[step] = running
        next_value = value[step]
    return result


def normalised_within(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Values with mean 0 and spread 1 within each group.  [n], [n] numbers of groups"""
    count = values.new_zeros(groups).index_add_(0, group, torch.ones_like(values))
    mean = values.new_zeros(groups).index_add_(0, group, values) / count.clamp_min(1)
    centred = values - mean[group]
    variance = values.new_zeros(groups).index_add_(0, group, centred.square()) / (count - 1).clamp_min(1)
    return centred / (variance.sqrt()[group] + 1e-8)


def batches_of(count: int, size: int) -> list[Tensor]:
    """The numbers up to a count in batches of one size; what remains joins the last one if it is less than half of one.
    A few samples would be a step like any other, and tell how far the policy moved."""
    batches = list(torch.arange(count).split(size))
    if len(batches) > 1 and 2 * len(batches[-1]) < size:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def full_batches(count: int, size: int, device: torch.device | str = "cpu") -> list[Tensor]:
    """The numbers up to a count in batches of one size, as recorded work needs them; the last is filled up from the
    first.  [size] each"""
    return list((torch.arange(-(-count // size) * size, device=device) % count).split(size))


def clipped_objective(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """PPO's pessimistic surrogate, per sample; to be maximised.  [M]"""
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
