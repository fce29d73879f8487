"""Two pieces of physics that every character needs: a PD drive that stays stable, and a ball that bounces."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from skillfield.errors import CharacterError

__all__ = ["PHYSICS_HZ", "POLICY_HZ", "StableDrive", "bounce_restitution", "bounce_solref", "stable_drive"]

PHYSICS_HZ = 120
"""Simulation rate (paper, experimental set-up)."""

POLICY_HZ = 60
"""Rate of actions and of reference frames (paper, experimental set-up)."""

# √k·dt of the contact spring: stiffer gains energy at this step size, softer lets the ball sink deep.
_SPRING_STEP_RATIO = 0.42


class StableDrive(NamedTuple):
    """Model values of an implicit PD drive."""

    armature: float
    kp: float
    kd: float


def stable_drive(kp: float, kd: float, armature: float, timestep: float) -> StableDrive:
    """Write an implicit PD drive into the model, so that one factorisation per step is enough.

    The implicit step solves (M + dt·kd + dt²·kp) a = …; the added armature puts that matrix into the model and the
    added velocity gain is the part of the spring that acts at the end of the step. Needs the Euler integrator with
    its own implicit damping switched off. Stable at any gain, with or without force limits.
    """
    return StableDrive(
        armature=armature + timestep * kd + timestep**2 * kp,
        kp=kp,
        kd=kd + timestep * kp,
    )


def bounce_solref(restitution: float, timestep: float) -> tuple[float, float]:
    """MuJoCo's direct (negative) contact parameters for a coefficient of restitution.

    A spring k and a damper b in acceleration units lose energy as e = exp(-π ζ / √(1-ζ²)) with ζ = b / (2√k),
    whatever the mass.
    """
    if not 0 < restitution <= 1:
        raise CharacterError(f"restitution is {restitution:g}, it must be above 0 and at most 1")
    stiffness = (_SPRING_STEP_RATIO / timestep) ** 2
    log_e = math.log(restitution)
    zeta = -log_e / math.sqrt(math.pi**2 + log_e**2)
    return -stiffness, -2.0 * zeta * math.sqrt(stiffness)


def bounce_restitution(solref: Sequence[float]) -> float:
    """The coefficient of restitution that `bounce_solref` was asked for."""
    zeta = solref[1] / (-2.0 * math.sqrt(-solref[0]))
    return math.exp(-math.pi * zeta / math.sqrt(1.0 - zeta**2))
