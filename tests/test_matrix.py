"""The matrix of transitions as a picture: every rate in its place, readable, under the right names."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from skillfield.cli import evaluate as command
from skillfield.cli.main import main
from skillfield.errors import RenderError
from skillfield.evaluation import Evaluation
from skillfield.files import write_json
from skillfield.reporting.matrix import heat_colour, matrix_rates, readable_on, run_name, transition_matrix

FIGURES = Evaluation(
    trials=1000,
    transition_trials=50,
    seconds=10.0,
    seed=0,
    success_rate={"run_fast": 0.9, "hold": 0.7, "toss": 0.1},
    success_interval=dict.fromkeys(("run_fast", "hold", "toss"), (0.0, 1.0)),
    neighbourhood_rate=dict.fromkeys(("run_fast", "hold", "toss"), 0.5),
    neighbourhood_interval=dict.fromkeys(("run_fast", "hold", "toss"), (0.0, 1.0)),
    transition_rate={
        "run_fast": {"hold": 0.2, "toss": 0.3},
        "hold": {"run_fast": 0.4, "toss": 0.5},
        "toss": {"run_fast": 0.6, "hold": 1.0},
    },
    normalised_reward=dict.fromkeys(("run_fast", "hold", "toss"), 0.25),
)
ALONE = replace(
    FIGURES,
    success_rate={"hold": 0.7},
    success_interval={"hold": (0.0, 1.0)},
    neighbourhood_rate={"hold": 0.5},
    neighbourhood_interval={"hold": (0.0, 1.0)},
    transition_rate={"hold": {}},
    normalised_reward={"hold": 0.25},
)
SOURCE = Path("runs/mine")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything that is written into pictures."""
    written: list[str] = []
    draw = ImageDraw.ImageDraw.text

    def text(self: ImageDraw.ImageDraw, xy: Any, text: str, *rest: Any, **options: Any) -> None:
        written.append(text)
        draw(self, xy, text, *rest, **options)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    return written


