"""The films of a report: those that are there, those that are made, where a click leads, and what is left out."""

import base64
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from run_pages import SKILLS, Page, make_run, pretend_to_film, report
from skillfield.cli import report as command
from skillfield.cli.report import Report
from skillfield.errors import ConfigError, NoRendererError, RenderError, SkillfieldError
from skillfield.reporting import report as page_module


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


def test_nothing_is_filmed_that_the_page_cannot_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transitions belong to a matrix, and a run that was not evaluated has none."""
    run = make_run(tmp_path / "a")
    (run / "evaluation.json").unlink()
    made = pretend_to_film(monkeypatch)
    page = Page(report(run, videos=True, transitions=("all",)))
    assert [path.name for path in made] == ["hold.mp4", "toss.mp4"]
    assert len(page.resources) == 2


def test_a_transition_is_filmed_for_the_tasks_that_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go without; one that no task has is an error."""
    runs = make_run(tmp_path / "a"), make_run(tmp_path / "b", task="other", skills=("hold", "juggle"))
    made = pretend_to_film(monkeypatch)
    report(*runs, videos=True, transitions=("toss:hold", "hold:juggle"))
    films = [path for path in made if path.parent.name == "transitions"]
    wanted = (("a", "toss--hold.mp4"), ("b", "hold--juggle.mp4"))
    assert films == [tmp_path / run / "videos" / "transitions" / name for run, name in wanted]
    with pytest.raises(ConfigError, match=r"^--transitions hold:fly: starter: unknown skill 'fly'.*; other: unknown"):
        report(*runs, transitions=("toss:hold", "hold:fly"))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("hold", "--transitions hold: starter: 'hold' is no pair"),
        ("hold:juggle", "--transitions hold:juggle: starter: unknown skill 'juggle'; known: hold, toss"),
        ("hold:hold", "--transitions hold:hold: starter: a transition leads to another skill"),
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


def test_a_transition_that_was_left_out_says_where_its_film_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and filming it again would not bring it into the page."""
    run = make_run(tmp_path / "a")
    film = run / "videos" / "transitions" / "hold--toss.mp4"
    film.parent.mkdir(parents=True)
    film.write_bytes(bytes(2_000_000))
    monkeypatch.setattr(page_module, "MAX_PAGE_BYTES", 2_000_000)
    text = Page(report(run, videos=True)).text
    assert f"Left out to keep the page small: {film}" in text
    assert "--transitions hold:toss makes one" not in text
    assert "--transitions toss:hold makes one" in text


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


@pytest.mark.parametrize(
    ("error", "tried", "note"),
    [
        (RenderError("hold.mp4: cannot be written"), ["sm", "full"], "No films of sm: hold.mp4: cannot be written"),
        (NoRendererError("no OpenGL"), ["sm"], "No films: no OpenGL"),
    ],
)
def test_a_run_without_films_costs_the_others_none(
    error: RenderError,
    tried: list[str],
    note: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only where nothing can be drawn at all nothing else is tried. The page says why, and the terminal too."""
    runs = [make_run(tmp_path / method, method) for method in ("sm", "full")]
    made, loaded = pretend_to_film(monkeypatch), []

    def load(folders: list[Path], _: Any) -> list[Any]:
        loaded.append(folders[0].name)
        if folders[0] == runs[0]:
            raise error
        return []

    monkeypatch.setattr(command, "load_performers", load)
    page = Page(report(*runs, videos=True))
    assert loaded == tried
    assert {path.parents[1].name for path in made} == set(tried) - {"sm"}
    assert note in page.text
    assert f"note: {note}" in capsys.readouterr().err.splitlines()


_CLICKS = """<script>
const state = () => document.querySelector('.set.open')?.id ?? 'none', seen = [];
document.querySelector('.heat a').click(); seen.push(state());
document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' })); seen.push(state());
document.querySelectorAll('#skill-0-1 video')[1].click(); seen.push(state());
document.querySelector('.set.open .close').click(); seen.push(state());
document.title = 'seen ' + seen.join(' ');
</script></body>"""


def after_a_visit(page: Path, link: str = "") -> str:
    """What a browser has of a page when its scripts have run."""
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"]
    address = f"file://{page}{link}"
    return subprocess.run([*browser, "--dump-dom", address], capture_output=True, text=True, timeout=120).stdout


def test_what_a_link_has_opened_can_be_closed(tmp_path: Path) -> None:
    """A set is a target until the address loses its end by itself: that comes before the history forgets it."""
    html = report(make_run(tmp_path / "a"))
    assert html.index("location.hash = ''") < html.index("history.replaceState")


_LEAVING = """<script>
const target = () => document.querySelector(':target')?.id ?? 'none';
addEventListener('load', () => {
  const before = target();
  document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
  document.title = ['left', before, target(), shown()?.id ?? 'none', location.href.split('/').pop()].join(' ');
});
</script></body>"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium to press a key in")
def test_a_browser_closes_what_a_link_has_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And forgets the link."""
    run = make_run(tmp_path / "a")
    pretend_to_film(monkeypatch)
    (tmp_path / "page.html").write_text(report(run, videos=True).replace("</body>", _LEAVING))
    dom = after_a_visit(tmp_path / "page.html", "#skill-0-1")
    assert "<title>left skill-0-1 none none page.html</title>" in dom


@pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium to click with")
def test_a_click_enlarges_and_escape_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real browser: a cell opens its transition, a film opens its row, and both can be left."""
    runs = [make_run(tmp_path / method, method) for method in ("sm", "full")]
    pretend_to_film(monkeypatch)
    html = report(*runs, videos=True, transitions=("all",))
    (tmp_path / "clicked.html").write_text(html.replace("</body>", _CLICKS))
    assert "<title>seen pair-0-0-1 none skill-0-1 none</title>" in after_a_visit(tmp_path / "clicked.html")
