"""BallPlay recordings: what becomes of their columns, which flaws are mended, and what is refused without a trace."""

import io
import re
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from skillfield.characters import Character, humanoid
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.cli.main import main
from skillfield.clips import Clip, load_clip, load_clips
from skillfield.clips.ballplay import COLUMNS, read_recording, recording_files, skill_of
from skillfield.clips.repair import limit_turning
from skillfield.errors import CharacterError, ClipError
from skillfield.reference import ReferenceMotion
from skillfield.reference.importing import MAX_JOINT_SPEED, Imported, import_recording
from skillfield.reference.motion import clip_positions
from skillfield.rotations import (
    quat_conjugate,
    quat_from_rotvec,
    quat_multiply,
    quat_rotate,
    quat_swing,
    rotvec_between,
    rotvec_from_quat,
)

NAME = "013_018pickle_run_1.pt"
FLOOR_ERROR = 0.02
"""How far below the floor the synthetic recordings put their feet."""

MakeTable = Callable[..., Tensor]


@pytest.fixture(scope="module")
def full() -> Character:
    """The character of the recordings."""
    return humanoid()


@pytest.fixture(scope="module")
def make_table(full: Character) -> MakeTable:
    """Makes a recording: a slow dance on the spot whose stored rotations are 14 % too large, as in the public files.

    The feet stand 2 cm below the floor, the stored root is 1 cm off, and the ball circles at a height of 1 m.
    """

    def make(frames: int = 24) -> Tensor:
        random = torch.Generator().manual_seed(3)
        time = torch.arange(frames).double() / 60
        axis = 0.4 * torch.randn(52, 3, generator=random).double().clamp(-1.5, 1.5)
        phase = 6 * torch.rand(52, generator=random).double()
        joints = axis * torch.sin(4 * time[:, None] + phase)[..., None]  # [T, 52, 3]
        joints[:, :8] = 0.0  # the legs stand
        upright = rotvec_from_quat(torch.tensor([0.5, 0.5, 0.5, 0.5]).double())
        table = torch.zeros(frames, COLUMNS).double()
        qpos = torch.tensor(full.model.qpos0).repeat(frames, 1)
        qpos[:, 2] -= FLOOR_ERROR
        qpos[:, 7:215] = quat_from_rotvec(joints).flatten(1)
        body_pos, _ = ForwardKinematics(full.model, full.body_ids)(qpos)
        table[:, :3] = body_pos[:, 0] + torch.tensor([0.0, 0.0, 0.01])
        table[:, 3:9] = upright.repeat(2)
        table[:, 9:165] = 1.14 * joints.flatten(1)
        table[:, 165:324] = body_pos.flatten(1)
        table[:, 324:327] = torch.stack((time.cos(), time.sin(), 1 + 0 * time), dim=1)
        table[:, 336] = (torch.arange(frames) % 6 < 3).double()
        return table.float()

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a table, or anything else, as a recording."""

    def save(content: Any, name: str = NAME) -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, path)
        return path

    return save


@pytest.fixture
def imported(make_table: MakeTable, write: Callable[..., Path], full: Character) -> Imported:
    """The synthetic recording as a clip."""
    return import_recording(read_recording(write(make_table())), full)


def body_positions(clip: Clip, character: Character) -> Tensor:
    """Where the character's bodies are in each frame.  [T, B, 3]"""
    return ForwardKinematics(character.model, character.body_ids)(clip_positions(clip, character))[0]


def test_columns_find_their_place(imported: Imported, make_table: MakeTable, full: Character) -> None:
    """Skill, rate, names, ball and labels are those of the file."""
    clip, table = imported.clip, make_table()
    assert (clip.name, clip.skill, clip.character, clip.fps) == (NAME[:-3], "dribble_forward", "humanoid", 60.0)
    assert (clip.joint_names, clip.object_names, clip.contact_names) == (full.joint_names, ("ball",), ("object-hand",))
    np.testing.assert_array_equal(clip.contacts[:, 0], table[:, 336])
    np.testing.assert_allclose(clip.object_pos[:, 0, :2], table[:, 324:326], atol=1e-6)
    np.testing.assert_array_equal(clip.object_quat[:, 0], np.tile([1, 0, 0, 0], (len(table), 1)))
    assert clip.valid.all()
    assert NAME in clip.source


