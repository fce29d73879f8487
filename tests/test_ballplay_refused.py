"""What is no BallPlay recording is refused in one plain line, and no code of a file ever runs."""

import io
import re
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from damage import damaged
from dancing import NAME, MakeTable
from skillfield.characters import humanoid
from skillfield.cli.main import main
from skillfield.clips.ballplay import COLUMNS, read_recording, recording_files
from skillfield.errors import CharacterError, ClipError
from skillfield.reference.importing import import_recording


def nan_table(table: Tensor) -> Tensor:
    """A hole in the numbers."""
    table = table.clone()
    table[7, 20] = float("nan")
    return table


def other_bones(table: Tensor) -> Tensor:
    """Somebody else: all positions twice as far from the origin."""
    table = table.clone()
    table[:, 165:324] *= 2
    return table


def lost_frame(table: Tensor) -> Tensor:
    """One frame whose body positions were never written."""
    table = table.clone()
    table[5, 165:324] = 0.0
    return table


def lost_joint(table: Tensor) -> Tensor:
    """One frame in which a body lies in the one before it; a missing frame comes earlier."""
    table = table.clone()
    table[2] = 0.0
    table[9, 165:324].unflatten(0, (53, 3))[22] = table[9, 165:324].unflatten(0, (53, 3))[21]
    return table


def odd_label(table: Tensor) -> Tensor:
    """A contact label that is none."""
    table = table.clone()
    table[3, 336] = 7.0
    return table


def sparse_rows(table: Tensor) -> Tensor:
    """Compressed row by row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these tensors are young
        return table.to_sparse_csr()


def nested(table: Tensor) -> Tensor:
    """Two takes of different length in one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([table, table[:3]])


