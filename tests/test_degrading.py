"""Degrading: noise of the asked size and nowhere else, frames that are gone for good, and the same again next time."""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from skillfield.characters import Character
from skillfield.cli.main import main
from skillfield.clips import Clip, load_clips, save_clip
from skillfield.clips.degrading import Degradation, degrade
from skillfield.errors import ClipError, ConfigError
from skillfield.reference import ReferenceMotion

MakeClip = Callable[..., Clip]


def test_noise_is_uniform_and_on_the_objects_alone(make_clip: MakeClip) -> None:
    """Every coordinate stays within ±20 mm, fills that range evenly, and nothing else moves."""
    clip = make_clip(2000)
    noisy = degrade(clip, Degradation(noise_mm=20.0))
    moved = noisy.object_pos - clip.object_pos
    assert np.abs(moved).max() <= 0.02 + 1e-6
    assert np.std(moved, axis=(0, 1)) == pytest.approx(0.02 / np.sqrt(3), rel=0.05)
    assert np.abs(np.corrcoef(moved[:-1, 0, 0], moved[1:, 0, 0])[0, 1]) < 0.1  # anew in each frame
    for column in ("root_pos", "root_quat", "joint_pos", "object_quat", "contacts", "valid"):
        np.testing.assert_array_equal(getattr(noisy, column), getattr(clip, column))
    assert any("20 mm" in text for text in noisy.corrections)


@pytest.mark.parametrize(("share", "gap"), [(0.1, 1), (0.25, 5), (0.5, 10)])
def test_the_asked_share_goes_missing_in_gaps_of_the_asked_length(make_clip: MakeClip, share: float, gap: int) -> None:
    """As many frames as asked for, in runs of at least the gap, and nothing of them is left in the file."""
    holed = degrade(make_clip(200), Degradation(missing=share, gap=gap))
    gone = ~holed.valid
    assert gone.sum() == 200 * share
    edges = np.flatnonzero(np.diff(np.r_[False, gone, False]))
    assert (edges[1::2] - edges[::2] >= gap).all()
    assert len(edges) // 2 > 1
    for column in ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts"):
        values = getattr(holed, column)
        assert np.isnan(values[gone]).all()
        assert np.isfinite(values[~gone]).all()


@pytest.mark.parametrize(("gap", "gone"), [(7, 42), (11, 44), (13, 39), (70, 70)])
def test_the_nearest_number_of_gaps_is_taken(make_clip: MakeClip, gap: int, gone: int) -> None:
    """A fifth of 200 frames is 40: as many whole gaps as come closest to that, be they more frames or fewer."""
    assert (~degrade(make_clip(200), Degradation(missing=0.2, gap=gap)).valid).sum() == gone


def test_frames_with_a_low_object_can_be_masked(make_clip: MakeClip) -> None:
    """The release's rule: after the noise, a ball below its radius means a missing frame."""
    clip = make_clip(60)
    clip.object_pos[10:20, 0, 2] = 0.05
    holed = degrade(clip, Degradation(mask_below_mm=120.0))
    assert np.flatnonzero(~holed.valid).tolist() == list(range(10, 20))


def test_frames_that_were_missing_stay_missing(make_clip: MakeClip) -> None:
    """Degrading adds gaps, it fills none."""
    valid = np.ones(60, dtype=bool)
    valid[[3, 30]] = False
    holed = degrade(make_clip(60, valid=valid), Degradation(missing=0.2))
    assert not holed.valid[[3, 30]].any()


def test_a_seed_does_the_same_to_a_clip_in_any_company(make_clip: MakeClip) -> None:
    """Same seed and name, same numbers; another seed or another clip, others."""
    how = Degradation(noise_mm=10.0, missing=0.1)

    def ball(name: str, seed: int) -> np.ndarray:
        return np.nan_to_num(degrade(make_clip(name=name), Degradation(10.0, 0.1, seed=seed)).object_pos)

    np.testing.assert_array_equal(ball("a", 0), np.nan_to_num(degrade(make_clip(name="a"), how).object_pos))
    assert not np.array_equal(ball("a", 0), ball("a", 1))
    assert not np.array_equal(ball("a", 0), ball("b", 0))


