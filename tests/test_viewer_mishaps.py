"""The viewer in clumsy hands: half a number typed, things dragged about, Ctrl-C while a film is drawn."""

import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bare_page import BarePage
from skillfield.cli.main import main
from skillfield.errors import ClipError, ConfigError
from skillfield.experiments.starter.authoring import CLIP_FOLDER
from skillfield.viewer.instruments import readings_html
from skillfield.viewer.loop import Loop
from skillfield.viewer.notes import Note
from skillfield.viewer.opening import Viewer, clip_viewer, policy_session
from skillfield.viewer.page import Page
from skillfield.viewer.serving import close_server, open_server
from skillfield.viewer.session import Session
from skillfield.viewer.sliders import Slider

GRAVITY = 9.81


@pytest.fixture(scope="module")
def shared_session() -> Session:
    return policy_session("starter")[0]


@pytest.fixture
def session(shared_session: Session) -> Iterator[Session]:
    """The shipped starter policy, as it is before the first step."""
    shared_session.reset(0, 0)
    shared_session.paused, shared_session.speed, shared_session.ghost_place = False, 1.0, "inside"
    yield shared_session
    shared_session.set_ball_mass(0.6)


@pytest.fixture
def page(session: Session, tmp_path: Path) -> Iterator[Page]:
    """Its page, which nobody looks at yet."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    server = open_server("127.0.0.1", 0, "")
    yield Page(server, session, "", tmp_path)
    close_server(server)


@pytest.fixture
def visit() -> Iterator[Callable[[Any, Loop], BarePage]]:
    """Runs a loop beside the test, and goes to its page."""
    running: list[tuple[Loop, threading.Thread, BarePage]] = []

    def start(server: Any, loop: Loop) -> BarePage:
        thread = threading.Thread(target=loop.run)
        thread.start()
        visitor = BarePage(server.get_port())
        running.append((loop, thread, visitor))
        assert wait_until(lambda: visitor.shows("Speed") and bool(server.get_clients()))
        return visitor

    yield start
    for loop, thread, visitor in running:
        visitor.close()
        loop.stop()
        thread.join(10)


def wait_until(what: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def ball_place(session: Session) -> np.ndarray:
    return session._engine.state.object_pos_w[0, 0].double().numpy().copy()


def test_a_slider_says_nothing_that_it_could_not_be_dragged_to() -> None:
    """Too little and too much end at its ends, wherever these are by then; no number leaves it where it was."""
    handle = SimpleNamespace(value=1.0, min=0.05, max=1.0)
    slider = Slider(handle)
    said = []
    for typed in (0.0, 0.5, math.nan, 7.0, -math.inf):
        handle.value = typed
        said.append(slider.value)
    assert said == [0.05, 0.5, 0.5, 1.0, 1.0]
    handle.max = 0.4
    assert slider.value == 0.4


def test_half_a_number_does_not_end_the_session(
    page: Page, session: Session, visit: Callable[[Any, Loop], BarePage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever types 0.5 into the box of the speed types 0 first; nor does a ball weigh infinitely much."""
    masses: list[float] = []
    monkeypatch.setattr(session, "set_ball_mass", masses.append)
    visitor = visit(page._server, page.loop)
    visitor.set("Speed", 0)
    assert wait_until(lambda: session.speed == 0.05)
    visitor.set("Speed", math.nan)
    visitor.set("Ball mass", 0)
    assert wait_until(lambda: masses == [0.1])
    visitor.set("Ball mass", math.inf)
    assert wait_until(lambda: len(masses) == 2)
    assert (masses[1], session.speed) == (0.1, 0.05)
    steps = session.num_steps
    assert wait_until(lambda: session.num_steps > steps + 1)


