"""Policy and critic: two separate multi-layer perceptrons behind one input normaliser."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from skillfield.learning.normalisation import RunningNormaliser, ValueScale

__all__ = ["ActorCritic", "mlp"]


def mlp(inputs: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """Linear layers with ReLU between them (paper)."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class ActorCritic(nn.Module):
    """Everything that a checkpoint needs to act: normaliser, policy, critic, its scale, and the history encoder."""

    def __init__(
        self,
        observations: int,
        actions: int,
        hidden: Sequence[int],
        encoder: nn.Module | None = None,
        learned_spread: float | None = None,
        first_action: Tensor | None = None,
        half: bool = False,
        insight: int = 0,
    ) -> None:
        """encoder: frozen; the environment uses it, it is here to be saved with the rest.

        learned_spread: initial σ of a policy that learns its own, or None for a fixed one.
        first_action: what an untrained policy does whatever it sees [A]; the neutral action if not given.
        half: hidden layers in bfloat16, on a GPU, and while it learns on a CPU that has instructions for it. The last
            layer stays precise: a mean action is compared with itself on the scale of σ.
        insight: numbers that the critic is told beside what the policy sees.
        """
        super().__init__()
        self.actions, self.insight = actions, insight
        self._half = {"cuda": half, "cpu": half and _cpu_has_bfloat16()}
        self.encoder = None if encoder is None else encoder.requires_grad_(False).eval()
        self.learned_spread = learned_spread
        self.normaliser = RunningNormaliser(observations)
        self.policy = mlp(observations, hidden, actions if learned_spread is None else 2 * actions)
        self.critic = mlp(observations + insight, hidden, 1)
        self.value_scale = ValueScale()
        with torch.no_grad():  # start near one pose
            self._last(self.policy).weight.mul_(0.1)
            self._last(self.policy).bias.zero_()
            if first_action is not None:
                self._last(self.policy).bias[:actions].copy_(first_action)

    def act(self, observation: Tensor) -> Tensor:
        """The policy's mean action for raw observations: what is used in tests.  [E, A]

        On every CPU it is computed in float32, so that a test has one result.
        """
        seen = self.normaliser(observation)
        output = self._run(self.policy, seen) if seen.is_cuda else self.policy(seen)
        return output[..., : self.actions]

    def distribution(self, normalised_observation: Tensor, log_sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log σ of the action. log_sigma: used unless the policy learns its own.  [E, A], [] → [E, A] each"""
        output = self._run(self.policy, normalised_observation)
        if self.learned_spread is None:
            return output, log_sigma.expand_as(output)
        mean, change = output.split(self.actions, dim=-1)
        initial = math.log(self.learned_spread)
        # within the released limits: a little under the initial σ to three times as much
        return mean, (initial + change).clamp(initial - 0.1, initial + 1.1)

    def value(self, normalised_observation: Tensor, insight: Tensor | None = None) -> Tensor:
        """Expected return of normalised observations, in real units. insight: what else it is told.  [E]"""
        return self.value_scale.to_real(self.scaled_value(normalised_observation, insight))

    def scaled_value(self, normalised_observation: Tensor, insight: Tensor | None = None) -> Tensor:
        """The same on the critic's own scale: what it learns.  [E]"""
        known = normalised_observation
        if self.insight and insight is not None:
            known = torch.cat((normalised_observation, insight), dim=-1)
        return self._run(self.critic, known).squeeze(-1)

    def _run(self, network: nn.Sequential, x: Tensor) -> Tensor:
        device = x.device.type
        if not self._half[device]:
            return network(x)
        with torch.autocast(device, torch.bfloat16):
            hidden = network[:-1](x)
        return network[-1](hidden.float())

    def update_value_scale(self, returns: Tensor) -> None:
        """Move the critic's scale towards a batch of returns."""
        self.value_scale.update(returns, self._last(self.critic))

    @staticmethod
    def _last(network: nn.Sequential) -> nn.Linear:
        layer = network[-1]
        assert isinstance(layer, nn.Linear)
        return layer


def _cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies in bfloat16; where it does not, converting to it costs more than it saves."""
    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch
        return False
    features = torch.cpu.get_capabilities()
    return any(features.get(name, False) for name in ("avx512_bf16", "amx_bf16"))
