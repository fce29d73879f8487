"""The training loop: update, report, save, until the budget is used up or someone presses Ctrl-C."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skillfield.configuration import POSITIVE, check
from skillfield.errors import TrainingError
from skillfield.files import atomic_file, typed, write_errors
from skillfield.interruption import StopRequest
from skillfield.learning.checkpoint import Counters, has_checkpoint, latest_checkpoint, save_checkpoint
from skillfield.learning.ppo import PPO

__all__ = ["Budget", "TrainingStatus", "train_loop"]

_MAX_DUMPS = 20


@dataclass(frozen=True)
class Budget:
    """When training is over: after so many samples or minutes, whichever comes first."""

    samples: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        check("budget", self, POSITIVE, "samples", "minutes")

    def progress(self, counters: Counters) -> float:
        """Share that is used up, 0 to 1."""
        by_samples = counters.samples / self.samples if self.samples else 0.0
        by_time = counters.seconds / (60 * self.minutes) if self.minutes else 0.0
        return min(max(by_samples, by_time), 1.0)

    def words(self) -> str:
        """For people."""
        samples = [] if self.samples is None else [f"{self.samples:,} samples"]
        return " or ".join(samples + ([] if self.minutes is None else [f"{self.minutes:g} minutes"]))


@dataclass(frozen=True)
class TrainingStatus:
    """What one update has to say."""

    counters: Counters
    progress: float
    metrics: dict[str, float]
    skill_reward: dict[str, float]
    skill_failures: dict[str, float]  # share of the episodes that ended in a failure
    seconds: dict[str, float]  # this session's time by where it went
    samples_per_second: float  # since this session began
    engine: dict[str, int]  # what went wrong in the simulation since the run or its stage began or was resumed, by name
    note: str = ""


def train_loop(
    ppo: PPO,
    run: Path,
    budget: Budget,
    identity: dict[str, Any],
    counters: Counters,
    report: Callable[[TrainingStatus], None],
    until: int | None = None,
    checkpoint_seconds: float = 60.0,
) -> bool:
    """Train until the budget ends, or until there are so many samples; returns False if it was interrupted.

    A checkpoint is written either way, unless the networks are no longer finite: that is an error.
    """
    began, earlier, samples_before = time.perf_counter(), counters.seconds, counters.samples
    last_save, dumped, saved = began, 0, has_checkpoint(run)
    with StopRequest() as stop:
        while budget.progress(counters) < 1.0 and (until is None or counters.samples < until) and not stop.requested:
            metrics = ppo.update(budget.progress(counters))
            counters.updates += 1
            counters.samples += ppo.samples_per_update
            now = time.perf_counter()
            counters.seconds = earlier + now - began
            dumped += _dump_diverged(ppo, run, counters, dumped)
            _end_if_spoilt([name for name, value in metrics.items() if not math.isfinite(value)], run, counters)
            saved = now - last_save > checkpoint_seconds
            if saved:
                _save(run, ppo, counters, identity)
                last_save = now
            reward, failures = _skill_figures(ppo)
            report(
                TrainingStatus(
                    counters=counters,
                    progress=budget.progress(counters),
                    metrics=metrics,
                    skill_reward=reward,
                    skill_failures=failures,
                    seconds=dict(ppo.seconds),
                    samples_per_second=(counters.samples - samples_before) / (now - began),
                    engine=ppo.env.engine.counters(),
                    note=f"checkpoint at {counters.samples:,} samples" if saved else "",
                )
            )
        if not saved:
            _save(run, ppo, counters, identity)
    return not stop.requested


def _save(run: Path, ppo: PPO, counters: Counters, identity: dict[str, Any]) -> None:
    """Write a checkpoint that a run can go on from; the last step may have spoilt what was well when measured."""
    weights = ppo.model.state_dict()
    _end_if_spoilt([name for name, value in weights.items() if not value.isfinite().all()], run, counters)
    save_checkpoint(run, ppo, counters, identity)


def _end_if_spoilt(names: list[str], run: Path, counters: Counters) -> None:
    """End a training in which something is no longer finite, before that takes the place of a good checkpoint."""
    if not names:
        return
    way_out = "there is no checkpoint yet: begin again with a smaller ppo.learning_rate"
    if has_checkpoint(run):
        good, config = latest_checkpoint(run), run / "config.json"
        rates = "the step sizes of ppo (learning_rate, max_learning_rate, critic_learning_rate; also in stages)"
        way_out = f"the last good checkpoint is {good}: lower {rates} in {config}, then --resume {typed(run)}"
    raise TrainingError(f"{run}: not finite after {counters.samples:,} samples: {', '.join(names)}; {way_out}")


def _skill_figures(ppo: PPO) -> tuple[dict[str, float], dict[str, float]]:
    """Mean reward per step and share of failed episodes, by skill; nan where there was none."""
    statistics = ppo.env.take_statistics()
    rows = torch.stack(
        (statistics.reward / statistics.steps, statistics.failures / statistics.episodes)
    ).tolist()  # 0 / 0 is nan
    reward, failures = (dict(zip(ppo.env.motion.skills, row, strict=True)) for row in rows)
    return reward, failures


def _dump_diverged(ppo: PPO, run: Path, counters: Counters, dumped: int) -> int:
    """Write the last states of worlds that blew up, for replay; at most a few per stage."""
    records = ppo.env.engine.take_diverged()[: _MAX_DUMPS - dumped]
    for record in records:
        path = run / "diverged" / f"update{counters.updates:08d}-env{record.env}.npz"
        with write_errors(TrainingError), atomic_file(path) as temporary:
            np.savez(temporary, qpos=record.qpos, qvel=record.qvel, targets=record.targets)
    return len(records)
