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

from skillfield.clips import Clip
from skillfield.errors import ConfigError
from skillfield.experiments.recordings import task_clips
from skillfield.experiments.run import RunConfig, build_ppo, preset
from skillfield.experiments.tasks import task as find_task
from skillfield.files import json_text, write_errors, write_json
from skillfield.reference import AugmentedSampler, ReferenceMotion

__all__ = ["Bench", "measure"]


@dataclass(frozen=True)
class Bench:
    """Measure policy samples per second (engine, environment, rollout, training) and the time to build a graph."""

    named: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(name="task", metavar="[TASK]")] = None
    """Which task; the starter if not given."""
    task: str | None = None
    """The same as an option."""
    method: str = "full"
    """Which method."""
    seconds: float = 10.0
    """Time per measurement."""
    worlds: tuple[int, ...] = ()
    """Numbers of worlds to measure; the task's own if not given."""
    device: str | None = None
    """cpu, cuda or auto; what suits the task if not given."""
    fused: bool | None = None
    """On a GPU, few large kernels (True) or many small ones (False); as the task has it if not given."""
    data: Path | None = None
    """Folder of clips of the same skills, in place of the task's own; or a task whose clips are meant."""
    out: Path | None = None
    """Also write the result as JSON."""
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> int:
        """Measure."""
        if self.named and self.task and self.named != self.task:
            raise ConfigError(f"two tasks were named, '{self.named}' and --task '{self.task}'; bench measures one")
        task = self.named or self.task or "starter"
        config = preset(task, self.method).in_the_end()  # when most is asked for
        config = replace(config, device=self.device or config.device, data=str(self.data) if self.data else None)
        if self.fused is not None:
            config = replace(config, ppo=replace(config.ppo, fused=self.fused))
        counts = self.worlds or (config.num_envs,)
        results = [measure(replace(config, num_envs=count), self.seconds) for count in counts]
        found: dict[str, Any] = {"runs": results, "graph_seconds": graph_seconds(task, config.data)}
        if self.out:
            with write_errors(ConfigError):
                write_json(self.out, found)
        if self.json:
            print(json_text(found))
            return 0
        for result in results:
            _show(result)
        for name, taken in found["graph_seconds"].items():
            print(f"graph of {name:<21} {taken:>6.2f} s")
        return 0


def _show(result: dict[str, Any]) -> None:
    rates, shares = result["samples_per_second"], result["training_share"]
    print(f"{result['task']}, {result['method']}: {result['num_envs']} worlds on {result['device']}", end="")
    print(", fused kernels" if result["fused"] else "")
    for name, rate in rates.items():
        print(f"  {name:<12} {rate:>10,.0f} samples/s   (median {result['median'][name]:,.0f})")
    print(f"  physics      {result['physics_steps_per_second']:>10,.0f} steps/s")
    print("  training time: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items()))
    print(f"  peak memory: {result['peak_memory_mb']:,.0f} MB", end="")
    print(f", on the GPU {result['gpu_memory_mb']:,.0f} MB" if result["gpu_memory_mb"] else "")


def measure(config: RunConfig, seconds: float, repeats: int = 5) -> dict[str, Any]:
    """Rates of one configuration. Repeated and interleaved, because machines are noisy."""
    ppo = build_ppo(config, begun=True)  # an encoder that knows nothing is as fast
    env, model = ppo.env, ppo.model
    ppo.update(0.0)
    neutral = torch.zeros(env.num_envs, env.num_actions, device=env.device)
    assert ppo.observation is not None

    def simulation() -> None:
        targets = env.engine.state.qpos.new_zeros(env.num_envs, env.engine.character.model.nu)
        for _ in range(ppo.config.horizon):
            env.engine.step(targets)

    def engine() -> None:
        for _ in range(ppo.config.horizon):
            env.advance(neutral)

    @torch.no_grad()
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
        for work in (simulation, engine, environment, rollout, training):
            env.reset()
            ppo.observation = env.observe()
            before = dict(ppo.seconds)
            rate = _rate(work, ppo.samples_per_update, seconds / repeats, env.device)
            measured.setdefault(work.__name__, []).append(rate)
            if work is training:
                spent = {name: value - before[name] for name, value in ppo.seconds.items()}
                shares = {name: value / sum(spent.values()) for name, value in spent.items()}
    best = {name: max(values) for name, values in measured.items()}
    on_gpu = env.device.type == "cuda"
    return {
        "task": config.task,
        "method": config.method,
        "num_envs": env.num_envs,
        "fused": on_gpu and config.ppo.fused,
        "device": torch.cuda.get_device_name(env.device) if on_gpu else f"{os.cpu_count()} CPU cores",
        "repeats": repeats,
        "samples_per_second": best,
        "physics_steps_per_second": best["simulation"] * env.engine.character.substeps,
        "median": {name: sorted(values)[len(values) // 2] for name, values in measured.items()},
        "training_share": shares,
        "engine": env.engine.counters(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "gpu_memory_mb": _used_on(env.device) / 2**20 if on_gpu else 0.0,
    }


def _used_on(device: torch.device) -> int:
    """Bytes taken on a GPU, by PyTorch, Warp and whoever else."""
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def graph_seconds(task: str, data: str | None = None, repeats: int = 3) -> dict[str, float]:
    """Time to build the stitched graph of the task's own clips, and of a set as large as any; best of a few."""
    chosen = find_task(task)
    character = chosen.character()
    augmentation = replace(preset(chosen, "sm+stg").augmentation, stitch=True)
    clips = task_clips(chosen, Path(data) if data else None)
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


def _rate(work: Any, samples: int, seconds: float, device: torch.device) -> float:
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < seconds or rounds == 0:
        work()
        rounds += 1
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return rounds * samples / (time.perf_counter() - began)
