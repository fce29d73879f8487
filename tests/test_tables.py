"""Tables of experiments: means over seeds beside the paper's, what must hold, and what they were made of."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from figures import evaluation_of
from skillfield.cli.table import band_holds, describe_band, table_markdown, write_table
from skillfield.evaluation import Evaluation
from skillfield.experiments.published import PAIRS, PUBLISHED
from skillfield.experiments.tables import Band, experiment
from skillfield.experiments.tasks import starter
from skillfield.experiments.tasks import task as task_named

SKILLS = starter().skills


def test_a_table_sets_the_published_figures_beside_ours() -> None:
    """Under each method that the paper has, in italics; single skills only where it gives them."""
    skills = task_named("ballplay").skills
    metrics = ("success_rate", "neighbourhood_rate", "normalised_reward")
    row = {f"{metric}/{skill}": (0.5, 0.0) for metric in metrics for skill in skills}
    row |= {f"transition_rate/{source}/{target}": (0.25, 0.0) for source, target in PAIRS["ballplay"].values()}
    row |= dict.fromkeys((*metrics, "transition_rate"), (0.5, 0.01)) | {"paper_transition_rate": (0.25, 0.02)}
    figures, runs = {"full": row, "sm+ats": row}, {"full": 3, "sm+ats": 1}
    table = table_markdown(figures, runs, (), PUBLISHED["ballplay"], PAIRS["ballplay"])
    lines = table.splitlines()
    assert lines[0].endswith(
        "| TSR<br>DL→DR / DF→DR / DF→Shot / Layup→DF | SR | TSR, the paper's 4 pairs | TSR, all pairs | εNSR | NR |"
    )
    assert lines[2].startswith("| full | 3 | 50.0 / 50.0 / 0.50 |")
    assert lines[2].endswith(
        "| 25.0 / 25.0 / 25.0 / 25.0 | 50.0 ± 1.0 | 25.0 ± 2.0 | 50.0 ± 1.0 | 50.0 ± 1.0 | 0.50 ± 0.01 |"
    )
    assert lines[3].startswith("| *published* |  | *97.7 / 60.8 / 0.37* |")
    assert lines[3].endswith("| *94.9 / 95.7 / 97.2 / 87.4* | *96.9* | *93.8* |  | *49.3* | *0.43* |")
    assert lines[5] == "| *published* |  |  |  |  |  |  |  | *56.4* | *22.4* |  | *19.7* | *0.42* |"
    assert len({line.count("|") for line in lines[:6]}) == 1


def ballplay_evaluation(rate: float, paper_rate: float) -> Evaluation:
    """One rate for all but the paper's four pairs."""
    skills = task_named("ballplay").skills
    pairs = set(PAIRS["ballplay"].values())
    across = {a: {b: paper_rate if (a, b) in pairs else rate for b in skills if b != a} for a in skills}
    return replace(evaluation_of(skills, rate), transition_rate=across)


def test_an_experiment_compares_the_paper_s_pairs_with_the_paper(tmp_path: Path) -> None:
    """Two seeds, 0.9 and 1.0 in the four pairs, 0.5 elsewhere: means 0.95 and (4 · 0.95 + 16 · 0.5) / 20 = 0.59."""
    results = {"full": [ballplay_evaluation(0.5, paper_rate) for paper_rate in (0.9, 1.0)], "sm": []}
    write_table(tmp_path, experiment("main"), "ballplay", results, 1000)
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert "| 95.0 / 95.0 / 95.0 / 95.0 | 50.0 ± 0.0 | 95.0 ± 7.1 | 59.0 ± 1.4 |" in lines[2]
    assert "- full: TSR, the paper's 4 pairs ≥ 0.938: holds" in lines
    assert "- full: TSR, all pairs ≥ 0.938: **does not hold**" in lines
    assert "- full: SR above sm: not measured yet" in lines
    assert lines[-1] == "Measured with 1,000 trials of 10 s per skill, 50 per pair of skills."
    figures = json.loads((tmp_path / "table.json").read_text())["figures"]["full"]
    assert figures["paper_transition_rate"]["mean"] == pytest.approx(0.95)
    assert figures["transition_rate"]["mean"] == pytest.approx(0.59)
    assert figures["transition_rate/layup/dribble_forward"]["mean"] == pytest.approx(0.95)


def test_a_task_that_the_paper_does_not_have_keeps_one_tsr(tmp_path: Path) -> None:
    """No pairs of its own, no empty columns."""
    write_table(tmp_path, experiment("main"), "starter", {"full": [ballplay_evaluation(0.5, 0.5)]}, 1000)
    assert (tmp_path / "table.md").read_text().splitlines()[0].endswith("SR / εNSR / NR | SR | TSR | εNSR | NR |")


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    """Neither in the table nor in the file for machines; two seeds have one, though it be nought."""
    found = evaluation_of(SKILLS, 0.5)
    write_table(tmp_path, experiment("main"), "starter", {"sm": [found], "full": [found, found]}, 1000)
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[2].endswith("| 50.0 | 50.0 | 50.0 | 0.50 |")
    assert lines[3].endswith("| 50.0 ± 0.0 | 50.0 ± 0.0 | 50.0 ± 0.0 | 0.50 ± 0.00 |")
    figures = json.loads((tmp_path / "table.json").read_text())["figures"]
    assert (figures["sm"]["success_rate"]["spread"], figures["full"]["success_rate"]["spread"]) == (None, 0.0)


