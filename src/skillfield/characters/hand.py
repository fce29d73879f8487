"""The starter's character: a floating hand and a basketball.

Six controls: move along x, y and z, roll, pitch, and a grip that swings two curved fingers under the ball. The palm
is a shallow V, so that a ball pushed by it neither slides off nor needs fingers.
"""

import math

from skillfield.characters.actions import Action
from skillfield.characters.character import Character
from skillfield.characters.tables import BodyRow, ContactRow, GeomRow, JointRow, ObjectRow, build_spec

__all__ = ["BALL", "GRIP_CLOSED", "GRIP_OPEN", "PALM_TO_BALL", "hand"]

BALL = ObjectRow("ball", radius=0.12, mass=0.6, restitution=0.8)
"""A basketball."""

GRIP_OPEN = 0.55
"""Finger angle (radians) at which the ball passes freely between the fingers."""

GRIP_CLOSED = -0.02
"""Finger angle at which both fingers lie against the ball from below."""

_PANEL_DEGREES = 20.0
_PANEL_HALF = (0.05, 0.08, 0.01)

PALM_TO_BALL = BALL.radius / math.cos(math.radians(_PANEL_DEGREES))
"""Distance from the palm's apex to the centre of a ball that lies against both panels."""

_SKIN = ContactRow(friction=(1.2, 0.01, 0.001), restitution=0.3)
_SKIN_RGBA = (0.87, 0.67, 0.54, 1.0)
_SLEEVE_RGBA = (0.20, 0.32, 0.52, 1.0)


def _panel(side: int) -> GeomRow:
    tilt = math.radians(_PANEL_DEGREES)
    half, _, thick = _PANEL_HALF
    return GeomRow(
        "box",
        size=_PANEL_HALF,
        mass=0.2,
        pos=(
            side * (half * math.cos(tilt) - thick * math.sin(tilt)),
            0.0,
            thick * math.cos(tilt) - half * math.sin(tilt),
        ),
        euler=(0.0, side * _PANEL_DEGREES, 0.0),
        rgba=_SKIN_RGBA,
    )


def _finger(name: str, side: int) -> BodyRow:
    knuckle = (0.0, side * 0.05, -0.125)

    def prong(x: float) -> GeomRow:
        """Two of them make a groove that the ball cannot roll out of."""
        tip = (x, side * 0.005, -0.235)
        return GeomRow("capsule", size=(0.014,), mass=0.02, fromto=(x, *knuckle[1:], *tip), rgba=_SKIN_RGBA)

    return BodyRow(
        name,
        parent="palm",
        pos=(0.0, side * 0.09, 0.0),
        joints=(JointRow(name, "hinge", (float(side), 0.0, 0.0), kp=30.0, kd=1.2, armature=0.004),),
        geoms=(
            GeomRow(
                "capsule", size=(0.012,), mass=0.03, fromto=(0.0, 0.0, 0.0, *knuckle), touches=False, rgba=_SKIN_RGBA
            ),
            prong(-0.03),
            prong(0.03),
        ),
        weightless=True,
    )


def _palm() -> BodyRow:
    def slide(name: str, axis: tuple[float, ...]) -> JointRow:
        return JointRow(name, "slide", axis, kp=800.0, kd=55.0, armature=0.4)

    def hinge(name: str, axis: tuple[float, ...]) -> JointRow:
        return JointRow(name, "hinge", axis, kp=30.0, kd=1.8, armature=0.02)

    sleeve = GeomRow(
        "capsule", size=(0.032,), mass=0.01, fromto=(-0.03, 0, 0.02, -0.2, 0, 0.13), touches=False, rgba=_SLEEVE_RGBA
    )
    return BodyRow(
        "palm",
        parent="world",
        joints=(
            slide("x", (1.0, 0.0, 0.0)),
            slide("y", (0.0, 1.0, 0.0)),
            slide("z", (0.0, 0.0, 1.0)),
            hinge("roll", (1.0, 0.0, 0.0)),
            hinge("pitch", (0.0, 1.0, 0.0)),
        ),
        geoms=(_panel(-1), _panel(1), sleeve),
        weightless=True,
    )


def hand() -> Character:
    """The floating hand with its ball."""
    return Character.build(
        build_spec("hand", (_palm(), _finger("finger_left", 1), _finger("finger_right", -1)), (BALL,), _SKIN),
        root="palm",
        objects=("ball",),
        hands=("palm",),
        key_bodies=("palm", "finger_left", "finger_right"),
        force_bodies=("palm", "finger_left", "finger_right"),
        actions=(
            Action("x", ("x",), scale=0.25, relative=True),
            Action("y", ("y",), scale=0.25, relative=True),
            Action("z", ("z",), scale=0.45, relative=True, low=0.15, high=2.3),
            Action("roll", ("roll",), scale=1.0),
            Action("pitch", ("pitch",), scale=1.5),
            Action("grip", ("finger_left", "finger_right"), scale=2.1, neutral=0.35, low=-0.45, high=0.7),
        ),
    )
