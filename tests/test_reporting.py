"""Pictures show the scene, films have their frames, logs survive a kill, and progress speaks without a terminal."""

import io
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import imageio.v3 as iio
import imageio_ffmpeg
import numpy as np
import pytest
import tyro
from PIL import Image
from rich.console import Console

from skillfield.characters import Character, hand
from skillfield.characters.hand import GRIP_OPEN, PALM_TO_BALL
from skillfield.cli.data import DataShow
from skillfield.clips import Clip, save_clip
from skillfield.errors import NoRendererError, RenderError, SkillfieldError
from skillfield.reference.motion import clip_positions
from skillfield.reporting import offscreen
from skillfield.reporting.camera import TrackingCamera
from skillfield.reporting.filmstrip import TILE_HEIGHT, TILE_WIDTH, filmstrip, write_filmstrip
from skillfield.reporting.logs import METRICS_FILE, TENSORBOARD_FOLDER, MetricsLog, read_metrics
from skillfield.reporting.progress import Progress, ProgressState
from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.tables import MetricTable
from skillfield.reporting.video import write_video

FRAMES = 24
ORANGE = np.array([0.93, 0.45, 0.13])  # the ball


@pytest.fixture(scope="module")
def character() -> Character:
    return hand()


@pytest.fixture(scope="module")
def clip() -> Clip:
    """A hand lets a ball fall while it moves forward."""
    time = np.arange(FRAMES, dtype=np.float32) / 60
    root_pos, fall = np.zeros((FRAMES, 3), np.float32), np.zeros((FRAMES, 3), np.float32)
    root_pos[:, 0], root_pos[:, 2] = 2 * time, 1.0
    fall[:, 2] = PALM_TO_BALL + 4.9 * time**2
    upright = np.tile(np.array([1, 0, 0, 0], np.float32), (FRAMES, 1))
    return Clip(
        name="drop",
        skill="release",
        character="hand",
        fps=60.0,
        root_pos=root_pos,
        root_quat=upright,
        joint_pos=np.full((FRAMES, 2), GRIP_OPEN, np.float32),
        object_pos=(root_pos - fall)[:, None],
        object_quat=upright[:, None],
        contacts=(time[:, None] < 0.02).astype(np.float32),
        joint_names=("finger_left", "finger_right"),
        object_names=("ball",),
        source="test",
    )


@pytest.fixture(scope="module")
def scene(character: Character) -> Iterator[SceneRenderer]:
    try:
        with SceneRenderer(character, 160, 120) as renderer:
            yield renderer
    except RenderError as problem:
        pytest.skip(str(problem))


def orange_pixels(picture: np.ndarray) -> np.ndarray:
    """Where the ball is: pixels of its hue, however they are lit."""
    colour = picture / np.maximum(picture.max(axis=-1, keepdims=True), 1)
    return (np.abs(colour - ORANGE / ORANGE.max()) < 0.12).all(axis=-1) & (picture[..., 0] > 80)


def test_the_ball_is_in_the_picture_wherever_it_goes(scene: SceneRenderer, clip: Clip, character: Character) -> None:
    for qpos in clip_positions(clip, character).numpy():
        rows, columns = np.nonzero(orange_pixels(scene.frame(qpos)))
        assert len(rows) > 30
        assert rows.max() < scene.height - 1
        assert columns.max() < scene.width - 1


def test_a_ghost_changes_the_picture_but_not_the_framing(
    scene: SceneRenderer, clip: Clip, character: Character
) -> None:
    qpos = clip_positions(clip, character).numpy()
    for _ in range(3):
        plain = scene.frame(qpos[0])
    ghostly = scene.frame(qpos[0], ghost=qpos[-1])
    again = scene.frame(qpos[0])
    assert plain.shape == (120, 160, 3)
    assert np.abs(ghostly.astype(int) - plain).max() > 20
    assert np.abs(again.astype(int) - plain).mean() < 1.0


def test_after_a_cut_every_sphere_is_in_the_picture() -> None:
    camera = TrackingCamera(fovy=45.0, aspect=1.5, fps=60.0, azimuth=140.0, elevation=-16.0)
    azimuth, elevation = math.radians(140.0), math.radians(-16.0)
    flat = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
    ahead = math.cos(elevation) * flat + np.array([0.0, 0.0, math.sin(elevation)])
    right = np.array([flat[1], -flat[0], 0.0])
    random = np.random.default_rng(0)
    for place in range(20):
        spheres = random.uniform(0, 3, (5, 3)) + np.array([100.0 * place, 0.0, 0.0])
        camera.follow(spheres, np.full(5, 0.1))
        seen = spheres - (camera.view.lookat - camera.view.distance * ahead)
        depth = seen @ ahead
        assert (np.abs(seen @ right) / depth < 1.5 * math.tan(math.radians(22.5))).all()
        assert (np.abs(seen @ np.cross(right, ahead)) / depth < math.tan(math.radians(22.5))).all()


