"""Proximal policy optimisation, top to bottom: collect, estimate advantages, improve.

Shape letters: H steps of a rollout, E environments, M samples of a minibatch, A actions.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic

__all__ = ["PPO", "PPOConfig", "Rollout", "advantages", "clipped_objective", "normalised_within"]


@dataclass(frozen=True)
class PPOConfig:
    """Hyper-parameters. Defaults are the paper's (table of training hyper-parameters) unless a note says otherwise."""

    hidden: tuple[int, ...] = (1024, 512, 512)
    """Units of each hidden layer, policy and critic alike."""
    horizon: int = 32
    """Steps per environment between updates (2048 environments × 32 = 65,536 samples)."""
    minibatch: int = 16384
    """Samples per gradient step."""
    epochs: int = 6
    """Passes over each rollout (released configuration)."""
    learning_rate: float = 2e-5
    """Adam step size at the start."""
    learning_rate_final: float | None = None
    """Step size at the end of the budget, reached linearly; None keeps it."""
    target_kl: float | None = None
    """Adapt the step size so that each update moves the policy by about this divergence; None switches it off."""
    max_learning_rate: float | None = None
    """The largest step size that `target_kl` may choose; None allows a hundred times the one at the start."""
    sigma: float = 0.055
    """Standard deviation of exploration; not learned (the paper calls it variance, the release uses it as σ)."""
    sigma_final: float | None = None
    """σ at the end of the budget, reached linearly; None keeps it."""
    exploration: Literal["fixed", "learned"] = "fixed"
    """Fixed σ as above, or a learned, state-dependent one that starts there (the paper's IAE comparison)."""
    entropy_peak: float = 5e-4
    """With a learned σ: entropy coefficient after a twentieth of the budget, reached linearly (paper, IAE)."""
    entropy_final: float = 1e-5
    """With a learned σ: entropy coefficient at the end of the budget, reached linearly (paper, IAE)."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """Generalised advantage estimation."""
    clip: float = 0.2
    """PPO clip threshold."""
    bound_weight: float = 10.0
    """Weight of the penalty on mean actions outside [-1, 1] (released configuration)."""
    first_action: Literal["neutral", "demonstrated"] = "neutral"
    """What an untrained policy asks for: the neutral pose, or the demonstrations' mean pose (a humanoid's neutral pose
    has its arms spread, and no clip is near it)."""
    by_skill: bool = False
    """Normalise advantages within each skill, so that a skill with small ones learns as fast as the others."""
    half: bool = False
    """Hidden layers in bfloat16 on a GPU, instead of TF32."""
    max_grad_norm: float = 1.0
    """Gradient clipping (CleanRL's default is 0.5; the release has none)."""


@dataclass
class Rollout:
    """H steps of E environments. Observations are stored normalised, as the policy saw them."""

    observation: Tensor  # [H, E, obs]
    action: Tensor  # [H, E, A]
    log_prob: Tensor  # [H, E]
    reward: Tensor  # [H, E]
    done: Tensor  # [H, E] the episode ended with this step
    skill: Tensor  # [H, E] which skill the step was part of
    scored: Tensor  # [H, E] bool: False on masked steps, which the reported reward leaves out
    trained: Tensor  # [H, E] bool: False where the step is left out of the losses
    bootstrap: Tensor  # [H, E] value of what an episode saw last that was cut off though it could go on, 0 elsewhere
    cut: Tensor  # [H, E] bool: cut off like that, but what it saw last is not known
    last_observation: Tensor  # [E, obs] after the rollout


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


def clipped_objective(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """PPO's pessimistic surrogate, per sample; to be maximised.  [M]"""
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


class PPO:
    """The learner. One `update` collects a rollout and improves both networks with it."""

    def __init__(self, env: ImitationEnv, model: ActorCritic, config: PPOConfig) -> None:
        self.env, self.model, self.config = env, model, config
        self.policy_optimiser = torch.optim.Adam(model.policy.parameters(), config.learning_rate, fused=True)
        self.critic_optimiser = torch.optim.Adam(model.critic.parameters(), config.learning_rate, fused=True)
        self.kl_factor = 1.0  # what `target_kl` has made of the step size
        self.observation: Tensor | None = None
        self.seconds = {"simulation": 0.0, "augmentation": 0.0, "inference": 0.0, "learning": 0.0}
        # The networks share nothing, so on a CPU they learn side by side, one core each.
        self._beside = ThreadPoolExecutor(1) if env.device.type == "cpu" else None

    @property
    def _max_factor(self) -> float:
        largest = self.config.max_learning_rate
        return math.inf if largest is None else largest / self.config.learning_rate

    @property
    def samples_per_update(self) -> int:
        """Environment steps in one update."""
        return self.config.horizon * self.env.num_envs

    def update(self, progress: float) -> dict[str, float]:
        """One round of PPO. progress: share of the training budget that is used up, 0 to 1."""
        config = self.config
        sigma = _anneal(config.sigma, config.sigma_final, progress)
        rate = _anneal(config.learning_rate, config.learning_rate_final, progress) * self.kl_factor
        if self.observation is None:
            self.observation = self.env.reset()
        sampling, clock = self.env.sampling_seconds, self._time()
        rollout = self.collect(self.observation, sigma)
        sampling = self.env.sampling_seconds - sampling
        if self.env.device.type != "cpu":
            self.seconds["simulation"] += self._time() - clock  # and inference, and the choice of starts
        self.seconds["simulation"] -= sampling
        self.seconds["augmentation"] += sampling
        clock = time.perf_counter()
        metrics = self.improve(rollout, sigma, rate, self._entropy_weight(progress))
        self.seconds["learning"] += self._time() - clock
        if config.target_kl is not None:
            self.kl_factor = min(_adapt(self.kl_factor, metrics["kl"], config.target_kl), self._max_factor)
        return metrics | {"learning_rate": rate}

    @torch.no_grad()
    def collect(self, observation: Tensor, sigma: float) -> Rollout:
        """Act in the environments for one horizon."""
        env, model, steps = self.env, self.model, self.config.horizon
        device, envs = env.device, env.num_envs
        rollout = Rollout(
            observation=torch.empty(steps, envs, env.observation_size, device=device),
            action=torch.empty(steps, envs, env.num_actions, device=device),
            log_prob=torch.empty(steps, envs, device=device),
            reward=torch.empty(steps, envs, device=device),
            done=torch.zeros(steps, envs, dtype=torch.bool, device=device),
            skill=torch.zeros(steps, envs, dtype=torch.long, device=device),
            scored=torch.ones(steps, envs, dtype=torch.bool, device=device),
            trained=torch.ones(steps, envs, dtype=torch.bool, device=device),
            bootstrap=torch.zeros(steps, envs, device=device),
            cut=torch.zeros(steps, envs, dtype=torch.bool, device=device),
            last_observation=observation,
        )
        raw = []
        for step in range(steps):
            clock = time.perf_counter()
            raw.append(observation)
            seen = model.normaliser(observation)
            noise = torch.randn(envs, env.num_actions, device=device)
            mean, log_sigma = model.distribution(seen, sigma)
            action = mean + log_sigma.exp() * noise
            rollout.skill[step] = env.skill
            acted = time.perf_counter()
            result = env.step(action)
            simulated = time.perf_counter()
            rollout.observation[step], rollout.action[step] = seen, action
            rollout.log_prob[step] = -(0.5 * noise.square() + log_sigma).sum(-1)
            rollout.reward[step] = result.reward
            rollout.done[step] = result.terminated | result.truncated
            rollout.scored[step], rollout.trained[step] = result.scored, result.trained
            if result.finished is None or result.final_observation is None:
                rollout.cut[step] = result.continues
                rollout.trained[step] &= ~result.continues
            elif len(result.finished):
                value = model.value(model.normaliser(result.final_observation))
                rollout.bootstrap[step, result.finished] = value * result.continues[result.finished]
            observation = result.observation
            if device.type == "cpu":  # elsewhere these would only say how long it takes to ask for something
                self.seconds["simulation"] += simulated - acted
                self.seconds["inference"] += acted - clock + time.perf_counter() - simulated
        rollout.last_observation = model.normaliser(observation)
        self.observation = observation
        model.normaliser.update(torch.cat(raw))
        return rollout

    def _time(self) -> float:
        """Now, when everything asked for has been done."""
        if self.env.device.type == "cuda":
            torch.cuda.synchronize(self.env.device)
        return time.perf_counter()

    def _entropy_weight(self, progress: float) -> float:
        config, rise = self.config, 0.05
        if config.exploration == "fixed":
            return 0.0
        if progress < rise:
            return config.entropy_peak * progress / rise
        return _anneal(config.entropy_peak, config.entropy_final, (progress - rise) / (1 - rise))

    def improve(self, rollout: Rollout, sigma: float, rate: float, entropy_weight: float = 0.0) -> dict[str, float]:
        """Several epochs of minibatches on both networks."""
        config, model = self.config, self.model
        with torch.no_grad():
            value = model.value(rollout.observation)
            last_value = model.value(rollout.last_observation)
            advantage = advantages(
                rollout.reward,
                value,
                last_value,
                rollout.done,
                rollout.bootstrap,
                config.gamma,
                config.gae_lambda,
                rollout.cut,
            )
            advantage = advantage.flatten()
            returns = advantage + value.flatten()
            trained = torch.nonzero(rollout.trained.flatten()).squeeze(1)
            if len(trained) < 2:
                return _nothing_learned(rollout, sigma)
            model.update_value_scale(returns[trained])
            target = model.value_scale.to_normalised(returns)
        observation, action = rollout.observation.flatten(0, 1), rollout.action.flatten(0, 1)
        log_prob, skill = rollout.log_prob.flatten(), rollout.skill.flatten()[trained]
        group = skill if config.by_skill else torch.zeros_like(skill)
        advantage[trained] = normalised_within(advantage[trained], group, self.env.num_skills)
        batches = [
            trained[batch]
            for _ in range(config.epochs)
            for batch in torch.randperm(len(trained), device=target.device).split(config.minibatch)
        ]

        def improve_critic() -> Tensor:
            loss = target.new_zeros(())
            for batch in batches:
                loss = (model.scaled_value(observation[batch]) - target[batch]).square().mean()
                self._descend(self.critic_optimiser, loss, rate)
            return loss

        def improve_policy() -> tuple[Tensor, Tensor, Tensor]:
            kl = clipped = spread = target.new_zeros(())
            for batch in batches:
                mean, log_sigma = model.distribution(observation[batch], sigma)
                scaled = (action[batch] - mean) * torch.exp(-log_sigma)
                new_log_prob = -(0.5 * scaled.square() + log_sigma).sum(-1)
                ratio = (new_log_prob - log_prob[batch]).clamp(-20, 20).exp()
                bound = (mean.abs() - 1).clamp_min(0).square().sum(-1)
                gain = clipped_objective(ratio, advantage[batch], config.clip)
                loss = (config.bound_weight * bound - gain - entropy_weight * log_sigma.sum(-1)).mean()
                self._descend(self.policy_optimiser, loss, rate)
                with torch.no_grad():  # of the last minibatch; a fixed σ makes it a distance between means
                    kl = (ratio - 1 - (new_log_prob - log_prob[batch])).mean()
                    clipped = ((ratio - 1).abs() > config.clip).float().mean()
                    spread = log_sigma.exp().mean()
            return kl, clipped, spread

        if self._beside:
            critic = self._beside.submit(improve_critic)
            kl, clipped, spread = improve_policy()
            critic_loss = critic.result()
        else:
            kl, clipped, spread = improve_policy()
            critic_loss = improve_critic()
        return {
            "reward": _mean_reward(rollout),
            "kl": float(kl),
            "clipped": float(clipped),
            "sigma": float(spread),
            "critic_loss": float(critic_loss.detach()),
        }

    def _descend(self, optimiser: torch.optim.Optimizer, loss: Tensor, rate: float) -> None:
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], self.config.max_grad_norm)
        optimiser.step()


def _mean_reward(rollout: Rollout) -> float:
    return float((rollout.reward * rollout.scored).sum() / rollout.scored.sum().clamp_min(1))


def _nothing_learned(rollout: Rollout, sigma: float) -> dict[str, float]:
    return {"reward": _mean_reward(rollout), "kl": 0.0, "clipped": 0.0, "sigma": sigma, "critic_loss": 0.0}


def _anneal(start: float, end: float | None, progress: float) -> float:
    return start if end is None else start + (end - start) * min(max(progress, 0.0), 1.0)


def _adapt(factor: float, kl: float, target: float) -> float:
    if kl > 2.0 * target:
        factor /= 1.5
    elif kl < 0.5 * target:
        factor *= 1.5
    return min(max(factor, 1e-2), 1e2)
