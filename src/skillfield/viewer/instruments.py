"""What the character feels, as a piece of HTML: bars, lamps and numbers, sent as one text."""

from html import escape

from skillfield.viewer.notes import Note
from skillfield.viewer.session import Readings

__all__ = ["clip_html", "readings_html"]

_STYLE = "font:12px/1.45 system-ui,sans-serif;padding:2px 10px 8px"
_MUTED = "color:#868e96"
_ONE_LINE = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
_GOOD, _POOR, _BAD, _OFF = "#2f9e44", "#f08c00", "#e03131", "#ced4da"

_NAMES = {
    "position": "body position",
    "rotation": "body rotation",
    "velocity": "body velocity",
    "rotation_velocity": "joint velocity",
    "object_position": "ball position",
    "object_rotation": "ball rotation",
    "object_velocity": "ball velocity",
    "object_rotation_velocity": "ball spin",
    "relative": "ball to body",
    "object-hand": "ball and hand",
    "object-body": "ball and body",
    "body-hand": "body and hand",
}


def readings_html(now: Readings, pace: str, note: Note | None = None) -> str:
    """The instruments of a session. pace: how time goes by. note: a line for people."""
    rows = [_row(_NAMES.get(term, term), value) for term, value in now.terms.items() if term not in now.contacts]
    phase = now.frame / max(now.length - 1, 1)
    parts = [
        _heading("Reward", f"{now.reward:.2f}" if not now.over else "the clip is over"),
        *([] if now.over else [_row("all", now.reward, bold=True), *rows]),
        _heading("Contacts", "now · reference"),
        *(_lamps(_NAMES.get(pair, pair), *lamps) for pair, lamps in now.contacts.items()),
        _heading("Phase", f"frame {now.frame} / {now.length - 1}"),
        f'<div style="{_MUTED};{_ONE_LINE}">{escape(now.clip)}</div>',
        _bar(phase, "#4263eb"),
    ]
    if now.embedding:
        parts += [_heading("History embedding", ""), _numbers(now.embedding)]
    state = "fallen" if now.fallen else f"{now.seconds:.1f} s"
    parts.append(f'<div style="{_MUTED};margin-top:8px">{state} · {pace}</div>')
    if note is not None:
        parts.append(_told(note))
    return f'<div style="{_STYLE}">{"".join(parts)}</div>'


def clip_html(
    clip: str, skill: str, frame: int, length: int, contacts: dict[str, bool], edge: str, note: Note | None
) -> str:
    """The same for a clip that is only played."""
    parts = [
        _heading("Clip", escape(clip)),
        _line("skill", escape(skill)),
        _line("frame", f"{frame} / {length - 1}"),
        _bar(frame / max(length - 1, 1), "#4263eb"),
        _heading("Contacts", "in the clip"),
        *(_lamps(_NAMES.get(pair, pair), touching) for pair, touching in contacts.items()),
    ]
    if edge:
        parts += [_heading("Edge", ""), f"<div>{escape(edge)}</div>"]
    if note is not None:
        parts.append(_told(note))
    return f'<div style="{_STYLE}">{"".join(parts)}</div>'


def _told(note: Note) -> str:
    return f'<div style="margin-top:4px;color:{_GOOD if note.good else _BAD}">{escape(note.text)}</div>'


def _heading(text: str, value: str) -> str:
    return (
        '<div style="display:flex;justify-content:space-between;margin-top:8px;font-weight:600">'
        f'<span>{text}</span><span style="{_MUTED};font-weight:400">{value}</span></div>'
    )


def _line(name: str, value: str) -> str:
    return (
        f'<div style="display:flex;justify-content:space-between"><span>{name}</span>'
        f'<span style="{_MUTED}">{value}</span></div>'
    )


def _row(name: str, value: float, bold: bool = False) -> str:
    colour = _GOOD if value > 0.7 else _POOR if value > 0.3 else _BAD
    weight = "font-weight:600" if bold else ""
    return (
        f'<div style="display:grid;grid-template-columns:96px 1fr 34px;gap:6px;align-items:center;{weight}">'
        f'<span>{escape(name)}</span>{_bar(value, colour)}<span style="text-align:right">{value:.2f}</span></div>'
    )


def _bar(share: float, colour: str) -> str:
    width = round(100 * min(max(share, 0.0), 1.0))
    return (
        '<div style="height:7px;border-radius:4px;background:#e9ecef;overflow:hidden">'
        f'<div style="height:100%;width:{width}%;background:{colour}"></div></div>'
    )


def _lamps(name: str, *lamps: bool) -> str:
    dots = "".join(
        '<span style="display:inline-block;width:10px;height:10px;border-radius:50%;margin-left:8px;'
        f'background:{_GOOD if lamp else _OFF}"></span>'
        for lamp in lamps
    )
    return (
        f'<div style="display:flex;justify-content:space-between;align-items:center"><span>{escape(name)}</span>'
        f"<span>{dots}</span></div>"
    )


def _numbers(values: tuple[float, ...]) -> str:
    """Bars that grow from the middle: an embedding has a sign."""
    most = max(3.0, *(abs(value) for value in values))
    rows = []
    for number, value in enumerate(values, start=1):
        width = 50 * abs(value) / most
        left = 50.0 if value >= 0 else 50.0 - width
        rows.append(
            '<div style="display:grid;grid-template-columns:20px 1fr 44px;gap:6px;align-items:center">'
            f"<span>h<sub>{number}</sub></span>"
            '<div style="height:7px;border-radius:4px;background:#e9ecef;position:relative;overflow:hidden">'
            f'<div style="position:absolute;height:100%;left:{left:.0f}%;width:{width:.0f}%;background:#7048e8"></div>'
            f'</div><span style="text-align:right">{value:+.2f}</span></div>'
        )
    return "".join(rows)
