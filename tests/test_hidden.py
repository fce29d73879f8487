"""What begins with a dot is nobody's: half-written files of a killed process, and those that a system leaves behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillfield.cli.report import _run_folders
from skillfield.clips import Clip, clip_files, load_clips, save_clip
from skillfield.clips.ballplay import recording_files
from skillfield.errors import ClipError, ConfigError
from skillfield.experiments import shipped
from skillfield.experiments.recordings import clip_folder, noisy_clips
from skillfield.experiments.tasks import starter

MakeClip = Callable[..., Clip]


def leave(folder: Path, *names: str) -> None:
    """Files that hold nothing of use."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"half")


def test_hidden_files_are_no_clips(make_clip: MakeClip, tmp_path: Path) -> None:
    """Whatever they hold; the folder's own name may begin with a dot."""
    folder = tmp_path / ".mine"
    save_clip(make_clip(), folder / "sway.npz")
    leave(folder, ".sway-qlhl2pyq.npz", "._sway.npz")
    assert clip_files(folder) == [folder / "sway.npz"]
    assert [clip.name for clip in load_clips(folder)] == ["sway"]


def test_hidden_files_are_no_recordings(tmp_path: Path) -> None:
    """Nor are those of hidden folders, however deep."""
    leave(tmp_path, "b/031_layup.pt", "a.pt", "b/._031_layup.pt", ".b-qlhl2pyq/031_layup.pt", "b/.old/c/031_layup.pt")
    assert recording_files(tmp_path) == [tmp_path / "a.pt", tmp_path / "b" / "031_layup.pt"]


def test_a_folder_of_hidden_files_has_no_clips(tmp_path: Path) -> None:
    """It is refused as an empty one is, and nobody is told to import it."""
    leave(tmp_path, ".sway-qlhl2pyq.npz", "._031_layup.pt")
    with pytest.raises(ClipError, match=r"no \.npz clips in this folder"):
        clip_files(tmp_path)
    with pytest.raises(ClipError, match=r"no \.pt recordings in this folder"):
        recording_files(tmp_path)
    with pytest.raises(ClipError, match=r"no clips \(\*\.npz\) in .*; give a folder that has some"):
        clip_folder(starter(), tmp_path)
    with pytest.raises(ClipError, match="already there and not empty"):
        noisy_clips(starter(), None, 10.0, tmp_path)


def test_hidden_folders_are_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a report, nor among the policies that are shipped."""
    leave(tmp_path, ".full-qlhl2pyq/config.json")
    with pytest.raises(ConfigError, match="is no run folder"):
        _run_folders([tmp_path])
    leave(tmp_path, "full/config.json")
    assert _run_folders([tmp_path]) == [tmp_path / "full"]
    monkeypatch.setattr(shipped, "_FOLDER", tmp_path)
    assert shipped.shipped_policies() == {"full": tmp_path / "full"}
