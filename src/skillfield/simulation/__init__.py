"""Where characters are simulated: one contract, one engine per kind of machine. Knows nothing of rewards or clips."""

from skillfield.simulation.choice import choose_device, make_engine
from skillfield.simulation.cpu import CpuEngine
from skillfield.simulation.engine import DivergedWorld, Engine, SimulationState
from skillfield.simulation.memory import memory_errors

__all__ = ["CpuEngine", "DivergedWorld", "Engine", "SimulationState", "choose_device", "make_engine", "memory_errors"]
