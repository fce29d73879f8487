"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all. Nothing is executed on load.

A run folder holds `checkpoints/NUMBER/` and a one-line file `checkpoints/latest` that names the newest complete one.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from skillfield.configuration import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, check, from_dict, to_dict
from skillfield.errors import CheckpointError, ConfigError
from skillfield.files import atomic_directory, atomic_file, read_json, write_json
from skillfield.learning.history_encoder import EncoderConfig, HistoryEncoder
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO

__all__ = [
    "FORMAT_VERSION",
    "Counters",
    "HistoryShape",
    "SavedState",
    "has_checkpoint",
    "history_shape",
    "install",
    "latest_checkpoint",
    "load_model",
    "resume",
    "save_checkpoint",
    "saved_counters",
]

FORMAT_VERSION = 1
_KEEP = 2
_MAX_WORLDS = 32 * 2**20
"""Bytes of world states that a checkpoint holds at most. Thousands of worlds with their histories would be hundreds of
times larger than the networks; a run resumed without them begins new episodes."""


@dataclass
class Counters:
    """How far a run has come."""

    samples: int = 0
    updates: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class HistoryShape:
    """What a history encoder was made for."""

    features: int
    length: int
    encoder: EncoderConfig

    def __post_init__(self) -> None:
        check("history", self, AT_LEAST_ONE, "features", "length")


@dataclass(frozen=True)
class SavedState:
    """What state.json holds; the last three are missing in older ones."""

    format: int
    identity: Mapping[str, Any]
    """What the checkpoint belongs to: task, method, skills."""
    counters: Counters
    kl_factor: float
    observations: int
    actions: int
    hidden: tuple[int, ...]
    insight: int = 0
    learned_spread: float | None = None
    history: HistoryShape | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.identity, Mapping):
            raise ConfigError(f"identity: expected names and values, found {type(self.identity).__name__}")
        check("counters", self.counters, NOT_NEGATIVE, "samples", "updates", "seconds")
        check("state", self, AT_LEAST_ONE, "observations", "actions", "hidden")
        check("state", self, NOT_NEGATIVE, "insight")
        check("state", self, POSITIVE, "kl_factor", "learned_spread")


def save_checkpoint(run: Path, ppo: PPO, counters: Counters, identity: dict[str, Any]) -> Path:
    """Write everything that a resumed run needs. identity: what the checkpoint belongs to (task, skills, …)."""
    path = run / "checkpoints" / f"{counters.updates:08d}"
    state = SavedState(
        format=FORMAT_VERSION,
        identity=identity,
        counters=counters,
        kl_factor=ppo.kl_factor,
        observations=ppo.env.observation_size,
        actions=ppo.env.num_actions,
        hidden=ppo.config.hidden,
        insight=ppo.env.insight_size,
        learned_spread=ppo.model.learned_spread,
        history=history_shape(ppo),
    )
    try:
        shutil.rmtree(path, ignore_errors=True)  # of a training that went on from an earlier checkpoint too
        with atomic_directory(path) as folder:
            save_file(_plain(ppo.model.state_dict()), folder / "model.safetensors")
            save_file(_plain(_training_tensors(ppo)), folder / "training.safetensors")
            write_json(folder / "state.json", to_dict(state))
        with atomic_file(run / "checkpoints" / "latest") as temporary:
            temporary.write_text(path.name + "\n")
        _forget_old(run)
    except (OSError, SafetensorError) as problem:
        raise CheckpointError(f"{path}: cannot be written, the previous checkpoint is intact: {problem}") from None
    return path


def has_checkpoint(run: Path) -> bool:
    """Whether a run has come to its first one."""
    return (run / "checkpoints" / "latest").exists()


def latest_checkpoint(run: Path) -> Path:
    """The newest complete checkpoint of a run folder, or the folder itself if it is a checkpoint."""
    if (run / "state.json").is_file():
        return run
    pointer = run / "checkpoints" / "latest"
    try:
        name = pointer.read_text().strip()
    except UnicodeDecodeError as problem:
        raise CheckpointError(f"{pointer}: names no checkpoint: {problem}") from None
    except OSError:
        raise CheckpointError(f"{run}: no checkpoint here (looked for {pointer})") from None
    path = run / "checkpoints" / name
    with suppress(OSError):  # too long for a name
        if (path / "state.json").is_file():
            return path
    raise CheckpointError(f"{pointer} names '{name}', but {path} holds no complete checkpoint")


def load_model(checkpoint: Path, identity: dict[str, Any] | None = None) -> tuple[ActorCritic, SavedState]:
    """The networks of a checkpoint and its state.json. identity: what it must belong to, if that matters."""
    state = _read_state(checkpoint)
    for key, wanted in (identity or {}).items():
        found = state.identity.get(key)
        if found != wanted:
            raise CheckpointError(f"{checkpoint}: {key} of the checkpoint is {found!r}, this run has {wanted!r}")
    encoder = HistoryEncoder(shape.features, shape.length, shape.encoder) if (shape := state.history) else None
    sizes = (state.observations, state.actions, state.hidden)
    model = ActorCritic(*sizes, encoder, state.learned_spread, insight=state.insight)
    _load_into(model, _read_tensors(checkpoint / "model.safetensors"), checkpoint / "model.safetensors")
    return model, state


def saved_counters(checkpoint: Path) -> Counters:
    """How far a run had come."""
    return _read_state(checkpoint).counters


