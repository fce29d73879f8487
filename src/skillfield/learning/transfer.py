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

from skillfield.configuration import to_dict
from skillfield.errors import CheckpointError
from skillfield.learning.checkpoint import HistoryShape, SavedState, history_shape, install, load_model
from skillfield.learning.normalisation import RunningNormaliser
from skillfield.learning.ppo import PPO

__all__ = ["begin_with", "with_skills"]


def begin_with(checkpoint: Path, ppo: PPO) -> tuple[str, ...]:
    """Give a new learner the networks of a checkpoint, and say which skills these have learned.

    Its optimisers and its record of hard starts are its own. An adaptive step size begins at the same share of the
    configured one; a lesson's does not adapt, and what follows it begins anew.
    """
    model, state = load_model(checkpoint)
    weights, known, wanted = model.state_dict(), _skills(state), ppo.env.motion.skills
    if not known:
        raise CheckpointError(f"{checkpoint}: does not say which skills it has learned")
    if spoilt := [name for name, value in weights.items() if not value.isfinite().all()]:
        raise CheckpointError(f"{checkpoint}: not finite: {', '.join(spoilt)}")
    try:
        _check_senses(checkpoint, state, ppo, len(known))
        renamed = with_skills(weights, ppo.env.condition.start, known, wanted)
        install(checkpoint, replace(state, observations=ppo.env.observation_size), renamed, ppo)
    except CheckpointError as problem:
        was = f"task '{state.identity.get('task')}', method '{state.identity.get('method')}'"
        raise CheckpointError(f"{problem} (that policy: {was})") from None
    ppo.kl_factor = ppo.factor(state.kl_factor)
    return known


def _skills(state: SavedState) -> tuple[str, ...]:
    """In the order of their code; none where that cannot be told."""
    skills = state.identity.get("skills")
    if not isinstance(skills, list) or not all(isinstance(skill, str) for skill in skills):
        return ()
    return tuple(skills) if len(set(skills)) == len(skills) < state.observations else ()


def _check_senses(checkpoint: Path, state: SavedState, ppo: PPO, num_known: int) -> None:
    """Refuse a policy that sees, remembers or explores otherwise, even where its networks would fit."""
    sees = ppo.env.observation_size - len(ppo.env.motion.skills)
    pairs = {
        "memory": _told_apart(state.history, history_shape(ppo)),
        "numbers that it sees beside its skill": (state.observations - num_known, sees),
        "learned σ": (state.learned_spread, ppo.model.learned_spread),
    }
    for what, (had, has) in pairs.items():
        if had != has:
            raise CheckpointError(f"{checkpoint}: not for this run to begin with: its {what}: {had}; this run's: {has}")


def _told_apart(one: HistoryShape | None, other: HistoryShape | None) -> tuple[str, str]:
    """Two memories in words, as far as they differ."""
    if one is None or other is None:
        words = ("none" if each is None else f"encoder of {each.length} frames" for each in (one, other))
        return next(words), next(words)
    flat = [{"features": each.features, "length": each.length, **to_dict(each.encoder)} for each in (one, other)]
    names = [name for name in flat[0] if flat[0][name] != flat[1][name]]
    first, second = (", ".join(f"{name} {each[name]}" for name in names) for each in flat)
    return first, second


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
