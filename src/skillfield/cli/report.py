"""`skillfield report`: one page about any number of runs."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import permutations
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.cli.films import Scene, film, load_performers
from skillfield.configuration import to_dict
from skillfield.errors import ConfigError, NoRendererError, SkillfieldError
from skillfield.experiments.methods import METHODS
from skillfield.experiments.run import load_config
from skillfield.files import atomic_file, shown_files
from skillfield.reporting.report import report_page
from skillfield.reporting.runs import RunRecord, by_method, filmed_run, read_run, transition_video_path, video_path
from skillfield.reporting.script import Part, find_skill

__all__ = ["Report", "write_report"]

_FILM_SECONDS = 3.0
_SOURCE_SECONDS, _TARGET_SECONDS = 1.0, 2.5  # of a transition
_FILM_SIZE = (480, 360)
_TRANSITION_SIZE = (320, 240)


@dataclass(frozen=True)
class Report:
    """Put runs side by side on one HTML page: results as in the paper, curves, transitions, the stitched graph, films.

    Runs of the same task and method that began alike are averaged. The page is one file and needs no network.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders that hold some."""
    out: Path = Path("report.html")
    """Page to write."""
    videos: bool = True
    """Show films of one run per method: those in RUN/videos; what is missing there is filmed now."""
    transitions: tuple[str, ...] = ("all",)
    """Which transitions to film and show: all, none, or pairs such as hold:toss, of tasks that have both. Films that
    exist are always shown."""
    data: Path | None = None
    """Folder of imported recordings, if they lie elsewhere than in training."""

    def run(self) -> int:
        """Read, film, write; print where the page is."""
        write_report(self.runs, self.out, videos=self.videos, transitions=self.transitions, data=self.data)
        print(self.out)
        return 0


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    videos: bool = True,
    transitions: Sequence[str] = ("all",),
    data: Path | None = None,
) -> None:
    """Write the page. Every run is read before anything is filmed or written."""
    if out.is_dir():
        raise ConfigError(f"{out} is a folder; --out names the page to write")
    records = [_record(folder) for folder in _run_folders(folders)]
    places = list(METHODS)
    records.sort(key=lambda record: places.index(record.method) if record.method in places else len(places))
    pairs = _pairs(transitions, {record.task: record.skills for record in records})
    notes = _film_missing(records, pairs, data) if videos else []
    page = report_page(records, datetime.now(), _version(), videos=videos, notes=notes)
    try:
        with atomic_file(out) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except OSError as problem:
        raise SkillfieldError(f"{out}: cannot be written: {problem.strerror or problem}") from None


def _record(folder: Path) -> RunRecord:
    """What a run's folder tells, with the settings that held in the end."""
    config = load_config(folder)
    record = read_run(folder, to_dict(config))
    return replace(record, latest=to_dict(config.at(record.samples)))


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
        inside = [folder] if (folder / "config.json").is_file() else shown_files(folder, "*/config.json")
        if not inside:
            raise ConfigError(f"{folder} is no run folder: it has no config.json")
        for path in inside:
            run = path if path == folder else path.parent
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _pairs(transitions: Sequence[str], skills: Mapping[str, Sequence[str]]) -> dict[str, list[tuple[str, str]]]:
    """The ordered pairs of skills that the choices stand for, task by task. A pair that some tasks lack is one of the
    others.

    skills: of each task.
    """
    chosen: dict[str, list[tuple[str, str]]] = {task: [] for task in skills}
    for choice in transitions:
        problems = []
        for task, known in skills.items():
            try:
                chosen[task] += _chosen(choice, known)
            except ConfigError as problem:
                problems.append(f"{task}: {problem}")
        if len(problems) == len(skills):
            raise ConfigError(f"--transitions {choice}: {'; '.join(problems)}")
    return {task: list(dict.fromkeys(pairs)) for task, pairs in chosen.items()}


def _chosen(choice: str, skills: Sequence[str]) -> list[tuple[str, str]]:
    """The ordered pairs of a task's skills that a choice stands for."""
    if choice in ("all", "none"):
        return list(permutations(skills, 2)) if choice == "all" else []
    source, colon, target = choice.partition(":")
    if not colon:
        raise ConfigError(f"'{choice}' is no pair; say all, none, or for instance {':'.join(skills[:2])}")
    pair = (find_skill(source, skills), find_skill(target, skills))
    if len(set(pair)) == 1:
        raise ConfigError("a transition leads to another skill")
    return [pair]


def _film_missing(
    records: Sequence[RunRecord], pairs: Mapping[str, Sequence[tuple[str, str]]], data: Path | None
) -> list[str]:
    """Film what has no film yet, one run per method; what is not possible is said here, and in the lines that are
    returned for the page."""
    notes: list[str] = []
    shown = {record.task for record in records if record.evaluation and record.evaluation.transition_rate}

    def note(text: str) -> None:
        notes.append(text)
        print(f"note: {text}", file=sys.stderr)

    for task, wanted in pairs.items():
        for group in by_method([record for record in records if record.task == task]).values():
            run = filmed_run(group)
            try:
                performers = None
                for size, films in (
                    (_FILM_SIZE, _skill_films(run)),
                    (_TRANSITION_SIZE, _pair_films(run, wanted if task in shown else ())),
                ):
                    if films:
                        performers = performers or load_performers([run.folder], data)
                        for path in film(performers, films, size, compact=True):
                            print(f"filming {path}", file=sys.stderr)
            except NoRendererError as problem:
                note(f"No films: {problem}")
                return notes
            except SkillfieldError as problem:
                note(f"No films of {run.label}: {problem}")
    return notes


def _skill_films(run: RunRecord) -> dict[Path, Sequence[Scene]]:
    missing = [skill for skill in run.skills if skill not in run.videos()]
    paths = {skill: video_path(run.folder, skill) for skill in missing}
    return {path: [(Part(skill, _FILM_SECONDS),)] for skill, path in paths.items() if path}


def _pair_films(run: RunRecord, pairs: Sequence[tuple[str, str]]) -> dict[Path, Sequence[Scene]]:
    films: dict[Path, Sequence[Scene]] = {}
    for source, target in pairs:
        path = transition_video_path(run.folder, source, target)
        if path and (source, target) not in run.transition_videos() and source in run.skills and target in run.skills:
            films[path] = [(Part(source, _SOURCE_SECONDS), Part(target, _TARGET_SECONDS))]
    return films
