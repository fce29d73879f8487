"""Which engine a machine gets."""

import importlib.util

import torch

from skillfield.characters import Character
from skillfield.errors import DeviceError
from skillfield.simulation.cpu import CpuEngine
from skillfield.simulation.engine import Engine
from skillfield.simulation.memory import WORLDS, memory_errors

__all__ = ["choose_device", "make_engine"]

_KINDS = ("auto", "cpu", "cuda")


def choose_device(device: str = "auto") -> torch.device:
    """Where to simulate and learn.

    device: `cpu`; `cuda`, or `cuda:1` for the second GPU; `auto` takes a GPU where PyTorch and Warp both see one.
    """
    kind = device.split(":")[0]
    if kind not in _KINDS:
        raise DeviceError(f"unknown device '{device}'; known: auto, cpu, cuda, cuda:0, cuda:1, …")
    if kind == "cpu":
        return torch.device("cpu")
    missing = _why_no_gpu(device)
    if kind == "cuda" and missing:
        raise DeviceError(f"device '{device}' was asked for, but {missing}")
    return torch.device("cpu") if missing else torch.device(device if ":" in device else "cuda:0")


def make_engine(character: Character, num_envs: int, device: str = "auto", threads: int = 0) -> Engine:
    """E worlds of a character on a device. threads: of the CPU engine; 0 takes every core."""
    chosen = choose_device(device)
    WORLDS.set(num_envs)
    if chosen.type == "cpu":
        return CpuEngine(character, num_envs, threads)
    from skillfield.simulation.gpu import WarpEngine  # an optional extra

    with memory_errors():
        return WarpEngine(character, num_envs, chosen)


def _why_no_gpu(device: str) -> str:
    """What is missing for the GPU engine, or nothing."""
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    number = torch.device(device).index if ":" in device else None
    if number is not None and number >= torch.cuda.device_count():
        return f"there are only {torch.cuda.device_count()} CUDA devices"
    if importlib.util.find_spec("warp") is None or importlib.util.find_spec("mujoco_warp") is None:
        return "MuJoCo-Warp is not installed: pip install 'skillfield[gpu]'"
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    return "" if wp.is_cuda_available() else "Warp sees no CUDA device"
