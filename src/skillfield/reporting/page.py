"""The sheet that a report is printed on: one HTML file that needs nothing else, light or dark as the reader prefers."""

from collections.abc import Sequence
from html import escape

__all__ = ["facts", "html_page", "legend", "play_button", "section"]

_STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1e23; --soft: #626b77; --rule: #d8dce2; --faint: #f3f5f7;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b8578e; --c4: #c98a00; --c5: #3c9fd8; --c6: #5b6068;
  --heat: #0072b2; --on-heat: #ffffff;
  --s0: #440154; --s1: #3b528b; --s2: #21918c; --s3: #5ec962; --s4: #d6bd00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e4e7eb; --soft: #98a2ae; --rule: #343b44; --faint: #1d2127;
    --c0: #4aa3e0; --c1: #ff8a3d; --c2: #2fc79b; --c3: #e39ac4; --c4: #f0c04a; --c5: #a5d8f7; --c6: #b3bac3;
    --heat: #1c78bb; --on-heat: #ffffff;
    --s0: #fde725; --s1: #7ad151; --s2: #22a884; --s3: #4a7fb0; --s4: #8a5aa8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 Charter, "Bitstream Charter", "Iowan Old Style", "Source Serif 4", Georgia, serif;
}
main { max-width: 1140px; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1 { font-size: 2.1rem; line-height: 1.15; font-weight: 600; letter-spacing: -.01em; margin: 0 0 .35rem; }
h2 { font-size: 1.3rem; font-weight: 600; margin: 2.6rem 0 .3rem; padding-top: .9rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1.02rem; font-weight: 600; margin: 1.6rem 0 .5rem; }
p { max-width: 46rem; margin: .4rem 0 1rem; }
.caption, small, .todo, .notes { color: var(--soft); }
.caption { font-size: .92rem; }
.made { color: var(--soft); font-size: .92rem; }
code { font: .86em ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
table, dl, svg, figcaption, button, .legend {
  font-family: system-ui, -apple-system, "Segoe UI", Inter, Roboto, "Helvetica Neue", Arial, sans-serif;
}
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1rem 1.5rem; margin: 1.6rem 0 0;
  padding: 1rem 0 0; border-top: 2px solid var(--ink); }
dt { font-size: .74rem; color: var(--soft); }
dd { margin: .1rem 0 0; font-size: .98rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
small { font-size: .78em; }
.results, .runs { width: 100%; border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink); }
.results th, .runs th { font-weight: 500; }
.results th, .results td { padding: .34rem .3rem; text-align: right; white-space: nowrap; vertical-align: top; }
.results thead th { white-space: normal; color: var(--soft); font-size: .92em; vertical-align: bottom; }
.results thead th[colspan] { text-align: center; color: var(--ink); padding-bottom: .1rem; }
.results thead tr:last-child th { border-bottom: 1px solid var(--ink); padding-top: 0; }
.results .method { text-align: left; padding-left: .1rem; position: sticky; left: 0; background: var(--paper); }
.results thead .method { border-bottom: 1px solid var(--ink); }
.results .first { padding-left: .85rem; }
.results td small, .results tbody th small { display: block; line-height: 1.2; }
.results tbody tr + tr > * { border-top: 1px solid var(--rule); }
.results .none { text-align: left; color: var(--soft); font-style: italic; }
.results b { font-weight: 700; }
.runs th, .runs td { text-align: right; padding: .3rem .6rem; white-space: nowrap; }
.runs th:first-child, .runs td:first-child { text-align: left; padding-left: .1rem; white-space: normal;
  overflow-wrap: anywhere; }
.runs thead th { color: var(--soft); border-bottom: 1px solid var(--ink); }
.runs tbody tr + tr td { border-top: 1px solid var(--rule); }
.todo, .notes { font-size: .9rem; padding-left: 1.1rem; margin: .6rem 0; }
.todo code { color: var(--ink); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr));
  gap: 1.3rem 1.6rem; margin: 1rem 0; }
.maps { display: flex; flex-wrap: wrap; gap: 1.4rem 1.8rem; margin: 1rem 0; }
.maps figure { overflow-x: auto; max-width: 100%; }
figure { margin: 0; }
figcaption { font-size: .88rem; font-weight: 600; margin-bottom: .35rem; }
figcaption small { font-weight: 400; }
.heat th { font-weight: 400; color: var(--soft); font-size: .92em; padding: .2rem .3rem; max-width: 5.2rem;
  line-height: 1.15; }
