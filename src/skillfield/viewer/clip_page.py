"""The page of clips: a scrubber, and the stitched graph edge by edge."""

from typing import TYPE_CHECKING, Any

from skillfield.viewer.clip_session import ClipSession, Edge
from skillfield.viewer.instruments import clip_html
from skillfield.viewer.keys import GUARD, PAGE_KEYS, key_label
from skillfield.viewer.loop import Loop
from skillfield.viewer.notes import Note, Notes
from skillfield.viewer.scenery import Scenery
from skillfield.viewer.sliders import Slider
from skillfield.viewer.stage import Figure, actors, surroundings

if TYPE_CHECKING:
    import viser

__all__ = ["ClipPage"]

_INSTRUMENTS_EVERY = 3  # pictures
_QUIET = (226, 230, 234)  # of buttons


class ClipPage:
    """What people see and touch when there is no policy."""

    def __init__(self, server: "viser.ViserServer", session: ClipSession, title: str) -> None:
        self._server, self._session = server, session
        self._notes, self._pictures = Notes(), 0
        self.loop = Loop(session, self.draw, self._notes.tell)
        self._scenery = Scenery(server, session.motion)
        character, seen = session.character, actors(session.character)
        self._figure = Figure(server, character, seen, "character")
        self._ghost = Figure(server, character, seen, "ghost", ghost=True)
        self._around = Figure(server, character, surroundings(character), "around")
        self._build(title)

    def draw(self) -> None:
        """Send the present frame to every browser, if there is one."""
        if not self._server.get_clients():
            return
        session, offset = self._session, self._scenery.offset(self._session.root_position())
        with self._server.atomic():
            pose = session.pose()
            self._figure.show(pose, offset)
            self._around.show(pose, offset)
            self._ghost.show(session.ghost(), offset)
            if self._pictures % _INSTRUMENTS_EVERY == 0:
                self._show_instruments()
        self._pictures += 1

    def _show_instruments(self) -> None:
        session = self._session
        motion = session.motion
        length = int(motion.length[session.clip])
        missing = Note("this frame is missing in the demonstration")
        self._instruments.content = clip_html(
            motion.names[session.clip],
            motion.skills[int(motion.skill[session.clip])],
            session.frame,
            length,
            session.contacts(),
            "" if session.edge is None else self._describe(session.edge),
            missing if session.missing else self._notes.now,
        )
        if self._clips.value != motion.names[session.clip]:
            self._clips.value = motion.names[session.clip]
        if self._frames.handle.max != length - 1:
            self._frames.handle.max = length - 1
        self._frames.handle.value = session.frame
        self._pause.label = f"{'Go on' if session.paused else 'Pause'}  ·  Space"

    def _describe(self, edge: Edge) -> str:
        names = self._session.motion.names
        state = "before the jump" if self._session.before_the_jump else "solid: target, ghost: source"
        return (
            f"{names[edge.source_clip]} {edge.source_frame} → {names[edge.target_clip]} {edge.target_frame}, "
            f"β = {edge.similarity:.2g} ({state})"
        )

    def _build(self, title: str) -> None:
        gui, session, motion = self._server.gui, self._session, self._session.motion
        gui.main_panel.dock_right()
        gui.add_html(GUARD)
        gui.add_markdown(title)
        with gui.add_folder("Clip"):
            self._clips: Any = gui.add_dropdown("Clip", motion.names)
            last = int(motion.length[0]) - 1
            self._frames = Slider(gui.add_slider("Frame", min=0, max=last, step=1, initial_value=0))
            self._pause = gui.add_button(f"Pause  ·  {key_label(PAGE_KEYS['pause'])}", color=_QUIET)
            step = gui.add_button(f"Step  ·  {key_label(PAGE_KEYS['step'])}", color=_QUIET)
            speed = Slider(gui.add_slider("Speed", min=0.05, max=1.0, step=0.05, initial_value=1.0))
            follow: Any = gui.add_checkbox("Follow  ·  F", initial_value=True)
        with gui.add_folder("Stitched graph"):
            self._build_graph()
        panel = gui.add_panel()
        with panel.add_tab("Clip"):
            self._instruments = gui.add_html("")
        panel.float(x=14, y=14, width=270)

        def choose(event: Any) -> None:
            if event.client is not None:
                clip = motion.names.index(self._clips.value)
                self.loop.ask(lambda: session.go(clip, 0))

        def scrub(event: Any) -> None:
            if event.client is not None:
                clip, frame = motion.names.index(self._clips.value), int(self._frames.value)
                self.loop.ask(lambda: self._stop_at(clip, frame))

        self._clips.on_update(choose)
        self._frames.handle.on_update(scrub)
        self._pause.on_click(lambda _: self.loop.ask(self._toggle_pause))
        step.on_click(lambda _: self.loop.ask(self._single_step))
        speed.handle.on_update(lambda _: self.loop.ask(lambda: setattr(session, "speed", speed.value)))
        follow.on_update(lambda _: setattr(self._scenery, "follows", bool(follow.value)))
        gui.add_command("Pause", hotkey="space").on_trigger(lambda _: self.loop.ask(self._toggle_pause))
        gui.add_command("Step", hotkey="N").on_trigger(lambda _: self.loop.ask(self._single_step))
        gui.add_command("Follow the character", hotkey="F").on_trigger(
            lambda _: setattr(follow, "value", not follow.value)
        )

    def _build_graph(self) -> None:
        gui, session = self._server.gui, self._session
        connected = [skill for skill in session.skills if session.edges_into(skill)]
        if not connected:
            gui.add_markdown("No state of one skill is like any of another.")
            return
        into = gui.add_dropdown("Into skill", connected)
        last = session.edges_into(connected[0]) - 1
        edges = Slider(gui.add_slider("Edge", min=0, max=last, step=1, initial_value=0))
        jump = gui.add_button("Jump along it  ·  J", color=_QUIET)

        def choose(event: Any) -> None:
            if event.client is not None:
                edges.handle.max = session.edges_into(into.value) - 1
                edges.handle.value = 0
                look()

        def look() -> None:
            skill, number = into.value, int(edges.value)
            self.loop.ask(lambda: session.look(skill, number))

        def leap() -> None:
            if session.edge is None:
                session.look(into.value, int(edges.value))
            session.jump()

        into.on_update(choose)
        edges.handle.on_update(lambda event: look() if event.client is not None else None)
        jump.on_click(lambda _: self.loop.ask(leap))
        gui.add_command("Jump along the edge", hotkey="J").on_trigger(lambda _: self.loop.ask(leap))

    def _stop_at(self, clip: int, frame: int) -> None:
        self._session.paused = True
        self._session.go(clip, frame)

    def _toggle_pause(self) -> None:
        self._session.paused = not self._session.paused

    def _single_step(self) -> None:
        self._session.paused = True
        self._session.step()
