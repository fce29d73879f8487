"""`skillfield report`: one page about any number of runs."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.cli.render import film_run
from skillfield.configuration import to_dict
from skillfield.errors import ConfigError, RenderError, SkillfieldError
from skillfield.experiments.methods import METHODS
from skillfield.experiments.run import load_config
from skillfield.files import atomic_file
from skillfield.reporting.report import report_page
from skillfield.reporting.runs import RunRecord, by_method, filmed_run, read_run, video_path

__all__ = ["Report", "write_report"]

_FILM_SECONDS = 3.0
_FILM_SIZE = (320, 240)


@dataclass(frozen=True)
class Report:
    """Put runs side by side on one HTML page: results as in the paper, curves, transitions, the stitched graph, films.

    Runs of the same task and method are averaged. The page is one file and needs no network.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders that hold some."""
    out: Path = Path("report.html")
    """Page to write."""
    videos: bool = True
    """Show films of one run per method: those in RUN/videos; what is missing there is filmed now."""

    def run(self) -> int:
        """Read, film, write; print where the page is."""
        write_report(self.runs, self.out, videos=self.videos)
        print(self.out)
        return 0


def write_report(folders: Sequence[Path], out: Path, *, videos: bool = True) -> None:
    """Write the page. Every run is read before anything is filmed or written."""
    if out.is_dir():
        raise ConfigError(f"{out} is a folder; --out names the page to write")
    records = [read_run(folder, to_dict(load_config(folder))) for folder in _run_folders(folders)]
    places = list(METHODS)
    records.sort(key=lambda record: places.index(record.method) if record.method in places else len(places))
    notes = _film_missing(records) if videos else []
    page = report_page(records, datetime.now(), _version(), videos=videos, notes=notes)
    try:
        with atomic_file(out) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except OSError as problem:
        raise SkillfieldError(f"{out}: cannot be written: {problem.strerror or problem}") from None


def _version() -> str:
    try:
        return version("skillfield")
    except PackageNotFoundError:  # run from a source tree
        return "from source"


def _run_folders(folders: Sequence[Path]) -> list[Path]:
    """The runs that were meant, each once."""
    if not folders:
        raise ConfigError("name at least one run folder")
    found: dict[Path, Path] = {}
    for folder in folders:
        inside = [folder] if (folder / "config.json").is_file() else sorted(folder.glob("*/config.json"))
        if not inside:
            raise ConfigError(f"{folder} is no run folder: it has no config.json")
        for path in inside:
            run = path if path == folder else path.parent
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _film_missing(records: Sequence[RunRecord]) -> list[str]:
    """Film what has no film yet, one run per method; the lines to print where that is not possible."""
    notes: list[str] = []
    for task in dict.fromkeys(record.task for record in records):
        for group in by_method([record for record in records if record.task == task]).values():
            run = filmed_run(group)
            missing = [skill for skill in run.skills if skill not in run.videos()]
            try:
                for skill in missing:
                    path = video_path(run.folder, skill)
                    if path is not None:
                        print(f"filming {skill}: {path}", file=sys.stderr)
                        film_run(run.folder, path, (skill,), _FILM_SECONDS, _FILM_SIZE)
            except RenderError as problem:
                return [*notes, f"No films: {problem}"]
            except SkillfieldError as problem:
                notes.append(f"No films of {run.method}: {problem}")
    return notes
