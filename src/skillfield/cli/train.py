"""`skillfield train`: teach a policy a task's skills."""

from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.api import new_run_folder, train_run
from skillfield.errors import ConfigError
from skillfield.experiments.loading import origin_of
from skillfield.experiments.methods import METHODS
from skillfield.experiments.recordings import kept_folder
from skillfield.experiments.run import RunConfig, load_config, preset
from skillfield.experiments.shipped import resumable
from skillfield.experiments.stages import Stage, paced, without
from skillfield.experiments.tasks import TASKS
from skillfield.files import typed
from skillfield.imitation import EnvConfig
from skillfield.learning.history_encoder import EncoderConfig
from skillfield.learning.ppo import PPOConfig
from skillfield.learning.training import Budget
from skillfield.program import program
from skillfield.reference import Augmentation

__all__ = ["Train", "how_to_go_on", "parse"]


@dataclass(frozen=True)
class Train:
    """Teach a policy a task's skills from its demonstrations.

    The run folder gets the resolved configuration, metrics.jsonl, TensorBoard logs and checkpoints. Ctrl-C saves a
    checkpoint and says how to go on. Every default below is the task's own preset. Where a task learns in stages
    (config.json lists them), the defaults are those of the first one, and an option that you give holds in all.
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[TASK]")] = "starter"
    """What to learn; `skillfield tasks` lists them."""
    method: str = "full"
    """How to learn it; `skillfield tasks` lists them."""
    minutes: float | None = None
    """Training budget in minutes of this machine; the task's own if neither budget is given."""
    samples: int | None = None
    """Training budget in samples: the same on every machine."""
    pace: float = 1.0
    """How fast to go through the task's stages: with 1.5 each begins after two thirds of the samples."""
    seed: int = 0
    """Of networks, starts and exploration."""
    out: Path | None = None
    """Run folder; runs/TASK-METHOD-SEED if not given."""
    start_from: Path | None = None
    """Begin with the networks of this run, or of a policy that comes with the package, such as ballplay: of the same
    character and kind of memory; skills may differ. Stages are those that its samples have come to."""
    resume: Path | None = None
    """Run folder to go on with, where it stopped. Only a new budget may be given, and --data if its clips moved."""
    num_envs: int = 1024
    """Worlds simulated at once."""
    threads: int = 0
    """Simulation threads on a CPU; 0 takes every core."""
    device: str = "auto"
    """Where to simulate and learn: cpu, cuda, cuda:1, or auto, which takes a GPU if there is one."""
    data: Path | None = None
    """Folder of clips of the same skills, in place of the task's own; or a task whose clips are meant."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """Reward, episodes and memory."""
    augmentation: Augmentation = field(default_factory=Augmentation)
    """What starts are drawn from."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The history encoder."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Networks and optimisation."""
    stages: tyro.conf.Suppress[tuple[Stage, ...]] = ()
    """What changes in the course of the training."""

    def run(self) -> int:
        """Train."""
        config = self.config()
        folder = self.resume or self.out or new_run_folder(config)
        finished = train_run(config, folder, resumed=self.resume is not None)
        if finished:
            print(f"trained: {folder}\nnext: {program()} evaluate {typed(folder)}")
            return 0
        print(how_to_go_on(folder))
        return 130

    def config(self) -> RunConfig:
        """What is to be trained: a new run, or one that goes on."""
        return self._resumed_config(self.resume) if self.resume else self._new_config()

    def _new_config(self) -> RunConfig:
        config = preset(self.task, self.method)
        config = replace(
            config,
            seed=self.seed,
            num_envs=self.num_envs,
            threads=self.threads,
            device=self.device,
            data=None if self.data is None else kept_folder(self.data),
            budget=self._budget() or config.budget,
            env=self.env,
            augmentation=self.augmentation,
            encoder=self.encoder,
            ppo=self.ppo,
            stages=paced(self.stages, self.pace),
        )
        return config if self.start_from is None else config.after(origin_of(self.start_from))

    def _resumed_config(self, run: Path) -> RunConfig:
        config = load_config(resumable(run))
        data = config.data if self.data is None else kept_folder(self.data)
        return replace(config, budget=self._budget() or config.budget, data=data)

    def _budget(self) -> Budget | None:
        if self.minutes is None and self.samples is None:
            return None
        return Budget(samples=self.samples, minutes=self.minutes)


def how_to_go_on(run: Path) -> str:
    """What to say of a training that was interrupted."""
    return f"interrupted; the checkpoint is safe. Go on with: {program()} train --resume {typed(run)}"


def parse(arguments: list[str]) -> Train:
    """Read the command line, with the named task's preset as defaults."""
    _refuse_changes_to_a_resumed_run(arguments)
    task, method = _named([argument for argument in arguments if argument not in ("-h", "--help")])
    return _read(arguments, preset(task, method))


def _read(arguments: list[str], config: RunConfig, task: str = "starter") -> Train:
    """The command line, with these defaults; task and method are those that it names, or the usual ones."""
    default = Train(
        task,
        num_envs=config.num_envs,
        threads=config.threads,
        device=config.device,
        env=config.env,
        augmentation=config.augmentation,
        encoder=config.encoder,
        ppo=config.ppo,
        stages=without(config.stages, _given(arguments)),
    )
    return tyro.cli(Train, args=arguments, default=default, prog=f"{program()} train")


def _named(arguments: list[str]) -> tuple[str, str]:
    """The task and the method that a command line names.

    Any word of it may be one, or the value of some option; the right ones are those that it names when their own
    preset stands behind it.
    """
    words = [argument.split("=")[-1] for argument in arguments]
    tasks = dict.fromkeys([*(word for word in words if word in TASKS), "starter"])
    methods = dict.fromkeys([*(word for word in words if word in METHODS), "full"])
    refused: list[ConfigError] = []
    for task, method in product(tasks, methods):
        try:
            read = _read(arguments, preset(task, method))
        except ConfigError as problem:  # a setting that does not go with this preset, or with any
            refused.append(problem)
            continue
        if (read.task, read.method) == (task, method):
            return task, method
    if refused:
        raise refused[0]
    return read.task, read.method  # of which one is unknown


def _given(arguments: list[str]) -> set[str]:
    """Settings that the command line names: `--env.no-insight` is `env.insight`."""
    options = (argument.removeprefix("--").split("=")[0] for argument in arguments if argument.startswith("--"))
    return {option.replace("-", "_").replace(".no_", ".") for option in options}


def _refuse_changes_to_a_resumed_run(arguments: list[str]) -> None:
    options = {argument.split("=")[0] for argument in arguments if argument.startswith("--")}
    if "--resume" not in options or not {"-h", "--help"}.isdisjoint(arguments):
        return
    changes = sorted(options - {"--resume", "--minutes", "--samples", "--data"})
    if changes:
        raise ConfigError(
            f"--resume goes on with the run as it is; only a new budget and --data may be given, not {changes}"
        )
    read = _read(arguments, preset("starter"), task="")
    if read.task and read.resume is not None:
        own = load_config(resumable(read.resume)).task
        if read.task != own:
            raise ConfigError(f"{read.resume}: a run of task '{own}', not of '{read.task}'; --resume goes on as it is")