def test_bodies_are_where_the_file_saw_them(imported: Imported, make_table: MakeTable, full: Character) -> None:
    """Rotations that disagree with the positions by centimetres are fitted to a tenth of a millimetre."""
    assert imported.before.fit_mean > 0.005
    seen = make_table()[:, 165:324].unflatten(1, (53, 3)).double()
    found = body_positions(imported.clip, full)
    lift = (found - seen)[:, :1]
    assert float((found - seen - lift).norm(dim=-1).max()) < 1e-4
    torch.testing.assert_close(lift[0, 0], torch.tensor([0.0, 0.0, FLOOR_ERROR]).double(), rtol=0, atol=5e-4)
    assert imported.after.fit_max < 1e-4


def test_the_twist_of_the_file_is_kept(make_table: MakeTable, write: Callable[..., Path], full: Character) -> None:
    """What positions cannot show, a forearm's turn about its own bone, comes from the stored rotations."""
    table = make_table()
    elbow = 9 + 3 * (full.body_names.index("left_elbow") - 1)
    bone = torch.tensor([1.0, 0.0, 0.0]).double().expand(len(table), 3)
    table[:, elbow : elbow + 3] = 0.9 * bone
    clip = import_recording(read_recording(write(table)), full).clip
    turn = turns_of(clip, "left_elbow")
    swing = quat_swing(bone, quat_rotate(turn, bone))
    twist = rotvec_from_quat(quat_multiply(quat_conjugate(swing), turn))
    torch.testing.assert_close(twist, 0.9 * bone, rtol=0, atol=1e-5)


def turns_of(clip: Clip, joint: str) -> Tensor:
    """A joint's orientation in each frame.  [T, 4]"""
    column = clip.joint_names.index(f"{joint}_x")
    return quat_from_rotvec(torch.from_numpy(clip.joint_pos[:, column : column + 3]).double())


def test_feet_and_ball_are_lifted_together(imported: Imported, make_table: MakeTable) -> None:
    """A scene 2 cm below the floor stands on it afterwards, ball included, and the correction says by how much."""
    assert imported.before.depth_mean == pytest.approx(FLOOR_ERROR - 0.01, abs=1e-3)  # its stored root is 1 cm higher
    assert imported.after.depth_mean < 5e-4
    np.testing.assert_allclose(imported.clip.object_pos[:, 0, 2], 1 + FLOOR_ERROR, atol=5e-4)
    assert any(re.search(r"lifted by (1\.9\d|2\.0\d) cm", text) for text in imported.clip.corrections)


def test_a_jump_does_not_fool_the_floor(make_table: MakeTable, write: Callable[..., Path], full: Character) -> None:
    """With the feet half a metre up in half of the frames, the floor is still where they stand in the others."""
    table = make_table()
    table[12:, 2] += 0.5
    table[12:, 167:324:3] += 0.5
    jumping = import_recording(read_recording(write(table)), full)
    assert jumping.clip.root_pos[0, 2] == pytest.approx(float(table[0, 167]) + FLOOR_ERROR, abs=5e-4)
    assert jumping.after.depth_max < 5e-4


def test_rows_of_zeros_are_missing_frames(
    make_table: MakeTable, write: Callable[..., Path], full: Character, imported: Imported
) -> None:
    """They are masked and told, and the other frames are as they would be without them."""
    table = make_table()
    table[[5, 6, 20]] = 0.0
    holed = import_recording(read_recording(write(table)), full).clip
    assert np.flatnonzero(~holed.valid).tolist() == [5, 6, 20]
    assert any("3 rows of zeros" in text for text in holed.corrections)
    for column in ("root_pos", "root_quat", "joint_pos", "object_pos"):
        ours, theirs = getattr(holed, column), getattr(imported.clip, column)
        np.testing.assert_allclose(ours[holed.valid], theirs[holed.valid], atol=1e-4)
    motion = ReferenceMotion([holed], full, ["dribble_forward"])
    assert bool(motion.qpos.isfinite().all())


