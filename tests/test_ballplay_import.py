"""`data import ballplay`: skills read from names, clips written, and what changed told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dancing import NAME, MakeTable
from skillfield.cli.main import main
from skillfield.clips import load_clip, load_clips
from skillfield.clips.ballplay import read_recording, skill_of
from skillfield.errors import ClipError


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
