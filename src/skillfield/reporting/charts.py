"""Charts as inline SVG: colours come from the page's style sheet, so they follow light and dark; values show on hover.

Shape letters: G points of a line, L points of its tail.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLOURS", "Scale", "Series", "area_chart", "axis_ticks", "duration", "line_chart", "series_class", "short"]

Numbers = NDArray[np.float64]

COLOURS = 7
"""Colours of series in the style sheet; further series repeat them with other dashes."""
_DASHES = 3
_STRIPS = 40  # places along x that answer when hovered
_MOST_STRIPS = 120  # the same where every frame has its own, unless there are more


@dataclass(frozen=True)
class Series:
    """A line with a band around it."""

    name: str
    x: Numbers  # [G]
    mean: Numbers  # [G]
    low: Numbers  # [G]
    high: Numbers  # [G]
    runs: int = 1
    number: int = 0
    """Chooses colour and dashes."""
    tail_x: Numbers = field(default_factory=lambda: np.empty(0))  # [L]
    tail: Numbers = field(default_factory=lambda: np.empty(0))  # [L] the longest run, from where the others ended

    @property
    def reach(self) -> float:
        """The last x."""
        return float(self.tail_x[-1] if len(self.tail_x) else self.x[-1])

    @property
    def highest(self) -> float:
        """The greatest value."""
        return float(max(self.high.max(), self.tail.max(initial=-np.inf)))


@dataclass(frozen=True)
class Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Where a value lies."""
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.stop - self.start)


@dataclass(frozen=True)
class _Frame:
    """A plot's size and the margins that its labels need."""

    width: float = 340
    height: float = 200
    left: float = 44
    right: float = 10
    top: float = 26
    bottom: float = 30

    def x(self, low: float, high: float) -> Scale:
        return Scale(low, high, self.left, self.width - self.right)

    def y(self, low: float, high: float) -> Scale:
        return Scale(low, high, self.height - self.bottom, self.top)


def line_chart(
    title: str,
    series: Sequence[Series],
    top: float | None = None,
    x_label: str = "samples",
    marks: Sequence[float] = (),
) -> str:
    """Lines with bands over a common x; y begins at 0.

    top: the highest value to make room for. marks: places along x to draw an upright line at.
    """
    frame = _Frame()
    reach = max(one.reach for one in series)
    highest = max(one.highest for one in series) if top is None else top
    ticks = axis_ticks(0.0, highest if highest > 0 else 1.0, 4)
    x, y = frame.x(0.0, reach), frame.y(0.0, max(ticks[-1], highest))
    parts = [_axes(x, y, axis_ticks(0.0, reach, 4), ticks, x_label)]
    for at in (x(mark) for mark in marks if mark <= reach):
        parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{y.start}" y2="{y.stop}"/>')
    for one in series:
        parts.append(_drawn_series(one, x, y))
    parts.append(_series_strips(series, x, frame))
    return _svg(frame.width, frame.height, title, "".join(parts), title)


def area_chart(title: str, note: str, reward: Numbers, weight: Numbers) -> str:
    """Two areas over the frames of a clip: mean reward above, start weight (1 is uniform) below.

    Values that are not finite leave a gap.
    """
    width, left, right = 340.0, 38.0, 10.0
    upper, lower = (36.0, 86.0), (108.0, 158.0)
    count = len(reward)
    x = Scale(0, count, left, width - right)
    most = max(2.0, float(np.nanmax(weight, initial=1.0)))
    parts = [f'<text class="note" x="{width - right}" y="14" text-anchor="end">{escape(note)}</text>']
    for values, (ceiling, floor), high, kind, name in (
        (reward, upper, 1.0, "reward", "mean reward"),
        (weight, lower, most, "weight", "start weight"),
    ):
        y = Scale(0.0, high, floor, ceiling)
        parts.append(f'<line class="axis" x1="{left}" x2="{width - right}" y1="{floor}" y2="{floor}"/>')
        parts.append(f'<path class="area {kind}" d="{_steps(values, x, y)}"/>')
        for value in (high, 0.0):
            parts.append(f'<text x="{left - 5}" y="{y(value) + 3.5:.1f}" text-anchor="end">{short(value)}</text>')
        parts.append(f'<text class="note" x="{left}" y="{ceiling - 5}">{name}</text>')
    even = Scale(0.0, most, lower[1], lower[0])(1.0)
    parts.append(f'<line class="even" x1="{left}" x2="{width - right}" y1="{even:.1f}" y2="{even:.1f}"/>')
    for tick in axis_ticks(0, count - 1, 5):
        parts.append(f'<text x="{x(tick):.1f}" y="{lower[1] + 14}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<text class="note" x="{left - 8}" y="{lower[1] + 14}" text-anchor="end">frame</text>')
    width_of_strip = math.ceil(count / _MOST_STRIPS)
    for frame in range(0, count, width_of_strip):
        told = f"frame {frame}: " + (
            f"mean reward {reward[frame]:.3f}, started {weight[frame]:.2f} × as often as evenly"
            if math.isfinite(weight[frame])
            else "no start here"
        )
        parts.append(_strip(x(frame), x(min(frame + width_of_strip, count)), upper[0], lower[1], told))
    return _svg(width, lower[1] + 20, title, "".join(parts), f"{title}: mean reward and start weight per frame")


