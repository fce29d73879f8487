"""The report says what the run folders say, needs nothing but itself, and leaves nothing half-written."""

import base64
import json
import math
import re
import shlex
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tyro
from safetensors.torch import save_file

from skillfield.characters import Character
from skillfield.cli import report as command
from skillfield.cli.report import Report
from skillfield.clips import Clip
from skillfield.errors import ConfigError, RenderError, SkillfieldError
from skillfield.evaluation import Evaluation
from skillfield.evaluation.metrics import wilson_interval
from skillfield.experiments.run import preset, save_config
from skillfield.files import write_json
from skillfield.reference import ReferenceMotion
from skillfield.reference.adaptive import AdaptiveSampling
from skillfield.reporting import report as page_module
from skillfield.reporting.bars import rate_bar
from skillfield.reporting.charts import axis_ticks
from skillfield.reporting.curves import curve
from skillfield.reporting.logs import METRICS_FILE
from skillfield.reporting.runs import ClipRows, RunRecord
from skillfield.reporting.starts import relative_weights

SKILLS = ("hold", "toss")
VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Checks that tags match, and keeps what tests ask for: table rows, resources, text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.resources: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a tag."""
        addresses = [value or "" for name, value in attrs if name in ("src", "href", "srcset", "poster")]
        self.links += [address[1:] for address in addresses if address.startswith("#")]
        self.resources += [address for address in addresses if not address.startswith("#")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag without content."""

    def handle_endtag(self, tag: str) -> None:
        """Close a tag, which must be the one that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def row(self, first: str) -> list[str]:
        """The first table row that begins so."""
        return next(row for row in self.rows if row and row[0].startswith(first))


def evaluation(rate: float, skills: Sequence[str] = SKILLS) -> Evaluation:
    return Evaluation(
        trials=64,
        transition_trials=64,
        seconds=10.0,
        seed=0,
        success_rate={skill: rate + 0.01 * number for number, skill in enumerate(skills)},
        success_interval=dict.fromkeys(skills, (rate - 0.05, rate + 0.05)),
        neighbourhood_rate=dict.fromkeys(skills, rate / 2),
        neighbourhood_interval=dict.fromkeys(skills, (0.0, rate)),
        transition_rate={a: {b: rate / 4 for b in skills if b != a} for a in skills},
        normalised_reward=dict.fromkeys(skills, rate / 3),
    )


def make_run(
    folder: Path,
    method: str = "sm",
    seed: int = 0,
    rate: float | None = 0.8,
    skills: Sequence[str] = SKILLS,
    lines: int = 5,
    **changes: Any,
) -> Path:
    """A run folder as training and evaluating would leave it."""
    save_config(replace(preset("starter", method), seed=seed, **changes), folder)
    with open(folder / METRICS_FILE, "w") as file:
        for number in range(1, lines + 1):
            rewards = {f"reward/{skill}": 0.1 * number for skill in skills}
            file.write(json.dumps({"samples": 1000 * number, "seconds": number, "reward": 0.1 * number, **rewards}))
            file.write("\n")
    if rate is not None:
        write_json(folder / "evaluation.json", evaluation(rate, skills).to_dict())
    return folder


def add_graph(run: Path, clips: Sequence[tuple[str, int]] = (("hold", 6), ("toss", 8))) -> None:
    """Two edges into toss, one into hold; and sampling statistics."""
    write_json(run / "clips.json", [{"name": f"{skill}_01", "skill": skill, "length": n} for skill, n in clips])
    edges = {
        "source_row": torch.tensor([7, 0, 1]),
        "target_row": torch.tensor([2, 6, 9]),
        "exponent": torch.tensor([0.1, 3.0, 20.0]),
        "skill_start": torch.tensor([0, 1, 3]),
    }
    save_file(edges, run / "graph.safetensors")
    checkpoint = run / "checkpoints" / "00000001"
    checkpoint.mkdir(parents=True)
    (run / "checkpoints" / "latest").write_text("00000001\n")
    rows = sum(length for _, length in clips)
    save_file({"sampler/mean_reward": torch.linspace(0.1, 0.9, rows)}, checkpoint / "training.safetensors")


def report(*runs: Path, videos: bool = False, transitions: tuple[str, ...] = ("none",)) -> str:
    """The page of some runs."""
    out = runs[0].parent / "page" / "report.html"
    assert Report(runs, out=out, videos=videos, transitions=transitions).run() == 0
    return out.read_text()


def pretend_to_film(monkeypatch: pytest.MonkeyPatch) -> dict[Path, list[str]]:
    """Films without a policy or a picture; gives what was filmed: skills by file."""
    made: dict[Path, list[str]] = {}

    def film(_: Any, films: dict[Path, Any], *__: Any, **___: Any) -> Iterator[Path]:
        for path, scenes in films.items():
            yield path
            made[path] = [part.skill for scene in scenes for part in scene]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"a new film")

    monkeypatch.setattr(command, "load_performers", lambda *_: [])
    monkeypatch.setattr(command, "film", film)
    return made


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    """No address of any other place; every resource is in the page."""
    run = make_run(tmp_path / "a", "full")
    add_graph(run)
    (run / "videos").mkdir()
    for skill in SKILLS:
        (run / "videos" / f"{skill}.mp4").write_bytes(b"film")
    html = report(run, videos=True)
    assert not re.search(r"https?://|//[a-z0-9.-]+/|@import|url\(", html)
    resources = Page(html).resources
    assert len(resources) == len(SKILLS)
    assert all(resource.startswith("data:video/mp4;base64,") for resource in resources)


def test_every_method_and_skill_appears(tmp_path: Path) -> None:
    """In the order of the paper's tables, whatever order they are given in."""
    runs = [make_run(tmp_path / name, name) for name in ("full", "sm+stg", "sm")]
    page = Page(report(*runs))
    for name in ("full", "sm+stg", "sm", *SKILLS):
        assert name in page.text
    methods = [row[0] for row in page.rows if row and row[0] in ("full", "sm+stg", "sm")]
    assert methods == ["sm", "sm+stg", "full"]


