"""Films: scripts are read, takes are recorded once and drawn after, runs play side by side, mistakes are one line."""

import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import tyro
from PIL import Image

from skillfield.characters import Character, hand
from skillfield.cli import render
from skillfield.cli.films import Performer, film, film_strip, labels, load_performers
from skillfield.cli.main import main
from skillfield.cli.render import Render
from skillfield.errors import CheckpointError, ClipError, ConfigError, RenderError, SkillfieldNote
from skillfield.experiments.run import preset, save_config
from skillfield.experiments.shipped import run_folder
from skillfield.reporting import offscreen
from skillfield.reporting.camera import TrackingCamera
from skillfield.reporting.filming import draw_strips, draw_takes, panel_grid, panel_size
from skillfield.reporting.scene import SceneRenderer
from skillfield.reporting.script import Part, find_skill, parse_script
from skillfield.reporting.stage import drawn_size, stage_model
from skillfield.reporting.takes import STEPS_PER_FRAME, VIDEO_FPS, Take

SKILLS = ("dribble_forward", "dribble_left", "dribble_right", "hold", "toss")
SIZE = (96, 64)


@pytest.fixture(scope="module")
def performer() -> Performer:
    """The shipped policy."""
    return load_performers(["starter"])[0]


@pytest.fixture(scope="module")
def take(performer: Performer) -> Take:
    """Two skills in a row, with the demonstration beside them."""
    return performer.play([Part("dribble_forward", 0.4), Part("hold", 0.3)], ghost=True)


@pytest.fixture(scope="module")
def can_draw() -> None:
    """Skips where there is no OpenGL."""
    try:
        SceneRenderer(hand(), 16, 16).close()
    except RenderError as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize(
    ("word", "skill"),
    [
        ("dribble_forward", "dribble_forward"),
        ("forward", "dribble_forward"),
        ("Dribble left", "dribble_left"),
        ("dribble-l", "dribble_left"),
        ("fo", "dribble_forward"),
        ("h", "hold"),
        ("toss", "toss"),
    ],
)
def test_any_unambiguous_part_of_a_name_will_do(word: str, skill: str) -> None:
    """A name, one of its words, or the beginning of either."""
    assert find_skill(word, SKILLS) == skill


def test_the_closest_match_decides() -> None:
    """A whole name beats a word of another, a word beats a beginning."""
    assert find_skill("shot", ("jump_shot", "shot")) == "shot"
    assert find_skill("run", ("run_left", "runner")) == "run_left"


@pytest.mark.parametrize("skill", ["throw-in", "pick up", "Wave", "wave", "wave hello"])
def test_a_name_stands_for_itself(skill: str) -> None:
    """Whatever is between its words, and whatever else is called almost like it."""
    assert find_skill(skill, ("throw-in", "pick up", "Wave", "wave", "wave hello")) == skill
    assert find_skill("pick_up", ("throw-in", "pick up")) == "pick up"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("dribble", "skill 'dribble' may be any of: dribble_forward, dribble_left, dribble_right"),
        ("juggle", "unknown skill 'juggle'; known: dribble_forward, dribble_left, dribble_right, hold, toss"),
        ("", "unknown skill ''"),
    ],
)
def test_a_word_that_stands_for_no_skill_is_refused_with_the_known_ones(word: str, message: str) -> None:
    """Neither a guess nor a stack trace."""
    with pytest.raises(ConfigError, match=message):
        find_skill(word, SKILLS)


def test_a_script_is_skills_and_durations() -> None:
    """Seconds with or without a unit; a skill without a duration lasts the default."""
    parts = parse_script("forward 3s, left 2.5 s; hold .5, toss", SKILLS, 4.0)
    assert [part.skill for part in parts] == ["dribble_forward", "dribble_left", "hold", "toss"]
    assert [part.seconds for part in parts] == [3.0, 2.5, 0.5, 4.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the script is empty"),
        (" , ", "the script is empty"),
        ("hold 1s,,toss", "nothing between two commas"),
        ("hold 0s", "'hold 0s' lasts 0 s"),
        ("hold -2s", "'hold -2s' lasts -2 s"),
        ("juggle 3s", "unknown skill 'juggle'; known: dribble_forward"),
        ("3s", "unknown skill '3s'"),
        ("hold 3 minutes", "unknown skill 'hold 3 minutes'"),
    ],
)
def test_a_script_that_cannot_be_played_is_refused(text: str, message: str) -> None:
    """The message quotes the part."""
    with pytest.raises(ConfigError, match=message):
        parse_script(text, SKILLS, 4.0)


