"""One self-contained page about any number of runs: results, curves, transitions, graph, sampling, films."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import NamedTuple

from skillfield.reporting.bars import comparison_bars
from skillfield.reporting.charts import duration, series_class, short
from skillfield.reporting.clipsets import FilmRoom, pair_id, pair_sets, skill_sets
from skillfield.reporting.connections import SIMILARITY_LEVELS, connection_pictures
from skillfield.reporting.curves import curve_charts, stage_changes
from skillfield.reporting.page import facts, html_page, legend, play_button, section
from skillfield.reporting.results import results_table, transition_heat_map
from skillfield.reporting.runs import RunRecord, as_many, by_method
from skillfield.reporting.starts import start_charts

__all__ = ["MAX_PAGE_BYTES", "report_page"]

MAX_PAGE_BYTES = 15_000_000
"""Films that would make the page larger are left out: browsers and mail programs choke on more."""

_SAME_RUN = ("seed", "threads")
"""Settings in which runs of one method may differ and still be called repetitions."""

Groups = Mapping[str, Sequence[RunRecord]]


class _Topic(NamedTuple):
    """One task's part of the page."""

    number: int
    task: str
    before: str
    """Goes in front of every title."""
    groups: Groups
    skills: tuple[str, ...]


def report_page(
    records: Sequence[RunRecord], made: datetime, version: str, *, videos: bool = True, notes: Sequence[str] = ()
) -> str:
    """The page as HTML.

    records: in the order in which their methods shall appear.
    videos: show the films that the run folders hold.
    notes: what could not be done, for people.
    """
    tasks: dict[str, list[RunRecord]] = {}
    for record in records:
        tasks.setdefault(record.task, []).append(record)
    title = f"{', '.join(tasks)}: {_plural(len({run.label for run in records}), 'method')}"
    topics = [
        _Topic(number, task, f"{task}: " if len(tasks) > 1 else "", by_method(runs), _skills(runs))
        for number, (task, runs) in enumerate(tasks.items())
    ]
    head, foot = _header(title, records, made, version), _runs(records)
    above = ["\n".join((_results(topic), _comparison(topic))) for topic in topics]
    below = [
        "\n".join((_transitions(topic, films=videos), _curves(topic), _connections(topic), _starts(topic)))
        for topic in topics
    ]
    written = len("".join((head, *above, *below, foot)).encode())
    room = FilmRoom(MAX_PAGE_BYTES - written - 100_000)  # for style and script
    films = [_films(topic, room) if videos else "" for topic in topics]
    pairs = [_pair_films(topic, room) if videos else "" for topic in topics]
    middle = [part for parts in zip(above, films, below, strict=True) for part in parts]
    return html_page(f"skillfield · {title}", "\n".join((head, *middle, _notes(notes, room), foot, *pairs)))


def _header(title: str, records: Sequence[RunRecord], made: datetime, version: str) -> str:
    methods = list(dict.fromkeys(run.label for run in records))
    seconds = sum(run.seconds for run in records)
    samples = sum(run.samples for run in records)
    values = [
        ("task", ", ".join(dict.fromkeys(run.task for run in records))),
        ("methods", ", ".join(methods)),
        ("runs", str(len(records))),
        ("samples in all", short(samples)),
        ("training time in all", duration(seconds)),
    ]
    about = f"Made {made:%Y-%m-%d %H:%M} with skillfield {version}"
    return f'<header><h1>{escape(title)}</h1><p class="made">{escape(about)}</p>{facts(values)}</header>'


def _results(topic: _Topic) -> str:
    results = [run.evaluation for runs in topic.groups.values() for run in runs if run.evaluation]
    settings = sorted({result.measured_with() for result in results})
    caption = (
        "SR: success rate (%) from reference states of the skill. εNSR: the same from their ε-neighbourhood. "
        "NR: mean reward per frame over all start frames. TSR: success rate (%) after starting in another skill, "
        "averaged over all ordered pairs. "
    )
    if settings:
        caption += f"Measured with {' or '.join(settings)}. "
    evaluated = [sum(run.evaluation is not None for run in runs) for runs in topic.groups.values()]
    if max(evaluated) > 1:
        caption += "± is the sample standard deviation over runs. "
    if sum(map(bool, evaluated)) > 1:
        caption += "Bold is the highest of a column. "
    return section(
        f"results-{topic.task}",
        f"{topic.before}Results",
        caption,
        results_table(topic.groups, topic.skills),
        _differences(topic.groups),
    )


