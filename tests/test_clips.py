"""Clips: what a demonstration must look like, and that a file is either whole or refused in one line."""

import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from damage import damaged
from skillfield.clips import CONTACT_PAIRS, Clip, load_clip, load_clips, save_clip, save_clips
from skillfield.errors import ClipError

MakeClip = Callable[..., Clip]


@pytest.fixture
def clip(make_clip: MakeClip) -> Clip:
    """A clip that uses every column: two labels, missing frames, a source."""
    return make_clip(
        frames=6,
        contacts=np.eye(6, 2, dtype=np.float32),
        contact_names=("body-hand", "object-hand"),
        valid=np.array([True, True, False, True, True, False]),
        source="written by a test",
        corrections=("frame 2 was never there", "lifted by 3 mm"),
    )


@pytest.fixture
def stored(clip: Clip, tmp_path: Path) -> Path:
    """The clip on disk."""
    path = tmp_path / "clip.npz"
    save_clip(clip, path)
    return path


def rewrite(path: Path, columns: dict[str, np.ndarray], drop: str = "") -> None:
    """Replace or drop columns of a stored clip behind the package's back."""
    with np.load(path) as stored:
        kept = {key: stored[key] for key in stored.files if key != drop}
    changed: dict[str, Any] = kept | columns
    np.savez(path, **changed)


def test_a_saved_clip_loads_as_it_was(clip: Clip, stored: Path) -> None:
    """Every field comes back with the same value and the same type."""
    loaded = load_clip(stored)
    for field in fields(Clip):
        before, after = getattr(clip, field.name), getattr(loaded, field.name)
        if isinstance(before, np.ndarray):
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)
        else:
            assert type(before) is type(after)
            assert before == after


def test_missing_values_survive_the_disk(clip: Clip, tmp_path: Path) -> None:
    """NaN in a missing frame stays NaN."""
    root_pos = clip.root_pos.copy()
    root_pos[2] = np.nan
    save_clip(replace(clip, root_pos=root_pos), tmp_path / "clip.npz")
    np.testing.assert_array_equal(load_clip(tmp_path / "clip.npz").root_pos, root_pos)


def test_a_clip_without_a_mask_has_every_frame(make_clip: MakeClip) -> None:
    """Without a validity mask no frame is missing."""
    assert make_clip(frames=5, valid=None).valid.tolist() == [True] * 5


def test_duration_runs_from_first_to_last_frame(make_clip: MakeClip) -> None:
    """Sixty-one frames at 60 per second last one second."""
    clip = make_clip(frames=61)
    assert (len(clip), clip.seconds) == (61, 1.0)


@pytest.mark.parametrize(
    ("column", "shape"),
    [
        ("root_pos", (6, 2)),
        ("root_quat", (6, 3)),
        ("joint_pos", (6, 5)),
        ("object_pos", (6, 2, 3)),
        ("object_quat", (5, 1, 4)),
        ("contacts", (6, 3)),
        ("valid", (7,)),
    ],
)
def test_a_wrong_shape_is_named_beside_the_right_one(clip: Clip, column: str, shape: tuple[int, ...]) -> None:
    """The message holds the clip's name, the column, the shape found and the shape asked for."""
    wanted = (6, 3) if column == "root_pos" else getattr(clip, column).shape
    change: dict[str, Any] = {column: np.zeros(shape, dtype=np.float32)}
    with pytest.raises(ClipError) as caught:
        replace(clip, **change)
    for part in ("'sway'", column, str(shape), str(wanted)):
        assert part in str(caught.value)


def test_an_unknown_contact_label_is_refused_with_the_known_ones(clip: Clip) -> None:
    """A label outside the contact graph is named, and so are the labels of the graph."""
    with pytest.raises(ClipError) as caught:
        replace(clip, contact_names=("object-hand", "object-foot"))
    for part in ("object-foot", *CONTACT_PAIRS):
        assert part in str(caught.value)


@pytest.mark.parametrize("fps", [0.0, -30.0, 1e-300, 0.05, float("nan"), float("inf")])
def test_a_frame_rate_must_be_positive_and_finite(clip: Clip, fps: float) -> None:
    """A bad frame rate is refused and quoted."""
    with pytest.raises(ClipError, match=f"fps is {fps}"):
        replace(clip, fps=fps)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path of a clip that is not there stands in the message."""
    path = tmp_path / "nowhere.npz"
    with pytest.raises(ClipError, match="no such clip") as caught:
        load_clip(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(stored: Path, share: float) -> None:
    """A file that lost its end, however little, is an error and never half a clip."""
    whole = stored.read_bytes()
    stored.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ClipError, match=r"not a readable \.npz clip") as caught:
        load_clip(stored)
    assert str(stored) in str(caught.value)


def test_no_damaged_byte_escapes_as_another_error(stored: Path) -> None:
    """Whatever bytes of a file are overwritten, it loads or raises a ClipError."""
    for broken in damaged(stored.read_bytes(), times=400, places=3):
        stored.write_bytes(broken)
        with suppress(ClipError):
            load_clip(stored)


@pytest.mark.parametrize("content", [b"time,x,y\n0,1,2\n", b"\x93NUMPY garbage", b"PK\x03\x04 garbage"])
def test_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is no .npz is a ClipError with its path."""
    path = tmp_path / "clip.npz"
    path.write_bytes(content)
    with pytest.raises(ClipError, match=r"not a readable \.npz clip .*: it is no zip archive$"):
        load_clip(path)