def test_a_take_has_every_frame_of_its_script(take: Take) -> None:
    """Thirty per second; the skill asked for at each; the ball at every policy step."""
    assert len(take) == round(0.7 * VIDEO_FPS)
    assert take.skills == ("dribble_forward",) * 12 + ("hold",) * 9
    assert len(take.object_pos_w) == STEPS_PER_FRAME * len(take)
    assert len(take.trail(0, 1.0)) == 1
    assert len(take.trail(20, 0.2)) == 12
    assert np.array_equal(take.trail(20, 9.0)[-1], take.object_pos_w[40])


def test_a_take_begins_in_the_demonstration_and_its_ghost_with_it(performer: Performer, take: Take) -> None:
    """The first state is a reference frame, and so is the ghost."""
    motion = performer.env.motion
    first = motion.qpos[int(motion.start[SKILLS.index("dribble_forward")]) + 2].numpy()
    assert np.allclose(take.qpos[0], first, atol=1e-5)
    assert take.ghosts[0] is not None
    assert np.allclose(take.ghosts[0], first, atol=1e-5)


def test_the_ghost_of_a_later_skill_begins_where_the_character_is(take: Take) -> None:
    """It stands in the same place of the ground plane, and is one of that skill."""
    ghost = take.ghosts[12]
    assert ghost is not None
    assert np.allclose(ghost[:2], take.qpos[12][:2], atol=1e-5)


def test_a_ghost_ends_with_a_throw_and_goes_on_with_a_dribble(performer: Performer) -> None:
    """A demonstration that returns to itself begins again."""
    assert performer.play([Part("toss", 2.1)], ghost=True).ghosts[-1] is None
    assert performer.play([Part("dribble_left", 1.6)], ghost=True).ghosts[-1] is not None
    assert set(performer.play([Part("hold", 0.1)]).ghosts) == {None}


def test_a_take_can_be_repeated(performer: Performer, take: Take) -> None:
    """The same start, the same motion: what makes side by side fair."""
    again = performer.play([Part("dribble_forward", 0.4), Part("hold", 0.3)])
    assert np.array_equal(again.qpos, take.qpos)


def test_another_skill_is_another_motion(performer: Performer, take: Take) -> None:
    """From the moment it is asked for."""
    other = performer.play([Part("dribble_forward", 0.4), Part("toss", 0.3)])
    assert np.array_equal(other.qpos[:13], take.qpos[:13])
    assert np.abs(other.qpos[-1] - take.qpos[-1]).max() > 0.01


def test_a_planned_camera_shows_everything_and_glides() -> None:
    """Every sphere is in every picture, the horizon stays, and no frame jerks although the motion does."""
    fps, aspect, fovy = 30.0, 16 / 9, 45.0
    camera = TrackingCamera(fovy, aspect, fps, azimuth=140.0, elevation=-16.0)
    time = np.arange(90) / fps
    ball = np.stack((1.5 * time, np.sin(2 * time), 0.1 + np.abs(np.sin(9 * time))), axis=1)
    body = np.stack((1.5 * time, 0 * time, 1 + 0 * time), axis=1)
    centres, radius = np.stack((ball, body), axis=1), np.array([0.12, 0.3])
    path = camera.path(centres, radius)
    assert path.shape == (90, 4)
    a, e = math.radians(140.0), math.radians(-16.0)
    ahead = np.array([math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)])
    right = np.array([math.sin(a), -math.cos(a), 0.0])
    slope = math.tan(math.radians(fovy) / 2)
    for place, spheres in zip(path, centres, strict=True):
        seen = spheres - (place[:3] - place[3] * ahead)
        depth = seen @ ahead
        assert (np.abs(seen @ right) + radius < aspect * slope * depth).all()
        assert (np.abs(seen @ np.cross(right, ahead)) + radius < slope * depth).all()
        camera.look(place)
        assert (camera.view.azimuth, camera.view.elevation) == (140.0, -16.0)
    assert np.abs(np.diff(path[:, 2])).max() < 0.01  # the ball bounces a metre, the aim does not
    assert np.abs(np.diff(path, n=2, axis=0)).max() < 0.01


@pytest.mark.usefixtures("can_draw")
def test_the_camera_gives_up_a_ball_that_rolls_away(performer: Performer) -> None:
    """Near it follows, far it comes back to the character."""
    character = performer.env.engine.character
    start = int(character.model.jnt_qposadr[character.model.joint("ball").id])
    distances = []
    with SceneRenderer(character, *SIZE) as scene:
        for away in (0.5, 2.0, 30.0):
            qpos = np.array(character.model.qpos0)
            qpos[start] = away
            distances.append(scene.camera_path([qpos])[0, 3])
    assert distances[0] < distances[1]
    assert distances[2] < distances[1]


