"""Running out of memory: one line that says how many worlds were too many, whoever noticed it and wherever."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from skillfield.api import train_run
from skillfield.characters import Character
from skillfield.cli.main import main
from skillfield.errors import DeviceError
from skillfield.experiments.run import preset
from skillfield.learning.ppo import PPO
from skillfield.simulation import choice, make_engine, memory_errors
from skillfield.simulation.memory import WORLDS

TORCH = torch.OutOfMemoryError(
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139 GiB of which 1.31 GiB is free."
)
WARP = RuntimeError("Failed to allocate 2147483648 bytes on device 'cuda:0'")
DRIVER = RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")
CUBLAS = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")

HOST = RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")
MUJOCO = ValueError("std::bad_alloc")
NUMPY = MemoryError("Unable to allocate 745. GiB for an array with shape (100000000000,) and data type float64")


def failing(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    """Let the first update end in this error."""

    def update(ppo: PPO, progress: float) -> dict[str, float]:
        raise problem

    monkeypatch.setattr(PPO, "update", update)


def train(folder: Path) -> int:
    """A tiny run."""
    return main(
        [
            "train",
            "starter",
            "--method",
            "sm",
            "--num-envs",
            "48",
            "--ppo.hidden",
            "16",
            "--device",
            "cpu",
            "--out",
            str(folder),
        ]
    )


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (TORCH, "(CUDA out of memory. Tried to allocate 2.00 GiB)"),
        (WARP, "(Failed to allocate 2147483648 bytes on device 'cuda:0')"),
        (DRIVER, "(CUDA error: out of memory)"),
        (CUBLAS, "CUBLAS_STATUS_ALLOC_FAILED"),
    ],
)
def test_it_is_one_line_with_the_number_of_worlds(
    problem: Exception,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the middle of training: what ran out, how many worlds there were, and which option would help."""
    failing(monkeypatch, problem)
    assert train(tmp_path / "run") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the GPU ran out of memory with 48 worlds")
    assert reason in line
    assert "fewer would fit: --num-envs" in line


@pytest.mark.parametrize("problem", [HOST, MUJOCO, NUMPY])
def test_a_machine_without_a_gpu_runs_out_of_memory_too(problem: Exception) -> None:
    """It is not called a GPU."""
    WORLDS.set(48)
    with pytest.raises(DeviceError, match=r"^this machine ran out of memory with 48 worlds \("), memory_errors():
        raise problem
    WORLDS.set(0)
    with pytest.raises(DeviceError, match=r"before there were any worlds .*; top shows"), memory_errors():
        raise problem


def test_trials_that_no_machine_could_hold_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With the number that was asked for, and the one that is possible."""
    assert main(["evaluate", "starter", "--trials", "99999999999"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: trials is 99999999999: ")
    assert re.search(r"GiB of memory are enough for about \d[\d,]+$", line)


def test_before_there_are_worlds_somebody_else_holds_the_memory() -> None:
    """Nothing of ours is there yet, so fewer worlds are no help."""
    WORLDS.set(0)
    with pytest.raises(DeviceError, match=r"before there were any worlds \(.*\); nvidia-smi shows"), memory_errors():
        raise WARP


def test_another_error_stays_what_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A mistake of ours keeps its traceback."""
    failing(monkeypatch, RuntimeError("shapes [3] and [4] do not match"))
    with pytest.raises(RuntimeError, match="do not match"):
        train(tmp_path / "run")


def test_an_engine_that_does_not_fit_is_a_device_error(
    hand_character: Character, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the number that was asked for, and Warp's words are understood."""
    pytest.importorskip("mujoco_warp", reason="needs the gpu extra")
    from skillfield.simulation import gpu

    def engine(*_: object) -> SimpleNamespace:
        raise WARP

    monkeypatch.setattr(gpu, "WarpEngine", engine)
    monkeypatch.setattr(choice, "choose_device", lambda device: torch.device("cuda:0"))
    with pytest.raises(DeviceError, match="ran out of memory with 7 worlds") as caught, memory_errors():
        make_engine(hand_character, 7, "cuda")
    assert caught.value.__cause__ is WARP


def test_what_was_told_is_not_told_again() -> None:
    """One call inside another: the first to notice has the word."""
    first = DeviceError("10 worlds of 'hand' need about 10.0 GiB")
    with pytest.raises(DeviceError) as caught, memory_errors(), memory_errors():
        raise first
    assert caught.value is first


def test_who_trains_from_python_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of training, without the command line."""
    failing(monkeypatch, WARP)
    config = replace(preset("starter"), num_envs=3, device="cpu")
    with pytest.raises(DeviceError, match="ran out of memory with 3 worlds"):
        train_run(config, tmp_path / "run", progress=False)