@pytest.mark.parametrize(
    ("band", "own", "other", "holds"),
    [
        (Band("success_rate", "full", 0.0, above="sm"), 0.5, 0.5, False),
        (Band("success_rate", "full", 0.0, above="sm"), 0.1 + 0.2, 0.3, False),  # the same but for the arithmetic
        (Band("success_rate", "full", 0.0, above="sm"), 0.501, 0.5, True),
        (Band("success_rate", "full", 0.15, above="sm"), 0.95, 0.8, True),  # 0.1499999999999999
        (Band("success_rate", "full", 0.9), 0.9, 0.0, True),
        (Band("success_rate", "full", 0.9), 0.899, 0.0, False),
        (Band("success_rate", "full", 0.9), math.nan, 0.0, None),
        (Band("success_rate/toss", "full", 0.7), 1.0, 0.0, None),
    ],
)
def test_a_tie_is_not_above(band: Band, own: float, other: float, holds: bool | None) -> None:
    """But as much as was asked for is enough; what was not measured is neither."""
    assert band_holds(band, {"full": {"success_rate": own}, "sm": {"success_rate": other}}) is holds


def test_bands_have_the_names_of_the_columns() -> None:
    """Those of the paper."""
    assert describe_band(Band("success_rate/toss", "full", 0.7), {}) == "full: SR of toss ≥ 0.7"
    assert describe_band(Band("neighbourhood_rate", "full", 0.1, above="sm"), {}) == "full: εNSR above sm ≥ 0.1"
    assert describe_band(Band("transition_rate", "full", 0.0, above="sm"), {}) == "full: TSR above sm"
    assert describe_band(Band("normalised_reward", "sm", 0.5), {}) == "sm: NR ≥ 0.5"


def last_line(folder: Path, samples: int, **rows: list[tuple[int, str]]) -> str:
    """What a table says of its runs, given the samples and the device of each."""
    results = {
        label: [replace(evaluation_of(SKILLS, 0.5), samples=count, device=kind) for count, kind in runs]
        for label, runs in rows.items()
    }
    write_table(folder, experiment("main"), "starter", results, samples)
    return (folder / "table.md").read_text().splitlines()[-1]


def test_a_table_says_how_much_its_runs_were_trained_and_where_they_were_measured(tmp_path: Path) -> None:
    """Row by row where they differ from what was asked for by more than 1 %, and where devices do."""
    measured = "Measured with 1,000 trials of 10 s per skill, 50 per pair of skills."
    said = last_line(tmp_path, 1000, sm=[(1000, "cpu")], full=[(1009, "cpu")])
    assert said == f"Trained with 1,000 samples. {measured}"
    said = last_line(tmp_path, 1000, sm=[(1024, "cpu")], full=[(1024, "cpu")])
    assert said == f"Trained with 1,024 samples, where 1,000 were asked for. {measured}"
    said = last_line(tmp_path, 1000, sm=[(1000, "cpu")], full=[(1024, "cuda"), (1000, "cpu")])
    assert said == (
        "Trained with 1,000 (sm), 1,000 to 1,024 (full) samples, where 1,000 were asked for. "
        f"{measured} Measured on cpu (sm), cpu and cuda (full)."
    )


def test_what_could_not_be_measured_is_a_dash(tmp_path: Path) -> None:
    """One skill alone has no transitions."""
    alone = replace(evaluation_of(("hold",), 0.5), transition_rate={"hold": {}})
    write_table(tmp_path, experiment("main"), "courtside", {"sm": [alone]}, 1000)
    assert (tmp_path / "table.md").read_text().splitlines()[2] == (
        "| sm | 1 | 50.0 / 50.0 / 0.50 | 50.0 | – | 50.0 | 0.50 |"
    )


def test_a_row_that_would_be_another_is_left_out() -> None:
    """`paper` is `full` without what we add: on the starter, and before it begins on the humanoid, it is the same."""
    for name in ("main", "ablation"):
        rows = {row.label for row in experiment(name).rows}
        assert "paper" in rows
        assert {row.label for row in experiment(name).on(task_named("ballplay"), 750_000_000).rows} == rows
        for other, samples in (("ballplay", 400_000_000), ("starter", 750_000_000)):
            assert {row.label for row in experiment(name).on(task_named(other), samples).rows} == rows - {"paper"}
