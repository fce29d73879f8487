"""Training curves: many noisy logs as one line per method with a band over its runs.

Shape letters: G points of a line.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skillfield.reporting.charts import Series, line_chart
from skillfield.reporting.runs import RunRecord

__all__ = ["curve", "curve_charts", "stage_changes"]

Numbers = NDArray[np.float64]

_POINTS = 120  # more than a chart has pixels for is noise


def stage_changes(groups: Mapping[str, Sequence[RunRecord]]) -> dict[int, list[str]]:
    """What changes for anyone after how many samples, as far as any run came: settings and their new values."""
    reach = max((run.metrics[-1]["samples"] for runs in groups.values() for run in runs), default=0)
    found: dict[int, dict[str, None]] = {}
    for stage in (stage for runs in groups.values() for run in runs for stage in run.config.get("stages", ())):
        if stage["after"] <= reach:
            changes = {f"{name} {value}": None for name, value in stage["changes"].items()}
            found.setdefault(stage["after"], {}).update(changes)
    return {after: list(found[after]) for after in sorted(found)}


def curve_charts(groups: Mapping[str, Sequence[RunRecord]], skills: Sequence[str]) -> list[str]:
    """A chart of each metric that any run logged: reward, reward per skill on the same scale, speed, KL. Stages are
    marked."""
    wanted = {"reward": "reward"}
    wanted |= {f"reward/{skill}": f"reward · {skill}" for skill in skills}
    wanted |= {"samples_per_second": "samples per second", "kl": "KL divergence per update"}
    lines = {metric: _lines(groups, metric) for metric in wanted}
    rewards = [one.highest for metric, some in lines.items() if metric.startswith("reward") for one in some]
    top, marks = max(rewards, default=1.0), list(stage_changes(groups))
    return [
        line_chart(title, lines[metric], top if metric.startswith("reward") else None, marks=marks)
        for metric, title in wanted.items()
        if lines[metric]
    ]


def curve(name: str, runs: Sequence[RunRecord], metric: str, number: int = 0) -> Series | None:
    """Mean and range of a metric over runs as far as all of them came, then the longest; None if none logged it."""
    logs = [log for run in runs if len((log := _log(run, metric))[0])]
    if not logs:
        return None
    first, last = max(x[0] for x, _ in logs), min(x[-1] for x, _ in logs)
    grid = np.linspace(first, last, _POINTS) if last > first else np.array([last])
    values = np.stack([_resampled(x, y, grid) for x, y in logs])  # [runs, G]
    x, y = max(logs, key=lambda log: float(log[0][-1]))
    beyond = np.linspace(last, x[-1], _POINTS) if x[-1] > last else np.empty(0)
    return Series(
        name=name,
        x=grid,
        mean=values.mean(axis=0),
        low=values.min(axis=0),
        high=values.max(axis=0),
        runs=len(logs),
        number=number,
        tail_x=beyond,
        tail=_resampled(x, y, beyond) if len(beyond) else beyond,
    )


def _lines(groups: Mapping[str, Sequence[RunRecord]], metric: str) -> list[Series]:
    found = (curve(method, runs, metric, number) for number, (method, runs) in enumerate(groups.items()))
    return [one for one in found if one is not None]


def _log(run: RunRecord, metric: str) -> tuple[Numbers, Numbers]:
    """Samples and values of the lines that have a finite one."""
    pairs = [(entry["samples"], entry[metric]) for entry in run.metrics if metric in entry]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    table = table[np.isfinite(table).all(axis=1)]
    return table[:, 0], table[:, 1]


def _resampled(x: Numbers, y: Numbers, grid: Numbers) -> Numbers:
    """Mean of what was logged around each point; where nothing was, the straight line between neighbours.  [G]"""
    edges = np.concatenate(([-np.inf], (grid[1:] + grid[:-1]) / 2, [np.inf]))
    place = np.searchsorted(edges, x, side="right") - 1
    inside = (x >= grid[0]) & (x <= grid[-1])
    count = np.bincount(place[inside], minlength=len(grid))
    total = np.bincount(place[inside], weights=y[inside], minlength=len(grid))
    return np.where(count > 0, total / np.maximum(count, 1), np.interp(grid, x, y))
