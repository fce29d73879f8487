"""Running out of memory, a GPU's or the machine's, told in one line.

PyTorch and Warp find out wherever they happen to be, in the middle of an update too. What a user can change is the
number of worlds, so the number that was asked for last is kept here.
"""

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from skillfield.errors import DeviceError

__all__ = ["WORLDS", "device_memory", "memory_errors"]

WORLDS: ContextVar[int] = ContextVar("WORLDS", default=0)
"""How many worlds the last engine was asked for."""

# PyTorch's allocator has an error of its own; Warp, cuBLAS and the driver only have words.
_WORDS = re.compile(r"out of memory|failed to allocate \d+ bytes|alloc_failed", re.IGNORECASE)

# On a CPU: PyTorch, MuJoCo and NumPy.
_HOST_WORDS = re.compile(r"can't allocate memory|bad_alloc|unable to allocate", re.IGNORECASE)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Running out of memory inside becomes a DeviceError that says how many worlds were too many."""
    try:
        yield
    except (RuntimeError, ValueError, MemoryError) as problem:
        words = str(problem)
        on_host = _HOST_WORDS.search(words) is not None
        if not on_host and not isinstance(problem, torch.OutOfMemoryError) and not _WORDS.search(words):
            raise
        reason = words.split("\n")[0].split(". GPU ")[0].rstrip(".")
        where, tool = ("this machine", "top") if on_host else ("the GPU", "nvidia-smi")
        when, advice = "before there were any worlds", f"{tool} shows who holds it"
        if WORLDS.get():
            when = f"with {WORLDS.get()} worlds"
            advice = "fewer would fit: --num-envs, in bench --worlds, in evaluate --trials"
        raise DeviceError(f"{where} ran out of memory {when} ({reason}); {advice}") from problem


def device_memory(device: torch.device) -> float:
    """Bytes of memory that a device has, in use or not; infinitely many where nobody says."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    if not hasattr(os, "sysconf"):  # Windows
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
