"""The humanoid on the GPU engine: it stands, falls and flails, and no world ever blows up."""

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character, character
from skillfield.characters.hand import BALL
from skillfield.characters.humanoid import STANDING_HEIGHT

pytest.importorskip("mujoco_warp", reason="needs the gpu extra")

from skillfield.simulation.gpu import WarpEngine

pytestmark = pytest.mark.slow

TEN_SECONDS = 600


@pytest.fixture(scope="module", params=["humanoid_fused", "humanoid"])
def anyone(request: pytest.FixtureRequest) -> Character:
    """Either kind of hands."""
    return character(request.param)


@pytest.fixture
def engine(anyone: Character, warp_device: str) -> WarpEngine:
    """Two worlds."""
    return WarpEngine(anyone, 2, warp_device)


def rest(who: Character) -> Tensor:
    """The rest pose of both worlds.  [2, Q]"""
    return torch.tensor(who.model.qpos0).float().repeat(2, 1)


def start(engine: WarpEngine, qpos: Tensor) -> None:
    """Both worlds at a position, without motion."""
    where = engine.device
    engine.reset(torch.arange(2, device=where), qpos.to(where), torch.zeros(2, engine.character.model.nv, device=where))


def is_sound(engine: WarpEngine) -> bool:
    """Nothing diverged, nothing was dropped for want of room, and every number is one."""
    counters = engine.counters()
    failures = sum(counters[name] for name in ("diverged", "contact_overflow", "constraint_overflow"))
    return failures == 0 and bool(engine.state.qpos.isfinite().all())


def test_it_stands_still_for_ten_seconds(engine: WarpEngine, anyone: Character) -> None:
    """No action holds the rest pose: it neither falls, nor drifts, nor trembles.

    The ball lies there but hops by a millimetre, as it does on the CPU engine too once it has been dropped: in float32
    its first contact comes one physics step late.
    """
    start(engine, rest(anyone))
    nothing = torch.zeros(2, len(anyone.actions), device=engine.device)
    mapping = anyone.action_map(engine.device)
    for _ in range(TEN_SECONDS):
        engine.step(mapping.targets(nothing, engine.state.qpos))
    assert is_sound(engine)
    torch.testing.assert_close(engine.state.qpos[:, 2].cpu(), torch.full((2,), STANDING_HEIGHT), rtol=0, atol=0.01)
    assert float(engine.state.qvel[:, :-6].abs().max()) < 0.02
    assert float((engine.state.object_pos_w[..., 2] - BALL.radius).abs().max()) < 0.003


def test_falls_from_two_metres_in_any_pose_are_survived(engine: WarpEngine, anyone: Character) -> None:
    """Both worlds drop from 2 m, turned and bent at random: nothing diverges, and both lie on the floor after 3 s."""
    change = 0.5 * torch.randn(2, anyone.model.nv).clamp(-2, 2)
    change[:, :3], change[:, 3:6] = torch.tensor([0.0, 0.0, 1.0]), 2 * torch.randn(2, 3)
    change[:, -6:] = 0.0
    start(engine, anyone.layout().integrate(rest(anyone), change))
    for _ in range(180):
        engine.step(torch.zeros(2, anyone.model.nu, device=engine.device))
    assert is_sound(engine)
    assert float(engine.state.qpos[:, 2].max()) < 1.0
    assert float(engine.state.body_pos_w[..., 2].min()) > -0.05
    assert float(engine.state.qvel.abs().max()) < 20.0


def test_ten_seconds_of_flailing_diverge_nowhere(engine: WarpEngine, anyone: Character) -> None:
    """Targets with a spread of 0.2 rad, new at every step, and a ball dropped on it: both worlds stay finite."""
    qpos = rest(anyone)
    qpos[:, -7:-4] = torch.tensor([0.4, 0.0, 1.6])
    start(engine, qpos)
    fastest = 0.0
    for _ in range(TEN_SECONDS):
        engine.step((0.2 * torch.randn(2, anyone.model.nu)).to(engine.device))
        fastest = max(fastest, float(engine.state.qvel.abs().max()))
    assert is_sound(engine)
    assert fastest < 100.0
