"""Pages that repeat what the code or another page says: they say the same."""

import re
from pathlib import Path

import pytest

from skillfield import errors
from skillfield.characters import character
from skillfield.errors import SkillfieldError

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def row_of(page: str, opening: str) -> list[str]:
    """The cells of the first table row that begins so."""
    row = next(line for line in (DOCS / page).read_text().splitlines() if line.startswith(f"| {opening} |"))
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def test_the_sizes_of_the_buffers_are_those_of_the_models() -> None:
    """Contacts and constraint rows of the hand and of the humanoid, whichever its hands."""
    pytest.importorskip("mujoco_warp", reason="needs the gpu extra")
    from skillfield.simulation.gpu import Buffers

    for size in ("contacts", "constraints"):
        hand, humanoid = map(int, row_of("simulation.md", f"`{size}`")[-2:])
        for name, told in (("hand", hand), ("humanoid", humanoid), ("humanoid_fused", humanoid)):
            assert getattr(Buffers().resolved(character(name).model, 4), size) == told


def test_every_error_is_listed() -> None:
    """Whoever reads about bad input learns of all kinds."""
    told = set(re.findall(r"`(\w+Error)`", " ".join(row_of("design.md", "bad input"))))
    assert told == {name for name in errors.__all__ if name.endswith("Error")} - {SkillfieldError.__name__}


def headings(page: Path) -> set[str]:
    """What a link may lead to within a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the project, and to a heading in it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not heading or heading in headings(target), link
