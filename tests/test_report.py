"""The report says what the run folders say, needs nothing but itself, and leaves nothing half-written."""

import json
import math
import re
import shlex
import statistics
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
import torch
import tyro
from safetensors.torch import load_file, save_file

from run_pages import SKILLS, Page, add_graph, evaluation, make_run, report
from skillfield.cli.report import Report
from skillfield.errors import ConfigError, SkillfieldError
from skillfield.evaluation.metrics import wilson_interval
from skillfield.experiments.run import Origin
from skillfield.files import write_json
from skillfield.reporting.logs import METRICS_FILE


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


def test_runs_that_began_with_another_policy_have_a_row_of_their_own(tmp_path: Path) -> None:
    """Whatever it was; where it lay is left out."""
    new = make_run(tmp_path / "new", rate=0.5)
    taught = [make_run(tmp_path / str(s), seed=s, origin=Origin("/home/me/starter", 5_000_000)) for s in (0, 1)]
    page = Page(report(new, *taught))
    assert page.row("sm")[1] == "50.0"
    assert page.row("sm from starter")[0] == "sm from starter2 runs"
    assert "/home/me" not in page.text


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
    write_json(run / "evaluation.json", replace(evaluation(0.8), clips="/home/me/noisy").to_dict())
    elsewhere = Page(report(run))
    assert "per pair of skills, beginning in clips from 'noisy'." in elsewhere.text
    assert elsewhere.row(str(run))[-1] == "64 trials, clips of noisy"
    low, high = wilson_interval(3, 16)  # 0.2 · 16 to the nearest trial
    assert f"sm, toss: 20.0 % ({100 * low:.1f} … {100 * high:.1f}; 95 % interval)" in html


def test_a_run_that_has_gone_on_since_it_was_measured_says_so(tmp_path: Path) -> None:
    """In its row, and where its figures stand; an average over runs says that they were not measured alike."""
    old, new = (make_run(tmp_path / name, seed=seed) for seed, name in enumerate(("old", "new")))
    for run, samples in ((old, 2000), (new, 5000)):
        write_json(run / "evaluation.json", replace(evaluation(0.8), samples=samples).to_dict())
    page = Page(report(old, new))
    assert page.row(str(old))[-1] == "64 trials, after 2,000 samples"
    assert page.row(str(new))[-1] == "64 trials"
    assert f"{old} was measured after 2,000 of its 5,000 samples." in page.text
    assert f"{new} was measured" not in page.text
    assert "Runs of sm were measured after 2,000 to 5,000 samples." in page.text
    assert "were measured after" not in Page(report(new)).text


def test_what_to_type_is_what_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script with tasks of its own is the command; `skillfield` would not know them."""
    run = make_run(tmp_path / "a run", rate=None)
    monkeypatch.setattr("skillfield.program._scripts", [tmp_path / "juggling.py"])
    assert f"python {tmp_path / 'juggling.py'} evaluate '{run}'" in Page(report(run)).text
    (run / "evaluation.json").write_text("{}")
    with pytest.raises(SkillfieldError, match=r"measure again: python \S*juggling.py evaluate"):
        report(run)


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


def damage(name: str, content: str | bytes) -> Callable[[Path], None]:
    """Overwrites a file of a run."""

    def change(run: Path) -> None:
        add_graph(run)
        (run / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def another_graph(**changes: list[float]) -> Callable[[Path], None]:
    """Overwrites some of a graph's columns."""

    def change(run: Path) -> None:
        add_graph(run)
        path = run / "graph.safetensors"
        save_file(load_file(path) | {name: torch.tensor(column) for name, column in changes.items()}, path)

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
        (damage(METRICS_FILE, '{"samples": 1e999}\n'), f"{METRICS_FILE}: line 1: 'samples' is inf"),
        (damage("evaluation.json", "[1"), "evaluation.json: cannot be read as JSON"),
        (damage("evaluation.json", "[]"), "evaluation.json: no evaluation of this version"),
        (damage("evaluation.json", '{"trials": 1}'), "measure again: skillfield evaluate"),
        (damage("clips.json", '{"name": 1}'), "clips.json: expected a list of objects"),
        (damage("clips.json", '[{"name": "a", "skill": "b", "length": 1e999}]'), "clips.json: expected a list of"),
        (
            damage("clips.json", '[{"name": "a", "skill": "b", "length": 3, "missing": [3]}]'),
            "clips.json: expected a list of objects",
        ),
        (
            damage("clips.json", '[{"name": "a", "skill": "hold", "length": 3}]'),
            "graph.safetensors: an edge uses row 9",
        ),
        (damage("graph.safetensors", "damaged"), "graph.safetensors: cannot be read"),
        (damage("checkpoints/00000001/training.safetensors", "x"), "training.safetensors: cannot be read"),
        (damage("checkpoints/latest", b"\xff"), "latest: names no checkpoint: 'utf-8' codec"),
        (damage("checkpoints/latest", "7" * 300), "latest: names no checkpoint: [Errno 36] File name too long"),
        (another_graph(source_row=[-1, 0, 1]), "graph.safetensors: an edge uses row -1"),
        (another_graph(target_row=[2, 14, 9]), "graph.safetensors: an edge uses row 14"),
        (another_graph(exponent=[0.1, math.nan, 2.0]), "graph.safetensors: the exponent of an edge is not a number"),
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
