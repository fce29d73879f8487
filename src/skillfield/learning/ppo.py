"""Proximal policy optimisation, top to bottom: collect, estimate advantages, improve.

Shape letters: H steps of a rollout, E environments, M samples of a minibatch, A actions.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from skillfield.configuration import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE, check
from skillfield.imitation import ImitationEnv
from skillfield.imitation.guidance import Guidance
from skillfield.learning.networks import ActorCritic
from skillfield.learning.rollout import (
    Lesson,
    Rollout,
    advantages,
    batches_of,
    clipped_objective,
    full_batches,
    normalised_within,
)
from skillfield.recorded import Recorded, fused

__all__ = ["PPO", "PPOConfig"]


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
    """Adapt the step size so that each update moves the policy by about this divergence; None switches it off. A rate
    that it chooses cannot be made to fall by `learning_rate_final`: the factor would make up for it."""
    max_learning_rate: float | None = None
    """The largest step size that `target_kl` may choose; None allows a hundred times the one at the start."""
    critic_learning_rate: float | None = None
    """The critic's step size, which nothing adapts; None is the policy's. What holds the policy back need not hold back
    the critic, which only has to be right."""
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
    guided: bool = False
    """Teach the policy what a guide would do that knows the demonstrations and the physics, in the states that it comes
    to, instead of what earns more than expected; the critic learns as ever. For a first stage."""
    by_skill: bool = False
    """Normalise advantages within each skill, and there apart for steps without objects, so that what has small ones
    learns as fast as the rest."""
    half: bool = False
    """Hidden layers in bfloat16 instead of TF32 on a GPU, or float32 on a CPU that has instructions for it."""
    fused: bool = False
    """On a GPU, compile what is done around the physics, and the losses, into few large kernels."""
    max_grad_norm: float = 1.0
    """Gradient clipping (CleanRL's default is 0.5; the release has none)."""

    def __post_init__(self) -> None:
        check("ppo", self, AT_LEAST_ONE, "hidden", "horizon", "minibatch", "epochs")
        check("ppo", self, POSITIVE, "learning_rate", "target_kl", "max_learning_rate", "sigma", "sigma_final")
        check("ppo", self, POSITIVE, "critic_learning_rate", "clip", "max_grad_norm")
        check("ppo", self, NOT_NEGATIVE, "learning_rate_final", "entropy_peak", "entropy_final", "bound_weight")
        check("ppo", self, SHARE, "gamma", "gae_lambda")


class PPO:
    """The learner. One `update` collects a rollout and improves both networks with it."""

    def __init__(self, env: ImitationEnv, model: ActorCritic, config: PPOConfig) -> None:
        self.env, self.model, self.config = env, model, config
        self.policy_optimiser, self.critic_optimiser = (
            _optimiser(network, config.learning_rate, env.device) for network in (model.policy, model.critic)
        )
        self._guide = Guidance(env) if config.guided else None
        self._rollout: Rollout | None = None
        self._lesson: Lesson | None = None
        self._log_sigma = torch.zeros((), device=env.device)
        self._decide = Recorded(self._decide_now, env.device)
        self._policy_loss, self._critic_loss = self._policy_loss_now, self._critic_loss_now
        if config.fused and env.device.type == "cuda":
            env.fuse()
            self._decide.fuse()
            self._policy_loss, self._critic_loss = fused(self._policy_loss_now), fused(self._critic_loss_now)
        self.kl_factor = 1.0  # what `target_kl` has made of the step size
        self.observation: Tensor | None = None
        self.seconds = {"simulation": 0.0, "augmentation": 0.0, "inference": 0.0, "learning": 0.0}
        # The networks share nothing, so on a CPU they learn side by side, one core each.
        self._beside = ThreadPoolExecutor(1) if env.device.type == "cpu" else None

    @property
    def max_factor(self) -> float:
        """Of the step size, whatever `target_kl` asks for."""
        largest = self.config.max_learning_rate
        return math.inf if largest is None else largest / self.config.learning_rate

    def factor(self, adapted: float) -> float:
        """Of the step size: what it has become where it adapts, as far as it may; 1 where nothing adapts it."""
        adapts = self.config.target_kl is not None and not self.config.guided
        return min(adapted, self.max_factor) if adapts else 1.0

    @property
    def samples_per_update(self) -> int:
        """Environment steps in one update."""
        return self.config.horizon * self.env.num_envs

    def update(self, progress: float) -> dict[str, float]:
        """One round of PPO. progress: share of the training budget that is used up, 0 to 1."""
        config = self.config
        sigma = _anneal(config.sigma, config.sigma_final, progress)
        factor = self.factor(self.kl_factor)
        rate = _anneal(config.learning_rate, config.learning_rate_final, progress) * factor
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
        if config.target_kl is not None and not config.guided and "kl" in metrics:
            self.kl_factor = self.factor(_adapt(factor, metrics["kl"], config.target_kl))
        return metrics | {"learning_rate": rate}

    @torch.no_grad()
    def collect(self, observation: Tensor, sigma: float) -> Rollout:
        """Act in the environments for one horizon. The result is overwritten by the next call."""
        env, model, steps = self.env, self.model, self.config.horizon
        self._rollout = rollout = self._rollout or Rollout.empty(steps, env, self.config.guided)
        on_cpu = env.device.type == "cpu"
        self._log_sigma.fill_(math.log(sigma))
        rollout.bootstrap.zero_()
        rollout.cut.zero_()
        for step in range(steps):
            clock = time.perf_counter()
            rollout.raw[step], rollout.insight[step] = observation, env.insight
            rollout.skill[step], rollout.away[step] = env.skill, env.away
            if self._guide is not None:
                rollout.guide[step] = self._guide()
            seen, action, log_prob = self._decide(observation)
            acted = time.perf_counter()
            result = env.step(action)
            simulated = time.perf_counter()
            rollout.observation[step], rollout.action[step], rollout.log_prob[step] = seen, action, log_prob
            rollout.reward[step] = result.reward
            rollout.done[step] = result.terminated | result.truncated
            rollout.scored[step], rollout.earning[step] = result.scored, result.earning
            rollout.trained[step] = result.trained
            finals = result.finals
            if finals is None:
                rollout.cut[step] = result.continues
                rollout.trained[step] &= ~result.continues
            elif len(finals.envs):
                value = model.value(model.normaliser(finals.observation), finals.insight)
                rollout.bootstrap[step, finals.envs] = value * result.continues[finals.envs]
            observation = result.observation
            if on_cpu:  # elsewhere these would only say how long it takes to ask for something
                self.seconds["simulation"] += simulated - acted
                self.seconds["inference"] += acted - clock + time.perf_counter() - simulated
        rollout.last_observation, rollout.last_insight = model.normaliser(observation), env.insight.clone()
        self.observation = observation
        model.normaliser.update(rollout.usual())
        return rollout

    def _decide_now(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the policy sees, an action drawn from it, and how likely that was.  [E, obs] → [E, obs], [E, A], [E]"""
        seen = self.model.normaliser(observation)
        mean, log_sigma = self.model.distribution(seen, self._log_sigma)
        noise = torch.randn_like(mean)
        return seen, mean + log_sigma.exp() * noise, -(0.5 * noise.square() + log_sigma).sum(-1)

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
        """Several epochs of minibatches on both networks. Without samples to learn from, nothing is said of that."""
        config, model, lesson = self.config, self.model, self._lesson_of(rollout)
        with torch.no_grad():
            value = model.value(rollout.observation, rollout.insight)
            last_value = model.value(rollout.last_observation, rollout.last_insight)
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
                return self._summary(rollout)
            model.update_value_scale(returns[trained])
            lesson.target.copy_(model.value_scale.to_normalised(returns))
            group = rollout.kind(config.by_skill).flatten()[trained]
            lesson.advantage[trained] = normalised_within(advantage[trained], group, 2 * self.env.num_skills)
        lesson.entropy_weight.fill_(entropy_weight)
        self._log_sigma.fill_(math.log(sigma))
        self._set_rates(rate)
        batches = self._batches(trained)

        def improve_critic() -> Tensor:
            return [self._improve_critic(batch) for batch in batches][-1]

        def improve_policy() -> Tensor:
            figures = [self._improve_policy(batch) for batch in batches][-1]
            return figures if len(batches) > 1 else self._figures_after(lesson, batches[0])

        if self._beside:
            critic = self._beside.submit(improve_critic)
            figures = improve_policy()
            critic_loss = critic.result()
        else:
            figures, critic_loss = improve_policy(), improve_critic()
        kl, clipped, spread = figures.tolist()
        loss = float(critic_loss)
        return {**self._summary(rollout), "kl": kl, "clipped": clipped, "sigma": spread, "critic_loss": loss}

    def _summary(self, rollout: Rollout) -> dict[str, float]:
        """Mean reward of the scored steps; the share of all steps that are scored and earn something; the share without
        objects."""
        scored = rollout.scored
        figures = {
            "reward": (rollout.reward * scored).sum() / scored.sum().clamp_min(1),
            "earning": rollout.earning.float().mean(),
            "away": rollout.away.float().mean(),
        }
        return dict(zip(figures, torch.stack(list(figures.values())).tolist(), strict=True))

    def _lesson_of(self, rollout: Rollout) -> Lesson:
        """Room for what is learned; what is recorded belongs to the memory that it was recorded with."""
        if self._lesson is None or self._lesson.rollout is not rollout:
            self._lesson = lesson = Lesson.of(rollout)
            device = rollout.reward.device
            self._improve_policy = Recorded(partial(self._improve_policy_now, lesson), device)
            self._improve_critic = Recorded(partial(self._improve_critic_now, lesson), device)
        return self._lesson

    def _batches(self, trained: Tensor) -> list[Tensor]:
        """Minibatches of sample numbers, several times through all of them in random order.

        What is recorded needs batches of one size.
        """
        count, size, device = len(trained), min(self.config.minibatch, self.samples_per_update), trained.device
        within = full_batches(count, size, device) if trained.is_cuda else batches_of(count, size)
        orders = (trained[torch.randperm(count, device=device)] for _ in range(self.config.epochs))
        return [order[batch] for order in orders for batch in within]

    def _improve_critic_now(self, lesson: Lesson, batch: Tensor) -> Tensor:
        """One step of the critic; its loss.  [M] → []"""
        loss = self._critic_loss(lesson, batch)
        self._descend(self.critic_optimiser, loss)
        return loss.detach()

    def _critic_loss_now(self, lesson: Lesson, batch: Tensor) -> Tensor:
        value = self.model.scaled_value(*(each.index_select(0, batch) for each in (lesson.observation, lesson.insight)))
        return (value - lesson.target[batch]).square().mean()

    def _improve_policy_now(self, lesson: Lesson, batch: Tensor) -> Tensor:
        """One step of the policy; how far it had moved before, how much of that was clipped, and its mean σ.
        [M] → [3]"""
        loss, figures = self._policy_loss(lesson, batch)
        self._descend(self.policy_optimiser, loss)
        return figures.detach()

    @torch.no_grad()
    def _figures_after(self, lesson: Lesson, batch: Tensor) -> Tensor:
        """The same after the step: before the first one nothing has moved.  [M] → [3]"""
        return self._policy_loss_now(lesson, batch)[1]

    def _policy_loss_now(self, lesson: Lesson, batch: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config
        observation, action = (each.index_select(0, batch) for each in (lesson.observation, lesson.action))
        mean, log_sigma = self.model.distribution(observation, self._log_sigma)
        scaled = (action - mean) * torch.exp(-log_sigma)
        change = -(0.5 * scaled.square() + log_sigma).sum(-1) - lesson.log_prob[batch]
        ratio = change.clamp(-20, 20).exp()
        bound = (mean.abs() - 1).clamp_min(0).square().sum(-1)
        if config.guided:
            missed = ((lesson.guide[batch] - mean) * torch.exp(-log_sigma.detach())).square().sum(-1)
            gain = -0.5 * lesson.reward[batch] * missed  # who has lost the way learns nothing from a linear law
        else:
            gain = clipped_objective(ratio, lesson.advantage[batch], config.clip)
        loss = (config.bound_weight * bound - gain - lesson.entropy_weight * log_sigma.sum(-1)).mean()
        with torch.no_grad():  # a fixed σ makes the divergence a distance between means
            clipped = ((ratio - 1).abs() > config.clip).float().mean()
            return loss, torch.stack(((ratio - 1 - change).mean(), clipped, log_sigma.exp().mean()))

    def _descend(self, optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], self.config.max_grad_norm)
        optimiser.step()

    def _set_rates(self, rate: float) -> None:
        """Tell the optimisers their step sizes."""
        own = self.config.critic_learning_rate
        _set_rate(self.policy_optimiser, rate)
        _set_rate(self.critic_optimiser, rate if own is None else own)


def _set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """What is recorded reads the step size from a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _optimiser(network: torch.nn.Module, rate: float, device: torch.device) -> torch.optim.Adam:
    if device.type != "cuda":
        return torch.optim.Adam(network.parameters(), rate, fused=True)
    optimiser = torch.optim.Adam(network.parameters(), torch.tensor(rate, device=device), fused=True, capturable=True)
    optimiser._warned_capturable_if_run_uncaptured = True  # rehearsals are no accident
    return optimiser


def _anneal(start: float, end: float | None, progress: float) -> float:
    return start if end is None else start + (end - start) * min(max(progress, 0.0), 1.0)


def _adapt(factor: float, kl: float, target: float) -> float:
    if kl > 2.0 * target:
        factor /= 1.5
    elif kl < 0.5 * target:
        factor *= 1.5
    return min(max(factor, 1e-2), 1e2)
