"""What a user calls: train, evaluate, load a policy. The command line is a thin layer over this."""

import gc
import os
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from skillfield.errors import ConfigError, SkillfieldError, SkillfieldNote
from skillfield.evaluation import Evaluation, KeepRule, evaluate_policy
from skillfield.evaluation.crew import MakeEnv, Report
from skillfield.experiments.loading import load_networks, load_run, origin_of
from skillfield.experiments.recordings import kept_folder
from skillfield.experiments.run import (
    Origin,
    RunConfig,
    build_env,
    build_motion,
    build_ppo,
    load_config,
    preset,
    save_config,
)
from skillfield.experiments.shipped import is_shipped, resumable, run_folder
from skillfield.experiments.stages import describe, stage_at
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import task as find_task
from skillfield.files import atomic_file, claimed, typed, write_errors, write_json
from skillfield.imitation import ImitationEnv
from skillfield.learning.checkpoint import Counters, has_checkpoint, latest_checkpoint, saved_counters
from skillfield.learning.checkpoint import resume as resume_learner
from skillfield.learning.history_encoder import HistoryEncoder
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO
from skillfield.learning.training import Budget, TrainingStatus, train_loop
from skillfield.learning.transfer import begin_with
from skillfield.reference import Augmentation, AugmentedSampler
from skillfield.reporting.console import PatientConsole
from skillfield.reporting.logs import METRICS_FILE, TENSORBOARD_FOLDER, MetricsLog
from skillfield.reporting.progress import Progress, ProgressState
from skillfield.simulation import choose_device, memory_errors

__all__ = ["env_factory", "evaluate", "load_networks", "new_run_folder", "resume", "train", "train_run"]

_LOG_SECONDS = 1.0  # at most one line of metrics.jsonl per second


def train(
    task: str | Task = "starter",
    method: str = "full",
    *,
    minutes: float | None = None,
    samples: int | None = None,
    seed: int = 0,
    run: Path | None = None,
    device: str | None = None,
    data: Path | str | None = None,
    start_from: Path | str | None = None,
    progress: bool = True,
) -> Path:
    """Train a policy and return its run folder.

    task: a task's name, or a `Task` of your own.
    minutes, samples: budget; the task's own if neither is given.
    run: folder to write; `runs/TASK-METHOD-SEED` if not given.
    device: cpu, cuda or auto; what suits the task if not given.
    data: folder of clips of the same skills, in place of the task's own; or a task whose clips are meant.
    start_from: run folder or shipped policy whose networks it begins with, of the same character; skills may differ.
    """
    chosen = find_task(task)
    config = replace(preset(chosen, method), seed=seed, data=None if data is None else kept_folder(data))
    config = replace(config, device=device or config.device)
    if minutes is not None or samples is not None:
        config = replace(config, budget=Budget(samples=samples, minutes=minutes))
    config = config if start_from is None else config.after(origin_of(start_from))
    folder = Path(run) if run else new_run_folder(config)
    return _finished(train_run(config, folder, task=chosen, progress=progress), folder)


def resume(
    run: Path | str,
    *,
    minutes: float | None = None,
    samples: int | None = None,
    task: Task | None = None,
    progress: bool = True,
) -> Path:
    """Go on with a run where it stopped, and return its folder.

    minutes, samples: a new budget for the whole of it; as before if neither is given.
    task: the `Task` that it was trained on, if it was one of your own.
    """
    folder = resumable(run)
    config = load_config(folder)
    if minutes is not None or samples is not None:
        config = replace(config, budget=Budget(samples=samples, minutes=minutes))
    return _finished(train_run(config, folder, task=task, resumed=True, progress=progress), folder)


def _finished(finished: bool, folder: Path) -> Path:
    if not finished:
        raise KeyboardInterrupt(f"(the checkpoint is safe: skillfield.resume('{folder}') goes on)")
    return folder


def new_run_folder(config: RunConfig) -> Path:
    """A folder under runs/ that does not exist yet."""
    base = Path("runs") / f"{config.task}-{config.method}-{config.seed}"
    number = 2
    folder = base
    while folder.exists():
        folder = base.with_name(f"{base.name}.{number}")
        number += 1
    return folder


@memory_errors()
def train_run(
    config: RunConfig, run: Path, *, task: Task | None = None, resumed: bool = False, progress: bool = True
) -> bool:
    """Train one configured run, new or resumed, with logs and a display; False if it was interrupted."""
    if config.budget == Budget():
        raise ConfigError(f"{run}: budget: neither samples nor minutes are given, so the training would never end")
    with claimed(run, ConfigError):
        return _train_claimed(config, run, find_task(task or config.task), resumed, progress)


