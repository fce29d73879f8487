"""Run folders as training leaves them, and the pages of a report, that its tests share."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from skillfield.cli import report as command
from skillfield.cli.report import Report
from skillfield.evaluation import Evaluation
from skillfield.experiments.run import preset, save_config
from skillfield.files import write_json
from skillfield.reporting.logs import METRICS_FILE

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
