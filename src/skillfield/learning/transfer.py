"""Begin with the networks of another policy, whichever skills it has learned.

A policy is told its skill by a one-hot code behind what it perceives. What the first layer of a network makes of it is
one vector per skill, so a policy with other skills needs other vectors and nothing else: known skills keep theirs, and
a new one begins with the mean of all of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from skillfield.errors import CheckpointError
from skillfield.learning.checkpoint import install, load_model
from skillfield.learning.normalisation import RunningNormaliser
from skillfield.learning.ppo import PPO

__all__ = ["begin_with", "with_skills"]


def begin_with(checkpoint: Path, ppo: PPO) -> None:
    """Give a new learner the networks of a checkpoint. Its optimisers and its record of hard starts are its own."""
    model, state = load_model(checkpoint)
    known, wanted = state.identity.get("skills"), ppo.env.motion.skills
    if not isinstance(known, list) or not known:
        raise CheckpointError(f"{checkpoint}: does not say which skills it has learned")
    seen, sees = state.observations - len(known), ppo.env.observation_size - len(wanted)
    if seen != sees:
        raise CheckpointError(
            f"{checkpoint}: this policy sees {seen} numbers beside its skill, a new one of this run sees {sees}; "
            "character, objects and what is remembered (the method's history) must be the same"
        )
    weights = with_skills(model.state_dict(), ppo.env.condition.start, known, wanted)
    install(checkpoint, replace(state, observations=ppo.env.observation_size), weights, ppo)


def with_skills(
    tensors: dict[str, Tensor], first: int, known: Sequence[str], wanted: Sequence[str]
) -> dict[str, Tensor]:
    """The same networks for other skills: what they do when asked for a known one does not change.

    first: column of an observation at which the one-hot code begins.
    """
    if list(known) == list(wanted):
        return tensors
    old, new = slice(first, first + len(known)), slice(first, first + len(wanted))
    chance = 1.0 / len(wanted)
    mean, variance = (tensors[f"normaliser.{name}"] for name in ("mean", "variance"))
    changed = {
        "normaliser.mean": _replaced(mean, old, torch.full((len(wanted),), chance)),
        "normaliser.variance": _replaced(variance, old, torch.full((len(wanted),), chance * (1.0 - chance))),
    }
    off, on = _codes(mean[old], variance[old])
    new_off, new_on = _codes(changed["normaliser.mean"][new], changed["normaliser.variance"][new])
    for network in ("policy", "critic"):
        weight, bias = tensors[f"{network}.0.weight"], tensors[f"{network}.0.bias"]
        by_skill = dict(zip(known, (weight[:, old] * (on - off)).unbind(1), strict=True))
        average = torch.stack(list(by_skill.values())).mean(dim=0)
        columns = torch.stack([by_skill.get(skill, average) for skill in wanted], dim=1) / (new_on - new_off)
        changed[f"{network}.0.weight"] = _replaced(weight, old, columns)
        changed[f"{network}.0.bias"] = bias + weight[:, old] @ off - columns @ new_off
    return tensors | changed


def _codes(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """A skill that is not asked for and one that is, as a network sees them.  [S], [S] → [S] each"""
    normaliser = RunningNormaliser(len(mean))
    normaliser.mean.copy_(mean)
    normaliser.variance.copy_(variance)
    return normaliser(torch.zeros_like(mean)), normaliser(torch.ones_like(mean))


def _replaced(tensor: Tensor, columns: slice, by: Tensor) -> Tensor:
    return torch.cat((tensor[..., : columns.start], by, tensor[..., columns.stop :]), dim=-1)