def test_numbers_are_those_of_the_evaluation(tmp_path: Path) -> None:
    """SR, εNSR, NR of each skill, their averages, TSR."""
    row = Page(report(make_run(tmp_path / "a", rate=0.8))).row("sm")
    assert row[1:] == ["80.0", "40.0", "0.27", "81.0", "40.0", "0.27", "80.5", "40.0", "0.27", "20.0"]


def test_seeds_are_grouped_as_mean_and_sample_spread(tmp_path: Path) -> None:
    """Runs of one method are one row."""
    rates = (0.5, 0.6, 0.8)
    runs = [make_run(tmp_path / str(seed), seed=seed, rate=rate) for seed, rate in enumerate(rates)]
    row = Page(report(*runs)).row("sm")
    assert row[0] == "sm3 runs"
    assert row[1] == f"{100 * statistics.mean(rates):.1f}± {100 * statistics.stdev(rates):.1f}"
    assert row[-1] == f"{25 * statistics.mean(rates):.1f}± {25 * statistics.stdev(rates):.1f}"


def test_only_runs_that_are_repetitions_are_averaged_in_silence(tmp_path: Path) -> None:
    """A method whose runs differ in more than their seed says in what."""
    same = make_run(tmp_path / "a", seed=0), make_run(tmp_path / "b", seed=1)
    assert "differ in" not in report(*same)
    other = make_run(tmp_path / "c", seed=2, num_envs=7)
    assert "Runs of sm differ in num_envs." in report(*same, other)


def test_the_best_of_a_column_is_bold(tmp_path: Path) -> None:
    """If there is anything to compare."""
    better, worse = make_run(tmp_path / "a", "full", rate=0.8), make_run(tmp_path / "b", "sm", rate=0.5)
    html = report(better, worse)
    assert "<b>80.0</b>" in html
    assert "<b>50.0</b>" not in html
    assert "<b>" not in report(better)


def test_a_run_without_an_evaluation_says_so(tmp_path: Path) -> None:
    """And how to get one."""
    run = make_run(tmp_path / "it's new", rate=None)
    page = Page(report(run))
    assert page.row("sm")[1] == "not evaluated"
    assert f"skillfield evaluate {shlex.quote(str(run))}" in page.text
    assert "Transitions" not in page.text


def test_transitions_stand_in_a_matrix(tmp_path: Path) -> None:
    """Rows are where a trial starts, columns what is asked for; a skill has no transition to itself."""
    run = make_run(tmp_path / "a")
    values = evaluation(0.8).to_dict() | {"transition_rate": {"hold": {"toss": 0.25}, "toss": {"hold": 1.0}}}
    write_json(run / "evaluation.json", values)
    page = Page(report(run))
    matrix = page.rows[[row[0] for row in page.rows if row].index("from ↓ to →") :]
    assert matrix[:4] == [
        ["from ↓ to →", *SKILLS],
        ["hold", "", "25.0"],
        ["toss", "100.0", ""],
        ["mean", "100.0", "25.0"],
    ]


