"""What a run is doing, live: one panel on a terminal, one line now and then everywhere else."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillfield.reporting.console import PatientConsole

__all__ = ["Progress", "ProgressState"]

_PANEL_SECONDS = 0.2
_LINE_SECONDS = 10.0
_BAR_WIDTH = 24
_SHARES_WIDTH = 12  # with its names it just fits into 80 columns
_MAX_WIDTH = 100
_OVERFLOWS = ("contact_overflow", "constraint_overflow")
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


@dataclass(frozen=True)
class ProgressState:
    """Where a run stands."""

    samples: int
    fraction: float
    """Share of the budget that is spent, 0 to 1."""
    elapsed_s: float
    samples_per_s: float
    shares: dict[str, float] = field(default_factory=dict)
    """Where the time goes: simulation, inference, learning; adds up to 1."""
    skill_reward: dict[str, float] = field(default_factory=dict)
    """Mean reward per skill, 0 to 1."""
    engine: dict[str, int] = field(default_factory=dict)
    """The engine's counters so far, by name: worlds that blew up, and buffers that were too small."""
    note: str = ""
    """The last thing worth telling."""

    @property
    def left_s(self) -> float | None:
        """Seconds to go at the present pace; unknown at the very start."""
        if self.fraction <= 0.0:
            return None
        return self.elapsed_s * max(0.0, 1.0 - self.fraction) / self.fraction


class Progress:
    """Shows states as they come. Times are the states' own, so it costs nothing between them."""

    def __init__(self, title: str, skills: Sequence[str] = (), console: Console | None = None) -> None:
        """skills: listed in this order from the start, so that the panel keeps its height."""
        self._title, self._skills = title, tuple(skills)
        self._console = console or PatientConsole()
        self._live: Live | None = None
        self._state: ProgressState | None = None
        self._shown: ProgressState | None = None

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is not None and self._state is not self._shown:
            self._show(self._state)
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, state: ProgressState) -> None:
        """Show this state, unless the last one shown is too fresh."""
        self._state = state
        pause = _LINE_SECONDS if self._live is None else _PANEL_SECONDS
        if self._shown is None or state.elapsed_s - self._shown.elapsed_s >= pause:
            self._show(state)

    def _show(self, state: ProgressState) -> None:
        self._shown = state
        if self._live is None:
            self._console.print(_line(self._title, state), soft_wrap=True, markup=False, highlight=False)
        else:
            self._live.update(_panel(self._title, self._skills, state, self._console.width), refresh=True)


def _panel(title: str, skills: Sequence[str], state: ProgressState, width: int) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("samples", f"{_count(state.samples)}, {_count(state.samples_per_s)} per second")
    if state.shares:
        facts.add_row("time goes to", _shares_bar(state.shares))
    for skill in dict.fromkeys((*skills, *state.skill_reward)):
        facts.add_row(Text(skill), _reward_bar(state.skill_reward.get(skill)))
    if "diverged" in state.engine:
        diverged = state.engine["diverged"]
        facts.add_row("diverged", Text(str(diverged), style="bold red" if diverged else "green"))
    for name, count in _overflows(state).items():
        facts.add_row(Text(name), Text(str(count), style="bold red"))
    facts.add_row("", Text(state.note, style="italic", overflow="ellipsis", no_wrap=True))
    return Panel(
        Group(_time_bar(state), Text(), facts),
        title=Text(title, style="bold"),
        title_align="left",
        width=min(width, _MAX_WIDTH),
        border_style="blue",
        padding=(1, 2),
    )


def _time_bar(state: ProgressState) -> RenderableType:
    row = Table.grid(padding=(0, 2), expand=True)
    row.add_column(ratio=1)
    row.add_column(justify="right", no_wrap=True)
    row.add_row(ProgressBar(total=1.0, completed=state.fraction), _times(state))
    return row


def _shares_bar(shares: dict[str, float]) -> Text:
    """One bar in as many colours as there are shares, and their names in those colours."""
    bar, names = Text(), Text()
    for (name, share), colour in zip(shares.items(), cycle(_COLOURS), strict=False):
        bar.append("█" * round(share * _SHARES_WIDTH), style=colour)
        names.append(f" {name} {share:.0%}", style=colour)
    return bar + names


def _reward_bar(reward: float | None) -> Text:
    if reward is None or not math.isfinite(reward):
        return Text("no episode yet", style="dim")
    filled = round(min(max(reward, 0.0), 1.0) * _BAR_WIDTH)
    bar = Text("━" * filled, style="green")
    bar.append("━" * (_BAR_WIDTH - filled), style="bright_black")
    bar.append(f"  {reward:.3f}", style="default")
    return bar


def _line(title: str, state: ProgressState) -> str:
    parts = [title, _times(state), f"{_count(state.samples)} samples", f"{_count(state.samples_per_s)}/s"]
    if state.shares:
        parts.append(", ".join(f"{name} {share:.0%}" for name, share in state.shares.items()))
    if state.skill_reward:
        parts.append("reward " + ", ".join(f"{skill} {reward:.3f}" for skill, reward in state.skill_reward.items()))
    if diverged := state.engine.get("diverged", 0):
        parts.append(f"{diverged} diverged")
    parts += [f"{count} {name}" for name, count in _overflows(state).items()]
    if state.note:
        parts.append(state.note)
    return " | ".join(parts)


def _overflows(state: ProgressState) -> dict[str, int]:
    """Buffers that were too small, in words: contacts or constraints were dropped, and physics was not what it says."""
    return {name.replace("_", " "): state.engine[name] for name in _OVERFLOWS if state.engine.get(name)}


def _times(state: ProgressState) -> str:
    left = "?" if state.left_s is None else _clock(state.left_s)
    return f"{min(state.fraction, 1.0):.0%}, {_clock(state.elapsed_s)} gone, {left} left"


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def _count(number: float) -> str:
    """Three digits and a unit: 4.10M, 31.2k, 512."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{unit}"
    return f"{number:.0f}"
