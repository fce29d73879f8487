"""Transitions as a picture: a cell per ordered pair of skills, and each skill's own success rate on the diagonal."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from skillfield.errors import RenderError
from skillfield.evaluation import Evaluation
from skillfield.reporting.runs import EVALUATION_FILE

__all__ = ["heat_colour", "matrix_rates", "readable_on", "run_name", "transition_matrix"]

Colour = tuple[int, int, int]

_PAPER, _INK, _SOFT, _RULE = (255, 255, 255), (27, 30, 35), (98, 107, 119), (216, 220, 226)
_COLD, _HOT = (243, 245, 247), (0, 114, 178)  # the report's colours
_CELL_WIDTH, _CELL_HEIGHT = 148, 92
_GAP, _MARGIN, _OUTLINE = 4, 28, 3
_TITLE, _TEXT, _LABEL, _RATE, _TAG = 30, 17, 18, 27, 14  # sizes of letters
_LEADING = 1.35  # lines to letters
_BESIDE = 12  # between names and cells
_FROM, _TO = "starts in", "and is asked for"

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def transition_matrix(result: Evaluation, source: Path) -> NDArray[np.uint8]:
    """TSR of every ordered pair: rows are where a trial starts, columns what is asked for; the diagonal is SR.

    source: the run, or the file, that the figures come from; its name is the title.
    """
    skills = list(result.success_rate)
    if len(skills) < 2:
        raise RenderError(f"{source}: a matrix of transitions needs two skills, there is only {skills}")
    spoken = [skill.replace("_", " ") for skill in skills]
    above = _told(result, run_name(source))
    label = _font(_LABEL)
    heads = [_lines(skill, label, _CELL_WIDTH - 2 * _GAP) for skill in spoken]
    left = _MARGIN + math.ceil(max(label.getlength(text) for text in (_FROM, *spoken))) + _BESIDE
    top = _MARGIN + sum(_height(size) for _, size, _ in above) + (2 + max(map(len, heads))) * _height(_LABEL) + _BESIDE
    right = left + len(skills) * _CELL_WIDTH
    widest = math.ceil(max(_font(size).getlength(text) for text, size, _ in above))
    page = Image.new(
        "RGB", (max(right, _MARGIN + widest) + _MARGIN, top + len(skills) * _CELL_HEIGHT + _MARGIN), _PAPER
    )
    draw = ImageDraw.Draw(page)
    y = _MARGIN
    for text, size, colour in above:
        draw.text((_MARGIN, y), text, fill=colour, font=_font(size))
        y += _height(size)
    _draw_heads(draw, heads, left, top)
    draw.text((left - _BESIDE, top - _BESIDE), _FROM, fill=_SOFT, font=label, anchor="rs")
    for row, (skill, rates) in enumerate(zip(spoken, matrix_rates(result), strict=True)):
        middle = top + (row + 0.5) * _CELL_HEIGHT
        draw.text((left - _BESIDE, middle), skill, fill=_INK, font=label, anchor="rm")
        for column, rate in enumerate(rates):
            _draw_cell(draw, left + column * _CELL_WIDTH, top + row * _CELL_HEIGHT, rate, own=row == column)
    return np.asarray(page)


def run_name(source: Path) -> str:
    """What to call a run, given its folder or the evaluation in it; another file is called by its own name."""
    whole = source.resolve()
    return whole.parent.name if whole.name == EVALUATION_FILE else whole.name.removesuffix(".json")


def matrix_rates(result: Evaluation) -> list[list[float]]:
    """Rates by source and target; not a number where a pair was not measured."""
    across = result.transition_rate
    return [
        [own if target == source else across.get(source, {}).get(target, math.nan) for target in result.success_rate]
        for source, own in result.success_rate.items()
    ]


def heat_colour(rate: float) -> Colour:
    """From pale at 0 to blue at 1; paper where there is no rate."""
    if not math.isfinite(rate):
        return _PAPER
    share = min(max(rate, 0.0), 1.0)
    red, green, blue = (round(cold + share * (hot - cold)) for cold, hot in zip(_COLD, _HOT, strict=True))
    return red, green, blue


def readable_on(background: Colour) -> Colour:
    """Ink or paper, whichever stands out more."""
    return max(_INK, _PAPER, key=lambda colour: _contrast(colour, background))


def _told(result: Evaluation, name: str) -> list[tuple[str, int, Colour]]:
    """What stands above the matrix: text, size, colour."""
    means = result.averages()
    own, across = (100 * means[metric] for metric in ("success_rate", "transition_rate"))
    pairs = sum(map(len, result.transition_rate.values()))
    return [
        (f"{name}: transition success", _TITLE, _INK),
        (result.measured_with(), _TEXT, _SOFT),
        (f"TSR, mean of {pairs} pairs: {across:.1f} %   ·   SR, outlined, mean: {own:.1f} %", _TEXT, _SOFT),
    ]


def _draw_heads(draw: ImageDraw.ImageDraw, heads: Sequence[Sequence[str]], left: int, top: int) -> None:
    """Names of the columns, each in its lines, under a rule that says what they are."""
    label, line_height = _font(_LABEL), _height(_LABEL)
    for number, lines in enumerate(heads):
        middle = left + (number + 0.5) * _CELL_WIDTH
        for line, text in enumerate(reversed(lines)):
            draw.text((middle, top - _BESIDE - line * line_height), text, fill=_INK, font=label, anchor="ms")
    right = left + len(heads) * _CELL_WIDTH
    rule = top - _BESIDE - max(map(len, heads)) * line_height
    draw.line((left + _GAP // 2, rule, right - _GAP // 2, rule), fill=_RULE)
    draw.text(((left + right) / 2, rule - 7), _TO, fill=_SOFT, font=label, anchor="ms")


def _draw_cell(draw: ImageDraw.ImageDraw, left: int, top: int, rate: float, *, own: bool) -> None:
    """own: the skill's own success rate, which is outlined and says so."""
    box = (left + _GAP // 2, top + _GAP // 2, left + _CELL_WIDTH - _GAP // 2, top + _CELL_HEIGHT - _GAP // 2)
    fill = heat_colour(rate)
    draw.rectangle(box, fill=fill, outline=_INK if own else None, width=_OUTLINE if own else 0)
    ink = readable_on(fill)
    text = f"{100 * rate:.1f} %" if math.isfinite(rate) else "-"
    middle = (left + _CELL_WIDTH / 2, top + _CELL_HEIGHT / 2)
    draw.text(middle, text, fill=ink, font=_font(_RATE), anchor="mm")
    if own:
        draw.text((box[0] + 9, box[1] + 8), "SR", fill=ink, font=_font(_TAG))


def _lines(text: str, font: Font, width: float) -> list[str]:
    """Words in as few lines as fit."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _contrast(one: Colour, other: Colour) -> float:
    """Of the Web Content Accessibility Guidelines: 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Colour) -> float:
    shares = np.array(colour) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _height(size: int) -> int:
    return round(_LEADING * size)


def _font(size: int) -> Font:
    return ImageFont.load_default(size)