def test_the_number_of_trials_is_told(tmp_path: Path) -> None:
    """Once where it is the same for skills and pairs, else both; the interval of a transition is that of its own."""
    same = Page(report(make_run(tmp_path / "same")))
    assert "Measured with 64 trials of 10 s per skill and per pair of skills." in same.text
    assert same.row(str(tmp_path / "same"))[-1] == "64 trials"
    run = make_run(tmp_path / "apart")
    write_json(run / "evaluation.json", replace(evaluation(0.8), trials=1000, transition_trials=16).to_dict())
    html = report(run)
    assert "Measured with 1,000 trials of 10 s per skill, 16 per pair of skills." in html
    assert Page(html).row(str(run))[-1] == "1,000 trials, 16 per pair"
    low, high = wilson_interval(3, 16)  # 0.2 · 16 to the nearest trial
    assert f"sm, toss: 20.0 % ({100 * low:.1f} … {100 * high:.1f}; 95 % interval)" in html


def test_names_are_text_and_never_markup(tmp_path: Path) -> None:
    """Names of tasks, methods, skills, clips and folders are escaped wherever they appear."""
    evil = "<script>alert('&')</script>"
    run = make_run(tmp_path / "<i>run", skills=(evil, "<u>hold"))
    config = json.loads((run / "config.json").read_text())
    write_json(run / "config.json", config | {"task": f"task{evil}", "method": f"method{evil}"})
    write_json(
        run / "clips.json", [{"name": evil, "skill": evil, "length": 9}, {"name": "b", "skill": "<u>hold", "length": 9}]
    )
    edges = {"source_row": torch.tensor([9]), "target_row": torch.tensor([1]), "exponent": torch.tensor([1.0])}
    save_file(edges, run / "graph.safetensors")
    (run / "videos").mkdir()
    (run / "videos" / "<u>hold.mp4").write_bytes(b"film")
    html = report(run, videos=True)
    assert not re.search(f"{re.escape(evil)}|<i>|<u>", html)
    for text in (evil, f"task{evil}", f"method{evil}", str(run)):
        assert escape(text) in html
    assert html.count("<script>") == 1  # our own
    Page(html)


def record(values: Sequence[tuple[int, float]], **changes: Any) -> RunRecord:
    """A run that logged these rewards."""
    metrics = [{"samples": samples, "reward": value} for samples, value in values]
    config = {"task": "t", "method": "m", "seed": 0}
    return RunRecord(Path("run"), config, metrics, **changes)


def test_a_curve_is_the_mean_of_its_runs_in_a_band_of_their_range() -> None:
    """As far as all of them came; from there on it is the longest run alone."""
    short, long = ([(x, height) for x in range(0, end + 1, 10)] for end, height in ((100, 1.0), (200, 3.0)))
    line = curve("m", [record(short), record(long)], "reward")
    assert line is not None
    assert (line.x[0], line.x[-1], line.reach) == (0, 100, 200)
    assert np.allclose((line.low, line.mean, line.high), [[1.0], [2.0], [3.0]])
    assert np.allclose(line.tail, 3.0)


def test_a_curve_skips_what_was_not_measured() -> None:
    """A number that is not finite is no point; a metric that nobody logged is no curve."""
    line = curve("m", [record([(0, math.nan), (10, 1.0), (20, math.nan), (30, 3.0)])], "reward")
    assert line is not None
    assert (line.x[0], line.x[-1]) == (10, 30)
    assert np.isfinite(line.mean).all()
    assert curve("m", [record([(0, math.nan)])], "reward") is None
    assert curve("m", [record([(0, 1.0)])], "kl") is None


