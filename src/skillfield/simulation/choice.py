"""Which engine a machine gets."""

import importlib.util
import re

import torch

from skillfield.characters import Character
from skillfield.errors import DeviceError
from skillfield.simulation.cpu import CpuEngine
from skillfield.simulation.engine import Engine
from skillfield.simulation.memory import WORLDS

__all__ = ["choose_device", "make_engine"]

_MOST_WORLDS = 2**31 - 1
"""Further no engine can count; long before that memory ends."""

_KNOWN = re.compile(r"auto|cpu|cuda(:(0|[1-9][0-9]{0,3}))?")


def choose_device(device: str = "auto") -> torch.device:
    """Where to simulate and learn.

    device: `cpu`; `cuda`, or `cuda:1` for the second GPU; `auto` takes a GPU where PyTorch and Warp both see one.
    """
    if not _KNOWN.fullmatch(device):
        raise DeviceError(f"unknown device '{device}'; known: auto, cpu, cuda, cuda:0, cuda:1, …")
    if device == "cpu":
        return torch.device("cpu")
    number = int(device.partition(":")[2] or 0)
    missing = _why_no_gpu(number)
    if device != "auto" and missing:
        raise DeviceError(f"device '{device}' was asked for, but {missing}")
    return torch.device("cpu") if missing else torch.device("cuda", number)


def make_engine(character: Character, num_envs: int, device: str = "auto", threads: int = 0) -> Engine:
    """E worlds of a character on a device. threads: of the CPU engine; 0 takes every core."""
    chosen = choose_device(device)
    if num_envs > _MOST_WORLDS:
        raise DeviceError(f"{num_envs:,} worlds were asked for; an engine has at most {_MOST_WORLDS:,}")
    WORLDS.set(num_envs)
    if chosen.type == "cpu":
        return CpuEngine(character, num_envs, threads)
    from skillfield.simulation.gpu import WarpEngine  # an optional extra

    return WarpEngine(character, num_envs, chosen)


def _why_no_gpu(number: int) -> str:
    """What is missing for the GPU engine on the GPU of this number, or nothing."""
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    count = torch.cuda.device_count()
    if number >= count:
        return f"there is only {', '.join(f'cuda:{each}' for each in range(count))}"
    if importlib.util.find_spec("warp") is None or importlib.util.find_spec("mujoco_warp") is None:
        return "MuJoCo-Warp is not installed: pip install 'skillfield[gpu]'"
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    return "" if wp.is_cuda_available() else "Warp sees no CUDA device"
