"""Contacts in both engines: who touches whom, and how hard."""

import pytest
import torch

from engines import AWAY, HEIGHT, PRESSED, MakeEngine, carrying, either_engine, forward, hold, poses, reset_all
from skillfield.characters import Character

make_engine = either_engine
"""Tests that make engines are run with both."""


def test_a_ball_pressed_into_the_palm_touches_the_hand(make_engine: MakeEngine) -> None:
    """The pair object-hand is 1 with the ball in the palm and 0 with the ball away; a hand has no body pairs."""
    engine = make_engine(2)
    reset_all(engine, torch.cat((poses(PRESSED), poses(AWAY))))
    assert engine.state.contact_pairs.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_contacts_follow_the_steps(make_engine: MakeEngine) -> None:
    """A ball let go of falls out of contact, and a ball thrown at the palm comes into it."""
    engine = make_engine(2)
    gap = torch.tensor(PRESSED)
    falling, thrown = poses(PRESSED), poses(tuple((gap - torch.tensor([0.0, 0.0, 0.15])).tolist()))
    qvel = torch.zeros(2, 13)
    qvel[1, 9] = 4.0
    reset_all(engine, torch.cat((falling, thrown)), qvel)
    assert engine.state.contact_pairs[:, 0].tolist() == [1.0, 0.0]
    touched = torch.zeros(2)
    for _ in range(8):
        engine.step(hold(2))
        touched = torch.maximum(touched, engine.state.contact_pairs[:, 0])
    assert float(engine.state.contact_pairs[0, 0]) == 0.0
    assert float(touched[1]) == 1.0


def test_pairs_belong_to_the_positions_that_are_shown(make_engine: MakeEngine) -> None:
    """Whenever a ball bumps about in a hand, it touches in exactly the states in which MuJoCo finds it touching."""
    engine = make_engine(4)
    reset_all(engine, carrying(4), torch.linspace(-0.5, 0.5, 52).reshape(4, 13))
    ball = engine.character.model.body("ball").id
    seen = set()
    for step in range(30):
        engine.step(carrying(4)[:, :7] + 0.1 * torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]) * (-1) ** (step // 4))
        for env in range(4):
            data = forward(engine.character, engine.state.qpos[env], engine.state.qvel[env])
            bodies = [set(engine.character.model.geom_bodyid[contact.geom]) for contact in data.contact]
            touches = any(ball in pair and 0 not in pair for pair in bodies)  # 0 is the floor
            near = [contact.dist for contact in data.contact if abs(contact.dist) < 1e-6]
            if not near:  # on the very edge either answer will do
                assert bool(engine.state.contact_pairs[env, 0]) is touches
                seen.add(touches)
    assert seen == {False, True}


def test_the_palm_is_pushed_away_from_the_ball(make_engine: MakeEngine) -> None:
    """A ball pressed into the palm from below pushes it up; without a ball there is no force."""
    engine = make_engine(2)
    reset_all(engine, torch.cat((poses(PRESSED), poses(AWAY))))
    palm = engine.state.contact_force_w[:, 0]
    assert float(palm[0, 2]) > 1.0
    assert float(palm[0, :2].abs().max()) < 0.05 * float(palm[0, 2])
    assert palm[1].tolist() == [0.0, 0.0, 0.0]


def test_a_carried_ball_weighs_on_the_hand(make_engine: MakeEngine) -> None:
    """A ball at rest in the upturned palm presses it down with its weight."""
    engine = make_engine(1)
    reset_all(engine, carrying())
    for _ in range(180):
        engine.step(carrying()[:, :7])
    force = engine.state.contact_force_w[0].sum(dim=0)
    assert float(force[2]) == pytest.approx(-0.6 * 9.81, rel=0.02)


def test_a_finger_is_a_part_of_the_hand(make_engine: MakeEngine) -> None:
    """A ball that only a finger touches touches the hand, and pushes that finger alone."""
    engine = make_engine(1)
    reset_all(engine, poses((0.0, 0.22, HEIGHT - 0.18), grip=0.0))
    force = engine.state.contact_force_w[0].norm(dim=-1)
    assert float(force[1]) > 0.1
    assert (float(force[0]), float(force[2])) == (0.0, 0.0)
    assert engine.state.contact_pairs.tolist() == [[1.0, 0.0, 0.0]]


def test_the_three_pairs_of_the_contact_graph_are_told_apart(make_engine: MakeEngine, walker: Character) -> None:
    """Object at hand, object at body, body at hand: each pair of the graph shines alone."""
    engine = make_engine(4, walker)
    qpos = torch.tensor(walker.model.qpos0).float().repeat(4, 1)
    elbow, box = int(walker.model.joint("elbow").qposadr[0]), int(walker.model.joint("box").qposadr[0])
    qpos[0, box : box + 3] = torch.tensor([0.6, 0.0, 1.07])  # on the palm
    qpos[1, box : box + 3] = torch.tensor([0.0, 0.0, 1.14])  # on the torso
    qpos[2, elbow] = torch.pi  # the palm against the torso
    reset_all(engine, qpos)
    assert engine.state.contact_pairs.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert float(engine.state.contact_force_w[0, 0, 2]) < -1.0  # the box lies on the palm
