"""Methods beside each other: bars of every success rate, skill by skill, with their intervals."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from skillfield.evaluation import Evaluation
from skillfield.evaluation.metrics import wilson_interval
from skillfield.reporting.charts import Scale, series_class
from skillfield.reporting.results import Figure
from skillfield.reporting.runs import RunRecord

__all__ = ["Bar", "comparison_bars", "rate_bar"]

_WIDTH, _HEIGHT = 1080.0, 176.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 2.0, 26.0, 22.0
_BETWEEN = 0.25  # of a skill's width is left free
_WIDEST = 44.0  # pixels of a bar
_TICKS = (0, 25, 50, 75, 100)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Bar:
    """A rate and the range that it may well lie in, both 0 to 1."""

    rate: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class _Metric:
    title: str
    rate: Callable[[Evaluation, str], float]
    interval: Callable[[Evaluation, str], Interval | None]


def _into_interval(result: Evaluation, skill: str) -> Interval | None:
    rate = result.transitions_into().get(skill, math.nan)
    trials = result.transition_trials * sum(skill in targets for targets in result.transition_rate.values())
    return wilson_interval(round(rate * trials), trials) if math.isfinite(rate) and trials else None


_METRICS = (
    _Metric(
        "SR: from demonstrated states",
        lambda result, skill: result.success_rate.get(skill, math.nan),
        lambda result, skill: result.success_interval.get(skill),
    ),
    _Metric(
        "TSR: into the skill, from states of all others",
        lambda result, skill: result.transitions_into().get(skill, math.nan),
        _into_interval,
    ),
    _Metric(
        "εNSR: from perturbed states",
        lambda result, skill: result.neighbourhood_rate.get(skill, math.nan),
        lambda result, skill: result.neighbourhood_interval.get(skill),
    ),
)


def comparison_bars(groups: Mapping[str, Sequence[RunRecord]], skills: Sequence[str]) -> list[str]:
    """One chart per metric: skills along x, a bar per method. Nothing if nobody was evaluated."""
    found = {method: [run.evaluation for run in runs if run.evaluation] for method, runs in groups.items()}
    if not any(found.values()):
        return []
    return [_chart(metric, found, skills) for metric in _METRICS]


def rate_bar(rates: Sequence[float], intervals: Sequence[Interval | None]) -> Bar | None:
    """The 95 % interval of a single run; for several, the mean and one sample standard deviation either way."""
    figure = Figure.of(rates)
    if not figure.runs:
        return None
    if figure.runs > 1:
        low, high = figure.mean - figure.spread, figure.mean + figure.spread
    else:
        known = [interval for rate, interval in zip(rates, intervals, strict=True) if math.isfinite(rate) and interval]
        low, high = known[0] if known else (figure.mean, figure.mean)
    return Bar(figure.mean, max(0.0, low), min(1.0, high), figure.runs)


def _chart(metric: _Metric, found: Mapping[str, list[Evaluation]], skills: Sequence[str]) -> str:
    y = Scale(0.0, 1.0, _HEIGHT - _BOTTOM, _TOP)
    room = (_WIDTH - _LEFT - _RIGHT) / len(skills)
    width = min(_WIDEST, room * (1 - _BETWEEN) / len(found))
    parts = [f'<text class="heading" x="0" y="14">{escape(metric.title)}, %</text>']
    for tick in _TICKS:
        at, kind = y(tick / 100), "mesh" if tick else "axis"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 3.5:.1f}" text-anchor="end">{tick}</text>')
    for number, skill in enumerate(skills):
        middle = _LEFT + (number + 0.5) * room
        parts.append(
            f'<text class="name" x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(skill)}</text>'
        )
        for place, (method, results) in enumerate(found.items()):
            rates = [metric.rate(result, skill) for result in results]
            bar = rate_bar(rates, [metric.interval(result, skill) for result in results])
            if bar is not None:
                left = middle + (place - len(found) / 2) * width
                parts.append(_drawn(bar, left, width, y, series_class(place), f"{method}, {skill}"))
    label = escape(f"{metric.title}: bars per skill and method")
    return f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _drawn(bar: Bar, left: float, width: float, y: Scale, style: str, name: str) -> str:
    of = f"{bar.runs} runs, ± one standard deviation" if bar.runs > 1 else "95 % interval"
    told = f"{name}: {100 * bar.rate:.1f} % ({100 * bar.low:.1f} … {100 * bar.high:.1f}; {of})"
    thin = 0.86 * width
    top, middle = y(bar.rate), left + width / 2
    box = f'x="{left + 0.07 * width:.1f}" y="{top:.1f}" width="{thin:.1f}" height="{y.start - top:.1f}"'
    low, high, cap = y(bar.low), y(bar.high), min(4.0, 0.25 * width)
    whisker = f"M{middle:.1f},{low:.1f}V{high:.1f}M{middle - cap:.1f},{low:.1f}h{2 * cap:.1f}"
    whisker += f"M{middle - cap:.1f},{high:.1f}h{2 * cap:.1f}"
    return (
        f'<g class="rate {style}"><title>{escape(told)}</title><rect class="column" {box}/>'
        f'<path class="whisker" d="{whisker}"/></g>'
    )