def test_the_camera_stands_still_when_nothing_moves_and_glides_when_something_does() -> None:
    camera = TrackingCamera(fovy=45.0, aspect=1.5, fps=60.0, azimuth=140.0, elevation=-16.0)
    spheres, radius = np.array([[0.0, 0.0, 1.0], [0.4, 0.0, 0.3]]), np.full(2, 0.1)
    camera.follow(spheres, radius)
    before = [*camera.view.lookat, camera.view.distance]
    camera.follow(spheres, radius)
    assert [*camera.view.lookat, camera.view.distance] == pytest.approx(before)
    camera.follow(spheres + np.array([0.05, 0.0, 0.0]), radius)
    assert 0 < camera.view.lookat[0] - before[0] < 0.05


def test_without_any_opengl_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for variable in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(offscreen.ctypes.util, "find_library", lambda name: None)
    with pytest.raises(NoRendererError, match="libegl1 libgl1-mesa-dri"):
        SceneRenderer(hand(), 16, 16)


@pytest.mark.parametrize("side", [99_999, 10**12])
@pytest.mark.usefixtures("scene")
def test_a_picture_that_is_too_large_is_refused_as_such(side: int, character: Character) -> None:
    """With its own size and the renderer's limit; nothing has to be installed, and smaller ones can still be drawn."""
    drawn = round(1.5 * side)
    with pytest.raises(RenderError, match=rf"{drawn}x{drawn} pixels is too large .* at most \d+ along") as caught:
        SceneRenderer(character, side, side)
    assert not isinstance(caught.value, NoRendererError)
    assert "install" not in str(caught.value)
    with SceneRenderer(character, 16, 16) as renderer:
        assert renderer.frame(character.model.qpos0).std() > 0


def pictures(count: int, width: int = 64, height: int = 48) -> Iterator[np.ndarray]:
    for number in range(count):
        picture = np.full((height, width, 3), 40, np.uint8)
        picture[:, : 2 * number + 2] = (200, 120, 30)
        yield picture


def test_an_mp4_has_every_frame_and_its_rate(tmp_path: Path) -> None:
    write_video(pictures(20, width=65, height=49), tmp_path / "film.mp4", fps=30)
    film = iio.imread(tmp_path / "film.mp4", plugin="FFMPEG")
    assert film.shape == (20, 48, 64, 3)  # sides are even
    assert iio.immeta(tmp_path / "film.mp4", plugin="FFMPEG")["fps"] == 30


def test_a_gif_is_slowed(tmp_path: Path) -> None:
    write_video(pictures(30, width=960, height=96), tmp_path / "film.gif", fps=60)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.size == (960, 96)
        assert getattr(film, "n_frames", 1) == 10
        assert film.info["duration"] == 50