def with_flip(table: Tensor, full: Character, frame: int) -> Tensor:
    """The right index finger bends back for one frame, in positions and rotations alike."""
    table, middle = table.clone(), full.body_names.index("right_index_2")
    table[frame, 6 + 3 * middle : 9 + 3 * middle] = torch.tensor([0.0, 0.0, 2.5])
    positions = table[frame, 165:324].view(53, 3)
    positions[middle + 1] = 2 * positions[middle] - positions[middle + 1]
    return table


def test_a_finger_that_flips_for_a_frame_is_mended(
    make_table: MakeTable, write: Callable[..., Path], full: Character, imported: Imported
) -> None:
    """Its speed falls below the limit, its name is told, and frames away from the flip do not change."""
    flipped = import_recording(read_recording(write(with_flip(make_table(), full, 12))), full)
    assert flipped.before.joint_speed > 60.0
    assert flipped.after.joint_speed <= MAX_JOINT_SPEED * 1.001
    (told,) = [text for text in flipped.clip.corrections if "smoothed" in text]
    assert "right_index_1" in told or "right_index_2" in told
    assert "left" not in told
    assert not any("smoothed" in text for text in imported.clip.corrections)
    far = np.r_[0:9, 16:24]
    np.testing.assert_allclose(flipped.clip.joint_pos[far], imported.clip.joint_pos[far], atol=1e-5)
    error = rotvec_between(turns_of(flipped.clip, "right_index_2"), turns_of(imported.clip, "right_index_2"))
    assert float(error.norm(dim=-1).max()) < 0.3


def test_slow_turns_are_left_alone_to_the_last_bit() -> None:
    """Below the limit nothing changes at all."""
    quat = quat_from_rotvec(torch.randn(1, 4, 3).double() * torch.linspace(0, 0.3, 30).double()[:, None, None])
    smooth, changed = limit_turning(quat, torch.arange(30).double() / 60, 5.0)
    assert torch.equal(smooth, quat)
    assert not bool(changed.any())


@pytest.mark.parametrize("present", [range(40), [0, 1, 2, 5, 6, 9, 15, 16, 17, 20, 30, 31, 39]])
def test_no_turn_is_faster_than_the_limit(present: list[int]) -> None:
    """However wild the joint and however the frames lie in time, the limit holds afterwards, and twice is once."""
    time = torch.tensor([float(frame) for frame in present]).double() / 60
    wild = quat_from_rotvec(2 * torch.randn(len(time), 3, 3).double())
    smooth, changed = limit_turning(wild, time, 20.0)
    speed = rotvec_between(smooth[:-1], smooth[1:]).norm(dim=-1) / time.diff()[:, None]
    assert float(speed.max()) <= 20.0 * 1.0001
    assert torch.equal(smooth[~changed], wild[~changed])
    assert torch.equal(limit_turning(smooth, time, 20.0)[0], smooth)


def test_a_clip_that_is_all_flip_ends_all_the_same() -> None:
    """Two frames that no window can join are left; a spike in three becomes the even way."""
    half_turn = quat_from_rotvec(torch.tensor([[[0.0, 0.0, 0.0]], [[3.0, 0.0, 0.0]]]).double())
    assert torch.equal(limit_turning(half_turn, torch.tensor([0.0, 1 / 60]).double(), 20.0)[0], half_turn)
    spike = quat_from_rotvec(torch.tensor([[[0.0, 0.0, 0.0]], [[3.0, 0.0, 0.0]], [[0.2, 0.0, 0.0]]]).double())
    smooth, _ = limit_turning(spike, torch.arange(3).double() / 60, 20.0)
    torch.testing.assert_close(rotvec_from_quat(smooth)[1, 0], torch.tensor([0.1, 0.0, 0.0]).double())


