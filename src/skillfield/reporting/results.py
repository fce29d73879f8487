"""The paper's tables as HTML: figures per method and skill, and transitions as heat maps."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from skillfield.evaluation import Evaluation
from skillfield.files import typed
from skillfield.program import program
from skillfield.reporting.runs import RunRecord

__all__ = ["Figure", "results_table", "transition_heat_map"]

_MISSING = "–"
_STRONG = 0.8  # from here on, light figures read better than dark ones on the heat map's colour

_METRICS = (
    ("success_rate", "SR", 100.0, 1),
    ("neighbourhood_rate", "εNSR", 100.0, 1),
    ("normalised_reward", "NR", 1.0, 2),
)
"""Field of an evaluation, name in the paper, factor to the paper's unit, decimals."""


@dataclass(frozen=True)
class Figure:
    """A number over runs."""

    mean: float
    spread: float
    """Sample standard deviation; not a number for a single run."""
    runs: int

    @staticmethod
    def of(values: Iterable[float]) -> "Figure":
        """Mean and spread of what is finite."""
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return Figure(math.nan, math.nan, 0)
        mean = sum(known) / len(known)
        squares = sum((value - mean) ** 2 for value in known)
        return Figure(mean, math.sqrt(squares / (len(known) - 1)) if len(known) > 1 else math.nan, len(known))

    def text(self, factor: float, decimals: int) -> tuple[str, str]:
        """The mean, and ± the spread where there is one."""
        mean = f"{factor * self.mean:.{decimals}f}" if self.runs else _MISSING
        return mean, f"± {factor * self.spread:.{decimals}f}" if self.runs > 1 else ""


@dataclass(frozen=True)
class _Column:
    """One metric of one skill, or of all."""

    heading: str
    figures: Mapping[str, Figure]
    factor: float
    decimals: int
    first: bool
    """Begins a block of columns."""
    hints: Mapping[str, str]
    """More about a method's number, on hover."""

    def best(self) -> str | None:
        """The highest mean as it is printed, if there is anything to compare."""
        means = [figure.mean for figure in self.figures.values() if figure.runs]
        return f"{self.factor * max(means):.{self.decimals}f}" if len(means) > 1 else None


def results_table(groups: Mapping[str, Sequence[RunRecord]], skills: Sequence[str]) -> str:
    """Methods as rows; SR, εNSR and NR of each skill, their averages, and average TSR."""
    found = {method: _evaluations(runs) for method, runs in groups.items()}
    blocks = [(skill, _skill_columns(found, skill)) for skill in skills] if any(found.values()) else []
    blocks += [("average", _average_columns(found)), ("transitions", [_transition_column(found)])]
    columns = [column for _, block in blocks for column in block]
    spans = "".join(f'<th class="first" colspan="{len(block)}">{_name(name)}</th>' for name, block in blocks)
    heads = "".join(f"<th{_class('first' * column.first)}>{column.heading}</th>" for column in columns)
    rows = []
    for method, results in found.items():
        count = f"<small>{len(results)} runs</small>" if len(results) > 1 else ""
        cells = "".join(_cell(column, method) for column in columns)
        if not results:
            cells = f'<td class="first none" colspan="{len(columns)}">not evaluated</td>'
        rows.append(f'<tr><th class="method" scope="row">{escape(method)}{count}</th>{cells}</tr>')
    return (
        f'<div class="wide"><table class="results"><thead><tr><th class="method" rowspan="2">method</th>{spans}</tr>'
        f"<tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{_not_evaluated(groups)}"
    )


def transition_heat_map(
    method: str, runs: Sequence[RunRecord], skills: Sequence[str], link: Callable[[int, int], str] | None = None
) -> str:
    """TSR of every ordered pair; rows are where a trial starts, columns what is asked for. Empty if never measured.

    link: id of what a pair's cell leads to, by the numbers of its skills; cells lead nowhere if not given.
    """
    results = _evaluations(runs)
    if not any(any(result.transition_rate.values()) for result in results):
        return ""
    heads = "".join(f"<th>{_name(skill)}</th>" for skill in skills)
    rows = []
    for i, source in enumerate(skills):
        cells = "".join(
            _transition_cell(results, source, target, link(i, j) if link else None) for j, target in enumerate(skills)
        )
        rows.append(f'<tr><th scope="row">{_name(source)}</th>{cells}</tr>')
    into = [_heat(_pairs_into(results, target), f"all transitions into {target}") for target in skills]
    rows.append(f'<tr class="mean"><th scope="row">mean</th>{"".join(into)}</tr>')
    note = f"<small>mean of {len(results)} runs</small>" if len(results) > 1 else ""
    return (
        f"<figure><figcaption>{escape(method)} {note}</figcaption>"
        f'<table class="heat"><thead><tr><td class="corner">from ↓ to →</td>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></figure>"
    )