def _differences(groups: Groups) -> str:
    """Say so where runs that are averaged differ in more than their seed, or have gone on since they were measured."""
    items = []
    for method, runs in groups.items():
        settings = [_flat(run.config) for run in runs]
        names = sorted({name for some in settings for name in some if name not in _SAME_RUN})
        differing = [name for name in names if len({repr(some.get(name)) for some in settings}) > 1]
        if differing:
            items.append(f"Runs of {method} differ in {', '.join(differing)}.")
        measured = sorted(run.measured_samples for run in runs if run.evaluation)
        if measured and not as_many(measured[0], measured[-1]):
            items.append(f"Runs of {method} were measured after {measured[0]:,} to {measured[-1]:,} samples.")
        items += [
            f"{run.folder} was measured after {run.measured_samples:,} of its {run.samples:,} samples."
            for run in runs
            if run.has_gone_on
        ]
    return _sentences(items)


def _sentences(items: Sequence[str]) -> str:
    """Sentences under a table or charts; nothing if there are none."""
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<ul class="notes">{listed}</ul>' if items else ""


def _curves(topic: _Topic) -> str:
    caption = "Against training samples, averaged within each point. "
    if any(len(runs) > 1 for runs in topic.groups.values()):
        caption += (
            "A line is the mean over a method's runs and its band their range, as far as all of them came; "
            "beyond that, paler, the longest run alone. "
        )
    stages = stage_changes(topic.groups)
    if stages:
        caption += "An upright dashed line is the beginning of a stage. "
    key = legend([(f"swatch {series_class(number)}", method) for number, method in enumerate(topic.groups)])
    return section(
        f"training-{topic.task}",
        f"{topic.before}Training",
        caption,
        key,
        _grid(curve_charts(topic.groups, topic.skills)),
        _sentences([f"From {short(after)} samples on: {', '.join(changes)}." for after, changes in stages.items()]),
    )


def _comparison(topic: _Topic) -> str:
    bars = comparison_bars(topic.groups, topic.skills)
    caption = "The same rates as bars. Whiskers are the 95 % interval of a single run's trials"
    if any(sum(run.evaluation is not None for run in runs) > 1 for runs in topic.groups.values()):
        caption += ", and one standard deviation either way where a method has several runs"
    key = legend([(f"swatch {series_class(number)}", method) for number, method in enumerate(topic.groups)])
    parts = [key, f'<div class="bars">{"".join(bars)}</div>'] if bars else []
    return section(f"comparison-{topic.task}", f"{topic.before}Method against method", f"{caption}.", *parts)


def _transitions(topic: _Topic, *, films: bool) -> str:
    """films: whether a cell leads to its films."""
    link = partial(pair_id, topic.number) if films else None
    maps = [transition_heat_map(method, runs, topic.skills, link) for method, runs in topic.groups.items()]
    caption = "TSR (%): a trial starts in a reference state of the row's skill and is asked for the column's."
    if link:
        caption += " Click a cell to watch: the policy plays the row's skill for a second, then the column's."
    content = f'<div class="maps">{"".join(maps)}</div>' if any(maps) else ""
    return section(f"transitions-{topic.task}", f"{topic.before}Transitions", caption, content)


