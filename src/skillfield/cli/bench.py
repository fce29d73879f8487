"""`skillfield bench`: how fast this machine is, and where the time goes."""

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

from skillfield.clips import Clip, load_clips
from skillfield.experiments.run import build_ppo, preset
from skillfield.experiments.tasks import task as find_task
from skillfield.files import json_text, write_json
from skillfield.reference import AugmentedSampler, ReferenceMotion

__all__ = ["Bench", "measure"]


@dataclass(frozen=True)
class Bench:
    """Measure policy samples per second (engine, environment, rollout, training) and the time to build a graph."""

    task: Annotated[str, tyro.conf.Positional] = "starter"
    """Which task."""
    method: str = "sm"
    """Which method."""
    seconds: float = 10.0
    """Time per measurement."""
    out: Path | None = None
    """Also write the result as JSON."""
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> int:
        """Measure."""
        result = measure(self.task, self.method, self.seconds)
        if self.out:
            write_json(self.out, result)
        if self.json:
            print(json_text(result))
            return 0
        rates, shares = result["samples_per_second"], result["training_share"]
        print(f"{result['task']}, {result['method']}: {result['num_envs']} worlds, {result['cores']} cores")
        for name, rate in rates.items():
            print(f"  {name:<12} {rate:>10,.0f} samples/s   (median {result['median'][name]:,.0f})")
        print("  training time: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items()))
        for name, taken in result["graph_seconds"].items():
            print(f"  graph of {name:<19} {taken:>6.2f} s")
        print(f"  peak memory: {result['peak_memory_mb']:,.0f} MB")
        return 0


def measure(task: str, method: str, seconds: float, repeats: int = 5) -> dict[str, Any]:
    """Rates of the task's own preset. Repeated and interleaved, because machines are noisy."""
    torch.set_num_threads(1)
    ppo = build_ppo(preset(task, method))
    env, model = ppo.env, ppo.model
    ppo.update(0.0)
    neutral = torch.zeros(env.num_envs, env.num_actions)
    assert ppo.observation is not None

    def engine() -> None:
        for _ in range(ppo.config.horizon):
            env.advance(neutral)

    def environment() -> None:
        for _ in range(ppo.config.horizon):
            env.step(neutral)

    @torch.no_grad()
    def rollout() -> None:
        assert ppo.observation is not None
        ppo.collect(ppo.observation, ppo.config.sigma)

    def training() -> None:
        ppo.update(0.0)

    measured: dict[str, list[float]] = {}
    shares: dict[str, float] = {}
    for _ in range(repeats):
        for work in (engine, environment, rollout, training):
            env.reset()
            ppo.observation = env.observe()
            before = dict(ppo.seconds)
            rate = _rate(work, ppo.samples_per_update, seconds / repeats)
            measured.setdefault(work.__name__, []).append(rate)
            if work is training:
                spent = {name: value - before[name] for name, value in ppo.seconds.items()}
                shares = {name: value / sum(spent.values()) for name, value in spent.items()}
    return {
        "task": task,
        "method": method,
        "num_envs": env.num_envs,
        "cores": os.cpu_count(),
        "repeats": repeats,
        "samples_per_second": {name: max(values) for name, values in measured.items()},
        "median": {name: sorted(values)[len(values) // 2] for name, values in measured.items()},
        "training_share": shares,
        "graph_seconds": graph_seconds(task),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def graph_seconds(task: str, repeats: int = 3) -> dict[str, float]:
    """Time to build the stitched graph of the task's own clips, and of a set as large as any; best of a few."""
    chosen = find_task(task)
    character = chosen.character()
    augmentation = replace(preset(chosen, "sm+stg").augmentation, stitch=True)
    clips = load_clips(chosen.clips)
    sets = {f"{len(clips)} clips": clips, "40 clips × 250 frames": _many(clips, 40, 250)}
    seconds = {}
    for name, some in sets.items():
        motion = ReferenceMotion(some, character, tuple(dict.fromkeys(clip.skill for clip in some)))
        taken = []
        for _ in range(repeats):
            began = time.perf_counter()
            AugmentedSampler(motion, character, chosen.env.weights, augmentation)
            taken.append(time.perf_counter() - began)
        seconds[name] = min(taken)
    return seconds


def _many(clips: Sequence[Clip], count: int, frames: int) -> list[Clip]:
    """A large set made of a small one: its clips again and again, each its own skill, each a centimetre different."""
    rng = np.random.default_rng(0)
    many = []
    for number in range(count):
        clip = clips[number % len(clips)]
        pick = np.arange(frames) % len(clip)
        columns = {
            name: getattr(clip, name)[pick]
            for name in ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts", "valid")
        }
        for name in ("root_pos", "object_pos"):
            columns[name] = columns[name] + rng.normal(scale=0.01, size=columns[name].shape).astype(np.float32)
        many.append(replace(clip, name=f"{clip.name}-{number}", skill=f"skill-{number}", **columns))
    return many


def _rate(work: Any, samples: int, seconds: float) -> float:
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < seconds or rounds == 0:
        work()
        rounds += 1
    return rounds * samples / (time.perf_counter() - began)
