"""What people hold on to: a body hangs on a spring whose other end stays where it is in the world."""

import math
from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray

from skillfield.characters.physics import POLICY_HZ
from skillfield.rotations import quat_rotate
from skillfield.simulation import CpuEngine

__all__ = ["Springs", "felt_weight", "movable_body", "moving_mass"]

_STIFFNESS, _MOST = 80.0, 600.0  # per kilogram, and at most, in newtons per metre
_DAMPING = 0.7  # of what would keep it from swinging at all
_STIRS = 1e-3  # of the speed that a blow would give to all that moves: less is taken for none

Vector = NDArray[np.float64]  # [3] world frame


class Springs:
    """One spring per body that is held, each at its centre of mass."""

    def __init__(self, engine: CpuEngine) -> None:
        """engine: with a single world."""
        self._engine = engine
        self._rows = {body: row for row, body in enumerate((*engine.character.body_ids, *engine.character.object_ids))}
        self._ends: dict[int, Vector] = {}

    def hold(self, body: int, towards: Vector) -> None:
        """Fix the other end of a body's spring so far away from where the body is now."""
        self._ends[body] = self._motion(body)[0] + towards

    def let_go(self, body: int) -> None:
        """Take a body's spring away."""
        self._ends.pop(body, None)

    def clear(self) -> None:
        """Take all of them away."""
        self._ends.clear()

    def act(self) -> None:
        """Pull, over the next step of the engine."""
        if not self._ends:
            return
        model = self._engine.present_model()
        for body, end in self._ends.items():
            place, velocity = self._motion(body)
            stiffness = min(_STIFFNESS * felt_weight(model, body), _MOST)
            damping = _DAMPING * 2.0 * math.sqrt(stiffness * _felt_alone(model, body))
            self._engine.push(body, (stiffness * (end - place) - damping * velocity) / POLICY_HZ)

    def _motion(self, body: int) -> tuple[Vector, Vector]:
        """Where a body's centre of mass is, and how fast it moves."""
        state, row = self._engine.state, self._rows[body]
        pos, quat, lin_vel, ang_vel = (
            torch.cat((getattr(state, f"body_{name}_w"), getattr(state, f"object_{name}_w")), dim=1)[0, row].double()
            for name in ("pos", "quat", "lin_vel", "ang_vel")
        )
        arm = quat_rotate(quat, torch.from_numpy(self._engine.character.model.body_ipos[body]))
        return (pos + arm).numpy(), (lin_vel + torch.linalg.cross(ang_vel, arm)).numpy()


def felt_weight(model: mujoco.MjModel, body: int) -> float:
    """Mass of the tree that a body belongs to, or what its drives let it feel like if that is more."""
    return max(float(model.body_subtreemass[model.body_rootid[body]]), _felt_alone(model, body))


def moving_mass(model: mujoco.MjModel, body: int) -> float:
    """Mass of the tree that a body belongs to, without what is fixed in the world."""
    moves = (model.body_rootid == model.body_rootid[body]) & (model.body_weldid != 0)
    return float(model.body_mass[moves].sum())


def movable_body(model: mujoco.MjModel, bodies: Sequence[int]) -> int:
    """The first body that a blow can move, else the first: one that is turned about its own centre stays in place."""
    moves = (body for body in bodies if model.body_invweight0[body, 0] * moving_mass(model, body) > _STIRS)
    return next(moves, bodies[0])


def _felt_alone(model: mujoco.MjModel, body: int) -> float:
    """How heavy a body is to whoever pulls at it alone."""
    return 1.0 / max(float(model.body_invweight0[body, 0]), 1e-6)