BAD_TABLES: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "too few columns": (lambda table: table[:, :331], r"shape \(24, 331\).*337"),
    "another format": (lambda table: torch.zeros(24, 409), r"shape \(24, 409\).*337.*ParaHome"),
    "one frame": (lambda table: table[:1], r"shape \(1, 337\)"),
    "no frame": (lambda table: table[:0], r"shape \(0, 337\)"),
    "one axis": (lambda table: table[0], r"shape \(337,\)"),
    "whole numbers": (lambda table: table.long(), "torch.int64"),
    "sparse": (lambda table: table.to_sparse(), r"sparse tensor.*table\.to_dense\(\)"),
    "sparse rows": (sparse_rows, "sparse tensor"),
    "no numbers": (lambda table: table.to("meta"), "a tensor without its numbers"),
    "nested": (nested, "a nested tensor"),
    "a dictionary": (lambda table: {"motion": table}, "holds a dict"),
    "NaN": (nan_table, r"column 20 of frame 7 is not finite \(1 such"),
    "other bones": (other_bones, "another skeleton"),
    "lost frame": (lost_frame, r"'.*' is 0\.000 m away .* in frame 5, in the character .* damaged frame \(1 such"),
    "lost joint": (lost_joint, r"'.*' is 0\.\d+ m away .* in frame 9, in the character .* damaged frame \(1 such"),
    "odd label": (odd_label, "column 336 holds 7"),
    "all missing": (lambda table: table * 0, "0 of 24 frames are present"),
}


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_a_bad_recording_is_one_line_and_nothing_is_written(
    kind: str, make_table: MakeTable, write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the file and the flaw; the good recording beside it is not written either."""
    spoil, message = BAD_TABLES[kind]
    write(make_table(), "011_1pickle_good_1.pt")
    bad = write(spoil(make_table()))
    assert main(["data", "import", "ballplay", str(bad.parent), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(bad) in line
    assert re.search(message, line)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


class Trap:
    """An object that leaves a trace if it is ever unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def foreign_files(tmp_path: Path, trace: Path) -> dict[str, bytes]:
    """Files that are no plain tensors."""

    def saved(content: Any, **options: Any) -> bytes:
        buffer = io.BytesIO()
        torch.save(content, buffer, **options)
        return buffer.getvalue()

    whole = saved(torch.zeros(30, COLUMNS))
    archive, program = io.BytesIO(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old format, which people still have
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), program)
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("notes.txt", "nothing")
    return {
        "trap": saved(Trap(trace)),
        "old trap": saved(Trap(trace), _use_new_zipfile_serialization=False),
        "numpy": saved(np.zeros((30, COLUMNS))),
        "newer numpy": saved(np.zeros((30, COLUMNS)), pickle_protocol=4),
        "program": program.getvalue(),
        "empty": b"",
        "text": b"frame,x,y\n0,1,2\n",
        "truncated": whole[: len(whole) // 2],
        "archive": archive.getvalue(),
    }


OBJECTS = ("trap", "old trap", "numpy", "newer numpy", "program")
DAMAGED = ("empty", "text", "truncated", "archive")


@pytest.mark.parametrize("kind", [*OBJECTS, *DAMAGED])
def test_nothing_but_plain_tensors_is_read(kind: str, tmp_path: Path) -> None:
    """Pickled objects, torn files and other formats are refused with their path, and no code of theirs runs."""
    trace, path = tmp_path / "trace", tmp_path / NAME
    path.write_bytes(foreign_files(tmp_path, trace)[kind])
    with pytest.raises(ClipError, match=r"not a file of plain tensors|holds a") as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not trace.exists()


@pytest.mark.parametrize("kind", [*OBJECTS, *DAMAGED])
def test_why_it_is_refused_is_said_in_plain_words(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    """Objects would run code, and can be converted safely; anything else is damaged. PyTorch itself says nothing."""
    path = tmp_path / NAME
    path.write_bytes(foreign_files(tmp_path, tmp_path / "trace")[kind])
    recwarn.clear()
    assert main(["data", "import", "ballplay", str(path), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    if kind in OBJECTS:
        assert "would mean running code from the file" in line
        assert "torch.save(torch.as_tensor(table), FILE)" in line
    else:
        assert line == f"error: {path}: not a file of plain tensors: it is empty, damaged or of another format"
    assert "weights" not in line.lower()
    assert not recwarn.list


def test_a_folder_called_like_a_recording_is_refused(tmp_path: Path) -> None:
    """Its name was meant for a file."""
    (tmp_path / NAME).mkdir()
    with pytest.raises(ClipError, match=f"{NAME}: cannot be read: Is a directory"):
        read_recording(recording_files(tmp_path)[0])


@pytest.mark.parametrize("where", ["", "run", f"run/{NAME}"])
def test_raw_recordings_as_data_are_to_be_imported_first(
    where: str, make_table: MakeTable, write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever gives the folder they downloaded, however deep its files lie, or a file, is told the command."""
    folder = write(make_table(), f"run/{NAME}").parents[1] / where
    assert main(["train", "ballplay", "--samples", "64", "--data", str(folder)]) == 2
    told = capsys.readouterr().err.splitlines()[0]
    assert f"no clips (*.npz) in {folder}" in told
    assert f"skillfield data import ballplay {folder} --out DIR" in told


def test_no_damaged_byte_escapes_as_another_error(make_table: MakeTable, write: Callable[..., Path]) -> None:
    """Whatever bytes are overwritten, a recording is read or refused with a ClipError."""
    path = write(make_table(4))
    for broken in damaged(path.read_bytes(), times=60, places=4):
        path.write_bytes(broken)
        with suppress(ClipError):
            read_recording(path)


def test_empty_and_missing_folders_are_refused(tmp_path: Path) -> None:
    """No recordings is an error, not an empty list."""
    with pytest.raises(ClipError, match=r"no \.pt recordings"):
        recording_files(tmp_path)
    with pytest.raises(ClipError, match="no such file or folder"):
        recording_files(tmp_path / "nowhere")


def test_a_character_of_other_joints_is_refused(make_table: MakeTable, write: Callable[..., Path]) -> None:
    """Clips are made for all joints of the recording; a variant with fewer follows them later."""
    with pytest.raises(CharacterError, match="'humanoid_fused' has 53 bodies and 66 joint columns"):
        import_recording(read_recording(write(make_table())), humanoid("fused"))
