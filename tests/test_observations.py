"""What the policy sees, and what it must not know."""

import math

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.imitation.observations import observation_size, observe
from skillfield.rotations import quat_from_rotvec, quat_multiply, quat_rotate


def unit(q: Tensor) -> Tensor:
    """Quaternions of length one."""
    return q / q.norm(dim=-1, keepdim=True)


def walker_observation(engine, qpos: Tensor, qvel: Tensor) -> Tensor:
    """What a policy sees of walkers put into these states."""
    engine.reset(torch.arange(engine.num_envs), qpos, qvel)
    state = {name: value for name, value in vars(engine.state).items() if name.endswith("_w")}
    return observe(
        root_pos_w=engine.state.body_pos_w[:, 0],
        root_quat_w=engine.state.body_quat_w[:, 0],
        condition=torch.eye(2)[torch.zeros(engine.num_envs, dtype=torch.long)],
        **state,
    )


@pytest.fixture
def touching_walkers(make_engine, walker: Character) -> tuple:
    """Three moving walkers at different headings, the box pressed onto the palm of each."""
    engine = make_engine(3, walker)
    model = walker.model
    qpos, qvel = torch.tensor(model.qpos0).float().repeat(3, 1), 0.2 * torch.randn(3, model.nv)
    root, box = int(model.joint("torso").qposadr[0]), int(model.joint("box").qposadr[0])
    qpos[:, box : box + 3] = torch.tensor([0.6, 0.0, 1.06])
    turned = turn_scene(qpos, qvel, torch.tensor([0.1, 1.9, -2.5]), torch.zeros(2), (root, box))
    return engine, *turned, (root, box)


def turn_scene(
    qpos: Tensor, qvel: Tensor, angle: Tensor, shift: Tensor, free: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The scene turned about z and moved in the plane; a free joint's linear velocity is in world axes."""
    turn = quat_from_rotvec(torch.stack((0 * angle, 0 * angle, angle), dim=-1).expand(len(qpos), 3))
    qpos, qvel = qpos.clone(), qvel.clone()
    for joint, first in enumerate(free):
        last = qvel.shape[1] - 6 if joint else 0
        qpos[:, first : first + 3] = quat_rotate(turn, qpos[:, first : first + 3])
        qpos[:, first : first + 2] += shift
        qpos[:, first + 3 : first + 7] = quat_multiply(turn, qpos[:, first + 3 : first + 7])
        qvel[:, last : last + 3] = quat_rotate(turn, qvel[:, last : last + 3])
    return qpos, qvel


@pytest.mark.parametrize("angle", [0.7, math.pi, -2.3])
def test_observations_do_not_know_where_north_is(touching_walkers: tuple, angle: float) -> None:
    """Turning the whole scene about z and moving it in the plane changes no observation, contact forces included."""
    engine, qpos, qvel, free = touching_walkers
    before = walker_observation(engine, qpos, qvel)
    assert float(engine.state.contact_force_w.norm(dim=-1).min()) > 1.0
    elsewhere = turn_scene(qpos, qvel, torch.tensor(angle), torch.tensor([3.0, -2.0]), free)
    torch.testing.assert_close(walker_observation(engine, *elsewhere), before, rtol=1e-3, atol=2e-3)


def test_observations_know_how_high_things_are(touching_walkers: tuple) -> None:
    """Lifting the scene by half a metre shows in exactly two numbers per world: the root's and the object's height."""
    engine, qpos, qvel, (root, box) = touching_walkers
    before = walker_observation(engine, qpos, qvel)
    lifted = qpos.clone()
    lifted[:, [root + 2, box + 2]] += 0.5
    change = walker_observation(engine, lifted, qvel) - before
    raised = (change - 0.5).abs() < 1e-3
    assert raised.sum(dim=1).tolist() == [2, 2, 2]
    assert float(change[~raised].abs().max()) < 2e-2


def test_observations_notice_every_quantity() -> None:
    """Each thing that the paper lists is seen: changing any one of them changes the observation."""
    scene = {
        "root_pos_w": torch.randn(1, 3),
        "root_quat_w": unit(torch.randn(1, 4)),
        "body_pos_w": torch.randn(1, 3, 3),
        "body_quat_w": unit(torch.randn(1, 3, 4)),
        "body_lin_vel_w": torch.randn(1, 3, 3),
        "body_ang_vel_w": torch.randn(1, 3, 3),
        "contact_force_w": torch.randn(1, 2, 3),
        "object_pos_w": torch.randn(1, 1, 3),
        "object_quat_w": unit(torch.randn(1, 1, 4)),
        "object_lin_vel_w": torch.randn(1, 1, 3),
        "object_ang_vel_w": torch.randn(1, 1, 3),
        "condition": torch.tensor([[1.0, 0.0]]),
    }
    before = observe(**scene)
    for name, value in scene.items():
        other = unit(value + 0.3) if name.endswith("quat_w") else value + 0.3
        assert not torch.equal(observe(**scene | {name: other}), before), name


@pytest.mark.parametrize(
    ("bodies", "forces", "objects", "skills"), [(3, 3, 1, 2), (1, 0, 0, 1), (5, 2, 3, 4), (4, 0, 2, 1)]
)
def test_the_observation_is_as_wide_as_announced(bodies: int, forces: int, objects: int, skills: int) -> None:
    """observation_size is the width of observe, also without objects or force bodies."""
    seen = observe(
        root_pos_w=torch.randn(2, 3),
        root_quat_w=unit(torch.randn(2, 4)),
        body_pos_w=torch.randn(2, bodies, 3),
        body_quat_w=unit(torch.randn(2, bodies, 4)),
        body_lin_vel_w=torch.randn(2, bodies, 3),
        body_ang_vel_w=torch.randn(2, bodies, 3),
        contact_force_w=torch.randn(2, forces, 3),
        object_pos_w=torch.randn(2, objects, 3),
        object_quat_w=unit(torch.randn(2, objects, 4)),
        object_lin_vel_w=torch.randn(2, objects, 3),
        object_ang_vel_w=torch.randn(2, objects, 3),
        condition=torch.randn(2, skills),
    )
    assert seen.shape == (2, observation_size(bodies, forces, objects, skills))
