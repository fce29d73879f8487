"""The page of a session: buttons, sliders and keys around the scene. What they do is the session's business."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillfield.viewer.instruments import readings_html
from skillfield.viewer.keys import GUARD, PAGE_KEYS, key_label, skill_keys
from skillfield.viewer.loop import Loop
from skillfield.viewer.notes import Notes, in_words
from skillfield.viewer.recording import Recording, film
from skillfield.viewer.scenery import Scenery
from skillfield.viewer.session import DIRECTIONS, GHOSTS, Session
from skillfield.viewer.sliders import Slider
from skillfield.viewer.stage import Figure, actors, surroundings

if TYPE_CHECKING:
    import viser

__all__ = ["Page", "named"]

_INSTRUMENTS_EVERY = 3  # pictures
_QUIET = (226, 230, 234)  # of buttons


class Page:
    """Everything that people see and touch; the loop calls `draw`, the browser calls the rest."""

    def __init__(self, server: "viser.ViserServer", session: Session, title: str, films: Path) -> None:
        """films: folder that recordings are written to."""
        self._server, self._session, self._films = server, session, films
        self._notes, self._pictures = Notes(), 0
        self.loop = Loop(session, self.draw, self._notes.tell)
        self._scenery = Scenery(server, session.motion)
        character, seen = session.character, actors(session.character)
        self._figure = Figure(server, character, seen, "character")
        self._ghost = Figure(server, character, seen, "ghost", ghost=True)
        self._around = Figure(server, character, surroundings(character), "around")
        self._drawn, self._dropped = threading.Event(), threading.Event()
        self._drawn.set()
        self._build(title)
        self._listen_to_drags()

    def draw(self) -> None:
        """Send the present state to every browser, if there is one."""
        if not self._server.get_clients():
            return
        session, offset = self._session, self._scenery.offset(self._session.root_position())
        with self._server.atomic():
            pose = session.pose()
            self._figure.show(pose, offset)
            self._around.show(pose, offset)
            self._ghost.show(session.ghost(), offset + session.ghost_shift)
            if self._pictures % _INSTRUMENTS_EVERY == 0:
                self._show_instruments()
        self._pictures += 1

    def finish(self) -> None:
        """Wait for a recording that is being drawn; Ctrl-C drops it, and leaves no part of it."""
        if self._drawn.is_set():
            return
        print("drawing the last recording; Ctrl-C again drops it", flush=True)
        try:
            while not self._drawn.wait(0.1):  # an endless wait would not hear of Ctrl-C everywhere
                pass
        except KeyboardInterrupt:
            self._dropped.set()
            self._drawn.wait()

    def _show_instruments(self) -> None:
        session, meter = self._session, self.loop.meter
        pace = "paused" if session.paused else f"{meter.rate:.0f} steps/s · {meter.busy:.0%} of a core"
        self._instruments.content = readings_html(session.readings(), pace, self._notes.now)
        for skill, button in self._skill_buttons.items():
            button.color = None if skill == session.skill else _QUIET
        self._pause.label = f"{'Go on' if session.paused else 'Pause'}  ·  Space"
        recording = session.recording
        if recording is not None:
            self._record.label = f"Stop  ·  {recording.seconds:.0f} s  ·  V"
            if recording.full:
                self._toggle_recording()

    def _build(self, title: str) -> None:
        gui, session = self._server.gui, self._session
        gui.main_panel.dock_right()
        gui.add_html(GUARD)
        gui.add_markdown(title)
        with gui.add_folder("Skills"):
            self._build_skills()
        with gui.add_folder("Time"):
            self._pause = self._button("Pause", "pause", self._toggle_pause)
            self._button("Step", "step", self._single_step)
            speed = Slider(gui.add_slider("Speed", min=0.05, max=1.0, step=0.05, initial_value=1.0))
            speed.handle.on_update(self._later(lambda: setattr(session, "speed", speed.value)))
            self._record = self._button("Record", "record", self._toggle_recording)
        with gui.add_folder("Start"):
            self._build_start()
        with gui.add_folder("Disturb"):
            self._build_disturbances()
        with gui.add_folder("View"):
            follow: Any = gui.add_checkbox("Follow  ·  F", initial_value=True)
            follow.on_update(lambda _: setattr(self._scenery, "follows", bool(follow.value)))
            self._command("Follow the character", "follow", lambda: setattr(follow, "value", not follow.value))
            ghost: Any = gui.add_dropdown("Ghost  ·  G", GHOSTS, initial_value=session.ghost_place)
            ghost.on_update(self._later(lambda: setattr(session, "ghost_place", ghost.value)))
            self._ghost_choice = ghost
            self._command("Ghost of the reference", "ghost", self._next_ghost)
        panel = gui.add_panel()
        with panel.add_tab("Instruments"):
            self._instruments = gui.add_html("")
        panel.float(x=14, y=14, width=270)

    def _build_skills(self) -> None:
        session, keys = self._session, skill_keys(self._session.skills)
        self._skill_buttons = {}
        for skill in session.skills:
            label = f"{named(skill)}  ·  {key_label(keys[skill])}" if skill in keys else named(skill)
            button = self._server.gui.add_button(label, color=_QUIET)
            button.on_click(self._later(partial(self._switch, skill)))
            self._skill_buttons[skill] = button
            if skill in keys:
                self._hotkey(named(skill), keys[skill], partial(self._switch, skill))

    def _build_start(self) -> None:
        gui, session, motion = self._server.gui, self._session, self._session.motion
        self._clips: Any = gui.add_dropdown("Clip", motion.names)
        last = int(motion.length[0]) - 2
        self._frames = Slider(gui.add_slider("Frame", min=0, max=last, step=1, initial_value=0))

        def choose(event: Any) -> None:
            if event.client is not None:
                self._show_start(motion.names.index(self._clips.value))
                start()

        def scrub(event: Any) -> None:
            if event.client is not None:
                start()

        def start() -> None:
            clip, frame = motion.names.index(self._clips.value), int(self._frames.value)
            self.loop.ask(lambda: session.reset(clip, frame))

        self._clips.on_update(choose)
        self._frames.handle.on_update(scrub)
        self._button("Reset", "reset", start, at_once=True)
        again = gui.add_checkbox("Set up again after a fall", initial_value=session.stands_up)
        again.on_update(self._later(lambda: setattr(session, "stands_up", bool(again.value))))

    def _build_disturbances(self) -> None:
        gui, session = self._server.gui, self._session
        direction = gui.add_dropdown("Direction", tuple(DIRECTIONS))
        strength = Slider(gui.add_slider("Push, m/s", min=0.1, max=5.0, step=0.1, initial_value=1.0))

        def push(what: str) -> None:
            session.push(what, direction.value, strength.value)

        self._button("Push the body", "push body", partial(push, "body"))
        if session.ball_mass is None:
            return
        self._button("Push the ball", "push ball", partial(push, "ball"))
        built = _rounded(session.ball_mass)
        least, most = min(0.1, _rounded(built / 5)), max(3.0, _rounded(5 * built))
        step = min(0.05, _rounded(least / 2))
        mass = Slider(gui.add_slider("Ball mass, kg", min=least, max=most, step=step, initial_value=built))
        mass.handle.on_update(self._later(lambda: session.set_ball_mass(mass.value)))
        if session.ball_bounce is not None:
            built = _rounded(session.ball_bounce)
            least, most = min(0.1, built), max(0.95, built)
            bounce = Slider(gui.add_slider("Ball bounce", min=least, max=most, step=0.05, initial_value=built))
            bounce.handle.on_update(self._later(lambda: session.set_ball_bounce(bounce.value)))

    def _listen_to_drags(self) -> None:
        """A body or the ball hangs on a spring while it is dragged."""
        for handle, bodies in self._figure.grips:

            async def drag(event: Any, bodies: list[int] = bodies) -> None:  # async keeps the phases in order
                body = bodies[event.instance_index or 0]
                away = None
                if event.phase != "end":
                    away = np.asarray(event.end_position) - np.asarray(event.start_position)
                self.loop.ask(lambda: self._session.pull(body, away))

            handle.on_drag("left")(drag)

    def _button(
        self, text: str, key: str, action: Callable[[], None], at_once: bool = False
    ) -> "viser.GuiButtonHandle":
        """A button and its key. at_once: the action hands its work to the loop itself."""
        button = self._server.gui.add_button(f"{text}  ·  {key_label(PAGE_KEYS[key])}", color=_QUIET)
        button.on_click((lambda _: action()) if at_once else self._later(action))
        self._command(text, key, action, at_once)
        return button

    def _command(self, text: str, key: str, action: Callable[[], None], at_once: bool = True) -> None:
        self._hotkey(text, PAGE_KEYS[key], action, at_once)

    def _hotkey(self, text: str, key: str, action: Callable[[], None], at_once: bool = False) -> None:
        command = self._server.gui.add_command(text, hotkey=key)  # type: ignore[arg-type, unused-ignore]
        command.on_trigger((lambda _: action()) if at_once else self._later(action))

    def _later(self, action: Callable[[], None]) -> Callable[[Any], None]:
        return lambda _: self.loop.ask(action)

    def _switch(self, skill: str) -> None:
        """Ask for a skill; a reset will then start with it too."""
        self._session.switch(skill)
        self._show_start(self._session.clip)

    def _show_start(self, clip: int) -> None:
        motion = self._session.motion
        self._clips.value, self._frames.handle.value = motion.names[clip], 0
        self._frames.handle.max = int(motion.length[clip]) - 2

    def _toggle_pause(self) -> None:
        self._session.paused = not self._session.paused

    def _single_step(self) -> None:
        self._session.paused = True
        self._session.step()

    def _next_ghost(self) -> None:
        self._ghost_choice.value = GHOSTS[(GHOSTS.index(self._ghost_choice.value) + 1) % len(GHOSTS)]

    def _toggle_recording(self) -> None:
        session = self._session
        if session.recording is None:
            if not self._drawn.is_set():
                self._notes.tell("the last recording is still being drawn")
                return
            session.start_recording()
            return
        kept = session.stop_recording()
        self._record.label, self._record.disabled = "Drawing …", True
        self._drawn.clear()
        threading.Thread(target=self._film, args=(kept,), daemon=True).start()

    def _film(self, recording: Recording) -> None:
        """Draw a recording while the session goes on, and offer it for download."""
        path = self._films / time.strftime("skillfield-%Y%m%d-%H%M%S.mp4")
        try:
            film(recording, self._session.character, path, self._dropped)
            for client in self._server.get_clients().values():
                client.send_file_download(path.name, path.read_bytes())
            self._notes.tell(f"recorded {path}", good=True)
        except Exception as problem:
            self._notes.tell(in_words(problem))
        finally:
            self._record.label, self._record.disabled = f"Record  ·  {key_label(PAGE_KEYS['record'])}", False
            self._drawn.set()


def named(skill: str) -> str:
    """A skill as people would write it."""
    return skill.replace("_", " ").capitalize()


def _rounded(value: float) -> float:
    """To three digits, however small it is."""
    return float(f"{value:.3g}")