@pytest.mark.parametrize("skill", ["", " ", "a/b", "a,b", "a;b"])
def test_a_skill_has_a_name_that_scripts_and_files_can_have(make_clip: MakeClip, skill: str) -> None:
    """Not found out after an hour's training."""
    with pytest.raises(ClipError, match=f"clip 'sway': skill '{skill}' must be a name without"):
        make_clip(skill=skill)


def test_columns_are_arrays(make_clip: MakeClip) -> None:
    """A list is refused by name, and so is a text for a number."""
    clip = make_clip()
    with pytest.raises(ClipError, match=r"clip 'sway': columns must be NumPy arrays, found {'root_pos': 'list'}"):
        replace(clip, root_pos=clip.root_pos.tolist())
    for fps in ("60", None):
        with pytest.raises(ClipError, match=f"clip 'sway': fps is {fps}"):
            replace(clip, fps=fps)  # type: ignore[arg-type]


def test_a_path_may_be_a_text(make_clip: MakeClip, tmp_path: Path) -> None:
    """For a folder and for a file."""
    save_clips([make_clip()], str(tmp_path / "all"))
    save_clip(make_clip(), str(tmp_path / "one.npz"))
    assert [path.name for path in sorted(tmp_path.rglob("*.npz"))] == ["sway.npz", "one.npz"]


def test_a_bare_array_is_refused(tmp_path: Path) -> None:
    """A single .npy array under a clip's name is a ClipError with its path."""
    path = tmp_path / "clip.npz"
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ClipError) as caught:
        load_clip(path)
    assert str(path) in str(caught.value)


def test_pickled_objects_are_never_unpacked(stored: Path) -> None:
    """A column of Python objects is refused before any of it is executed."""
    rewrite(stored, {"joint_names": np.array([{"code": "anything"}], dtype=object)})
    with pytest.raises(ClipError, match=r"not a readable \.npz clip"):
        load_clip(stored)


def test_another_schema_version_is_refused_with_both_versions(stored: Path) -> None:
    """A clip of a later schema names its version and ours."""
    rewrite(stored, {"schema_version": np.array(7)})
    with pytest.raises(ClipError, match=r"clip schema 7, .* reads schema 1 and 2"):
        load_clip(stored)


def test_a_clip_of_the_first_schema_has_no_corrections(stored: Path) -> None:
    """Files from before corrections were recorded are read as they are."""
    rewrite(stored, {"schema_version": np.array(1)}, drop="corrections")
    assert load_clip(stored).corrections == ()


def test_an_npz_of_someone_else_is_refused(stored: Path) -> None:
    """An .npz without a schema version was not written by this package, and the message says so."""
    rewrite(stored, {}, drop="schema_version")
    with pytest.raises(ClipError, match="no 'schema_version'"):
        load_clip(stored)


def test_missing_and_unknown_columns_are_listed(stored: Path) -> None:
    """A file without one column and with a strange one names both."""
    rewrite(stored, {"colour": np.zeros(3)}, drop="object_quat")
    with pytest.raises(ClipError, match=r"missing columns \['object_quat'\], unknown columns \['colour'\]"):
        load_clip(stored)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("schema_version", np.array("first")),
        ("schema_version", np.array([1, 1])),
        ("fps", np.array("fast")),
        ("fps", np.array([60.0, 60.0])),
        ("root_pos", np.array("here")),
        ("root_pos", np.array(1.0)),
        ("root_pos", np.zeros((6, 3), dtype=complex)),
        ("root_pos", np.full((6, 3), "1.0")),
        ("valid", np.full(6, "False")),
        ("valid", np.full(6, np.nan)),
        ("fps", np.array("60")),
        ("fps", np.array([60.0])),
        ("name", np.array(["sway", "swing"])),
        ("skill", np.array(3)),
        ("joint_names", np.array("finger_left")),
        ("joint_names", np.array([1, 2])),
    ],
)
def test_a_column_of_the_wrong_kind_is_refused(stored: Path, column: str, value: np.ndarray) -> None:
    """Text for numbers, or a single value for a list, is a ClipError with the path."""
    rewrite(stored, {column: value})
    with pytest.raises(ClipError) as caught:
        load_clip(stored)
    assert str(stored) in str(caught.value)


