"""Which engine is taken: a GPU's where everything is there, else the CPU's, and what is missing is named."""

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from skillfield.characters import Character
from skillfield.errors import DeviceError
from skillfield.simulation import CpuEngine, choice, make_engine

pytest.importorskip("mujoco_warp", reason="needs the gpu extra")

import warp as wp

from skillfield.simulation import gpu


def test_without_a_gpu_the_cpu_is_taken(hand_character: Character, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` never fails, and `cpu` never asks."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert isinstance(make_engine(hand_character, 2), CpuEngine)
    assert isinstance(make_engine(hand_character, 2, "cpu", threads=1), CpuEngine)
    with pytest.raises(DeviceError, match="'cuda' was asked for, but PyTorch sees no CUDA device"):
        make_engine(hand_character, 2, "cuda")


def test_more_worlds_than_can_be_counted_are_refused(hand_character: Character) -> None:
    """In one line, not by a conversion somewhere below."""
    with pytest.raises(DeviceError, match="99,999,999,999 worlds were asked for; an engine has at most 2,147,483,647"):
        make_engine(hand_character, 99_999_999_999, "cpu")


@pytest.mark.parametrize("available", [False, True])
@pytest.mark.parametrize(
    "device", ["tpu", "", "cuda:x", "cuda:-1", "cuda:01", "cuda:", "cuda:1:2", "auto:1", "cpu:banana", "cpu:0", " cpu"]
)
def test_a_device_that_cannot_be_is_refused_with_those_that_can(
    monkeypatch: pytest.MonkeyPatch, device: str, available: bool
) -> None:
    """Whatever there is here: a number that is none, or one where none belongs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(DeviceError, match=f"unknown device '{device}'; known: auto, cpu, cuda, cuda:0, cuda:1, …"):
        choice.choose_device(device)


@pytest.mark.parametrize(
    ("device", "found", "seen", "message"),
    [
        ("cuda", False, True, r"not installed: pip install 'skillfield\[gpu\]'"),
        ("cuda", True, False, "Warp sees no CUDA device"),
        ("cuda:2", True, True, "there is only cuda:0, cuda:1"),
    ],
)
def test_what_is_missing_is_named(
    hand_character: Character, monkeypatch: pytest.MonkeyPatch, device: str, found: bool, seen: bool, message: str
) -> None:
    """Warp not installed, Warp without a driver, a GPU that is not there; `auto` takes the CPU then."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(choice.importlib.util, "find_spec", lambda _: object() if found else None)
    monkeypatch.setattr(wp, "is_cuda_available", lambda: seen)
    with pytest.raises(DeviceError, match=message):
        make_engine(hand_character, 2, device)
    if ":" not in device:
        assert isinstance(make_engine(hand_character, 2, "auto"), CpuEngine)


@pytest.mark.parametrize(("device", "taken"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")])
def test_a_gpu_is_taken_where_both_see_one(
    hand_character: Character, monkeypatch: pytest.MonkeyPatch, device: str, taken: str
) -> None:
    """PyTorch and Warp agree that there are two GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(wp, "is_cuda_available", lambda: True)
    engine: Callable[..., SimpleNamespace] = lambda *arguments: SimpleNamespace(arguments=arguments)  # noqa: E731
    monkeypatch.setattr(gpu, "WarpEngine", engine)
    assert vars(make_engine(hand_character, 5, device))["arguments"] == (hand_character, 5, torch.device(taken))


def test_nobody_needs_warp_who_has_no_gpu() -> None:
    """Without the extra the package imports, and `auto` takes the CPU."""
    program = (
        "import sys; sys.modules['warp'] = sys.modules['mujoco_warp'] = None\n"
        "import skillfield, skillfield.cli.main\n"
        "from skillfield.characters import hand\n"
        "from skillfield.simulation import make_engine\n"
        "print(type(make_engine(hand(), 1, 'auto', 1)).__name__)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "CpuEngine"