@pytest.mark.parametrize(("high", "ticks"), [(1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (4.7e6, [0, 1e6, 2e6, 3e6, 4e6])])
def test_axes_have_round_numbers(high: float, ticks: list[float]) -> None:
    """Steps of 1, 2 or 5."""
    assert axis_ticks(0.0, high, 5) == ticks


def test_start_weights_are_those_that_training_samples_with(
    hand_character: Character, make_clip: Callable[..., Clip]
) -> None:
    """Weight within the clip times the clip's share is the sampler's own probability of every frame."""
    lengths = {"a": 12, "b": 20, "c": 9}
    skills = {"a": "hold", "b": "toss", "c": "toss"}
    clips = [make_clip(frames, name=name, skill=skills[name]) for name, frames in lengths.items()]
    motion = ReferenceMotion(clips, hand_character, SKILLS)
    sampler = AdaptiveSampling(motion, frame_sharpness=4.0, skill_sharpness=3.0)
    sampler.load(torch.rand(len(motion.qpos)))
    starts = np.cumsum([0, *lengths.values()])
    rows = tuple(
        ClipRows(name, skills[name], int(start), length)
        for (name, length), start in zip(lengths.items(), starts[:-1], strict=True)
    )
    run = RunRecord(
        Path("run"),
        {"augmentation": {"frame_sharpness": 4.0, "skill_sharpness": 3.0}},
        [{"samples": 1}],
        clips=rows,
        mean_reward=sampler.mean_reward.double().numpy(),
    )
    weights, shares = relative_weights(run)
    clip = np.repeat(np.arange(3), list(lengths.values()))
    startable = np.array(list(lengths.values())) - 1
    probability = np.nan_to_num(weights) / startable[clip] * shares[clip]
    assert np.allclose(probability, sampler.weights().numpy(), atol=1e-6)
    assert math.isclose(probability.sum(), 1.0, abs_tol=1e-5)


def test_the_graph_is_drawn_skill_by_skill(tmp_path: Path) -> None:
    """One line per edge, in the colour of its similarity; not without the list of clips."""
    run = make_run(tmp_path / "a", "full")
    add_graph(run)
    html = report(run)
    assert [html.count(f'<path class="edge s{level}" d="M') - 1 for level in range(5)] == [1, 0, 1, 0, 1]  # - legend
    assert "toss_01 1 → hold_01 2, β = 0.9" in html
    assert "into hold</text>" in html
    assert "1 edges" in html
    assert "2 edges" in html
    assert "Where training starts" in html
    (run / "clips.json").unlink()
    html = report(run)
    assert "Connections" not in html
    assert "Where training starts" not in html


def test_a_method_that_does_not_adapt_has_no_weights_to_show(tmp_path: Path) -> None:
    """Its statistics are never written to."""
    run = make_run(tmp_path / "a", "sm+stg")
    add_graph(run)
    html = report(run)
    assert "Connections" in html
    assert "Where training starts" not in html


def test_films_are_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the folder as they are; missing ones are made, one run per method, and kept."""
    runs = [make_run(tmp_path / str(seed), seed=seed) for seed in range(2)]
    (runs[1] / "videos").mkdir()
    (runs[1] / "videos" / "hold.mp4").write_bytes(b"an old film")
    made = pretend_to_film(monkeypatch)
    page = Page(report(*runs, videos=True))
    films = [base64.b64decode(source.removeprefix("data:video/mp4;base64,")) for source in page.resources]
    assert films == [b"an old film", b"a new film"]
    assert made == {runs[1] / "videos" / "toss.mp4": ["toss"]}
    assert Page(report(*runs, videos=False)).resources == []


def cells(html: str) -> list[str]:
    """What the cells of all transition matrices hold, as HTML."""
    tables = re.findall(r'<table class="heat">.*?</table>', html, re.DOTALL)
    return [cell for table in tables for cell in re.findall(r"<td.*?>(.*?)</td>", table)]


def test_every_transition_leads_to_its_films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One set per ordered pair, with the film of every method; each address in the page is an id of the page."""
    runs = [make_run(tmp_path / method, method) for method in ("sm", "full")]
    made = pretend_to_film(monkeypatch)
    html = report(*runs, videos=True, transitions=("all",))
    page = Page(html)
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.links) <= set(page.ids)
    figures = [cell for cell in cells(html) if re.fullmatch(r'<a href="#pair-0-\d-\d">20\.0</a>', cell)]
    assert len(figures) == 4  # two methods, two ordered pairs
    for run in runs:
        for source, target in (SKILLS, SKILLS[::-1]):
            path = run / "videos" / "transitions" / f"{source}--{target}.mp4"
            assert made[path] == [source, target]
    for i, j in ((0, 1), (1, 0)):
        films = html.split(f'id="pair-0-{i}-{j}"')[1].split('id="pair')[0]
        assert films.count("<video") == 2
        assert f"{SKILLS[i]} → {SKILLS[j]}" in films
        assert "TSR 20 %" in films