def resume(checkpoint: Path, ppo: PPO, identity: dict[str, Any]) -> Counters:
    """Put a learner into the state of a checkpoint: networks, optimisers, sampler, random numbers, and worlds if it has
    them; others begin new episodes. A critic that is told more than before begins by disregarding it.
    """
    model, state = load_model(checkpoint, identity)
    path = checkpoint / "training.safetensors"
    tensors = _with_inputs(_read_tensors(path), _more_inputs(state, ppo))
    install(checkpoint, state, model.state_dict(), ppo)
    try:
        for name, optimiser in _optimisers(ppo).items():
            _restore_optimiser(optimiser, _below(tensors, name))
        ppo.env.sampler.load_state_dict(_below(tensors, "sampler"))
        worlds = _below(tensors, "env")
        if "observation" in tensors and ppo.env.can_restore(worlds):  # others start anew
            ppo.env.restore(worlds)
            ppo.observation = tensors["observation"].to(ppo.env.device)
        torch.set_rng_state(tensors["random_state"])
        if "cuda_random_state" in tensors and ppo.env.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["cuda_random_state"], ppo.env.device)
    except (KeyError, RuntimeError, TypeError, ValueError) as problem:
        raise CheckpointError(f"{path}: does not fit this run: {problem}") from None
    ppo.kl_factor = state.kl_factor
    return state.counters


def install(checkpoint: Path, state: SavedState, weights: dict[str, Tensor], ppo: PPO) -> None:
    """Give a learner these networks, with the σ that theirs is relative to if it is learned. A critic that is told more
    than before begins by disregarding it."""
    more = _more_inputs(state, ppo)
    shapes = (ppo.env.observation_size, ppo.env.num_actions, ppo.env.insight_size, ppo.config.hidden)
    found = (state.observations, state.actions, state.insight + more, state.hidden)
    if shapes != found:
        what = "(observations, actions, insight, hidden)"
        raise CheckpointError(f"{checkpoint}: {what} of the checkpoint are {found}, this run has {shapes}")
    _load_into(ppo.model, _with_inputs(weights, more), checkpoint / "model.safetensors")
    ppo.model.learned_spread = state.learned_spread
    if ppo.env.history is not None:
        ppo.env.history.refresh()


def _more_inputs(state: SavedState, ppo: PPO) -> int:
    """Numbers that the critic is told now and was not when it was saved."""
    return ppo.env.insight_size if state.insight == 0 else 0


def _with_inputs(tensors: dict[str, Tensor], more: int) -> dict[str, Tensor]:
    """The same with weights 0, and nothing learned about them yet, for more inputs of the critic."""
    first = ("critic.0.weight", "critic_optimiser/0/exp_avg", "critic_optimiser/0/exp_avg_sq")
    return tensors | {name: functional.pad(tensors[name], (0, more)) for name in first if name in tensors}


def history_shape(ppo: PPO) -> HistoryShape | None:
    """What a learner's history encoder was made for, if it has one."""
    encoder, history = ppo.model.encoder, ppo.env.history
    if not isinstance(encoder, HistoryEncoder) or history is None:
        return None
    return HistoryShape(history.features, history.length, encoder.config)


def _training_tensors(ppo: PPO) -> dict[str, Tensor]:
    tensors = {"random_state": torch.get_rng_state()}
    if ppo.env.device.type == "cuda":
        tensors["cuda_random_state"] = torch.cuda.get_rng_state(ppo.env.device)
    for name, optimiser in _optimisers(ppo).items():
        for number, values in optimiser.state_dict()["state"].items():
            tensors |= {f"{name}/{number}/{key}": value for key, value in values.items()}
    tensors |= {f"sampler/{key}": value for key, value in ppo.env.sampler.state_dict().items()}
    worlds = {f"env/{key}": value for key, value in ppo.env.snapshot().items()}
    if ppo.observation is None or sum(value.nbytes for value in worlds.values()) > _MAX_WORLDS:
        return tensors
    return tensors | worlds | {"observation": ppo.observation}


def _optimisers(ppo: PPO) -> dict[str, torch.optim.Optimizer]:
    return {"policy_optimiser": ppo.policy_optimiser, "critic_optimiser": ppo.critic_optimiser}


def _restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, key = name.split("/")
        state.setdefault(int(number), {})[key] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}/"): value for name, value in tensors.items() if name.startswith(f"{prefix}/")}


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}


def _read_state(checkpoint: Path) -> SavedState:
    path = checkpoint / "state.json"
    state = read_json(path, CheckpointError)
    version = state.get("format") if isinstance(state, dict) else None
    if version != FORMAT_VERSION:
        raise CheckpointError(f"{checkpoint}: checkpoint format {version}, this version reads {FORMAT_VERSION}")
    known = {field.name for field in fields(SavedState)}
    try:
        return from_dict(SavedState, {name: value for name, value in state.items() if name in known}, str(path))
    except ConfigError as problem:
        raise CheckpointError(str(problem)) from None


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except (OSError, SafetensorError) as problem:
        raise CheckpointError(f"{path}: damaged or not safetensors: {problem}") from None


def _load_into(model: ActorCritic, tensors: dict[str, Tensor], path: Path) -> None:
    wanted = model.state_dict()
    for name, value in wanted.items():
        found = tuple(tensors[name].shape) if name in tensors else None
        if found != tuple(value.shape):
            raise CheckpointError(f"{path}: tensor '{name}' has shape {found}, the network needs {tuple(value.shape)}")
    if unknown := sorted(tensors.keys() - wanted.keys()):
        raise CheckpointError(f"{path}: tensors {unknown} are of another network")
    model.load_state_dict(tensors)


def _forget_old(run: Path) -> None:
    complete = sorted(
        path for path in (run / "checkpoints").iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    newest = latest_checkpoint(run)  # whatever lies here with a higher number is of another training
    for path in complete[:-_KEEP]:
        if path != newest:
            shutil.rmtree(path, ignore_errors=True)
