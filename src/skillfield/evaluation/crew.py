"""Who runs trials: on a CPU every core has worlds of its own, if there are enough; on a GPU one engine has them all.

A core that has worlds of its own does everything that they need, physics and networks. Cores that share the physics of
all worlds wait for one of them while it does the rest. But where a step takes Python longer than the physics, cores
with worlds of their own wait for each other.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

import torch
from torch import Tensor

from skillfield.imitation import ImitationEnv
from skillfield.learning.rollout import full_batches
from skillfield.simulation.memory import WORLDS

__all__ = ["Crew", "MakeEnv", "Report"]

_WORLDS_OF_A_GPU = 8192
_LEAST, _MOST = 12_000, 24_000
"""Degrees of freedom that a step of a batch simulates on a CPU: at least so many if there are several, and at most."""
_SHARES = 8  # so many batches, if that does not make them too small

MakeEnv = Callable[..., ImitationEnv]
"""Gives an environment of its own with so many worlds, every one of which is started anew before it is used. A second
number: threads of its physics on a CPU; all that there are if not given."""

Report = Callable[[int, int], None]
"""Is told how many steps have been simulated, and how many are expected."""

Result = TypeVar("Result")


class Crew:
    """Runs batches of trials. How they are divided does not depend on how many workers there are."""

    def __init__(
        self,
        make_env: MakeEnv,
        device: torch.device,
        most: int,
        workers: int = 1,
        report: Report | None = None,
    ) -> None:
        """
        most: trials that there will be at a time, as far as is known.
        workers: that run batches at once, on a CPU.
        """
        self.device = device
        self._make_env, self._workers, self._report = make_env, workers, report
        # always as many on a GPU: an engine takes many seconds to make, and a few worlds more cost nothing
        self._worlds = 1 if device.type == "cpu" else min(_WORLDS_OF_A_GPU, most)
        self.env = make_env(self._worlds)
        """One of the environments, to see what all of them share."""
        self._envs = {0: (True, self.env)}  # the newest of every worker, and whether it was alone
        self._lock = Lock()
        self._stopped = False
        self._done = self._expected = 0

    def batches(self, count: int) -> list[Tensor]:
        """The numbers up to a count, as they are run together; on a GPU all batches are of one size."""
        if self.device.type != "cpu":
            return full_batches(count, self._worlds, self.device)
        size = count * self.env.engine.character.model.nv
        parts = max(math.ceil(size / _MOST), min(_SHARES, size // _LEAST), 1)
        return list(torch.arange(count).split(max(1, math.ceil(count / parts))))

    def expect(self, steps: int) -> None:
        """Say that so many more steps are to come, in all worlds together."""
        self._expected += steps

    def run(self, work: Callable[[ImitationEnv, Tensor], Result], count: int) -> list[Result]:
        """What `work` gives for every batch, in order."""
        batches = self.batches(count)
        alone = self._workers == 1 or len(batches) == 1
        free: SimpleQueue[int] = SimpleQueue()
        for number in range(self._workers):
            free.put(number)

        def one(batch: Tensor) -> Result:
            worker = free.get()
            try:
                return work(self._env(worker, len(batch), alone), batch)
            finally:
                free.put(worker)

        if alone:
            return [one(batch) for batch in batches]
        WORLDS.set(min(self._workers, len(batches)) * len(batches[0]))  # engines are made in other threads
        with ThreadPoolExecutor(self._workers) as pool:
            try:
                return list(pool.map(one, batches))
            except BaseException:  # Ctrl-C too: the others end with their next step
                self._stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def step(self, worlds: int) -> None:
        """To be called after every step of so many worlds."""
        if self._stopped:
            raise _StoppedError
        with self._lock:
            self._done += worlds
            if self._report is not None:
                self._report(self._done, self._expected)

    def _env(self, worker: int, worlds: int, alone: bool) -> ImitationEnv:
        found = self._envs.get(worker)
        if found is None or found[0] != alone or found[1].num_envs != worlds:
            with self._lock:
                found = alone, self._make_env(worlds) if alone else self._make_env(worlds, 1)
        self._envs[worker] = found
        return found[1]


class _StoppedError(Exception):
    """Another batch has failed, or nobody waits any more."""