@pytest.mark.parametrize(("fps", "frames"), [(30, 1), (30, 31), (24, 48), (60, 90)])
def test_a_gif_takes_its_time(fps: int, frames: int, tmp_path: Path) -> None:
    """A frame's delay is whole centiseconds, and all of them together are as long as the film, to the nearest one."""
    write_video(pictures(frames, width=256), tmp_path / "film.gif", fps)
    with Image.open(tmp_path / "film.gif") as film:
        delays = []
        for number in range(getattr(film, "n_frames", 1)):
            film.seek(number)
            delays.append(film.info["duration"])
    every = math.ceil(fps / 25)
    assert len(delays) == math.ceil(frames / every)
    assert sum(delays) == pytest.approx(1000 * len(delays) * every / fps, abs=5)
    assert max(delays) - min(delays) <= 10


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that limits files")
def test_a_film_that_ffmpeg_cannot_write_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may fail after the last frame, as on a full disk: then nothing is left, and an earlier film stays."""
    limited = tmp_path / "limited"
    limited.write_text(f"#!/bin/sh\ntrap '' XFSZ\nulimit -f 2\nexec {imageio_ffmpeg.get_ffmpeg_exe()} \"$@\"\n")
    limited.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(limited))
    film = tmp_path / "films" / "film.mp4"
    noise = np.random.default_rng(0).integers(0, 256, (5, 48, 64, 3), dtype=np.uint8)
    with pytest.raises(RenderError, match=r"film\.mp4: cannot be written: ffmpeg: .*File too large$") as caught:
        write_video(noise, film, fps=30)
    assert "\n" not in str(caught.value)
    assert list(film.parent.iterdir()) == []
    film.write_text("an earlier one")
    with pytest.raises(RenderError, match="File too large"):
        write_video(noise, film, fps=30)
    assert [path.read_text() for path in film.parent.iterdir()] == ["an earlier one"]
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")  # it hears nothing and says nothing
    with pytest.raises(RenderError, match=r"film\.mp4: cannot be written: ffmpeg: exit code 1"):
        write_video(pictures(50, 640, 480), film, fps=30)


def test_a_video_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match=r"known: \.mp4, \.gif"):
        write_video(pictures(2), tmp_path / "film.avi", fps=30)
    for suffix in (".mp4", ".gif"):
        with pytest.raises(RenderError, match="at least one frame"):
            write_video([], tmp_path / f"film{suffix}", fps=30)
        with pytest.raises(RenderError, match="frame 1 is"):
            write_video([*pictures(1), *pictures(1, width=32)], tmp_path / f"film{suffix}", fps=30)
    assert list(tmp_path.iterdir()) == []


def test_a_filmstrip_is_as_wide_as_its_frames(tmp_path: Path) -> None:
    frames = list(pictures(3))
    bare, titled = filmstrip(frames, ["a", "b", "c\nd"]), filmstrip(frames, ["a", "b", "c"], title="three")
    assert bare.shape[1] > 3 * 64
    assert titled.shape[0] > bare.shape[0] > 48
    with pytest.raises(RenderError, match="3 frames, 1 captions"):
        filmstrip(frames, ["a"])


@pytest.mark.usefixtures("scene")
def test_a_clip_becomes_a_strip_of_different_pictures(clip: Clip, character: Character, tmp_path: Path) -> None:
    write_filmstrip(clip, character, tmp_path / "strip.png", count=3)
    with Image.open(tmp_path / "strip.png") as image:
        strip = np.asarray(image)
    assert strip.shape[1] >= 3 * TILE_WIDTH
    assert strip.shape[0] >= TILE_HEIGHT
    thirds = np.array_split(orange_pixels(strip), 3, axis=1)
    heights = [np.nonzero(third)[0].mean() for third in thirds]
    assert heights == sorted(heights)  # the ball falls
    assert heights[2] > heights[0] + 20


@pytest.mark.usefixtures("scene")
def test_show_lists_clips_and_prints_where_the_pictures_are(
    clip: Clip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_clip(clip, tmp_path / "clips" / "drop.npz")
    args = [str(tmp_path / "clips"), "--out", str(tmp_path / "pictures"), "--frames", "2"]
    assert tyro.cli(DataShow, args=args).run() == 0
    printed = capsys.readouterr().out
    picture = tmp_path / "pictures" / "drop.png"
    assert picture.is_file()
    for text in ("release", "24", "0.38", "ball", str(picture)):
        assert text in printed


def test_metrics_are_on_disk_at_once_and_nan_is_null(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(10, {"reward": 0.5, "reward/hold": math.nan})
        line = (tmp_path / METRICS_FILE).read_text()
        assert json.loads(line) == {"samples": 10, "reward": 0.5, "reward/hold": None}
        assert math.isnan(read_metrics(tmp_path / METRICS_FILE)[0]["reward/hold"])
    assert any((tmp_path / TENSORBOARD_FOLDER).iterdir())


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        for samples in (10, 20, 30):
            log.write(samples, {"reward": float(samples)})
    with MetricsLog(tmp_path) as log:
        log.rewind(20)
        log.write(25, {"reward": 25.0})
    assert [entry["samples"] for entry in read_metrics(tmp_path / METRICS_FILE)] == [10, 20, 25]


def test_tensorboard_forgets_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.summary.writer import event_file_writer

    # Files of one second are read in the order of a number without leading zeros, so it must not get to ten here.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))

    for start in (0, 20):
        with MetricsLog(tmp_path) as log:
            log.rewind(start)
            for samples in (start + 10, start + 20):
                log.write(samples, {"reward": 1.0})
    with MetricsLog(tmp_path) as log:
        log.rewind(20)
        log.write(30, {"reward": 2.0})
    events = EventAccumulator(str(tmp_path / TENSORBOARD_FOLDER)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("reward")] == [(10, 1.0), (20, 1.0), (30, 2.0)]


def test_half_a_line_of_a_killed_run_is_ignored_and_not_built_upon(tmp_path: Path) -> None:
    path = tmp_path / METRICS_FILE
    path.write_text('{"samples": 10, "reward": 1.0}\n{"samples": 20, "rew')
    assert [entry["samples"] for entry in read_metrics(path)] == [10]
    with MetricsLog(tmp_path) as log:
        log.write(30, {"reward": 3.0})
    assert [entry["samples"] for entry in read_metrics(path)] == [10, 30]


def test_a_damaged_log_is_an_error_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / METRICS_FILE
    path.write_text('{"samples": 10}\nnonsense\n{"samples": 20}\n')
    with pytest.raises(SkillfieldError, match="line 2"):
        read_metrics(path)
    with pytest.raises(SkillfieldError, match="cannot be read"):
        read_metrics(tmp_path / "nowhere.jsonl")


def state(elapsed_s: float, **changes: object) -> ProgressState:
    values: dict = {"samples": 1_500_000, "fraction": 0.25, "samples_per_s": 31_200.0} | changes
    return ProgressState(elapsed_s=elapsed_s, **values)


def test_without_a_terminal_a_line_is_printed_every_ten_seconds_and_at_the_end() -> None:
    text = io.StringIO()
    with Progress("starter · full · seed 0", ["hold"], console=Console(file=text)) as progress:
        for second in range(0, 26):
            progress.update(state(float(second), skill_reward={"hold": 0.5}, shares={"simulation": 0.6}))
    lines = text.getvalue().splitlines()
    assert len(lines) == 4  # at 0, 10, 20 and the last
    assert "\x1b" not in text.getvalue()
    for part in ("starter · full · seed 0", "25%", "0:25 gone, 1:15 left", "1.50M", "31.2k/s", "hold 0.500", "60%"):
        assert part in lines[-1]


def test_on_a_terminal_one_panel_shows_it_all() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=80, color_system=None)
    with Progress("starter [full]", ["hold", "toss"], console=console) as progress:
        progress.update(state(5.0, skill_reward={"hold": 0.5}, engine={"diverged": 3}, note="saved"))
    for part in ("starter [full]", "1.50M", "0.500", "no episode yet", "diverged", "saved"):
        assert part in text.getvalue()
    assert max(len(line) for line in text.getvalue().splitlines() if "\x1b" not in line) <= 80


@pytest.mark.parametrize("terminal", [True, False])
def test_buffers_that_were_too_small_are_shown_and_nothing_where_none_was(terminal: bool) -> None:
    """In the panel and in the line alike: the name and how many worlds; a counter at zero is not worth a row."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=80, color_system=None)
    with Progress("ballplay", console=console) as progress:
        progress.update(state(5.0, engine={"contact_overflow": 0, "constraint_overflow": 0}))
        assert "overflow" not in text.getvalue()
        progress.update(state(15.0, engine={"contact_overflow": 4711, "constraint_overflow": 0}))
        assert "contact overflow" in text.getvalue()
        assert "4711" in text.getvalue()
        assert "constraint" not in text.getvalue()
        progress.update(state(25.0, engine={"contact_overflow": 0, "constraint_overflow": 12}))
    assert "constraint overflow" in text.getvalue()


def test_progress_at_the_start_knows_no_end() -> None:
    assert state(0.0, fraction=0.0).left_s is None
    assert state(10.0, fraction=1.0).left_s == 0.0


def test_a_table_reads_the_same_in_both_forms() -> None:
    table = MetricTable.of({"hold": {"SR %": 98.04, "NR": 0.5}, "toss": {"SR %": 50.0, "NR": math.nan}})
    assert table.markdown().splitlines() == [
        "| skill | SR % | NR |",
        "| --- | ---: | ---: |",
        "| hold | 98.0 | 0.50 |",
        "| toss | 50.0 | – |",
        "| average | 74.0 | 0.50 |",
    ]
    text = io.StringIO()
    Console(file=text, width=80).print(table.rich())
    for cell in ("hold", "98.0", "0.50", "–", "average", "74.0"):
        assert cell in text.getvalue()


def test_a_table_without_rows_is_still_a_table() -> None:
    empty = MetricTable(("SR %",), {}, average=False)
    assert empty.rich().row_count == 0
    assert len(empty.markdown().splitlines()) == 2
