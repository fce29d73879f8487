"""The Python interface: every example of its page runs as it stands."""

import re
from pathlib import Path

import pytest

import skillfield as sf

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
EXAMPLES = dict(re.findall(r"^## `sf\.(\w+)`\n(?:(?!^## ).*\n)*?```python\n((?:(?!```).*\n)+)```", PAGE, flags=re.M))


def test_every_function_has_an_example() -> None:
    """And every heading of a function is one that exists."""
    assert set(EXAMPLES) == {"load_clips", "tasks", "train", "resume", "evaluate", "load_policy"}
    assert set(EXAMPLES) <= set(sf.__all__)
    assert PAGE.count("```python") == len(EXAMPLES)


def test_the_table_lists_every_function() -> None:
    """In the order of their headings, each with a link to its own; and they are counted."""
    rows = re.findall(r"^\| \[`sf\.(\w+)`\]\(#sf(\w+)\) \|", PAGE, flags=re.M)
    assert rows == [(name, name) for name in EXAMPLES]
    numbers = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    assert f"gives {numbers[len(rows)]} things" in PAGE


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each by itself, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[name], f"docs/api.md ({name})", "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    expected = {
        "load_clips": "toss: ",
        "tasks": "dribble_forward",
        "train": "checkpoints",
        "resume": "4096",
        "evaluate": "hold: 100 %",
        "load_policy": "the hand holds the ball 1.",
    }
    assert expected[name] in printed
