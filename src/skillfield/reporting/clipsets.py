"""Films on a page: sets of the same scene played by all methods, which start together and can be enlarged.

A set is shown large while it is the page's target, so that links to it work without a script as well.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from skillfield.errors import SkillfieldError
from skillfield.reporting.runs import RunRecord, filmed_run

__all__ = ["FilmRoom", "pair_id", "pair_sets", "skill_id", "skill_sets"]

Groups = Mapping[str, Sequence[RunRecord]]


@dataclass
class FilmRoom:
    """Bytes that a page may still spend on films."""

    left: int
    left_out: int = 0
    """Films that were not let in."""

    def source(self, path: Path) -> str | None:
        """A film as the value of `src`; None if there is no room for it."""
        try:
            if path.stat().st_size * 4 / 3 > self.left:
                self.left_out += 1
                return None
            data = base64.b64encode(path.read_bytes()).decode()
        except OSError as problem:
            raise SkillfieldError(f"{path}: cannot be read: {problem.strerror or problem}") from None
        self.left -= len(data)
        return f"data:video/mp4;base64,{data}"


def skill_id(task: int, skill: int) -> str:
    """Of the set of a skill's films, by numbers: names may hold anything."""
    return f"skill-{task}-{skill}"


def pair_id(task: int, source: int, target: int) -> str:
    """Of the set of a transition's films."""
    return f"pair-{task}-{source}-{target}"


def skill_sets(task: int, section: str, groups: Groups, skills: Sequence[str], room: FilmRoom) -> list[str]:
    """A set per skill with the film of every method that has one. section: id of where `close` leads."""
    runs = {method: filmed_run(group) for method, group in groups.items()}
    sets = []
    for number, skill in enumerate(skills):
        films = []
        for method, run in runs.items():
            path = run.videos().get(skill)
            source = room.source(path) if path else None
            if source:
                films.append(_film(source, method, run, f"SR {_rate(run, skill)}"))
        if films:
            sets.append(_set(skill_id(task, number), escape(skill), section, films, ""))
    return sets


def pair_sets(task: int, section: str, groups: Groups, skills: Sequence[str], room: FilmRoom) -> list[str]:
    """A set per ordered pair of skills, unseen until it is the target: its films, or how to get one."""
    runs = {method: filmed_run(group) for method, group in groups.items()}
    videos = {method: run.transition_videos() for method, run in runs.items()}
    sets = []
    for i, source in enumerate(skills):
        for j, target in enumerate(skills):
            if i == j:
                continue
            films, left_out = [], []
            for method, run in runs.items():
                path = videos[method].get((source, target))
                data = room.source(path) if path else None
                if data:
                    films.append(_film(data, method, run, f"TSR {_transition_rate(run, source, target)}"))
                elif path:
                    left_out.append(f"<code>{escape(str(path))}</code>")
            title = f"{escape(source)} → {escape(target)}"
            flag = escape(f"--transitions {source}:{target}")
            note = "" if films else f"<p>This page has no film of it. <code>{flag}</code> makes one.</p>"
            if left_out:
                note = f"<p>Left out to keep the page small: {', '.join(left_out)}</p>"
            sets.append(_set(pair_id(task, i, j), title, section, films, note, hidden=True))
    return sets


def _set(identifier: str, title: str, section: str, films: Sequence[str], note: str, *, hidden: bool = False) -> str:
    buttons = (
        '<button type="button" data-do="play">play or pause</button><button type="button" data-do="slow">slow</button>'
        if films
        else ""
    )
    enlarge = "" if hidden else f'<a class="enlarge" href="#{identifier}">enlarge</a>'
    close = f'<a class="close" href="#{escape(section)}">close</a>'
    return (
        f'<div class="set{" unseen" if hidden else ""}" id="{identifier}">'
        f'<div class="head"><h3>{title}</h3>{buttons}{enlarge}{close}</div>'
        f'<div class="films">{"".join(films)}</div>{note}</div>'
    )


def _film(source: str, method: str, run: RunRecord, rate: str) -> str:
    caption = f"{escape(method)} <small>seed {run.seed}, {escape(rate)}</small>"
    return (
        f'<figure><video controls muted loop playsinline preload="metadata" src="{source}"></video>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _rate(run: RunRecord, skill: str) -> str:
    return _percent(run.evaluation.success_rate.get(skill) if run.evaluation else None)


def _transition_rate(run: RunRecord, source: str, target: str) -> str:
    rates = run.evaluation.transition_rate.get(source, {}) if run.evaluation else {}
    return _percent(rates.get(target))


def _percent(rate: float | None) -> str:
    return "not measured" if rate is None else f"{100 * rate:.0f} %"