def _train_claimed(config: RunConfig, run: Path, chosen: Task, resumed: bool, progress: bool) -> bool:
    if not resumed and (run / "config.json").exists():
        _make_room(run)
    torch.set_num_threads(1)  # physics uses the cores; torch's own pool would fight it for them, here and in trials
    identity = config.identity(chosen.skills)
    counters = saved_counters(latest_checkpoint(run)) if resumed else Counters()
    if resumed and config.budget != load_config(run).budget and config.budget.progress(counters) >= 1.0:
        had = f"{counters.samples:,} samples and {counters.seconds / 60:.3g} minutes"
        raise ConfigError(f"{run}: has had {had} already, no less than the new budget of {config.budget.words()}")

    def learner(begun: bool) -> PPO:
        """Of the stage that the run has come to; one that has begun goes on from its newest checkpoint."""
        ppo = build_ppo(config.at(counters.samples), chosen, begun or config.origin is not None)
        if begun:
            resume_learner(latest_checkpoint(run), ppo, identity)
        elif config.origin is not None:
            known = begin_with(latest_checkpoint(run_folder(config.origin.policy)), ppo)
            _say_what_is_known(config.origin, known, chosen.skills)
        return ppo

    ppo = learner(resumed)
    with write_errors(ConfigError):
        save_config(config, run)
    title = f"{config.task} · {config.method} · seed {config.seed}"
    display = Progress(title, list(chosen.skills)) if progress else nullcontext()
    with MetricsLog(run) as log, display as shown:
        if resumed:
            log.rewind(counters.samples)
        while True:
            with write_errors(SkillfieldError):
                _save_reference(ppo.env, run)
            begun, until = stage_at(config.stages, counters.samples)
            report = _reporter(log, shown, describe(begun, config.stages))
            finished = train_loop(ppo, run, config.budget, identity, counters, report, until)
            if not finished or config.budget.progress(counters) >= 1.0:
                return finished
            del ppo
            gc.collect()  # worlds fill a GPU: let go of these before there are others
            ppo = learner(begun=True)


def _make_room(run: Path) -> None:
    """Forget a run that ended before its first checkpoint; any other is an error. To be called with the lock held."""
    load_config(run)  # an error if the file is not ours
    if has_checkpoint(run):
        again = f"continue it with --resume {typed(run)}"
        raise ConfigError(f"{run} already holds a run; {again}, or choose another --out")
    for name in ("config.json", METRICS_FILE, "clips.json", "graph.safetensors"):
        (run / name).unlink(missing_ok=True)
    for name in ("checkpoints", TENSORBOARD_FOLDER):
        shutil.rmtree(run / name, ignore_errors=True)


@memory_errors()
def evaluate(
    run: Path | str,
    trials: int = 256,
    seed: int = 0,
    *,
    transition_trials: int | None = None,
    task: Task | None = None,
    device: str | None = None,
    data: Path | str | None = None,
    progress: bool = True,
) -> Evaluation:
    """Measure the newest checkpoint of a run; the result is also written to `evaluation.json` in its folder.

    run: its folder, or the name of a shipped policy (whose folder stays as it is).
    trials: executions per skill.
    transition_trials: executions per ordered pair of skills; as many as per skill if not given.
    task: the `Task` that it was trained on, if it was one of your own.
    device: cpu, cuda or auto; what suits the task if not given. It need not be the one that it was trained on.
    data: folder of imported recordings, if they lie elsewhere than in training.
    progress: show how far it is.
    """
    torch.set_num_threads(1)
    loaded = load_run(run, task=task, data=data)
    chosen, model = loaded.task, loaded.networks
    if lenient := [skill for skill, rule in chosen.trials.rules.items() if type(rule) is KeepRule]:
        note = f"{', '.join(lenient)}: no rule but to stand and to keep the object near; whether it is done, NR says"
        warnings.warn(note, SkillfieldNote, stacklevel=2)
    make_env = env_factory(chosen, loaded.config, model, device or chosen.device)
    kind = next(model.parameters()).device.type
    workers = (loaded.config.threads or os.cpu_count() or 1) if kind == "cpu" else 1
    title = f"{loaded.folder.name} · trials of {chosen.trials.seconds:g} s"
    display = Progress(title, console=PatientConsole(stderr=True)) if progress else nullcontext()  # tables go to stdout
    with display as shown:
        report = _trial_reporter(shown) if shown else None
        result = evaluate_policy(make_env, model, chosen.trials, trials, seed, transition_trials, workers, report)
    samples = loaded.state.counters.samples
    result = replace(result, samples=samples, device=kind, clips=loaded.other_clips)
    if not is_shipped(loaded.folder):
        try:
            write_json(loaded.folder / "evaluation.json", result.to_dict())
        except OSError as problem:  # hours of trials are not lost with it
            note = f"{loaded.folder}: evaluation.json cannot be written: {problem.strerror}"
            warnings.warn(note, SkillfieldNote, stacklevel=2)
    return result