def axis_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers from below `low` to the last one not above `high`, about `count` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= 0.8 * rough)
    first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def short(value: float) -> str:
    """A number in few characters: 4.1M, 312k, 0.05."""
    if not math.isfinite(value):
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, as far as they matter."""
    if not math.isfinite(seconds):
        return "–"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minute:02d} min"
    return f"{minute} min {second:02d} s" if minute else f"{second} s"


def series_class(number: int) -> str:
    """Style classes of a series: colours first, then the same with dashes."""
    return f"c{number % COLOURS} d{number // COLOURS % _DASHES}"


def _svg(width: float, height: float, heading: str, body: str, label: str) -> str:
    title = f'<text class="heading" x="0" y="14">{escape(heading)}</text>'
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">{title}{body}</svg>'


def _axes(x: Scale, y: Scale, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str) -> str:
    parts = []
    for tick in y_ticks:
        at = y(tick)
        kind = "axis" if tick == y_ticks[0] else "mesh"
        parts.append(f'<line class="{kind}" x1="{x.start}" x2="{x.stop}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{x.start - 6}" y="{at + 3.5:.1f}" text-anchor="end">{short(tick)}</text>')
    for tick in x_ticks:
        parts.append(f'<text x="{x(tick):.1f}" y="{y.start + 15:.1f}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<text class="note" x="{x.stop}" y="{y.start + 27:.1f}" text-anchor="end">{escape(x_label)}</text>')
    return "".join(parts)


def _drawn_series(one: Series, x: Scale, y: Scale) -> str:
    style = series_class(one.number)
    parts = []
    if len(one.x) == 1:
        parts.append(f'<circle class="dot {style}" cx="{x(one.x[0]):.1f}" cy="{y(one.mean[0]):.1f}" r="2.5"/>')
    if one.runs > 1:
        band = f"{_points(one.x, one.high, x, y)} {_points(one.x[::-1], one.low[::-1], x, y)}"
        parts.append(f'<polygon class="band {style}" points="{band}"/>')
    if len(one.tail_x):
        parts.append(f'<polyline class="line tail {style}" points="{_points(one.tail_x, one.tail, x, y)}"/>')
    parts.append(f'<polyline class="line {style}" points="{_points(one.x, one.mean, x, y)}"/>')
    return "".join(parts)


def _points(at: Numbers, values: Numbers, x: Scale, y: Scale) -> str:
    return " ".join(f"{x(a):.1f},{y(value):.1f}" for a, value in zip(at, values, strict=True))


def _series_strips(series: Sequence[Series], x: Scale, frame: _Frame) -> str:
    parts = []
    edges = np.linspace(x.low, x.high, _STRIPS + 1)
    for low, high in pairwise(edges):
        middle = (low + high) / 2
        told = [f"{short(middle)} samples"]
        for one in series:
            if len(one.tail_x) and one.x[-1] < middle <= one.reach:
                told.append(f"{one.name}: {short(float(np.interp(middle, one.tail_x, one.tail)))} (one run)")
            elif one.x[0] <= high and low <= one.x[-1]:
                value, least, most = (float(np.interp(middle, one.x, v)) for v in (one.mean, one.low, one.high))
                spread = f" ({short(least)} … {short(most)})" if one.runs > 1 else ""
                told.append(f"{one.name}: {short(value)}{spread}")
        if len(told) > 1:
            parts.append(_strip(x(low), x(high), frame.top, frame.height - frame.bottom, "\n".join(told)))
    return "".join(parts)


def _strip(left: float, right: float, top: float, bottom: float, told: str) -> str:
    box = f'x="{left:.1f}" y="{top:g}" width="{right - left:.2f}" height="{bottom - top:g}"'
    return f'<rect class="strip" {box}><title>{escape(told)}</title></rect>'


def _steps(values: Numbers, x: Scale, y: Scale) -> str:
    """A closed path with one step per frame; a gap falls to the floor."""
    path = [f"M{x(0):.1f},{y(0):.1f}"]
    for frame, value in enumerate(values):
        at = y(float(value)) if math.isfinite(value) else y(0.0)
        path.append(f"V{at:.1f}H{x(frame + 1):.1f}")
    return "".join([*path, f"V{y(0):.1f}Z"])
