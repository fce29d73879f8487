"""PyTorch work that is recorded once as a CUDA graph and then replayed; on a CPU it is simply called.

A step of thousands of worlds consists of hundreds of small kernels, and to ask for them one by one takes longer than
to run them. What is recorded must obey three rules: it works on tensors that stay where they are (state is changed in
place, never replaced), it never looks at a number, and whatever else it does in Python is done only once. What it
returns is overwritten by the next call.

Hundreds of small kernels also take longer to run than a few large ones with the same arithmetic. `fused` work is
compiled into such before it is recorded, which takes its time once. It reads dataclasses by `fields`, which PyTorch
2.11 can follow, and not by `vars`, which it cannot.
"""

import gc
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Generic, TypeVar

import torch
from torch import Tensor

from skillfield.errors import SkillfieldNote

__all__ = ["Recorded", "fused"]

Result = TypeVar("Result")

_REHEARSALS = 3
"""Calls before the recording, in which libraries set themselves up."""


class Recorded(Generic[Result]):
    """A function of tensors, always of the same shapes."""

    def __init__(self, work: Callable[..., Result], device: torch.device) -> None:
        self._work, self._on_gpu = work, device.type == "cuda"
        self._rehearsed = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream(device) if self._on_gpu else None
        self._inputs: tuple[Tensor, ...] = ()
        self._result: Result

    def fuse(self) -> None:
        """Run it in few kernels, if it runs on a GPU; to be said before the first call."""
        if self._on_gpu:
            self._work = fused(self._work)

    def __call__(self, *inputs: Tensor) -> Result:
        """Do the work."""
        if not self._on_gpu:
            return self._work(*inputs)
        if self._rehearsed < _REHEARSALS:
            self._rehearsed += 1
            return self._rehearse(inputs)
        if self._graph is None:
            self._record(inputs)
            assert self._graph is not None
        for own, given in zip(self._inputs, inputs, strict=True):
            own.copy_(given)
        self._graph.replay()
        return self._result

    def _rehearse(self, inputs: tuple[Tensor, ...]) -> Result:
        """Do the work on the stream that will record it."""
        assert self._stream is not None
        now = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(now)
        with torch.cuda.stream(self._stream):
            result = self._work(*inputs)
        now.wait_stream(self._stream)
        return result

    def _record(self, inputs: tuple[Tensor, ...]) -> None:
        self._inputs = tuple(given.clone() for given in inputs)
        graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        gc.collect()
        gc.disable()  # what is freed during the recording would leave its mark in the graph
        try:
            with torch.cuda.graph(graph, stream=self._stream):
                self._result = self._work(*self._inputs)
        finally:
            if collecting:
                gc.enable()
        self._graph = graph


def fused(work: Callable[..., Result], backend: str = "inductor") -> Callable[..., Result]:
    """The same work in few large kernels, compiled when it is first called; the work itself where that fails."""
    chosen: Callable[..., Result] = torch.compile(work, fullgraph=True, dynamic=False, backend=backend)
    quiet: AbstractContextManager[None] = _without_logs()  # while it compiles

    def attempt(*inputs: Tensor) -> Result:
        nonlocal chosen, quiet
        if chosen is work:
            return work(*inputs)
        try:
            with quiet:
                quiet = nullcontext()
                return chosen(*inputs)
        except (RuntimeError, ImportError, OSError) as problem:  # whatever a compiler may lack
            reason, name = next(iter(str(problem).splitlines()), type(problem).__name__), work.__name__
            warnings.warn(SkillfieldNote(f"kernels of {name} are not fused, which is slower: {reason}"), stacklevel=2)
            chosen = work
            return work(*inputs)

    return attempt


@contextmanager
def _without_logs() -> Iterator[None]:
    """A compiler that fails tells it to the log at length; the note says it in a line."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