def test_a_transition_without_a_film_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cell leads there all the same; without films a cell leads nowhere."""
    run = make_run(tmp_path / "a")
    made = pretend_to_film(monkeypatch)
    html = report(run, videos=True, transitions=("toss:hold",))
    assert [path.name for path in made] == ["hold.mp4", "toss.mp4", "toss--hold.mp4"]
    page = Page(html)
    assert {"pair-0-0-1", "pair-0-1-0"} <= set(page.links) <= set(page.ids)
    assert "--transitions hold:toss makes one" in page.text
    assert "--transitions toss:hold makes one" not in page.text
    assert Page(report(run, videos=False)).links == []


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("hold", "'hold' is no pair"),
        ("hold:juggle", "unknown skill 'juggle'; known: hold, toss"),
        ("hold:hold", "leads to another skill"),
    ],
)
def test_a_choice_of_transitions_that_makes_no_sense_is_refused(choice: str, message: str, tmp_path: Path) -> None:
    """Before anything is filmed or written."""
    run = make_run(tmp_path / "a")
    with pytest.raises(ConfigError, match=message):
        Report((run,), out=tmp_path / "p.html", transitions=(choice,)).run()
    assert not (tmp_path / "p.html").exists()
    assert not (run / "videos").exists()


def test_films_of_a_skill_stand_side_by_side(tmp_path: Path) -> None:
    """All methods in one set, in the order of the table, with their rates; enlarging and closing lead somewhere."""
    runs = [make_run(tmp_path / method, method, rate=rate) for method, rate in (("full", 0.9), ("sm", 0.5))]
    for run in runs:
        (run / "videos").mkdir()
        for skill in SKILLS:
            (run / "videos" / f"{skill}.mp4").write_bytes(f"{run.name} {skill}".encode())
    html = report(*runs, videos=True)
    page = Page(html)
    assert set(page.links) <= set(page.ids)
    first = html.split('id="skill-0-0"')[1].split('id="skill-0-1"')[0]
    films = [base64.b64decode(film) for film in re.findall(r"base64,([^\"]+)", first)]
    assert films == [b"sm hold", b"full hold"]
    assert [rate for rate in ("SR 50 %", "SR 90 %") if rate in first] == ["SR 50 %", "SR 90 %"]


def test_bars_have_the_rates_and_their_intervals(tmp_path: Path) -> None:
    """A bar per metric, skill and method; a single run has the interval of its trials."""
    runs = [make_run(tmp_path / method, method, rate=rate) for method, rate in (("sm", 0.5), ("full", 0.8))]
    html = report(*runs)
    assert html.count('<g class="rate') == 3 * len(SKILLS) * 2
    assert "sm, hold: 50.0 % (45.0 … 55.0; 95 % interval)" in html
    assert "full, toss: 40.0 % (0.0 … 80.0; 95 % interval)" in html  # εNSR
    assert re.search(r"full, toss: 20\.0 % \(12\.\d … 31\.\d; 95 % interval\)", html)  # TSR, 64 trials
    assert "Method against method" not in report(make_run(tmp_path / "new", rate=None))


def test_a_bar_over_several_runs_has_their_spread() -> None:
    """One sample standard deviation either way, within 0 and 1."""
    assert rate_bar([], []) is None
    assert rate_bar([math.nan], [None]) is None
    bar = rate_bar([0.9, 1.0, math.nan], [(0.8, 1.0), (0.9, 1.0), None])
    assert bar is not None
    assert (bar.rate, bar.runs, bar.high) == (pytest.approx(0.95), 2, 1.0)
    assert bar.low == pytest.approx(0.95 - statistics.stdev([0.9, 1.0]))


def test_a_page_that_would_be_too_large_leaves_films_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says how many."""
    run = make_run(tmp_path / "a")
    (run / "videos").mkdir()
    (run / "videos" / "hold.mp4").write_bytes(bytes(2_000_000))
    (run / "videos" / "toss.mp4").write_bytes(b"short")
    monkeypatch.setattr(page_module, "MAX_PAGE_BYTES", 2_000_000)
    html = report(run, videos=True)
    assert len(html) < 2_000_000
    assert len(Page(html).resources) == 1
    assert "1 film left out" in html


