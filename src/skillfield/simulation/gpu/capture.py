"""Device work that is recorded once and replayed as one CUDA graph; on Warp's CPU device it is simply called."""

import gc
from collections.abc import Callable

import torch
import warp as wp

__all__ = ["Replay", "Workspace"]


class Workspace:
    """Memory that a recorded function borrows while it runs, from PyTorch, handed out again and again.

    A CUDA graph must find its memory where it was, and the body of a loop inside a graph may not allocate at all. So a
    rehearsal finds out how much is needed, and the recording is served from what the rehearsal gave back. One workspace
    may serve several recordings if they never run at the same time.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._blocks: dict[int, torch.Tensor] = {}
        self._spare: dict[int, list[int]] = {}
        self.frozen = False

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(block.numel() for block in self._blocks.values())

    def allocate(self, size_in_bytes: int) -> int:
        """A block of this size (Warp's allocator protocol)."""
        spare = self._spare.get(size_in_bytes)
        if spare:
            return spare.pop()
        if self.frozen:
            raise RuntimeError(f"the recording needs {size_in_bytes} bytes that its rehearsal did not need")
        block = torch.empty(size_in_bytes, dtype=torch.uint8, device=self._device)
        self._blocks[block.data_ptr()] = block
        return block.data_ptr()

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Take a block back; it stays ours (Warp's allocator protocol)."""
        self._spare.setdefault(size_in_bytes, []).append(ptr)


class Replay:
    """A function of device work, called with nothing, that never reads anything back to the host."""

    def __init__(self, work: Callable[[], None], device: torch.device, workspace: Workspace) -> None:
        """Rehearses and records the work on CUDA, so it runs a few times: what it changes must be put right after."""
        self._work, self._device = work, device
        self._graph: wp.Graph | None = None
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # what the work reads was written on PyTorch's stream
            self._graph = _record(work, wp.device_from_torch(device), workspace)

    def __call__(self) -> None:
        """Do the work, in turn with whatever PyTorch does on its current stream."""
        if self._graph is None:
            with wp.ScopedDevice(wp.device_from_torch(self._device)):
                self._work()
        else:
            wp.capture_launch(self._graph, stream=wp.stream_from_torch(torch.cuda.current_stream(self._device)))


def _record(work: Callable[[], None], device: wp.Device, workspace: Workspace) -> wp.Graph:
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # an array that is freed during the recording would leave its mark in the graph
    try:
        wp.set_device_allocator(device, workspace)
        with wp.ScopedDevice(device):
            for _ in range(2):  # the first compiles kernels, which allocates in an order of its own
                work()
            wp.synchronize_device(device)
            workspace.frozen = True
            with wp.ScopedCapture(device=device) as capture:
                work()
    finally:
        workspace.frozen = False
        wp.set_device_allocator(device, None)
        if collecting:
            gc.enable()
    assert capture.graph is not None
    return capture.graph
