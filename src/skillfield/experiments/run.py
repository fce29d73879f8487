"""One run: its configuration, its folder, and the objects that it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.drives import DrivePositions
from skillfield.configuration import AT_LEAST_ONE, NOT_NEGATIVE, Range, changed, check, from_dict, to_dict
from skillfield.errors import ClipError, ConfigError
from skillfield.experiments.methods import method
from skillfield.experiments.recordings import clip_folder, task_clips
from skillfield.experiments.stages import Stage, check_stages, merged, stage_at, without
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import task
from skillfield.files import read_json, write_json
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.history import History
from skillfield.learning.history_encoder import EncoderConfig, HistoryEncoder, pretrained_encoder
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.learning.training import Budget
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion
from skillfield.reference.detours import with_detours
from skillfield.reference.looping import looped
from skillfield.reference.states import StateKinematics
from skillfield.simulation import choose_device, make_engine

__all__ = [
    "Origin",
    "RunConfig",
    "build_encoder",
    "build_env",
    "build_motion",
    "build_ppo",
    "load_config",
    "preset",
    "save_config",
]


_STAGED = ("env.", "augmentation.", "ppo.")
"""What stages can change; the rest is what a run is."""

_KEPT = frozenset({"ppo.hidden", "ppo.exploration", "ppo.first_action", "env.history", "env.history_length"})
"""But not these, which make the networks what they are."""

_WITHOUT_OWN = {"env.p_carry": 0.0, "env.p_lost": 0.0, "augmentation.p_away": 0.0, "augmentation.detours": False}
"""What holds at all times for methods without states of the policy's own."""

_OF_THE_POLICY = {"ppo.sigma"}
"""What no stage changes for methods with a learned σ: it is part of their networks."""

_SEED = Range(lambda seed: -(2**63) <= seed < 2**64, "it must fit into 64 bits")


@dataclass(frozen=True)
class Origin:
    """The policy that a run began with."""

    policy: str
    """Its folder, or its name if it comes with the package."""
    samples: int
    """That it had learned from by then, with those of its own origin."""

    def __post_init__(self) -> None:
        check("origin", self, NOT_NEGATIVE, "samples")


@dataclass(frozen=True)
class RunConfig:
    """A run, fully resolved: what `config.json` in the run folder holds."""

    task: str
    method: str = "sm"
    seed: int = 0
    num_envs: int = 1024
    threads: int = 0
    """Simulation threads on a CPU; 0 takes every core."""
    device: str = "auto"
    """Where it is simulated and learned: cpu, cuda, or auto."""
    data: str | None = None
    """Folder of the clips, where it was not the task's own or the usual one."""
    budget: Budget = field(default_factory=Budget)
    env: EnvConfig = field(default_factory=EnvConfig)
    augmentation: Augmentation = field(default_factory=Augmentation)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    stages: tuple[Stage, ...] = ()
    """What changes in the course of the training; the settings above are those that it begins with."""
    origin: Origin | None = None
    """What its networks were before its first sample; None if they knew nothing."""

    def __post_init__(self) -> None:
        check("run", self, AT_LEAST_ONE, "num_envs")
        check("run", self, NOT_NEGATIVE, "threads")
        check("run", self, _SEED, "seed")
        if self.num_envs * self.ppo.horizon < 2:
            raise ConfigError("run: one world (num_envs) for one step (ppo.horizon) is one sample, an update needs two")
        check_stages(self.stages)
        self._check_changes()

    def at(self, samples: int) -> "RunConfig":
        """The settings that hold after so many samples, as a run without stages."""
        resolved = replace(self, stages=())
        for stage in stage_at(self.stages, samples)[0]:
            resolved = changed(resolved, stage.changes, "stages")
        return resolved

    def after(self, origin: Origin) -> "RunConfig":
        """The rest of this training for a policy that has had its beginning elsewhere."""
        had = origin.samples
        left = tuple(replace(stage, after=stage.after - had) for stage in self.stages if stage.after > had)
        return replace(self.at(had), stages=left, origin=origin)

    def in_the_end(self) -> "RunConfig":
        """The settings that hold when every stage has begun."""
        return self.at(self.stages[-1].after) if self.stages else self

    def _check_changes(self) -> None:
        """Refuse changes to what is not there, has other values, or must stay as it is, before the training begins."""
        told = self.env.insight
        for stage in self.stages:
            before, told = told, self.at(stage.after).env.insight
            for name in stage.changes:
                if name in _KEPT or not name.startswith(_STAGED):
                    raise ConfigError(f"stages: '{name}' cannot change in the course of a training")
            if before and not told:
                raise ConfigError("stages: 'env.insight' cannot be taken back: a critic that has it relies on it")

    def identity(self, skills: Sequence[str]) -> dict[str, Any]:
        """What a checkpoint of this run belongs to."""
        return {"task": self.task, "method": self.method, "skills": list(skills)}


