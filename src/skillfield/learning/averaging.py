"""The mean of a network over its last updates.

Every update moves a policy partly at random, and with steps that do not shrink it ends somewhere around what it has
learned. The mean of where it was is closer to that.
"""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

__all__ = ["Average"]


class Average:
    """The mean of a network's weights over all updates at first, and later over about the last so many."""

    def __init__(self, network: nn.Module, updates: int) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.count = 0
        """Updates that it has seen."""
        self._followed, self._updates = network, updates

    def follow(self) -> None:
        """Take in what the network is now."""
        self.count += 1
        mean, latest = _tensors(self.network.parameters()), _tensors(self._followed.parameters())
        torch._foreach_lerp_(mean, latest, 1.0 / min(self.count, self._updates))


def _tensors(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [parameter.detach() for parameter in parameters]
