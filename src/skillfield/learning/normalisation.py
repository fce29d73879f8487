"""Running statistics: inputs with mean 0 and spread 1, and values on a scale that the critic can learn."""

import torch
from torch import Tensor, nn

__all__ = ["RunningNormaliser", "ValueScale"]


class RunningNormaliser(nn.Module):
    """Mean and variance of everything seen so far; outputs are clipped to ±`clip`."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, size: int, clip: float = 5.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, batch: Tensor) -> None:
        """Fold in a batch [n, size] (Chan's parallel formula); an empty one changes nothing."""
        if not len(batch):
            return
        batch_mean, batch_variance, n = batch.mean(0), batch.var(0, unbiased=False), float(len(batch))
        total = self.count + n
        share = (n / total).float()
        shift = batch_mean - self.mean
        self.variance += share * (batch_variance - self.variance + (1 - share) * shift.square())
        self.mean += share * shift
        self.count.copy_(total)

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) * torch.rsqrt(self.variance + 1e-5)).clamp(-self.clip, self.clip)


class ValueScale(nn.Module):
    """Mean and spread of returns; moving them rescales the critic's last layer, so its predictions stay the same."""

    mean: Tensor
    spread: Tensor
    started: Tensor

    def __init__(self, rate: float = 0.02) -> None:
        super().__init__()
        self.rate = rate
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def update(self, returns: Tensor, head: nn.Linear) -> None:
        """Move towards the statistics of a batch of returns, and keep `head`'s output in real units unchanged."""
        rate = torch.where(self.started, self.rate, 1.0)
        old_mean, old_spread = self.mean.clone(), self.spread.clone()
        self.mean += rate * (returns.mean() - self.mean)
        self.spread += rate * (returns.std().clamp_min(1e-2) - self.spread)
        self.started.fill_(True)
        head.weight.mul_(old_spread / self.spread)
        head.bias.copy_((head.bias * old_spread + old_mean - self.mean) / self.spread)

    def to_real(self, normalised: Tensor) -> Tensor:
        """Critic output → return."""
        return normalised * self.spread + self.mean

    def to_normalised(self, value: Tensor) -> Tensor:
        """Return → critic output."""
        return (value - self.mean) / self.spread