def preset(of: str | Task, method_name: str = "sm") -> RunConfig:
    """The settings that train a task well."""
    chosen = task(of)
    switches = method(method_name)
    config = RunConfig(
        task=chosen.name,
        method=method_name,
        num_envs=chosen.num_envs,
        device=chosen.device,
        budget=Budget(minutes=chosen.minutes),
        env=replace(chosen.env, reward=switches.reward, history=switches.history),
        augmentation=replace(
            chosen.augmentation,
            neighbourhood=switches.nsi or switches.stf,
            connect=switches.stf,
            stitch=switches.stg,
            adapt=switches.ats,
        ),
        encoder=chosen.encoder,
        ppo=replace(chosen.ppo, exploration=switches.exploration),
        stages=merged(chosen.stages, chosen.own_stages if switches.own else ()),
    )
    if switches.exploration == "learned":
        config = replace(config, stages=without(config.stages, _OF_THE_POLICY))
    if switches.own:
        return changed(config, {}, "task")
    return changed(replace(config, stages=without(config.stages, _WITHOUT_OWN)), _WITHOUT_OWN, "method")


def save_config(config: RunConfig, run: Path) -> None:
    """Write config.json."""
    write_json(run / "config.json", to_dict(config))


def load_config(run: Path) -> RunConfig:
    """Read config.json of a run folder."""
    path = run / "config.json"
    return from_dict(RunConfig, read_json(path, ConfigError), str(path))


def build_motion(
    chosen: Task, character: Character, device: torch.device | str = "cpu", data: str | None = None
) -> ReferenceMotion:
    """The task's demonstrations as its character sees them."""
    folder = Path(data) if data else None
    clips = task_clips(chosen, folder)
    try:
        return ReferenceMotion(clips, character, chosen.skills, device)
    except ClipError as problem:
        raise ClipError(f"{clip_folder(chosen, folder)}: {problem}") from None


def build_sampler(config: RunConfig, motion: ReferenceMotion, character: Character) -> AugmentedSampler:
    """Where episodes of a run start, and what they follow: demonstrations, what comes after them, and detours."""
    states, weights, steps = StateKinematics(character, motion.device), config.env.weights, config.env.episode_length
    if config.env.clip_end == "loop":
        motion = looped(motion, states, weights, steps)
    if config.augmentation.stitch and config.augmentation.detours:
        motion = with_detours(motion, states, weights, config.augmentation, steps)
    return AugmentedSampler(motion, character, weights, config.augmentation)


def build_env(
    config: RunConfig, motion: ReferenceMotion, character: Character, num_envs: int, encoder: HistoryEncoder | None
) -> ImitationEnv:
    """An environment of a run, with any number of worlds, on the device of its demonstrations."""
    sampler = build_sampler(config, motion, character)
    engine = make_engine(character, num_envs, str(motion.device), config.threads)
    return ImitationEnv(engine, sampler, config.env, encoder)


def build_encoder(
    config: RunConfig, motion: ReferenceMotion, character: Character, begun: bool = False
) -> HistoryEncoder | None:
    """The history encoder, if the run has one: pre-trained, or of a run that has begun, whose checkpoint knows it."""
    if config.env.history != "encoder":
        return None
    history = History(motion, character, 1, config.env.history_length)
    if begun:
        empty = HistoryEncoder(history.features, history.length, config.encoder).to(motion.device)
        return empty.requires_grad_(False).eval()
    return pretrained_encoder(history, motion, config.encoder)


def build_ppo(config: RunConfig, chosen: Task | None = None, begun: bool = False) -> PPO:
    """Environment, networks and learner of a run, seeded. begun: its state will be that of a checkpoint."""
    chosen = chosen or task(config.task)
    character = chosen.character()
    device = choose_device(config.device)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32 in the networks
    motion = build_motion(chosen, character, device, config.data)
    encoder = build_encoder(config, motion, character, begun)
    torch.manual_seed(config.seed)
    env = build_env(config, motion, character, config.num_envs, encoder)
    spread = config.ppo.sigma if config.ppo.exploration == "learned" else None
    first = _mean_action(motion, character) if config.ppo.first_action == "demonstrated" else None
    model = ActorCritic(
        env.observation_size,
        env.num_actions,
        config.ppo.hidden,
        encoder,
        spread,
        first,
        config.ppo.half,
        env.insight_size,
    )
    return PPO(env, model.to(device), config.ppo)


def _mean_action(motion: ReferenceMotion, character: Character) -> Tensor:
    """The action whose targets are, on average, where the demonstrations' joints are.  [A]"""
    drives, actions = DrivePositions(character.model, motion.device), character.action_map(motion.device)
    return actions.actions(drives(motion.qpos)).mean(dim=0)