.heat thead th { vertical-align: bottom; width: 3.4rem; min-width: 3.4rem; }
.heat tbody th { text-align: right; }
.heat td { text-align: center; height: 2.1rem; border: 1px solid var(--paper);
  background: color-mix(in srgb, var(--heat) var(--v, 0%), var(--faint)); }
.heat .strong { color: var(--on-heat); }
.heat .same { background: none; }
.heat .corner { background: none; color: var(--soft); font-size: .85em; vertical-align: bottom; white-space: nowrap; }
.heat .mean > * { border-top: 5px solid var(--paper); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.2rem; font-size: .84rem; margin: .8rem 0; }
.legend span { display: inline-flex; align-items: center; gap: .45rem; }
.legend svg { width: 28px; height: 10px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 10px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .heading { font-size: 12px; font-weight: 600; fill: var(--ink); }
.axis { stroke: var(--soft); stroke-width: 1; }
.mesh { stroke: var(--rule); stroke-width: .7; }
.mark { stroke: var(--soft); stroke-width: .9; stroke-dasharray: 3 3; }
.c0 { --colour: var(--c0); } .c1 { --colour: var(--c1); } .c2 { --colour: var(--c2); } .c3 { --colour: var(--c3); }
.c4 { --colour: var(--c4); } .c5 { --colour: var(--c5); } .c6 { --colour: var(--c6); }
.line, .swatch { fill: none; stroke: var(--colour); stroke-width: 1.7; stroke-linejoin: round; stroke-linecap: round; }
.tail { stroke-opacity: .4; }
.d1 { stroke-dasharray: 6 4; } .d2 { stroke-dasharray: 1.5 4; }
.dot { fill: var(--colour); }
.band { fill: var(--colour); fill-opacity: .16; stroke: none; }
.strip { fill: transparent; }
.strip:hover { fill: var(--ink); fill-opacity: .08; }
.area.reward { fill: var(--c2); fill-opacity: .55; }
.area.weight { fill: var(--c1); fill-opacity: .55; }
.even { stroke: var(--soft); stroke-width: .8; stroke-dasharray: 3 3; }
.bar { fill: var(--rule); }
.bar.own { fill: var(--ink); }
.edge { fill: none; stroke: var(--s0); stroke-width: .8; stroke-opacity: .5; }
.s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); } .s3 { stroke: var(--s3); } .s4 { stroke: var(--s4); }
.edge:hover { stroke-width: 2.4; stroke-opacity: 1; }
.legend .edge { stroke-width: 2.4; stroke-opacity: 1; }
.heat td a { display: block; padding: .45rem 0; color: inherit; text-decoration: none; cursor: pointer; }
.heat td a:hover, .heat td a:focus-visible { outline: 2px solid var(--ink); outline-offset: -2px; }
.bars { display: grid; gap: 1.1rem; margin: 1rem 0; }
.column { fill: var(--colour); fill-opacity: .82; }
.d1 .column { fill-opacity: .5; } .d2 .column { fill-opacity: .3; }
.rate:hover .column { fill-opacity: 1; }
.whisker { fill: none; stroke: var(--ink); stroke-width: 1; stroke-dasharray: none; }
svg .name { font-size: 11px; fill: var(--ink); }
.set { margin: 1.2rem 0; }
.head { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem .8rem; }
.head h3 { margin: 0 auto 0 0; }
.head a { font: .84rem system-ui, sans-serif; color: var(--soft); }
.set .close, .unseen { display: none; }
.set:target, .set.open { display: block; position: fixed; inset: 0; z-index: 2; margin: 0; overflow: auto;
  padding: 1.6rem max(1.5rem, calc(50vw - 800px)); background: var(--paper); }
.set:target .close, .set.open .close { display: inline; }
.set:target .enlarge, .set.open .enlarge { display: none; }
.set:target .films figure, .set.open .films figure { flex-basis: 22rem; max-width: none; }
.set:target video, .set.open video { max-height: 78vh; object-fit: contain; }
.films { display: flex; flex-wrap: wrap; gap: 1rem; margin: .6rem 0 1.4rem; }
.films figure { flex: 1 1 12.5rem; max-width: 22rem; }
video { width: 100%; display: block; border-radius: 4px; background: var(--faint); }
.films figcaption { font-weight: 400; margin: .3rem 0 0; }
button { font-size: .84rem; padding: .3rem .8rem; border: 1px solid var(--rule); border-radius: 4px;
  background: var(--faint); color: var(--ink); cursor: pointer; }