@pytest.mark.parametrize(
    ("name", "skill", "note"),
    [
        ("013_018pickle_run2_5", "dribble_forward", ""),
        ("000_021pickle_getup_10", "getup", ""),
        ("002_025pickle_rebound_12", "rebound", ""),
        ("099_018pickle_moonwalk_3", "moonwalk", "099"),
        ("099_3", "skill_099", "099"),
        ("011pickle_Jump-shot_003", "jump_shot", "no skill number"),
        ("Chestpass_2", "chestpass", "no skill number"),
    ],
)
def test_the_skill_is_read_from_the_name(name: str, skill: str, note: str) -> None:
    """A known number decides; an unknown one, or none, leaves the words of the name, with a note."""
    found, told = skill_of(Path(f"{name}.pt"))
    assert found == skill
    assert (note in told) if note else told == ""


def test_a_name_that_tells_nothing_is_refused(make_table: MakeTable, write: Callable[..., Path]) -> None:
    """Digits alone name no skill; the user can."""
    path = write(make_table(), "17.pt")
    with pytest.raises(ClipError, match=r"neither a number nor a word.*: --skill NAME$"):
        read_recording(path)
    assert read_recording(path, skill="spin").skill == "spin"


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
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), size=4):
            damaged[place] = random.integers(256)
        path.write_bytes(damaged)
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


def test_the_fused_humanoid_follows_the_same_clips(imported: Imported, full: Character) -> None:
    """It takes the joints it has by their names; hands and body are where the full one has them."""
    fused = humanoid("fused")
    ours, theirs = body_positions(imported.clip, fused), body_positions(imported.clip, full)
    bodies = [number for number, name in enumerate(fused.body_names) if not name.endswith(("_2", "_3"))]
    torch.testing.assert_close(ours[:, bodies], theirs[:, bodies], rtol=0, atol=1e-6)
    assert float((ours - theirs).norm(dim=-1).max()) > 0.01  # its fingers stay in their cup
    motion = ReferenceMotion([imported.clip], fused, ["dribble_forward"])
    assert motion.qpos.shape == (24, fused.model.nq)


def test_a_missing_joint_is_still_an_error(imported: Imported) -> None:
    """Leaving fingers aside does not mean leaving anything aside: without a knee the clip does not fit."""
    clip = imported.clip
    kept = [column for column, name in enumerate(clip.joint_names) if not name.startswith("left_knee")]
    lame = replace(clip, joint_names=tuple(clip.joint_names[c] for c in kept), joint_pos=clip.joint_pos[:, kept])
    with pytest.raises(ClipError, match=r"63 joint columns.*character 'humanoid_fused' has 66"):
        clip_positions(lame, humanoid("fused"))


def test_a_joint_too_many_is_an_error(imported: Imported, full: Character) -> None:
    """A column that no variant of the skeleton has is not passed over."""
    clip = imported.clip
    tailed = replace(
        clip,
        joint_names=(*clip.joint_names, "tail_x"),
        joint_pos=np.concatenate((clip.joint_pos, clip.joint_pos[:, :1]), axis=1),
    )
    for who in (full, humanoid("fused")):
        with pytest.raises(ClipError, match="tail_x"):
            clip_positions(tailed, who)


