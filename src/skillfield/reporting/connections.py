"""A picture of the stitched graph: which frames of other skills connect to which frames of a skill."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from skillfield.reporting.charts import Scale, axis_ticks
from skillfield.reporting.runs import ClipRows, Edges

__all__ = ["SIMILARITY_LEVELS", "connection_pictures"]

SIMILARITY_LEVELS: tuple[tuple[float, str], ...] = (
    (math.log10(2), "β ≥ 0.5"),
    (1.0, "0.5 > β ≥ 0.1"),
    (2.0, "2 masked states"),
    (5.0, "3 to 5"),
    (math.inf, "6 or more"),
)
"""Highest -log10 β of each level of colour, and what it is called. An edge above β = 0.1 needs one masked state."""

_MAX_LINES = 500  # in one picture; more is a carpet
_WIDTH, _LEFT, _RIGHT, _TOP = 340.0, 92.0, 8.0, 26.0
_BAR = 8.0
_MAX_NAME = 17


def connection_pictures(clips: Sequence[ClipRows], edges: Edges) -> list[str]:
    """One picture per skill: every clip is a bar, every edge a line to one of the skill's own bars."""
    ends = np.cumsum([clip.length for clip in clips])
    source_clip, target_clip = (np.searchsorted(ends, rows, side="right") for rows in (edges.source, edges.target))
    pictures = []
    for skill in dict.fromkeys(clip.skill for clip in clips):
        own = [number for number, clip in enumerate(clips) if clip.skill == skill]
        chosen = np.flatnonzero(np.isin(target_clip, own))
        if len(chosen):
            pictures.append(_picture(skill, clips, edges, chosen, source_clip, target_clip))
    return pictures


def _picture(
    skill: str,
    clips: Sequence[ClipRows],
    edges: Edges,
    chosen: np.ndarray,
    source_clip: np.ndarray,
    target_clip: np.ndarray,
) -> str:
    pitch = 34.0 if len(clips) <= 12 else 18.0
    bottom = _TOP + pitch * (len(clips) - 1) + _BAR
    x = Scale(0, max(clip.length for clip in clips), _LEFT, _WIDTH - _RIGHT)
    parts = [f'<text class="heading" x="0" y="14">into {escape(skill)}</text>']
    drawn = chosen[:: math.ceil(len(chosen) / _MAX_LINES)]
    told = f"{len(chosen):,} edges" + ("" if len(drawn) == len(chosen) else f", {len(drawn):,} drawn")
    parts.append(f'<text class="note" x="{_WIDTH - _RIGHT}" y="14" text-anchor="end">{told}</text>')
    for edge in drawn[np.argsort(-edges.exponent[drawn], kind="stable")]:  # the most similar on top
        parts.append(_line(clips, edges, edge, source_clip[edge], target_clip[edge], x, pitch))
    for number, clip in enumerate(clips):
        y = _TOP + pitch * number
        kind = "bar own" if clip.skill == skill else "bar"
        name = clip.name if len(clip.name) <= _MAX_NAME else f"{clip.name[:9]}…{clip.name[-7:]}"
        size = f'x="{_LEFT}" y="{y:g}" width="{x(clip.length) - _LEFT:.1f}" height="{_BAR:g}"'
        parts.append(f'<text x="{_LEFT - 6}" y="{y + _BAR:g}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="{kind}" rx="2" {size}>{_bar_title(clip)}</rect>')
    for tick in axis_ticks(0, x.high, 4):
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 14:g}" text-anchor="middle">{tick:g}</text>')
    label = escape(f"edges of the stitched graph into {skill}")
    return f'<svg viewBox="0 0 {_WIDTH:g} {bottom + 20:g}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _line(
    clips: Sequence[ClipRows],
    edges: Edges,
    edge: int,
    source: int,
    target: int,
    x: Scale,
    pitch: float,
) -> str:
    """From the middle of the one frame to the middle of the other, leaving and arriving upright."""
    frames = (edges.source[edge] - clips[source].start, edges.target[edge] - clips[target].start)
    from_x, to_x = (x(float(frame) + 0.5) for frame in frames)
    down = target > source
    from_y = _TOP + pitch * source + (_BAR if down else 0.0)
    to_y = _TOP + pitch * target + (0.0 if down else _BAR)
    middle = (from_y + to_y) / 2
    path = f"M{from_x:.1f},{from_y:.0f}C{from_x:.1f},{middle:.0f} {to_x:.1f},{middle:.0f} {to_x:.1f},{to_y:.0f}"
    distance = float(edges.exponent[edge]) / math.log(10)
    level = next(number for number, (most, _) in enumerate(SIMILARITY_LEVELS) if distance <= most)
    names = f"{clips[source].name} {frames[0]} → {clips[target].name} {frames[1]}"
    return f'<path class="edge s{level}" d="{path}"><title>{escape(names)}, β = {10**-distance:.2g}</title></path>'


def _bar_title(clip: ClipRows) -> str:
    return f"<title>{escape(f'{clip.name} ({clip.skill}), {clip.length} frames')}</title>"