@pytest.mark.parametrize(("mass", "least", "most"), [(0.004, 0.0008, 3.0), (0.6, 0.1, 3.0), (20.0, 0.1, 100.0)])
@pytest.mark.parametrize("bounce", [0.03, 0.8, 0.99])
def test_sliders_begin_where_the_ball_was_built(
    mass: float, least: float, most: float, bounce: float, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As light or lively as it may be; each has room on both sides of its mass."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    monkeypatch.setattr(Session, "ball_mass", mass)
    monkeypatch.setattr(Session, "ball_bounce", bounce)
    server = open_server("127.0.0.1", 0, "")
    sliders, add = {}, server.gui.add_slider

    def kept(label: str, **settings: Any) -> Any:
        sliders[label] = add(label, **settings)
        return sliders[label]

    monkeypatch.setattr(server.gui, "add_slider", kept)
    try:
        Page(server, session, "", Path("films"))
    finally:
        close_server(server)
    weight = sliders["Ball mass, kg"]
    assert (weight.value, weight.min, weight.max) == (mass, least, most)
    assert weight.step <= least
    assert sliders["Ball bounce"].value == bounce


def test_only_a_floor_that_gives_back_has_a_bounce(session: Session) -> None:
    """A contact with MuJoCo's usual numbers, or one that is damped beyond any bounce, has none to change."""
    model = session.character.model
    solref = model.pair_solref[model.pair("ball-floor").id]
    built = solref.copy()
    try:
        for numbers in ((0.02, 1.0), (-2500.0, -100.0)):
            solref[:] = numbers
            assert session.ball_bounce is None
    finally:
        solref[:] = built
    assert session.ball_bounce == pytest.approx(0.8)


def test_clips_of_one_name_are_refused(tmp_path: Path) -> None:
    """The list of clips on the page could not tell them apart."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    for name in ("one.npz", "two.npz"):
        shutil.copy(CLIP_FOLDER / "hold.npz", tmp_path / name)
    with pytest.raises(ClipError, match=rf"^{tmp_path}: several clips are called \['hold'\]"):
        clip_viewer(tmp_path, port=0)


def test_nor_does_it_end_the_reading_of_clips(visit: Callable[[Any, Loop], BarePage]) -> None:
    """The same box on the page of clips; and an edge that is not there is the last one."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    with clip_viewer(CLIP_FOLDER, port=0) as viewer:
        reader: Any = viewer.session
        visitor = visit(viewer.server, viewer.loop)
        visitor.set("Speed", 0)
        assert wait_until(lambda: reader.speed == 0.05)
        visitor.set("Edge", 10**6)
        assert wait_until(lambda: reader.edge is not None)
        viewer.loop.stop()


def test_what_nobody_foresaw_is_told_and_the_rest_goes_on(session: Session) -> None:
    """In one line, with the kind of the mistake."""
    told: list[str] = []
    loop = Loop(session, lambda: None, told.append)
    session.paused = True
    steps = session.num_steps
    loop.ask(lambda: 1 / 0)
    loop.ask(session.step)
    loop.run(seconds=0.1)
    assert told == ["that failed: ZeroDivisionError: division by zero"]
    assert session.num_steps == steps + 1


@pytest.mark.parametrize("mass", [0.1, 0.6, 3.0])
def test_a_dragged_ball_comes_to_rest_where_the_spring_ends(session: Session, mass: float) -> None:
    """However long the mouse is held still; 12 cm lower, as heavy or light as it has been made."""
    ball, toss = session.character.object_ids[0], session.motion.names.index("toss")
    session.set_ball_mass(mass)
    session.reset(toss, int(session.motion.length[toss]) - 5)
    away = np.array([0.0, 0.5, 3.0])  # out of reach
    end = ball_place(session) + away
    session.pull(ball, away)
    for _ in range(180):
        session.step()
    sag = GRAVITY / 80.0
    assert ball_place(session) == pytest.approx(end - [0.0, 0.0, sag], abs=0.02)
    assert np.linalg.norm(session._engine.state.object_lin_vel_w[0, 0].numpy()) < 0.05


def test_a_recording_has_the_ghost_where_the_page_has_it(session: Session) -> None:
    """In the character, a metre to its left with its ball, or not at all."""
    kept = {}
    for place in ("inside", "beside", "off"):
        session.reset(0, 0)
        session.ghost_place = place
        session.start_recording()
        session.step()
        (kept[place],) = session.stop_recording().ghost
    assert kept["off"] is None
    assert kept["inside"] is not None
    assert kept["beside"] is not None
    layout, moved = session.character.layout(), kept["beside"] - kept["inside"]
    assert np.count_nonzero(np.abs(moved) > 1e-5) == 2  # of the hand and of the ball
    assert np.sort(moved)[-2:] == pytest.approx([1.0, 1.0], abs=1e-5)
    places = [layout.plane_frame(torch.from_numpy(kept[place]))[0].numpy() for place in ("inside", "beside")]
    assert places[1] - places[0] == pytest.approx([0.0, 1.0], abs=1e-5)


def test_the_page_says_where_the_ghost_is(page: Page, session: Session, visit: Callable[[Any, Loop], BarePage]) -> None:
    """The list under View reaches the session, and so does its key."""
    visitor = visit(page._server, page.loop)
    visitor.set("Ghost", "off")
    assert wait_until(lambda: session.ghost_place == "off")
    assert session.ghost() is None
    page._next_ghost()
    assert wait_until(lambda: session.ghost_place == "inside")


def start_film(page: Page, session: Session, steps: int) -> None:
    """Record so many steps, and begin to draw them."""
    page._toggle_recording()
    for _ in range(steps):
        session.step()
    page._toggle_recording()


def test_a_page_closes_when_its_film_is_drawn(
    page: Page, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what it waits for, and that the film is there is good news."""
    start_film(page, session, 12)
    page.finish()
    (path,) = tmp_path.iterdir()
    assert path.suffix == ".mp4"
    said = capsys.readouterr().out.splitlines()
    assert said == ["drawing the last recording; Ctrl-C again drops it", f"recorded {path}"]
    assert page._notes.now == Note(f"recorded {path}", good=True)
    page.finish()
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_film_that_is_dropped_leaves_nothing(
    page: Page, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the page waits for it, with the hidden file begun."""
    start_film(page, session, 1200)
    assert wait_until(lambda: bool(list(tmp_path.iterdir())))
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    page.finish()
    assert not list(tmp_path.iterdir())
    assert "the recording is dropped" in capsys.readouterr().out


def test_a_viewer_finishes_before_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """While clients can still be sent what was made; and it closes even if that is interrupted."""
    done: list[str] = []

    def finish() -> None:
        done.append("finished")
        raise KeyboardInterrupt

    server: Any = SimpleNamespace(stop=lambda: done.append("closed"))
    loop: Any = SimpleNamespace(stop=lambda: done.append("stopped"))
    session: Any = None
    with pytest.raises(KeyboardInterrupt):
        Viewer(server, loop, session, finish).close()
    assert done == ["stopped", "finished", "closed"]


@pytest.mark.parametrize("films", ["file", "file/films"])
def test_films_need_a_folder(
    films: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be one is refused before anything is opened."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["play", "starter", "--port", "0", "--seconds", "0.1", "--films", films]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"error: --films {films}: file is not a folder\n"
    assert printed.out == ""


def test_steps_are_counted_over_the_time_that_passed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C long before the end that was asked for; what the page has begun is finished after it."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    monkeypatch.chdir(tmp_path)
    run, said_before = Loop.run, []

    def interrupted(loop: Loop, seconds: float | None = None) -> None:
        run(loop, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "run", interrupted)
    monkeypatch.setattr(Page, "finish", lambda page: said_before.append(capsys.readouterr().out))
    assert main(["play", "starter", "--port", "0", "--seconds", "60"]) == 0
    assert len(said_before) == 1
    assert "steps/s over 0.5 s" in said_before[0]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::1", "http://[::1]:80"),
        ("::", "http://[::1]:80"),
    ],
)
def test_the_address_is_one_that_a_browser_takes(host: str, url: str) -> None:
    """Colons of a host are kept apart from that of the port; any address of this machine is one that can be opened."""
    server: Any = SimpleNamespace(get_host=lambda: host, get_port=lambda: 80)
    nothing: Any = None
    assert Viewer(server, nothing, nothing).url == url


def test_good_news_does_not_look_like_a_mistake(session: Session) -> None:
    """Green, not red."""
    html = {good: readings_html(session.readings(), "", Note("a < b", good)) for good in (True, False)}
    assert 'color:#2f9e44">a &lt; b<' in html[True]
    assert 'color:#e03131">a &lt; b<' in html[False]


@pytest.mark.parametrize("mass", [0.0, math.nan, math.inf])
def test_a_ball_weighs_something(session: Session, mass: float) -> None:
    """An infinite mass would make inertias that no later one repairs."""
    with pytest.raises(ConfigError, match="a ball of"):
        session.set_ball_mass(mass)