def test_import_writes_clips_and_says_what_changed(
    make_table: MakeTable, write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder in, sorted clips out, a table of before and after, a note for a skill that was guessed."""
    write(make_table(), "run/013_018pickle_run_1.pt")
    write(make_table(), "093_018pickle_juggle_2.pt")
    write(make_table(), "copy/013_018pickle_run_1.pt")
    out = tmp_path / "out"
    assert main(["data", "import", "ballplay", str(tmp_path / "in"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for part in ("dribble_forward", "juggle", "skill number 093 is unknown", "→", "2 clip(s)"):
        assert part in printed
    clips = load_clips(out)
    assert [clip.skill for clip in clips] == ["dribble_forward", "juggle"]
    assert all(len(clip.corrections) >= 3 for clip in clips)
    assert main(["data", "import", "ballplay", str(tmp_path / "in"), "--out", str(out)]) == 2
    assert "not empty" in capsys.readouterr().err


def test_different_recordings_of_one_name_are_refused(
    make_table: MakeTable, write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They cannot become one file; both paths are named."""
    first, second = write(make_table(), f"a/{NAME}"), write(make_table(20), f"b/{NAME}")
    assert main(["data", "import", "ballplay", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().err
    assert str(first) in printed
    assert str(second) in printed


def test_a_skill_may_be_given(make_table: MakeTable, write: Callable[..., Path], tmp_path: Path) -> None:
    """What the user says wins over the file's name."""
    path, out = write(make_table()), tmp_path / "out"
    assert main(["data", "import", "ballplay", str(path), "--out", str(out), "--skill", "waltz"]) == 0
    assert load_clip(out / f"{NAME[:-3]}.npz").skill == "waltz"


REAL_SKILLS = {
    "009_006pickle_dribble2shot": "shot",
    "011_018pickle_lrun_2": "dribble_left",
    "012_018pickle_pick2rrun_3": "dribble_right",
    "013_018pickle_run2_5": "dribble_forward",
    "013_018pickle_run_4": "dribble_forward",
    "031_015pickle_layup_001_006": "layup",
}


def test_the_six_public_clips_are_mended(demonstrations: Path, full: Character) -> None:
    """Bodies within 2 mm on average instead of 3 to 4 cm, feet within 6 mm of the floor, no joint over 30 rad/s."""
    found = {}
    for path in recording_files(demonstrations / "ballplay"):
        each = import_recording(read_recording(path), full)
        found[each.clip.name] = each.clip.skill
        assert 0.03 < each.before.fit_mean < 0.04
        assert each.after.fit_mean < 0.002
        assert each.before.depth_mean > 0.02
        assert each.after.depth_mean < 0.006
        assert each.after.joint_speed <= MAX_JOINT_SPEED * 1.001
        assert len(ReferenceMotion([each.clip], full, [each.clip.skill]).qpos) == len(each.clip)
    assert found == REAL_SKILLS


@pytest.mark.parametrize("noise", ["0.01", "0.02", "0.03", "0.05"])
def test_the_public_noise_variants_differ_in_the_ball_alone(demonstrations: Path, full: Character, noise: str) -> None:
    """Same body to the last bit, ball off by exactly the noise."""
    take = "run/013_018pickle_run_4.pt"
    clean = import_recording(read_recording(demonstrations / "ballplay" / take), full).clip
    noisy = import_recording(read_recording(demonstrations / "ballplay_noise" / noise / take), full).clip
    np.testing.assert_array_equal(noisy.joint_pos, clean.joint_pos)
    moved = np.linalg.norm(noisy.object_pos - clean.object_pos, axis=-1)
    np.testing.assert_allclose(moved, float(noise), atol=1e-5)


@pytest.mark.parametrize(("folder", "skill"), [("locomotion", "getup"), ("locomotion", "run"), ("pickup", "pickup")])
def test_other_public_recordings_are_imported(demonstrations: Path, full: Character, folder: str, skill: str) -> None:
    """Getting up, running and picking up: one of each."""
    files = recording_files(demonstrations / folder)
    each = import_recording(read_recording(next(path for path in files if skill_of(path)[0] == skill)), full)
    assert each.after.fit_mean < 0.002
    assert each.after.depth_mean < 0.006


def test_public_household_recordings_are_told_apart(demonstrations: Path) -> None:
    """A ParaHome file is refused as what it is."""
    with pytest.raises(ClipError, match="ParaHome"):
        read_recording(recording_files(demonstrations / "parahome")[0])
