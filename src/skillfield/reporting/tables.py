"""Results as tables: the same rows for the terminal and for a page."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rich.table import Table

__all__ = ["MetricTable"]

_MISSING = "–"
_AVERAGE = "average"


@dataclass(frozen=True)
class MetricTable:
    """Numbers per row and metric, with an average below. A metric whose name ends in % has one decimal, others two.

    A row may lack a metric; such a gap is shown as one and does not enter the average.
    """

    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, float]]
    """Row name (a skill, a method) → metric → value."""
    title: str = ""
    heading: str = "skill"
    """What the rows are."""
    average: bool = True
    """Add the mean of each column."""

    @staticmethod
    def of(results: Mapping[str, Mapping[str, float]], title: str = "", heading: str = "skill") -> "MetricTable":
        """A table of everything in `results`: one column per metric, in the order in which they first appear."""
        columns = tuple(dict.fromkeys(metric for row in results.values() for metric in row))
        return MetricTable(columns, results, title, heading)

    def averages(self) -> dict[str, float]:
        """The mean of each column over the rows that have it."""
        means = {}
        for column in self.columns:
            known = [row[column] for row in self.rows.values() if _is_known(row, column)]
            means[column] = sum(known) / len(known) if known else math.nan
        return means

    def rich(self) -> Table:
        """For the terminal."""
        table = Table(title=self.title or None, title_justify="left", header_style="bold")
        table.add_column(self.heading)
        for column in self.columns:
            table.add_column(column, justify="right")
        for number, row in enumerate(self._cells()):
            if number == len(self.rows):
                table.add_section()
            table.add_row(*row, style="bold" if number == len(self.rows) else None)
        return table

    def markdown(self) -> str:
        """For a page; ends with a line break."""
        header = [self.heading, *self.columns]
        rule = ["---", *("---:" for _ in self.columns)]
        lines = [f"| {' | '.join(row)} |" for row in (header, rule, *self._cells())]
        return "\n".join([f"**{self.title}**\n", *lines] if self.title else lines) + "\n"

    def _cells(self) -> list[list[str]]:
        rows = list(self.rows.items())
        if self.average:
            rows.append((_AVERAGE, self.averages()))
        return [[name, *(_format(row, column) for column in self.columns)] for name, row in rows]


def _is_known(row: Mapping[str, float], column: str) -> bool:
    return column in row and math.isfinite(row[column])


def _format(row: Mapping[str, float], column: str) -> str:
    if not _is_known(row, column):
        return _MISSING
    return f"{row[column]:.{1 if column.endswith('%') else 2}f}"