def box_of(picture: np.ndarray, colour: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the cell of this colour, which edges of letters may have here and there too."""
    has = (picture == colour).all(axis=-1)
    columns, rows = np.flatnonzero(has.sum(axis=0) > 40), np.flatnonzero(has.sum(axis=1) > 40)
    return int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])


def test_rows_are_sources_columns_targets_and_the_diagonal_is_success() -> None:
    """A pair that was not measured is not a number."""
    assert matrix_rates(FIGURES) == [[0.9, 0.2, 0.3], [0.4, 0.7, 0.5], [0.6, 1.0, 0.1]]
    gap = matrix_rates(replace(FIGURES, transition_rate={"hold": {"toss": 0.5}}))
    assert gap[1][2] == 0.5
    assert math.isnan(gap[0][1])
    assert math.isnan(gap[1][0])


def test_every_cell_has_the_colour_of_its_rate_where_it_belongs() -> None:
    """Nine rates, nine colours: from left to right the targets, from top to bottom the sources, evenly spaced."""
    picture = transition_matrix(FIGURES, SOURCE)
    boxes = [[box_of(picture, heat_colour(rate)) for rate in row] for row in matrix_rates(FIGURES)]
    centres = np.array(
        [[((left + right) / 2, (top + bottom) / 2) for left, top, right, bottom in row] for row in boxes]
    )
    across, down = centres[..., 0], centres[..., 1]  # [source, target]
    assert (across == across[0]).all()
    assert (down[:, :1] == down).all()
    assert (np.diff(across[0]) == 148).all()
    assert (np.diff(down[:, 0]) == 92).all()


def test_only_the_diagonal_is_outlined() -> None:
    """A dark line around each skill's own rate; paper around the others."""
    picture = transition_matrix(FIGURES, SOURCE)
    for i, row in enumerate(matrix_rates(FIGURES)):
        for j, rate in enumerate(row):
            left, top, right, bottom = box_of(picture, heat_colour(rate))
            around = [picture[top - 1, left], picture[bottom + 1, right], picture[top, left - 1]]
            assert all(pixel.max() < 40 if i == j else pixel.min() == 255 for pixel in around)


def test_the_picture_says_whose_figures_they_are(texts: list[str]) -> None:
    """Title, numbers of trials, seconds, both means, readable names, and every rate in per cent."""
    transition_matrix(FIGURES, SOURCE)
    assert texts[:3] == [
        "mine: transition success",
        "1,000 trials of 10 s per skill, 50 per pair of skills",
        "TSR, mean of 6 pairs: 50.0 %   ·   SR, outlined, mean: 56.7 %",
    ]
    assert [texts.count(name) for name in ("run fast", "hold", "toss", "SR")] == [2, 2, 2, 3]
    rates = [text for text in texts[3:] if text.endswith("%")]
    assert rates == [f"{rate} %" for rate in ("90.0", "20.0", "30.0", "40.0", "70.0", "50.0", "60.0", "100.0", "10.0")]


def test_a_pair_that_was_not_measured_leaves_its_cell_empty(texts: list[str]) -> None:
    """Five of the six are left."""
    gap = replace(FIGURES, transition_rate=FIGURES.transition_rate | {"toss": {"hold": 1.0}})
    transition_matrix(gap, SOURCE)
    assert texts.count("-") == 1
    assert "60.0 %" not in texts
    assert texts[2].startswith("TSR, mean of 5 pairs: 48.0 %")


def test_long_names_stay_on_the_page(texts: list[str]) -> None:
    """The margin is free all around; a name too long for its column goes on in the next line."""
    name = "catch_the_ball_behind_the_back"
    skills = {"hold": 0.5, name: 0.5}
    long = replace(FIGURES, success_rate=skills, transition_rate={"hold": {name: 0.1}, name: {"hold": 0.2}})
    picture = transition_matrix(long, Path("runs") / ("a_run_with_a_name_that_tells_its_whole_story" * 2))
    for edge in (picture[:20], picture[-20:], picture[:, :20], picture[:, -20:]):
        assert (edge == 255).all()
    assert "catch the ball behind the back" in texts  # its row
    assert "catch the ball" in texts  # its column's first line


def test_colours_run_from_pale_to_blue() -> None:
    """As in the report; beyond 0 and 1 nothing changes; without a rate there is none."""
    assert heat_colour(0.0) == heat_colour(-0.1) == (243, 245, 247)
    assert heat_colour(1.0) == heat_colour(1.1) == (0, 114, 178)
    assert heat_colour(0.5) == (122, 180, 212)  # halves go to the even number
    assert heat_colour(math.nan) == (255, 255, 255)


def test_figures_are_dark_on_pale_and_light_on_blue() -> None:
    """Whichever has more contrast: at least 4 : 1 on every cell (3 : 1 is asked of letters as large as these)."""
    assert readable_on((255, 255, 255)) == (27, 30, 35)
    assert readable_on((0, 0, 0)) == (255, 255, 255)
    inks = [readable_on(heat_colour(percent / 100)) for percent in range(101)]
    assert inks[0] == (27, 30, 35)
    assert inks[100] == (255, 255, 255)
    assert sum(one != other for one, other in pairwise(inks)) == 1

    def luminance(colour: tuple[int, int, int]) -> float:
        red, green, blue = (((value / 255 + 0.055) / 1.055) ** 2.4 for value in colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for percent, ink in enumerate(inks):
        dark, light = sorted((luminance(ink), luminance(heat_colour(percent / 100))))
        assert (light + 0.05) / (dark + 0.05) > 4


def test_a_run_is_called_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the evaluation in it was named, from inside too; a file with another name by that."""
    monkeypatch.chdir(tmp_path)
    assert run_name(Path("runs/ballplay-full-0.2")) == "ballplay-full-0.2"
    assert run_name(Path("runs/ballplay-full-0.2/evaluation.json")) == "ballplay-full-0.2"
    assert run_name(Path("evaluation.json")) == tmp_path.name
    assert run_name(Path("runs/before.json")) == "before"


def test_one_skill_has_no_matrix() -> None:
    """The message names where the figures are from."""
    with pytest.raises(RenderError, match=r"one/evaluation\.json: .* two skills, there is only \['hold'\]"):
        transition_matrix(ALONE, Path("one/evaluation.json"))


def test_a_written_evaluation_is_drawn_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], texts: list[str]
) -> None:
    """Tables and picture come from the file, which stays as it is; one from before pairs had their own trials too."""
    monkeypatch.setattr(command, "evaluate", lambda *_, **__: pytest.fail("measured again"))
    values = replace(FIGURES, transition_trials=1000).to_dict()
    del values["transition_trials"]
    file, picture = tmp_path / "mine" / "evaluation.json", tmp_path / "new" / "matrix.png"
    write_json(file, values)
    before = file.read_bytes()
    assert main(["evaluate", str(file), "--matrix", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == str(picture)
    assert "56.7" in out
    assert texts[:2] == ["mine: transition success", "1,000 trials of 10 s per skill and per pair of skills"]
    assert np.array_equal(np.asarray(Image.open(picture)), transition_matrix(Evaluation.from_dict(values), file))
    assert file.read_bytes() == before


def changed(**values: Any) -> Callable[[Path], object]:
    """A file of other figures."""
    return lambda path: write_json(path, FIGURES.to_dict() | values)


@pytest.mark.parametrize(
    ("write", "options", "told"),
    [
        (lambda path: None, [], "evaluation.json: no such file"),
        (lambda path: path.write_text("{"), [], "evaluation.json: cannot be read as JSON"),
        (lambda path: path.write_text("[]"), [], "evaluation.json: no evaluation of this version"),
        (lambda path: path.write_text(json.dumps({"task": "starter"})), [], "evaluation.json: no evaluation of this"),
        (changed(normalised_reward={"hold": 0.5}), [], "evaluation.json: no evaluation of this version (figures of"),
        (lambda path: write_json(path, ALONE.to_dict()), [], "evaluation.json: a matrix of transitions needs two"),
        (changed(), ["--trials", "9"], "evaluation.json is measured already; only --matrix and --json go with it"),
        (changed(), ["--matrix", "matrix.jpg"], "matrix.jpg: the matrix is a PNG, not '.jpg'"),
    ],
)
def test_what_cannot_be_drawn_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    write: Callable[[Path], object],
    options: list[str],
    told: str,
) -> None:
    """One line, exit code 2, and no picture."""
    file, picture = tmp_path / "evaluation.json", tmp_path / "matrix.png"
    write(file)
    assert main(["evaluate", str(file), "--matrix", str(picture), *options]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not picture.exists()
