"""The table of an experiment: means over seeds beside the paper's figures, and whether what must hold does."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillfield.errors import ConfigError
from skillfield.evaluation import Evaluation
from skillfield.experiments.published import PAIRS, PUBLISHED
from skillfield.experiments.tables import Band, Experiment
from skillfield.files import atomic_file, write_errors, write_json

__all__ = ["band_holds", "describe_band", "table_markdown", "write_table"]

Pairs = Mapping[str, tuple[str, str]]
"""Name in the paper → source and target skill."""

Results = Mapping[str, Sequence[Evaluation]]
"""Row → what was measured of each of its runs."""

_SAME = 0.01  # samples of runs are told apart if they differ by more than this share

_DIGITS = 9  # of a share; what is beyond them is arithmetic

_NOISE_NOTE = """
Rows such as sm@10mm were trained on clips whose objects were moved at random by up to 10 mm along each axis, and \
tested from the states of these same clips.
"""


def write_table(
    folder: Path,
    chosen: Experiment,
    task: str,
    results: Results,
    samples: int,
    pace: float = 1.0,
    num_envs: int | None = None,
) -> None:
    """table.md and table.json, with the acceptance bands.

    samples: training samples that were asked for. pace: at which the runs went through the task's stages.
    num_envs: their worlds, if not as many as the task has.
    """
    results = {label: found for label, found in results.items() if found}
    pairs, published = PAIRS.get(task, {}), PUBLISHED.get(task, {})
    figures = {label: _figures(found, pairs) for label, found in results.items()}
    counts = {label: len(found) for label, found in results.items()}
    bands = chosen.bands.get(task, ())
    table = table_markdown(figures, counts, bands, published, pairs)
    noise = _NOISE_NOTE if any(row.noise_mm for row in chosen.rows) else ""
    changed = "" if pace == 1.0 else f"Stages at a pace of {pace:g}. "
    changed += "" if num_envs is None else f"{num_envs:,} worlds each. "
    with write_errors(ConfigError):
        write_json(
            folder / "table.json",
            {
                "experiment": chosen.name,
                "task": task,
                "figures": {
                    label: {key: dict(zip(("mean", "spread"), value, strict=True)) for key, value in row.items()}
                    for label, row in figures.items()
                },
                "published": {label: published[label] for label in figures if label in published},
                "runs": counts,
                "pace": pace,
                "num_envs": num_envs,
                "samples": {label: [result.samples for result in found] for label, found in results.items()},
                "devices": {label: [result.device for result in found] for label, found in results.items()},
                "bands": [
                    {"band": describe_band(band, pairs), "holds": band_holds(band, _means(figures))} for band in bands
                ],
            },
        )
        with atomic_file(folder / "table.md") as temporary:
            temporary.write_text(f"{table}{noise}\n{_trained(results, samples)}{changed}{_measured(results)}\n")


def _trained(results: Results, asked: int) -> str:
    """How many samples the runs had; of every row, if that is not what was asked for."""
    counts = {label: [run.samples for run in found if run.samples is not None] for label, found in results.items()}
    spans = {label: _span(found) for label, found in counts.items() if found}
    if not spans:
        return ""
    if all(abs(count - asked) <= _SAME * asked for found in counts.values() for count in found):
        return f"Trained with {asked:,} samples. "
    return f"Trained with {_by_row(spans)} samples, where {asked:,} were asked for. "


def _measured(results: Results) -> str:
    """With how many trials; and on which device, if not all were on the same."""
    trials = sorted({run.measured_with() for found in results.values() for run in found})
    kinds = {label: sorted({run.device or "?" for run in found}) for label, found in results.items()}
    several = len({kind for row in kinds.values() for kind in row}) > 1
    where = f" Measured on {_by_row({label: ' and '.join(row) for label, row in kinds.items()})}." if several else ""
    return f"Measured with {' or '.join(trials)}.{where}" if trials else ""


def _by_row(words: Mapping[str, str]) -> str:
    """What is to be said of every row; once, if it is the same of all."""
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(f"{each} ({label})" for label, each in words.items())


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def describe_band(band: Band, pairs: Pairs) -> str:
    """For the table's footer, with the names that its columns have."""
    metric, _, skill = band.metric.partition("/")
    names = {name: heading for heading, name in _averages(pairs).items()}
    figure = f"{names.get(metric, metric)} of {skill}" if skill else names.get(metric, metric)
    if band.above and not band.at_least:
        return f"{band.row}: {figure} above {band.above}"
    versus = f" above {band.above}" if band.above else ""
    return f"{band.row}: {figure}{versus} ≥ {band.at_least:g}"


def band_holds(band: Band, figures: Mapping[str, Mapping[str, float]]) -> bool | None:
    """Whether it does; None if a figure is missing. Whoever is to be above another one is not so with the same."""
    own = figures.get(band.row, {}).get(band.metric, math.nan)
    base = figures.get(band.above, {}).get(band.metric, math.nan) if band.above else 0.0
    gap = round(own - base - band.at_least, _DIGITS)
    if math.isnan(gap):
        return None
    return gap > 0 if band.above and not band.at_least else gap >= 0