def _connections(topic: _Topic) -> str:
    """Each graph once, however many methods and seeds share it."""
    pictures: dict[str, list[str]] = {}
    for method, runs in topic.groups.items():
        for run in runs:
            if run.edges is not None:
                picture = _grid(connection_pictures(run.clips, run.edges))
                pictures.setdefault(picture, []).append(method)
    if not pictures:
        return ""
    caption = (
        "The stitched graph. Bars are clips, frame by frame. Every line starts in a frame of another skill (pale) and "
        "ends in the most similar frame of the skill (strong), which an episode from there then follows. Colour is the "
        "similarity β of the two; less similar frames are bridged by more masked states, from one up."
    )
    key = legend([(f"edge s{number}", name) for number, (_, name) in enumerate(SIMILARITY_LEVELS)])
    parts = []
    for picture, methods in pictures.items():
        if len(pictures) > 1:
            parts.append(f"<h3>{escape(', '.join(dict.fromkeys(methods)))}</h3>")
        parts.append(picture or "<p>The graph has no edges.</p>")
    return section(f"graph-{topic.task}", f"{topic.before}Connections", caption, key, *parts)


def _starts(topic: _Topic) -> str:
    parts = []
    for method, runs in topic.groups.items():
        run, charts = next(((run, charts) for run in runs if (charts := start_charts(run))), (None, []))
        if run is not None:
            sharp = f"<small>λ<sub>s</sub> = {run.augmentation['frame_sharpness']:g}</small>"
            parts.append(f"<h3>{escape(method)}, seed {run.seed} {sharp}</h3>{_grid(charts)}")
    caption = (
        "Adaptive sampling at the newest checkpoint. Above: the running mean reward of episodes that started in each "
        "frame (0 if none has). Below: how often such a start is drawn, as a multiple of an even draw within the clip "
        "(dashed)."
    )
    return section(f"starts-{topic.task}", f"{topic.before}Where training starts", caption, *parts)


def _films(topic: _Topic, room: FilmRoom) -> str:
    sets = skill_sets(topic.number, f"films-{topic.task}", topic.groups, topic.skills, room)
    caption = (
        "One run of each method, from the same frame of each demonstration and beyond its end. Click a film to enlarge "
        "its row and start all of it together."
    )
    return section(f"films-{topic.task}", f"{topic.before}Films", caption, play_button() if sets else "", *sets)


def _pair_films(topic: _Topic, room: FilmRoom) -> str:
    """What the cells of the transition matrices lead to; nothing where there are none."""
    if not any(run.evaluation and run.evaluation.transition_rate for runs in topic.groups.values() for run in runs):
        return ""
    return "\n".join(pair_sets(topic.number, f"transitions-{topic.task}", topic.groups, topic.skills, room))


def _notes(notes: Sequence[str], room: FilmRoom) -> str:
    said = list(notes)
    if room.left_out:
        size = f"{MAX_PAGE_BYTES // 1_000_000} MB"
        said.append(f"{_plural(room.left_out, 'film')} left out to keep this page below {size}.")
    items = "".join(f"<li>{escape(note)}</li>" for note in said)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _runs(records: Sequence[RunRecord]) -> str:
    heads = "".join(
        f"<th>{name}</th>" for name in ("folder", "task", "method", "seed", "samples", "time", "samples/s", "evaluated")
    )
    rows = []
    for run in records:
        speed = run.samples / run.seconds if run.seconds > 0 else float("nan")
        cells = (
            escape(str(run.folder)),
            escape(run.task),
            escape(run.label),
            str(run.seed),
            f"{run.samples:,}",
            duration(run.seconds),
            short(speed),
            _evaluated(run),
        )
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    table = f'<table class="runs"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return section("runs", "Runs", "", f'<div class="wide">{table}</div>')


def _evaluated(run: RunRecord) -> str:
    result = run.evaluation
    if result is None:
        return "not evaluated"
    across = f", {result.transition_trials:,} per pair" if result.transition_trials != result.trials else ""
    elsewhere = f", clips of {escape(Path(result.clips).name)}" if result.clips else ""
    earlier = f", after {run.measured_samples:,} samples" if run.has_gone_on else ""
    return f"{_plural(result.trials, 'trial')}{across}{elsewhere}{earlier}"


def _skills(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    evaluated = [run for run in runs if run.evaluation]
    return tuple(dict.fromkeys(skill for run in (*evaluated, *runs) for skill in run.skills))


def _grid(charts: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(f"<div>{chart}</div>" for chart in charts)}</div>' if charts else ""


def _flat(config: Mapping[str, object], before: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in config.items():
        flat |= _flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return flat


def _plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
