"""Files appear whole, readable by whom the system lets, and what cannot be written is named."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from skillfield.errors import ExportError
from skillfield.experiments.shipped import pack_policy, run_folder
from skillfield.files import atomic_directory, atomic_file, write_errors


def failing(path: Path, problem: OSError) -> None:
    """Write a file, and end in an error."""
    with write_errors(ExportError), atomic_file(path):
        raise problem


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Whether the system named none, the temporary one or another, or only has words."""
    path = tmp_path / "policy.onnx"
    with pytest.raises(ExportError, match=rf"^{path}: cannot be written: No space left on device$"):
        failing(path, OSError(28, "No space left on device"))
    with pytest.raises(ExportError, match=rf"^{path}: cannot be written: encoder error$"):
        failing(path, OSError("encoder error"))
    with pytest.raises(ExportError, match=r"^other\.xml: cannot be written: Permission denied$"):
        failing(path, OSError(13, "Permission denied", "other.xml"))
    with (
        pytest.raises(ExportError, match=rf"^{path}: cannot be written: No such file or directory$"),
        write_errors(ExportError),
        atomic_file(path) as temporary,
    ):
        temporary.unlink()
    assert not list(tmp_path.iterdir())
    long = tmp_path / f"{'x' * 300}.onnx"
    with pytest.raises(ExportError, match=rf"^{long}: cannot be written: File name too long$"):
        failing(long, OSError())


@pytest.fixture(params=[0o022, 0o002, 0o077], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    """What the system keeps new files from."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_files_have_the_mode_that_the_system_asks_for(mask: int, tmp_path: Path) -> None:
    """Those of safetensors too, which would be their owner's alone; so that a run can be shared, or not."""
    tensors = {"weight": torch.zeros(3)}
    with atomic_file(tmp_path / "one.safetensors") as temporary:
        save_file(tensors, temporary)
    with atomic_directory(tmp_path / "folder") as temporary:
        save_file(tensors, temporary / "two.safetensors")
    pack_policy(run_folder("starter"), tmp_path / "packed")
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path
    assert len(list(tmp_path.rglob("*"))) == 7