def table_markdown(
    figures: Mapping[str, Mapping[str, tuple[float, float]]],
    runs: Mapping[str, int],
    bands: tuple[Band, ...],
    published: Mapping[str, Mapping[str, float]] | None = None,
    pairs: Pairs | None = None,
) -> str:
    """Rows by their labels; SR, εNSR and NR per skill, then the averages and TSR; mean ± spread over several seeds.

    published: the paper's figures, which follow each row's own.
    pairs: those whose mean the paper calls TSR; they and their mean are shown beside the mean of all.
    """
    skills = [
        key.removeprefix("success_rate/") for key in next(iter(figures.values()), {}) if key.startswith("success_rate/")
    ]
    pairs = pairs or {}
    averages = _averages(pairs)
    header = ["method", "seeds", *(f"{skill}<br>SR / εNSR / NR" for skill in skills)]
    header += [*([f"TSR<br>{' / '.join(pairs)}"] if pairs else []), *averages]
    lines = [f"| {' | '.join(header)} |", f"| {' | '.join(['---', *['---:'] * (len(header) - 1)])} |"]
    for label, row in figures.items():
        cells = [label, str(runs[label]), *_detail_cells(_means({label: row})[label], skills, pairs)]
        cells += [_mean_cell(metric, *row[metric]) for metric in averages.values()]
        lines.append(f"| {' | '.join(cells)} |")
        if published and label in published:
            paper = published[label]
            cells = _detail_cells(paper, skills, pairs)
            cells += [_number(metric, paper[metric]) if metric in paper else "" for metric in averages.values()]
            lines.append(f"| *published* |  | {' | '.join(f'*{cell}*' if cell else '' for cell in cells)} |")
    verdict = {True: "holds", False: "**does not hold**", None: "not measured yet"}
    means = _means(figures)
    lines += ["", *(f"- {describe_band(band, pairs)}: {verdict[band_holds(band, means)]}" for band in bands)]
    return "\n".join(lines) + "\n"


def _averages(pairs: Pairs) -> dict[str, str]:
    """Heading → metric of the last columns."""
    across = {"TSR": "transition_rate"}
    if pairs:
        across = {
            f"TSR, the paper's {len(pairs)} pairs": "paper_transition_rate",
            "TSR, all pairs": "transition_rate",
        }
    return {"SR": "success_rate", **across, "εNSR": "neighbourhood_rate", "NR": "normalised_reward"}


def _number(metric: str, value: float) -> str:
    """As the table has it; a dash for what could not be measured."""
    if math.isnan(value):
        return "–"
    return f"{value:.2f}" if metric.startswith("normalised_reward") else f"{100 * value:.1f}"


def _mean_cell(metric: str, mean: float, spread: float) -> str:
    """With the spread, where there is one."""
    return _number(metric, mean) + ("" if math.isnan(spread) else f" ± {_number(metric, spread)}")


def _detail_cells(row: Mapping[str, float], skills: list[str], pairs: Pairs) -> list[str]:
    """A cell per skill, and one for the paper's pairs where it has some; empty where a row has only averages."""
    cells = [_skill_cell(row, skill) for skill in skills]
    if pairs:
        names = [f"transition_rate/{source}/{target}" for source, target in pairs.values()]
        cells.append(" / ".join(_number(name, row[name]) for name in names if name in row))
    return cells


def _skill_cell(row: Mapping[str, float], skill: str) -> str:
    """SR, εNSR and NR of one skill; empty where a row has only averages."""
    if f"success_rate/{skill}" not in row:
        return ""
    names = [f"{metric}/{skill}" for metric in ("success_rate", "neighbourhood_rate", "normalised_reward")]
    return " / ".join(_number(name, row[name]) for name in names)


def _figures(found: Sequence[Evaluation], pairs: Pairs) -> dict[str, tuple[float, float]]:
    """Mean and sample spread over seeds of every average, of every skill's figures, and of the paper's pairs."""
    rows: dict[str, list[float]] = {}
    for result in found:
        for metric in ("success_rate", "neighbourhood_rate", "normalised_reward"):
            values: dict[str, float] = getattr(result, metric)
            for skill, value in values.items():
                rows.setdefault(f"{metric}/{skill}", []).append(value)
        for skill, value in result.transitions_into().items():
            rows.setdefault(f"transition_rate/{skill}", []).append(value)
        for metric, value in result.averages().items():
            rows.setdefault(metric, []).append(value)
        chosen = [result.transition_rate[source][target] for source, target in pairs.values()]
        for (source, target), value in zip(pairs.values(), chosen, strict=True):
            rows.setdefault(f"transition_rate/{source}/{target}", []).append(value)
        if chosen:
            rows.setdefault("paper_transition_rate", []).append(sum(chosen) / len(chosen))
    return {key: _mean_and_spread(values) for key, values in rows.items()}


def _means(figures: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, dict[str, Any]]:
    return {label: {key: mean for key, (mean, _) in row.items()} for label, row in figures.items()}


def _mean_and_spread(values: list[float]) -> tuple[float, float]:
    """One value has no spread."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
