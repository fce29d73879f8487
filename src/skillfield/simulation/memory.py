"""Running out of a GPU's memory, told in one line.

PyTorch and Warp find out wherever they happen to be, in the middle of an update too. What a user can change is the
number of worlds, so the number that was asked for last is kept here.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from skillfield.errors import DeviceError

__all__ = ["WORLDS", "memory_errors"]

WORLDS: ContextVar[int] = ContextVar("WORLDS", default=0)
"""How many worlds the last engine was asked for."""

# PyTorch's allocator has an error of its own; Warp, cuBLAS and the driver only have words.
_WORDS = re.compile(r"out of memory|failed to allocate \d+ bytes|alloc_failed", re.IGNORECASE)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Running out of GPU memory inside becomes a DeviceError that says how many worlds were too many."""
    try:
        yield
    except RuntimeError as problem:
        if not isinstance(problem, torch.OutOfMemoryError) and not _WORDS.search(str(problem)):
            raise
        reason = str(problem).split("\n")[0].split(". GPU ")[0].rstrip(".")
        when, advice = "before there were any worlds", "nvidia-smi shows who holds it"
        if WORLDS.get():
            when = f"with {WORLDS.get()} worlds"
            advice = "fewer would fit: --num-envs, in bench --worlds, in evaluate --trials"
        raise DeviceError(f"the GPU ran out of memory {when} ({reason}); {advice}") from problem