def test_each_effect_draws_for_itself(make_clip: MakeClip) -> None:
    """Noise takes away no other frames, and gaps change no noise; alone each is what it has always been."""
    clip = make_clip(60)
    noisy, holed = degrade(clip, Degradation(noise_mm=10.0)), degrade(clip, Degradation(missing=0.2, gap=3))
    both = degrade(clip, Degradation(noise_mm=10.0, missing=0.2, gap=3))
    np.testing.assert_array_equal(both.valid, holed.valid)
    np.testing.assert_array_equal(both.object_pos[both.valid], noisy.object_pos[both.valid])
    drawn = np.random.default_rng([0, zlib.crc32(b"sway")]).uniform(-0.01, 0.01, clip.object_pos.shape)
    np.testing.assert_array_equal(noisy.object_pos, clip.object_pos + drawn.astype(np.float32))


def test_a_degraded_clip_can_be_trained_on(make_clip: MakeClip, hand_character: Character) -> None:
    """Its gaps are bridged, and no episode starts in them."""
    holed = degrade(make_clip(60), Degradation(noise_mm=30.0, missing=0.2, gap=3))
    motion = ReferenceMotion([holed], hand_character, ["sway"])
    assert bool(motion.qpos.isfinite().all())
    assert motion.start_mask()[:-1].tolist() == holed.valid[:-1].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_mm": -1.0}, "noise_mm is -1"),
        ({"noise_mm": float("nan")}, "noise_mm is nan"),
        ({"noise_mm": 1e300}, "noise_mm is 1e\\+300"),
        ({"missing": 1.0}, "missing is 1"),
        ({"missing": 0.1, "gap": 0}, "gap is 0"),
        ({"noise_mm": 1.0, "seed": -1}, "seed is -1"),
        ({"noise_mm": 1.0, "gap": 5}, "gap is 5, which means nothing without missing"),
    ],
)
def test_impossible_settings_are_refused(change: dict, message: str) -> None:
    """The message quotes the setting."""
    with pytest.raises(ConfigError, match=message):
        Degradation(**change)


def test_nothing_to_do_is_a_mistake(make_clip: MakeClip) -> None:
    """Without any degradation the command was mistyped."""
    with pytest.raises(ConfigError, match="nothing to degrade"):
        degrade(make_clip(), Degradation())


def test_a_clip_must_survive(make_clip: MakeClip) -> None:
    """Two frames of ten cannot lose nine tenths."""
    with pytest.raises(ClipError, match="'sway': 1 of 10 frames would be left"):
        degrade(make_clip(10), Degradation(missing=0.9))


def test_less_than_one_gap_is_refused(make_clip: MakeClip, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gap longer than the clip takes nothing away, so it is an error and nothing is written."""
    save_clip(make_clip(40), tmp_path / "clips" / "a.npz")
    out = tmp_path / "out"
    arguments = ["data", "degrade", str(tmp_path / "clips"), "--out", str(out), "--missing", "0.5", "--gap", "1000"]
    assert main(arguments) == 2
    message = "a.npz: clip 'sway': 50% of 40 frames is less than one gap of 1000"
    assert message in capsys.readouterr().err  # the file's name, which need not be the clip's
    assert not out.exists()


def test_the_command_leaves_the_clips_alone(
    make_clip: MakeClip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Worse clips under the same names in another folder; the folder of the clips is refused as a place for them."""
    source, out = tmp_path / "clips", tmp_path / "worse"
    for name in ("a", "b"):
        save_clip(make_clip(name=name), source / f"{name}.npz")
    before = [path.read_bytes() for path in sorted(source.iterdir())]
    arguments = ["data", "degrade", str(source), "--noise-mm", "10", "--missing", "0.1"]
    assert main([*arguments, "--out", str(out)]) == 0
    assert [(clip.name, int((~clip.valid).sum())) for clip in load_clips(out)] == [("a", 4), ("b", 4)]
    assert main([*arguments, "--out", str(source)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.read_bytes() for path in sorted(source.iterdir())] == before


def test_a_bad_setting_is_one_line(make_clip: MakeClip, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is written."""
    save_clip(make_clip(), tmp_path / "clips" / "a.npz")
    arguments = ["data", "degrade", str(tmp_path / "clips"), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--missing", "3"]) == 2
    assert "error: missing is 3.0" in capsys.readouterr().err
    assert main([*arguments, "--noise-mm", "10", "--gap", "5"]) == 2
    assert "error: gap is 5, which means nothing without missing" in capsys.readouterr().err
    assert main(arguments) == 2
    assert "nothing to degrade" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