def test_the_stage_is_a_copy(hand_character: Character) -> None:
    """A picture's floor and quality never reach the simulated model."""
    before = hand_character.model.tex_data.copy()
    staged = stage_model(hand_character.model, 64, 48)
    assert np.array_equal(hand_character.model.tex_data, before)
    assert not np.array_equal(staged.tex_data, before)
    assert drawn_size(640, 480) == (1280, 960)
    assert drawn_size(1280, 720) == (1920, 1080)


@pytest.mark.usefixtures("can_draw")
def test_shadows_trails_and_ghosts_are_in_the_picture(performer: Performer, take: Take) -> None:
    """A shadow darkens the floor below the ball; trail and ghost change the picture."""
    character = performer.env.engine.character
    with SceneRenderer(character, 160, 120) as scene:
        place = scene.camera_path(take.qpos)[15]
        plain = scene.frame(take.qpos[15], place=place).astype(int)
        trailed = scene.frame(take.qpos[15], trail=take.trail(15, 1.0), place=place)
        ghostly = scene.frame(take.qpos[15], ghost=take.qpos[0], place=place)
        empty = take.qpos[15].copy()
        empty[2] += 50  # the hand is gone
        empty[[-7, -6, -5]] += 50
        floor = scene.frame(empty, place=place).astype(int)
    assert np.abs(trailed - plain).max() > 60
    assert np.abs(ghostly - plain).max() > 20
    darker = (plain.sum(-1) < 0.75 * floor.sum(-1)) & (np.ptp(plain, axis=-1) < 60)
    assert darker.sum() > 40


@pytest.mark.usefixtures("can_draw")
def test_panels_share_the_picture(performer: Performer, take: Take) -> None:
    """Side by side up to three, then a grid; as large together as one alone."""
    assert [panel_grid(count) for count in (1, 2, 3, 4, 5)] == [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2)]
    width, height = panel_size((160, 128), 2)
    with SceneRenderer(performer.env.engine.character, width, height, fps=VIDEO_FPS) as scene:
        picture = next(draw_takes([take, take], scene, labels=["a", "b"]))
    assert picture.shape == (128, 160, 3)
    assert (picture[:, width : width + 4] == 255).all()
    left, right = picture[:, :width].astype(int), picture[:, width + 4 :].astype(int)
    assert np.abs(left - right)[40:84].max() < 10  # the same take, with other words above and below


@pytest.mark.usefixtures("can_draw")
def test_runs_are_filmed_side_by_side_with_their_names(performer: Performer, tmp_path: Path) -> None:
    """Every frame of every scene, at the size that was asked for."""
    pair = [performer, performer]
    scenes = [[Part("hold", 0.2)], [Part("toss", 0.1)]]
    assert list(film(pair, {tmp_path / "a.mp4": scenes}, (160, 64))) == [tmp_path / "a.mp4"]
    assert iio.imread(tmp_path / "a.mp4", plugin="FFMPEG").shape == (9, 64, 160, 3)


def test_labels_tell_runs_apart(performer: Performer) -> None:
    """Methods where they differ; else whatever does."""
    other = replace(performer, config=replace(performer.config, method="sm"))
    seed = replace(performer, config=replace(performer.config, seed=7))
    assert labels([performer]) == []
    assert labels([performer, other]) == ["full", "sm"]
    assert labels([performer, seed]) == [f"full, seed {performer.config.seed}", "full, seed 7"]
    assert labels([performer, replace(performer, folder=Path("x/twin"))]) == ["starter", "twin"]
    assert len(set(labels([performer, performer]))) == 2


@pytest.mark.usefixtures("can_draw")
def test_a_filmstrip_has_a_row_per_scene(performer: Performer, take: Take, tmp_path: Path) -> None:
    """So many pictures in each, with time and, where it changes, skill."""
    film_strip([performer], [[Part("hold", 0.2)], [Part("toss", 0.2)]], tmp_path / "strip.png", 3, (48, 32))
    with Image.open(tmp_path / "strip.png") as picture:
        assert picture.width == 3 * (48 + 6) + 6
        assert picture.height > 2 * 32
    with SceneRenderer(performer.env.engine.character, 48, 32) as scene:
        ((pictures, captions),) = draw_strips([take], scene, 2)
    assert len(pictures) == 2
    assert captions == ["0.0 s\ndribble forward", "0.7 s\nhold"]


@pytest.mark.usefixtures("can_draw")
def test_rows_side_by_side_share_their_distance(performer: Performer, take: Take) -> None:
    """A ball that flies high in one row makes the figures of the other as small as its own."""
    character = performer.env.engine.character
    high = take.qpos.copy()
    high[:, int(character.model.jnt_qposadr[character.model.joint("ball").id]) + 2] += 2.0
    with SceneRenderer(character, 48, 64) as scene:
        ((alone, _),) = draw_strips([take], scene, 2)
        (beside, _), (other, _) = draw_strips([take, replace(take, qpos=high)], scene, 2)
        ((same, _),) = draw_strips([replace(take, qpos=high)], scene, 2)
    assert np.abs(alone[0].astype(int) - beside[0]).max() > 20
    assert np.array_equal(other[0], same[0])