@media print {
  main { max-width: none; padding: 0; }
  button { display: none; }
  .grid > *, figure { break-inside: avoid; }
  * { print-color-adjust: exact; }
}
"""

_PLAY_ALL = """
const films = [...document.querySelectorAll('.set:not(.unseen) video')], still = films.every(film => film.paused);
films.forEach(film => still ? film.play() : film.pause());
"""

# Films of a set start together and keep to the time of the first. Controls cover half of a small film, so
# they show only where there is no script.
_SCRIPT = """
const sets = [...document.querySelectorAll('.set')];
const films = set => [...set.querySelectorAll('video')];
const restart = set => films(set).forEach(film => { film.currentTime = 0; film.play(); });
const shown = () => sets.find(set => set.classList.contains('open') || '#' + set.id === location.hash);
function leave() {
  const set = shown();
  if (!set) return;
  films(set).forEach(film => film.pause());
  set.classList.remove('open');
  if (location.hash === '#' + set.id) {
    location.hash = '';  // it is a target until then, whatever the address becomes
    history.replaceState(null, '', location.pathname + location.search);
  }
  document.body.style.overflow = '';
}
function enter(set) {
  if (shown() !== set) leave();
  set.classList.add('open');
  document.body.style.overflow = 'hidden';
  restart(set);
}
for (const set of sets) {
  const all = films(set);
  all.forEach(film => { film.controls = false; film.tabIndex = 0; film.style.cursor = 'pointer'; });
  if (all.length) all[0].addEventListener('timeupdate', () => all.slice(1).forEach(film => {
    const length = film.duration || 1, time = all[0].currentTime % length, away = Math.abs(film.currentTime - time);
    if (Math.min(away, length - away) > 0.1) film.currentTime = time;
  }));
}
function toggle(set) {
  const all = films(set), still = all.every(film => film.paused);
  all.forEach(film => still ? film.play() : film.pause());
}
document.addEventListener('click', event => {
  const link = event.target.closest('a[href^="#"]'), button = event.target.closest('button[data-do]');
  const set = link ? sets.find(set => '#' + set.id === link.getAttribute('href')) : event.target.closest('.set');
  if (link && link.classList.contains('close')) { event.preventDefault(); leave(); }
  else if (link && set) { event.preventDefault(); enter(set); }
  else if (button && button.dataset.do === 'play') toggle(set);
  else if (button && button.dataset.do === 'slow') {
    const rate = films(set)[0].playbackRate < 1 ? 1 : 0.25;
    films(set).forEach(film => { film.playbackRate = rate; });
    button.textContent = rate < 1 ? 'full speed' : 'slow';
  }
  else if (event.target.matches('.set video')) shown() === set ? toggle(set) : enter(set);
});
document.addEventListener('keydown', event => {
  if (event.key === 'Escape') leave();
  if (event.key === 'Enter' && event.target.matches('.set video')) enter(event.target.closest('.set'));
});
if (shown()) enter(shown());
"""


def html_page(title: str, body: str) -> str:
    """A whole document. body: HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def section(identifier: str, title: str, caption: str, *parts: str) -> str:
    """A numberless section with a caption; nothing if it has no content. caption and parts: HTML."""
    content = "\n".join(part for part in parts if part)
    if not content:
        return ""
    explained = f'<p class="caption">{caption}</p>' if caption else ""
    return f'<section id="{escape(identifier)}">\n<h2>{escape(title)}</h2>\n{explained}\n{content}\n</section>'


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """A row of labelled values."""
    return f"<dl>{''.join(f'<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>' for name, value in pairs)}</dl>"


def legend(items: Sequence[tuple[str, str]]) -> str:
    """Line samples and their names. items: (style classes, name)."""
    samples = []
    for classes, name in items:
        line = f'<svg viewBox="0 0 28 10" aria-hidden="true"><path class="{classes}" d="M2,5H26"/></svg>'
        samples.append(f"<span>{line}{escape(name)}</span>")
    return f'<div class="legend">{"".join(samples)}</div>'


def play_button() -> str:
    """Plays or pauses every film of the page."""
    return f'<button type="button" onclick="{_PLAY_ALL}">play or pause all</button>'
