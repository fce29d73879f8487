"""Either engine, and the hand and its ball as the tests of engines begin with them.

The GPU engine runs on Warp's CPU device here: the same kernels, without the recorded graph.
"""

from collections.abc import Callable

import mujoco
import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.hand import PALM_TO_BALL
from skillfield.simulation import CpuEngine, Engine, SimulationState

MakeEngine = Callable[..., Engine]
Differing = Callable[[SimulationState, SimulationState], list[str]]

HEIGHT = 1.0
PALM_BALL = slice(7, 10)  # where the ball's position lies in the hand's positions
PRESSED = (0.0, 0.0, HEIGHT - PALM_TO_BALL + 0.004)
AWAY = (0.8, 0.0, 0.5)


def poses(ball: tuple[float, float, float], count: int = 1, grip: float = 0.6) -> Tensor:
    """The hand one metre up with open fingers, and the ball somewhere.  [count, Q]"""
    qpos = torch.zeros(count, 14)
    qpos[:, 2], qpos[:, 5:7], qpos[:, PALM_BALL], qpos[:, 10] = HEIGHT, grip, torch.tensor(ball), 1.0
    return qpos


def carrying(count: int = 1) -> Tensor:
    """The ball lies in the upturned palm.  [count, Q]"""
    qpos = poses((0.0, 0.0, HEIGHT + PALM_TO_BALL), count)
    qpos[:, 3] = torch.pi
    return qpos


def hold(count: int = 1) -> Tensor:
    """Targets that keep the hand where `poses` puts it.  [count, U]"""
    return poses(AWAY, count)[:, :7]


def scattered(engine: Engine) -> tuple[Tensor, Tensor]:
    """A random state of every world, quaternions of unit length.  [E, Q], [E, D]"""
    model = engine.character.model
    rest = torch.tensor(model.qpos0).float().expand(engine.num_envs, -1)
    change = torch.randn(engine.num_envs, model.nv).clamp(-0.8, 0.8)
    return engine.character.layout().integrate(rest, change), torch.randn(engine.num_envs, model.nv)


def reset_all(engine: Engine, qpos: Tensor, qvel: Tensor | None = None) -> None:
    """Reset every world, on whichever device it lives."""
    where = engine.device
    zero = torch.zeros(engine.num_envs, engine.character.model.nv)
    speed = zero if qvel is None else qvel
    engine.reset(torch.arange(engine.num_envs, device=where), qpos.to(where), speed.to(where))


def forward(character: Character, qpos: Tensor, qvel: Tensor) -> mujoco.MjData:
    """MuJoCo's own account of a state."""
    data = mujoco.MjData(character.model)
    data.qpos[:], data.qvel[:] = qpos.numpy(), qvel.numpy()
    mujoco.mj_forward(character.model, data)
    return data


@pytest.fixture(params=["cpu", "warp", "warp in slots"])
def either_engine(request: pytest.FixtureRequest, hand_character: Character) -> MakeEngine:
    """Makes an engine of a few worlds. `in slots`: resets are computed two worlds at a time."""
    if request.param == "cpu":
        return lambda num_envs=4, character=hand_character: CpuEngine(character, num_envs, 1)
    pytest.importorskip("mujoco_warp", reason="needs the gpu extra")
    pytest.importorskip("warp").init()
    from skillfield.simulation.gpu import Buffers, WarpEngine

    buffers = Buffers(reset_worlds=2 if request.param == "warp in slots" else None)
    return lambda num_envs=4, character=hand_character: WarpEngine(character, num_envs, "cpu", buffers)
