"""The viewer in a real browser: the page loads without a complaint, shows something, and its buttons and keys work."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from chromium import Chromium, find_chromium
from skillfield.experiments.starter.authoring import CLIP_FOLDER
from skillfield.viewer.clip_session import ClipSession
from skillfield.viewer.opening import Viewer, clip_viewer, policy_viewer
from skillfield.viewer.session import Session

pytest.importorskip("viser", reason="the viewer extra is not installed")
pytestmark = pytest.mark.slow

LOADED = "document.querySelector('canvas') !== null && document.querySelectorAll('button').length > 4"
SIZE = (760, 460)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium on this machine")
    with Chromium(program, SIZE) as opened:
        yield opened


@pytest.fixture
def visit(browser: Chromium) -> Iterator[Callable[[Viewer], None]]:
    """Runs a viewer's loop beside the test, paused, and goes to its page. Drawing without a GPU is slow."""
    running: list[tuple[Viewer, threading.Thread]] = []

    def start(viewer: Viewer) -> None:
        viewer.session.paused = True
        thread = threading.Thread(target=viewer.loop.run)
        thread.start()
        running.append((viewer, thread))
        browser.open(viewer.url)
        browser.wait_for(LOADED)

    yield start
    browser.open("about:blank")
    for viewer, thread in running:
        viewer.loop.stop()
        thread.join(10)
        viewer.close()


def wait_until(what: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def drawn(browser: Chromium) -> bool:
    """Whether the scene shows more than a plain background: the ball is orange, the panels are not."""
    picture = browser.picture()[:, : SIZE[0] // 2].astype(float)
    red, _, blue = picture.reshape(-1, 3).T
    return float(picture.std()) > 5.0 and int((red - blue > 90).sum()) > 30


def test_the_page_of_a_policy(browser: Chromium, visit: Callable[[Viewer], None], tmp_path: Path) -> None:
    """It loads and draws; a button and a key change the skill, the camera stays, time stops, a film comes back."""
    viewer = policy_viewer("starter", port=0, films=tmp_path)
    visit(viewer)
    session = viewer.session
    assert isinstance(session, Session)
    assert session.skill == "dribble_forward"
    browser.click("Hold")
    assert wait_until(lambda: session.skill == "hold")
    assert wait_until(lambda: drawn(browser))

    assert wait_until(lambda: len(viewer.server.get_clients()) == 1)
    camera = next(iter(viewer.server.get_clients().values())).camera
    before = camera.position.copy()
    browser.press("ArrowLeft", "ArrowLeft", 37)
    assert wait_until(lambda: session.skill == "dribble_left")
    steps = session.num_steps
    browser.press("n", "KeyN", 78)
    assert wait_until(lambda: session.num_steps == steps + 1)

    browser.press("v", "KeyV", 86)
    browser.press(" ", "Space", 32)
    assert wait_until(lambda: session.recording is not None and session.recording.seconds > 0.1)
    browser.press(" ", "Space", 32)
    assert wait_until(lambda: session.paused)
    browser.press("v", "KeyV", 86)
    assert wait_until(lambda: bool(list(tmp_path.glob("*.mp4"))), 30.0)
    browser.wait_for("document.body.innerText.includes('.mp4')")
    assert np.allclose(camera.position, before, atol=1e-3)
    assert browser.complaints == []


def test_the_page_of_clips(browser: Chromium, visit: Callable[[Viewer], None]) -> None:
    """Clips are shown, and a jump goes along an edge of the stitched graph."""
    viewer = clip_viewer(CLIP_FOLDER, port=0)
    visit(viewer)
    session = viewer.session
    assert isinstance(session, ClipSession)
    browser.wait_for("document.body.innerText.includes('Stitched graph')")
    browser.press("j", "KeyJ", 74)
    assert wait_until(lambda: session.edge is not None and not session.paused)
    browser.press(" ", "Space", 32)
    assert wait_until(lambda: session.paused)
    browser.wait_for("document.body.innerText.includes('β =')")
    assert browser.complaints == []
