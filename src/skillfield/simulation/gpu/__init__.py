"""The engine for GPUs. Importing this needs the `gpu` extra; the rest of the package does not."""

from skillfield.simulation.gpu.engine import WarpEngine
from skillfield.simulation.gpu.sizes import Buffers

__all__ = ["Buffers", "WarpEngine"]
