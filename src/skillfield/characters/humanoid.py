"""The BallPlay humanoid: 53 bodies on ball joints, and a basketball.

Shapes, masses and gains are rows of `humanoid.json`. The rest pose stands with its arms spread, faces +x, and is the
zero of every joint: a joint column of a clip is a component of the rotation vector from there.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from skillfield.characters.character import Character
from skillfield.characters.hand import BALL
from skillfield.characters.tables import BodyRow, ContactRow, GeomRow, JointRow, ObjectRow, build_spec
from skillfield.errors import CharacterError, unknown_name
from skillfield.rotations import quat_from_rotvec

__all__ = ["FINGERS", "HANDS", "STANDING_HEIGHT", "Hands", "humanoid"]

Hands = Literal["full", "fused"]
HANDS: tuple[Hands, ...] = ("full", "fused")

FINGERS = ("index", "middle", "pinky", "ring", "thumb")

STANDING_HEIGHT = 0.981
"""Height of the pelvis when the soles of the rest pose touch the floor."""

_NAME = "humanoid"
_TABLE = Path(__file__).with_name("humanoid.json")
_SIDES = ("left", "right")
_UPRIGHT = (0.5, 0.5, 0.5, 0.5)  # the table's y up and z ahead to the world's z up and x ahead

_SKIN = ContactRow(friction=(1.0, 0.005, 0.0001), restitution=0.2)
_SKIN_RGBA, _SHIRT_RGBA = (0.87, 0.67, 0.54, 1.0), (0.20, 0.32, 0.52, 1.0)
_SHORTS_RGBA, _SHOE_RGBA = (0.16, 0.19, 0.26, 1.0), (0.92, 0.92, 0.90, 1.0)
_COLOURS = {
    "pelvis": _SHORTS_RGBA,
    "hip": _SHORTS_RGBA,
    "ankle": _SHOE_RGBA,
    "toe": _SHOE_RGBA,
    **dict.fromkeys(("torso", "spine", "upper_spine", "chest", "thorax", "shoulder"), _SHIRT_RGBA),
}

_BONE_RADII = {
    **dict.fromkeys((f"{finger}_1" for finger in FINGERS), 0.009),
    **dict.fromkeys(("torso", "spine", "upper_spine", "chest"), 0.08),
    "hip": 0.06,
    "knee": 0.055,
    "ankle": 0.045,
    "neck": 0.05,
    "thorax": 0.06,
    "shoulder": 0.05,
    "elbow": 0.04,
    "wrist": 0.03,
}
"""Flesh along the bones, for the eye alone: the shapes that touch leave gaps. By what the bone leads to."""


def humanoid(hands: Hands = "full", self_collision: bool = True, ball: ObjectRow = BALL) -> Character:
    """The humanoid with its ball.

    hands: `full` moves every finger (168 degrees of freedom in all); `fused` fixes the fingers in a cup that fits a
        basketball (78, and several times faster), keeps their shapes, and follows the same clips.
    self_collision: whether its parts feel one another; without it the pair 'body-hand' never touches.
    ball: the object; the release's 7.24 kg is `replace(BALL, mass=7.24)`.
    """
    if hands not in HANDS:
        raise CharacterError(unknown_name("kind of hands", hands, HANDS))
    table = json.loads(_TABLE.read_text())["bodies"]
    fixed = {row["name"] for row in table if hands == "fused" and "cup" in row}
    rows = tuple(_body(row, row["name"] in fixed, _bones(row, table)) for row in table)
    tips = tuple(f"{side}_{finger}_3" for side in _SIDES for finger in FINGERS)
    limbs = tuple(f"{side}_{joint}" for joint in ("knee", "elbow", "ankle") for side in _SIDES)
    # the two ends of a thumb overlap at rest, which would be felt at its tip for ever
    strangers = tuple((tip[:-1] + "1", tip) for tip in tips)
    name = _NAME if hands == "full" else f"{_NAME}_{hands}"
    ball = replace(ball, start=(0.5, 0.0))
    return Character.build(
        build_spec(name, rows, (ball,), _SKIN, stands=True, self_collision=self_collision, strangers=strangers),
        root="pelvis",
        objects=(ball.name,),
        hands=("left_wrist", "right_wrist"),
        key_bodies=("pelvis", "head", *limbs, *tips),
        force_bodies=tips,
        clips_of=_NAME,
        fixed_columns={
            f"{row['name']}_{axis}": angle
            for row in table
            if row["name"] in fixed
            for axis, angle in zip("xyz", row["cup"], strict=True)
        },
    )


def _body(row: dict[str, Any], fixed: bool, bones: tuple[GeomRow, ...]) -> BodyRow:
    """One row of the table; a fixed joint leaves only its turn."""
    geom = row["geom"]
    shape = GeomRow(
        geom["type"],
        size=tuple(geom["size"]),
        mass=geom["mass"],
        pos=tuple(geom.get("pos", (0.0, 0.0, 0.0))),
        fromto=tuple(geom.get("fromto", ())),
        rgba=_colour(row["name"]),
    )
    if row["parent"] == "world":
        place = (0.0, 0.0, STANDING_HEIGHT)
        return BodyRow(row["name"], "world", place, _UPRIGHT, geoms=(shape, *bones), free=True)
    joint = JointRow(row["name"], "ball", (1.0, 0.0, 0.0), row["kp"], row["kd"], row["armature"])
    turn = quat_from_rotvec(torch.tensor(row["cup"] if fixed else [0.0] * 3, dtype=torch.float64))
    return BodyRow(
        row["name"],
        row["parent"],
        tuple(row["pos"]),
        tuple(turn.tolist()),
        joints=() if fixed else (joint,),
        geoms=(shape, *bones),
    )


def _bones(row: dict[str, Any], table: list[dict[str, Any]]) -> tuple[GeomRow, ...]:
    """What the eye sees between a body and those that hang on it."""
    return tuple(
        GeomRow(
            "capsule",
            size=(_BONE_RADII[_part(child["name"])],),
            mass=0.0,
            fromto=(0.0, 0.0, 0.0, *child["pos"]),
            touches=False,
            rgba=_colour(row["name"]),
        )
        for child in table
        if child["parent"] == row["name"] and _part(child["name"]) in _BONE_RADII
    )


def _part(name: str) -> str:
    """What a body is, on whichever side."""
    return name.removeprefix("left_").removeprefix("right_")


def _colour(name: str) -> tuple[float, ...]:
    return _COLOURS.get(_part(name), _SKIN_RGBA)