@pytest.mark.usefixtures("can_draw")
def test_the_command_films_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And puts a shipped policy's film where one is, not into the package."""
    monkeypatch.chdir(tmp_path)
    script = ["--script", "forward 0.1s, toss", "--seconds", "0.1", "--size", "96", "64", "--ghost", "--trail"]
    assert main(["render", "starter", *script]) == 0
    assert iio.imread("starter.mp4", plugin="FFMPEG").shape == (6, 64, 96, 3)
    assert main(["render", "starter", *script, "--out", "strip.png", "--filmstrip", "9"]) == 0
    note = "note: strip.png has 6 pictures in a row, not 9: there are 30 in a second\n"
    assert capsys.readouterr() == ("starter.mp4\nstrip.png\n", note)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["starter.mp4", "strip.png"]


@pytest.mark.filterwarnings("error::skillfield.errors.SkillfieldNote")
def test_a_size_is_obeyed_or_a_note_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GIF is as large as asked, 480 pixels wide if nobody asked; sides of an MP4 are even."""
    filmed: list[Any] = []
    monkeypatch.setattr(render, "load_performers", lambda *_: [])
    monkeypatch.setattr(render, "film", lambda _, __, size, **___: filmed.__iadd__([size]))
    for name, size in (("a.gif", None), ("a.gif", (501, 65)), ("a.mp4", None), ("a.mp4", (96, 64))):
        assert Render((Path("starter"),), Path(name), size=size).run() == 0
    assert filmed == [(480, 270), (501, 65), (1280, 720), (96, 64)]
    with pytest.warns(SkillfieldNote, match="the film has 96×64 pixels: sides of an MP4 are even"):
        Render((Path("starter"),), Path("a.mp4"), size=(97, 65)).run()


def without_checkpoint(folder: Path) -> Path:
    """A run that never saved."""
    save_config(preset("starter", "sm"), folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["starter", "--script", "juggle 2s"], ConfigError, "unknown skill 'juggle'; known: dribble_forward"),
        (["starter", "--script", ""], ConfigError, "the script is empty"),
        (["starter", "--script", "hold 0s"], ConfigError, "lasts 0 s"),
        (["starter", "--script", "hold 1s", "--skills", "toss"], ConfigError, "leave --skills out"),
        (["starter", "--skills", "juggle"], ConfigError, "unknown skill 'juggle'"),
        (["starter", "--seconds", "0"], ConfigError, "cannot film 0 s"),
        (["starter", "--seconds", "nan"], ConfigError, "cannot film nan s"),
        (["starter", "--size", "8", "8"], ConfigError, "cannot film at 8×8 pixels"),
        (["starter", "--filmstrip", "0"], ConfigError, "at least one picture"),
        (["starter", "--filmstrip", "3", "--out", "a.mp4"], ConfigError, "a filmstrip is a PNG, not '.mp4'"),
        (["starter", "nowhere"], CheckpointError, "nowhere: no such run folder"),
        (["new"], CheckpointError, "no checkpoint here"),
        (["starter", "other"], ConfigError, "other is of ballplay"),
        (["starter", "--data", "new"], ClipError, "no clips"),
        ([], ConfigError, "name at least one run folder"),
    ],
)
def test_a_film_that_cannot_be_made_is_a_typed_error_and_no_file(
    arguments: Sequence[str],
    error: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line that says what is wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SKILLFIELD_DATA", raising=False)
    without_checkpoint(Path("new"))
    shutil.copytree(run_folder("starter"), "other")
    save_config(preset("ballplay", "full"), Path("other"))
    with pytest.raises(error, match=message):
        tyro.cli(Render, args=list(arguments)).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "other"]


@pytest.mark.parametrize(("library", "package"), [("EGL", "libegl1 libgl1-mesa-dri"), ("OSMesa", "libosmesa6")])
def test_without_opengl_the_command_names_the_package(
    library: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine with neither library and no display: exit code 2, one line, no file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    for variable in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    asked = []
    monkeypatch.setattr(offscreen.ctypes.util, "find_library", lambda name: asked.append(name))
    assert main(["render", "starter", "--seconds", "0.1", "--skills", "hold"]) == 2
    assert library in asked
    assert package in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_broken_driver_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is there but cannot draw says so, with the package that usually mends it."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no device")

    monkeypatch.setattr(offscreen.mujoco, "Renderer", broken)
    with pytest.raises(RenderError, match=r"cannot draw .*: no device; .*apt install libegl1"):
        SceneRenderer(hand(), 16, 16)
