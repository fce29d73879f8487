"""From a name on the command line to an open page."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from skillfield.api import env_factory
from skillfield.characters import character as find_character
from skillfield.clips import load_clip, load_clips
from skillfield.errors import CheckpointError, ClipError
from skillfield.experiments.loading import load_run
from skillfield.experiments.shipped import shipped_policies
from skillfield.experiments.tasks import TASKS
from skillfield.viewer.clip_page import ClipPage
from skillfield.viewer.clip_session import ClipSession
from skillfield.viewer.loop import Loop
from skillfield.viewer.page import Page, named
from skillfield.viewer.recording import check_films
from skillfield.viewer.serving import LOOPBACK, check_server, close_server, open_server
from skillfield.viewer.session import Session

if TYPE_CHECKING:
    import viser

__all__ = ["Viewer", "clip_viewer", "policy_session", "policy_viewer"]


@dataclass
class Viewer:
    """An open page: its address, its loop, and what it shows."""

    server: "viser.ViserServer"
    loop: Loop
    session: Session | ClipSession
    finish: Callable[[], None] = lambda: None
    """What is done before the page is gone."""
    _cpu: float = field(default_factory=time.process_time)

    @property
    def url(self) -> str:
        """For the browser."""
        host = self.server.get_host()
        host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server.get_port()}"

    def summary(self, seconds: float) -> str:
        """What was measured while the loop ran, which took so long."""
        cpu = time.process_time() - self._cpu
        clients = len(self.server.get_clients())
        return (
            f"{self.loop.steps / seconds:.1f} steps/s over {seconds:.1f} s, {cpu / seconds:.0%} of one core for "
            f"simulation, policy and page together, {clients} browser(s)"
        )

    def close(self) -> None:
        """Finish what was begun, and stop serving."""
        self.loop.stop()
        try:
            self.finish()
        finally:
            close_server(self.server)

    def __enter__(self) -> "Viewer":
        self._cpu = time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def policy_session(run: Path | str, data: Path | None = None) -> tuple[Session, str]:
    """A run's newest checkpoint, or a shipped policy, in a world of its own; and what to call it."""
    if not Path(run).is_dir() and str(run) in TASKS and str(run) not in shipped_policies():
        raise CheckpointError(
            f"no policy of task '{run}' is shipped: give the folder of a run (skillfield train {run} makes one)"
        )
    loaded = load_run(run, data=data)
    config = replace(loaded.config, threads=1)
    session = Session(env_factory(loaded.task, config, loaded.networks)(1), loaded.networks)
    return session, f"**{named(config.task)}**  ·  {config.method}  ·  {loaded.folder.name}"


def policy_viewer(
    run: Path | str,
    data: Path | None = None,
    *,
    host: str = LOOPBACK,
    port: int = 8080,
    films: Path = Path("films"),
) -> Viewer:
    """The page of a policy."""
    check_server(host, port)
    check_films(films)
    session, title = policy_session(run, data)
    server = open_server(host, port, "skillfield")
    page = Page(server, session, title, films)
    return Viewer(server, page.loop, session, page.finish)


def clip_viewer(clips: Path, character: str | None = None, *, host: str = LOOPBACK, port: int = 8080) -> Viewer:
    """The page of a folder of clips, or of one clip."""
    check_server(host, port)
    found = [load_clip(clips)] if clips.is_file() else load_clips(clips)
    names = sorted({clip.character for clip in found})
    if len(names) != 1:
        raise ClipError(f"{clips}: clips of {len(names)} characters {names}; the viewer shows one at a time")
    twice = [name for name, count in Counter(clip.name for clip in found).items() if count > 1]
    if twice:
        raise ClipError(f"{clips}: several clips are called {twice}; the viewer tells them apart by name")
    session = ClipSession(found, find_character(character or names[0]))
    server = open_server(host, port, "skillfield")
    page = ClipPage(server, session, f"**Clips**  ·  {clips}")
    return Viewer(server, page.loop, session)