def env_factory(chosen: Task, config: RunConfig, model: ActorCritic, device: str = "cpu") -> MakeEnv:
    """Environments of any size for testing one run's policy, sharing one compiled character; the policy moves along.

    Whatever a policy was trained with, it is scored with the SkillMimic reward, which lies between 0 and 1.
    """
    character = chosen.character()
    where = choose_device(device)
    motion = build_motion(chosen, character, where, config.data)
    model.to(where)
    rules = replace(config.env, reward="sm", clip_end="auto", p_carry=0.0, p_lost=0.0, insight=False)
    scored = replace(config, env=rules, augmentation=Augmentation())
    encoder = model.encoder if isinstance(model.encoder, HistoryEncoder) else None

    def make(num_envs: int, threads: int | None = None) -> ImitationEnv:
        shared = scored if threads is None else replace(scored, threads=threads)
        return build_env(shared, motion, character, num_envs, encoder)

    return make


def _trial_reporter(shown: Progress) -> Report:
    began = time.monotonic()

    def report(done: int, expected: int) -> None:
        elapsed = time.monotonic() - began
        shown.update(ProgressState(done, done / expected, elapsed, done / max(elapsed, 1e-9)))

    return report


def _say_what_is_known(origin: Origin, known: Sequence[str], wanted: Sequence[str]) -> None:
    parts = {
        "knows": [skill for skill in wanted if skill in known],
        "new": [skill for skill in wanted if skill not in known],
        "left out": [skill for skill in known if skill not in wanted],
    }
    skills = "; ".join(f"{name}: {', '.join(some)}" for name, some in parts.items() if some)
    note = f"begins with {origin.policy}, which has had {origin.samples:,} samples; {skills}"
    warnings.warn(note, SkillfieldNote, stacklevel=2)


def _save_reference(env: ImitationEnv, run: Path) -> None:
    """What the run imitates: its clips in row order, and the stitched graph over them, for reports.

    Frames that only follow a clip, and detours, are left out, and rows are numbered without them, as in the sampler's
    record. Missing frames are those of a clip from which no episode starts, its last one apart.
    """
    motion, sampler = env.motion, env.sampler
    lengths = motion.demonstrated_length().tolist()
    valid = motion.valid[motion.demonstrated].split(lengths)
    clips: list[dict[str, Any]] = [
        {"name": name, "skill": motion.skills[skill], "length": length, "missing": (~there).nonzero()[:, 0].tolist()}
        for name, skill, length, there in zip(motion.names, motion.skill.tolist(), lengths, valid, strict=True)
        if length
    ]
    write_json(run / "clips.json", clips)
    if isinstance(sampler, AugmentedSampler):
        for note in sampler.notes:
            warnings.warn(note, SkillfieldNote, stacklevel=2)
        if sampler.graph is not None:
            number = torch.cumsum(motion.demonstrated, 0) - 1
            graph = sampler.graph.only(motion.demonstrated[sampler.graph.target_row]).tensors()
            graph |= {name: number[graph[name]] for name in ("source_row", "target_row")}
            graph["length"] = torch.tensor([clip["length"] for clip in clips])  # tells which clips.json it goes with
            with atomic_file(run / "graph.safetensors") as temporary:
                save_file({name: value.cpu() for name, value in graph.items()}, temporary)


def _reporter(log: MetricsLog, shown: Progress | None, stage: str) -> Callable[[TrainingStatus], None]:
    last_logged = -_LOG_SECONDS

    def report(status: TrainingStatus) -> None:
        nonlocal last_logged
        total = sum(status.seconds.values()) or 1.0
        shares = {name: seconds / total for name, seconds in status.seconds.items()}
        if status.counters.seconds - last_logged >= _LOG_SECONDS or status.progress >= 1.0:
            last_logged = status.counters.seconds
            values = {
                "seconds": status.counters.seconds,
                "samples_per_second": status.samples_per_second,
                **{f"engine/{name}": float(count) for name, count in status.engine.items()},
                **status.metrics,
                **{f"reward/{skill}": value for skill, value in status.skill_reward.items()},
                **{f"failed/{skill}": value for skill, value in status.skill_failures.items()},
                **{f"share/{name}": share for name, share in shares.items()},
            }
            log.write(status.counters.samples, values)
        if shown:
            shown.update(
                ProgressState(
                    samples=status.counters.samples,
                    fraction=status.progress,
                    elapsed_s=status.counters.seconds,
                    samples_per_s=status.samples_per_second,
                    shares=shares,
                    skill_reward=status.skill_reward,
                    engine=status.engine,
                    note=status.note or stage,
                )
            )

    return report