def npy(header: bytes) -> bytes:
    """An .npy of this header, and nothing after it."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("root_pos", b"no array at all"),
        ("root_pos.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 3), }\n")),
        ("root_pos.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 3), }\n" % 10**23)),
        ("root_pos.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (")),
        ("root_pos.npy", npy(b"{'descr': '<f4', 'fortran")),
        ("root_pos.npy", npy(b"{'descr': (), 'fortran_order': False, 'shape': (6, 3), }\n")),
    ],
)
def test_a_column_that_is_no_array_is_refused(stored: Path, member: str, content: bytes) -> None:
    """Other bytes, a shape that fits in no memory, a header that was cut off: one line with the path."""
    rewrite(stored, {}, drop="root_pos")
    with zipfile.ZipFile(stored, "a") as archive:
        archive.writestr(member, content)
    with pytest.raises(ClipError, match=r"not a readable \.npz clip") as caught:
        load_clip(stored)
    assert str(stored) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_shape_on_disk_names_the_file(stored: Path) -> None:
    """A shape error that surfaces while loading carries the path as well."""
    rewrite(stored, {"valid": np.ones(9, dtype=bool)})
    with pytest.raises(ClipError, match=r"valid has shape \(9,\)") as caught:
        load_clip(stored)
    assert str(stored) in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_numbers_that_do_not_fit_are_refused(stored: Path, clip: Clip, dtype: type) -> None:
    """A number beyond float32 would become infinite; NaN and infinity themselves are left to the checks."""
    column: np.ndarray = clip.root_pos.astype(dtype)
    column[0, 1] = np.nan
    rewrite(stored, {"root_pos": column})
    assert np.isnan(load_clip(stored).root_pos[0, 1])
    column[2, 0] = 1e300
    rewrite(stored, {"root_pos": column})
    with pytest.raises(ClipError, match=r"column 'root_pos' holds numbers beyond 3e\+38") as caught:
        load_clip(stored)
    assert str(stored) in str(caught.value)


def test_a_folder_loads_in_the_order_of_its_names(clip: Clip, tmp_path: Path) -> None:
    """Clips of a folder come sorted by file name; other files are left alone."""
    for name in ("b", "a", "c"):
        save_clip(replace(clip, name=name), tmp_path / f"{name}.npz")
    (tmp_path / "notes.txt").write_text("not a clip")
    assert [loaded.name for loaded in load_clips(tmp_path)] == ["a", "b", "c"]
    assert [loaded.name for loaded in load_clips(tmp_path / "b.npz")] == ["b"]


def test_an_empty_or_missing_folder_is_refused(tmp_path: Path) -> None:
    """No clips is an error, not an empty list."""
    with pytest.raises(ClipError, match=r"no \.npz clips"):
        load_clips(tmp_path)
    with pytest.raises(ClipError, match="no such file or folder"):
        load_clips(tmp_path / "nowhere")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving writes some bytes and then runs out of space."""

    def fail(file: BinaryIO, **_columns: object) -> None:
        file.write(b"PK\x03\x04 the first half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fail)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_nothing_behind(clip: Clip, tmp_path: Path) -> None:
    """A write that fails midway leaves neither the clip nor a temporary file, and says why."""
    path = tmp_path / "clip.npz"
    with pytest.raises(ClipError, match="cannot be written: No space left on device") as caught:
        save_clip(clip, path)
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_spares_the_clip_that_was_there(clip: Clip, stored: Path, request: pytest.FixtureRequest) -> None:
    """Overwriting a clip when the disk is full leaves the old one intact and nothing beside it."""
    before = stored.read_bytes()
    request.getfixturevalue("full_disk")
    with pytest.raises(ClipError):
        save_clip(replace(clip, name="newer"), stored)
    assert stored.read_bytes() == before
    assert list(stored.parent.iterdir()) == [stored]


def test_an_interruption_leaves_nothing_behind(clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a write leaves no file either."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_clip(clip, tmp_path / "clip.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_clips_appears_whole_or_not_at_all(
    clip: Clip, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Clips are written under their names; a disk that fills up leaves no folder behind."""
    clips = [replace(clip, name=name) for name in ("b", "a")]
    save_clips(clips, tmp_path / "new")
    assert [loaded.name for loaded in load_clips(tmp_path / "new")] == ["a", "b"]
    request.getfixturevalue("full_disk")
    with pytest.raises(ClipError, match="No space left"):
        save_clips(clips, tmp_path / "newer")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_folder_with_something_in_it_is_left_alone(clip: Clip, stored: Path) -> None:
    """Clips are written neither among other files nor over one."""
    for place in (stored.parent, stored):
        with pytest.raises(ClipError, match="already there and not empty"):
            save_clips([clip], place)


def test_clips_that_cannot_share_a_folder_are_refused(clip: Clip, tmp_path: Path) -> None:
    """Two of one name, or a name that leads elsewhere, is empty, holds a NUL or is longer than a file's may be."""
    with pytest.raises(ClipError, match=r"several clips are called \['sway'\]"):
        save_clips([clip, clip], tmp_path / "new")
    for name in ("../elsewhere", "", "a\0b", 300 * "a", 100 * "語"):
        with pytest.raises(ClipError, match=r"cannot be files"):
            save_clips([replace(clip, name=name)], tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