def _evaluations(runs: Sequence[RunRecord]) -> list[Evaluation]:
    return [run.evaluation for run in runs if run.evaluation is not None]


def _skill_columns(found: Mapping[str, list[Evaluation]], skill: str) -> list[_Column]:
    columns = []
    for number, (metric, heading, factor, decimals) in enumerate(_METRICS):
        figures = {
            method: Figure.of(getattr(result, metric).get(skill, math.nan) for result in results)
            for method, results in found.items()
        }
        hints = {method: _interval(results, metric, skill) for method, results in found.items()}
        columns.append(_Column(heading, figures, factor, decimals, number == 0, hints))
    return columns


def _average_columns(found: Mapping[str, list[Evaluation]]) -> list[_Column]:
    return [
        _Column(heading, _averages(found, metric), factor, decimals, number == 0, {})
        for number, (metric, heading, factor, decimals) in enumerate(_METRICS)
    ]


def _transition_column(found: Mapping[str, list[Evaluation]]) -> _Column:
    return _Column("TSR", _averages(found, "transition_rate"), 100.0, 1, True, {})


def _averages(found: Mapping[str, list[Evaluation]], metric: str) -> dict[str, Figure]:
    return {method: Figure.of(result.averages()[metric] for result in results) for method, results in found.items()}


def _interval(results: Sequence[Evaluation], metric: str, skill: str) -> str:
    """The 95 % interval of a single run's rate."""
    field = {"success_rate": "success_interval", "neighbourhood_rate": "neighbourhood_interval"}.get(metric)
    interval = getattr(results[0], field).get(skill) if field and len(results) == 1 else None
    return f"95 % interval: {100 * interval[0]:.1f} … {100 * interval[1]:.1f} %" if interval else ""


def _cell(column: _Column, method: str) -> str:
    mean, spread = column.figures[method].text(column.factor, column.decimals)
    shown = f"<b>{mean}</b>" if mean == column.best() else mean
    small = f"<small>{spread}</small>" if spread else ""
    hint = column.hints.get(method)
    title = f' title="{escape(hint)}"' if hint else ""
    return f"<td{_class('first' * column.first)}{title}>{shown}{small}</td>"


def _transition_cell(results: Sequence[Evaluation], source: str, target: str, leads_to: str | None) -> str:
    if source == target:
        return '<td class="same"></td>'
    rates = [result.transition_rate.get(source, {}).get(target, math.nan) for result in results]
    return _heat(rates, f"{source} → {target}", leads_to)


def _pairs_into(results: Sequence[Evaluation], target: str) -> list[float]:
    return [result.transitions_into().get(target, math.nan) for result in results]


def _heat(rates: Sequence[float], told: str, leads_to: str | None = None) -> str:
    figure = Figure.of(rates)
    mean, spread = figure.text(100.0, 1)
    shown = f'<a href="#{leads_to}">{mean}</a>' if leads_to else mean
    if not figure.runs:
        return f"<td>{shown}</td>"
    strong = _class("strong" if figure.mean > _STRONG else "")
    share = f"--v:{100 * min(max(figure.mean, 0.0), 1.0):.0f}%"
    return f'<td{strong} style="{share}" title="{escape(f"{told}: {mean} % {spread}".rstrip())}">{shown}</td>'


def _not_evaluated(groups: Mapping[str, Sequence[RunRecord]]) -> str:
    items = [
        f"<li>{escape(str(run.folder))} is not evaluated: "
        f"<code>{escape(f'{program()} evaluate {typed(run.folder)}')}</code></li>"
        for runs in groups.values()
        for run in runs
        if run.evaluation is None
    ]
    return f'<ul class="todo">{"".join(items)}</ul>' if items else ""


def _name(skill: str) -> str:
    return escape(skill).replace("_", "_<wbr>")


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