@pytest.mark.parametrize("error", [RenderError("no OpenGL"), ConfigError("unknown task 'mine'")])
def test_without_films_the_page_says_why(
    error: SkillfieldError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that cannot draw still gets its report."""

    def load(*_: Any) -> None:
        raise error

    monkeypatch.setattr(command, "load_performers", load)
    page = Page(report(make_run(tmp_path / "a"), videos=True))
    assert str(error) in page.text
    assert page.row("sm")[1] == "80.0"


def test_a_folder_of_runs_stands_for_its_runs(tmp_path: Path) -> None:
    """And a run that is named twice counts once."""
    runs = [make_run(tmp_path / "runs" / str(seed), seed=seed) for seed in range(2)]
    html = report(tmp_path / "runs", runs[0])
    assert Page(html).row("sm")[0] == "sm2 runs"


def test_two_tasks_have_their_own_tables(tmp_path: Path) -> None:
    """Runs of different tasks are never averaged."""
    page = Page(report(make_run(tmp_path / "a"), make_run(tmp_path / "b", task="other", rate=0.4)))
    assert [row[1] for row in page.rows if row and row[0] == "sm" and len(row) > 8] == ["80.0", "40.0"]
    assert "other: Results" in page.text


def damage(name: str, content: str) -> Callable[[Path], None]:
    """Overwrites a file of a run."""

    def change(run: Path) -> None:
        add_graph(run)
        (run / name).write_text(content)

    return change


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda run: (run / "config.json").unlink(), "is no run folder: it has no config.json"),
        (damage("config.json", "{"), "config.json: cannot be read as JSON"),
        (lambda run: (run / METRICS_FILE).unlink(), f"{METRICS_FILE}: cannot be read"),
        (damage(METRICS_FILE, ""), f"{METRICS_FILE}: nothing measured yet"),
        (damage(METRICS_FILE, "{oops\n"), f"{METRICS_FILE}: line 1 is no JSON object"),
        (damage(METRICS_FILE, '{"samples": "many"}\n'), f"{METRICS_FILE}: line 1: 'samples' is 'many'"),
        (damage("evaluation.json", "[1"), "evaluation.json: cannot be read as JSON"),
        (damage("evaluation.json", "[]"), "evaluation.json: no evaluation of this version"),
        (damage("evaluation.json", '{"trials": 1}'), "measure again: skillfield evaluate"),
        (damage("clips.json", '{"name": 1}'), "clips.json: expected a list of objects"),
        (
            damage("clips.json", '[{"name": "a", "skill": "hold", "length": 3}]'),
            "graph.safetensors: an edge uses row 9",
        ),
        (damage("graph.safetensors", "damaged"), "graph.safetensors: cannot be read"),
        (damage("checkpoints/00000001/training.safetensors", "x"), "training.safetensors: cannot be read"),
    ],
)
def test_a_damaged_run_is_one_line_and_leaves_the_old_page(
    harm: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    """The line names the file; nothing is written, neither the page nor a part of it."""
    out = tmp_path / "report.html"
    out.write_text("the old page")
    run = make_run(tmp_path / "run", "full")
    harm(run)
    with pytest.raises(SkillfieldError, match=re.escape(message)) as caught:
        Report((run,), out=out, videos=False).run()
    assert str(run) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert out.read_text() == "the old page"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "run"]


def test_the_command_takes_runs_and_an_output(tmp_path: Path) -> None:
    """As typed; without runs there is nothing to report, and a page needs a name of its own."""
    runs = [str(make_run(tmp_path / name)) for name in ("a", "b")]
    typed = tyro.cli(Report, args=[*runs, "--out", str(tmp_path / "p.html"), "--no-videos", "--transitions", "a:b"])
    assert typed == Report(tuple(map(Path, runs)), tmp_path / "p.html", False, ("a:b",))
    typed = replace(typed, transitions=())
    with pytest.raises(ConfigError, match="at least one run"):
        Report(()).run()
    with pytest.raises(ConfigError, match="is a folder"):
        replace(typed, out=tmp_path).run()


_CLICKS = """<script>
const state = () => document.querySelector('.set.open')?.id ?? 'none', seen = [];
document.querySelector('.heat a').click(); seen.push(state());
document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' })); seen.push(state());
document.querySelectorAll('#skill-0-1 video')[1].click(); seen.push(state());
document.querySelector('.set.open .close').click(); seen.push(state());
document.title = 'seen ' + seen.join(' ');
</script></body>"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium to click with")
def test_a_click_enlarges_and_escape_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real browser: a cell opens its transition, a film opens its row, and both can be left."""
    runs = [make_run(tmp_path / method, method) for method in ("sm", "full")]
    pretend_to_film(monkeypatch)
    html = report(*runs, videos=True, transitions=("all",))
    (tmp_path / "clicked.html").write_text(html.replace("</body>", _CLICKS))
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run(
        [*browser, "--dump-dom", f"file://{tmp_path / 'clicked.html'}"], capture_output=True, text=True, timeout=120
    )
    assert "<title>seen pair-0-0-1 none skill-0-1 none</title>" in shown.stdout
