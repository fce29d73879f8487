"""What a step is worth: the error terms and the two rewards."""

import math
from dataclasses import fields, replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.layout import Layout
from skillfield.imitation import EnvConfig
from skillfield.imitation.rewards import DeepMimicWeights, contact_graph_error, deepmimic_reward, skillmimic_reward
from skillfield.reference import (
    Kinematics,
    TrackingWeights,
    tracking_error,
    tracking_exponent,
)
from skillfield.rotations import quat_from_rotvec, quat_multiply

TERMS = tuple(field.name for field in fields(TrackingWeights))


def unit(q: Tensor) -> Tensor:
    """Quaternions of length one."""
    return q / q.norm(dim=-1, keepdim=True)


@pytest.fixture(scope="module")
def layout(walker: Character) -> Layout:
    """Index tables of a character with a free root, a ball joint, a hinge and an object."""
    return walker.layout()


@pytest.fixture
def reference(walker: Character, layout: Layout) -> Kinematics:
    """Five states at random: three key bodies, four joint columns, one object."""
    rest = torch.tensor(walker.model.qpos0).float().expand(5, -1)
    return Kinematics(
        key_pos_w=torch.randn(5, 3, 3),
        key_vel_w=torch.randn(5, 3, 3),
        qpos=layout.integrate(rest, torch.randn(5, walker.model.nv)),
        joint_vel=torch.randn(5, 4),
        object_pos_w=torch.randn(5, 1, 3),
        object_quat_w=unit(torch.randn(5, 1, 4)),
        object_lin_vel_w=torch.randn(5, 1, 3),
        object_ang_vel_w=torch.randn(5, 1, 3),
    )


def disturbed(term: str, reference: Kinematics, amount: float, layout: Layout) -> Kinematics:
    """A state that differs from the reference in what `term` measures, by `amount`."""
    moved = {
        "position": "key_pos_w",
        "velocity": "key_vel_w",
        "rotation_velocity": "joint_vel",
        "object_position": "object_pos_w",
        "object_velocity": "object_lin_vel_w",
        "object_rotation_velocity": "object_ang_vel_w",
        "relative": "object_pos_w",
    }
    if term == "rotation":
        return reference._replace(qpos=layout.integrate(reference.qpos, torch.full((5, layout.num_dofs), amount)))
    if term == "object_rotation":
        turn = quat_from_rotvec(torch.tensor([0.0, amount, 0.0])).expand(5, 1, 4)
        return reference._replace(object_quat_w=quat_multiply(reference.object_quat_w, turn))
    return reference._replace(**{moved[term]: getattr(reference, moved[term]) + amount})


def only(term: str, weight: float = 3.0) -> TrackingWeights:
    """Weights that feel a single term."""
    return TrackingWeights(**{name: weight if name == term else 0.0 for name in TERMS})


def everything() -> TrackingWeights:
    """Weights that feel every term."""
    return TrackingWeights(**dict.fromkeys(TERMS, 2.0))


def reward(state: Kinematics, reference: Kinematics, weights: TrackingWeights, layout: Layout) -> Tensor:
    """The SkillMimic reward of states whose contacts are right."""
    return skillmimic_reward(tracking_exponent(state, reference, weights, layout), torch.zeros(len(state.qpos)))


def test_a_state_equal_to_its_reference_scores_exactly_one(reference: Kinematics, layout: Layout) -> None:
    """With every term weighted, no error gives a reward of 1 to the last bit."""
    assert torch.equal(reward(reference, reference, everything(), layout), torch.ones(5))


@pytest.mark.parametrize("term", TERMS)
def test_the_reward_falls_with_every_term(term: str, reference: Kinematics, layout: Layout) -> None:
    """The further a single quantity is from the reference, the smaller the reward, as soon as its weight is on."""
    amounts = (0.0, 0.1, 0.2, 0.4, 0.8)
    states = [disturbed(term, reference, amount, layout) for amount in amounts]
    rewards = [reward(state, reference, only(term), layout) for state in states]
    assert torch.equal(rewards[0], torch.ones(5))
    for nearer, further in pairwise(rewards):
        assert bool((further < nearer).all())


@pytest.mark.parametrize("term", TERMS)
def test_a_term_without_weight_is_not_felt(term: str, reference: Kinematics, layout: Layout) -> None:
    """What only this term measures changes nothing when its weight is zero."""
    silent = replace(everything(), **{term: 0.0})
    if term in ("position", "object_position"):  # the relative term sees these as well
        silent = replace(silent, relative=0.0)
    if term == "relative":
        silent = replace(silent, object_position=0.0)
    assert torch.equal(reward(disturbed(term, reference, 1.0, layout), reference, silent, layout), torch.ones(5))


def test_errors_are_means_of_squares(reference: Kinematics, layout: Layout) -> None:
    """Half a metre off in one of nine coordinates is an error of 0.25 / 9, and the reward is e^-λ·error."""
    shift = torch.zeros(5, 3, 3)
    shift[:, 1, 2] = 0.5
    state = reference._replace(key_pos_w=reference.key_pos_w + shift)
    for term in ("position", "relative"):
        torch.testing.assert_close(tracking_error(term, state, reference, layout), torch.full((5,), 0.25 / 9))
    expected = torch.full((5,), math.exp(-20 * 0.25 / 9))
    torch.testing.assert_close(reward(state, reference, only("position", 20.0), layout), expected)


def test_the_rotation_error_does_not_jump_at_half_a_turn(reference: Kinematics, layout: Layout) -> None:
    """A root a little over half a turn, where its reference is a little under, is a little off and no more."""
    turn = torch.tensor([[0.0, 0.0, math.pi - 0.05], [0.0, 0.0, -math.pi + 0.05]])
    before, after = (reference.qpos.clone() for _ in range(2))
    before[:, 3:7], after[:, 3:7] = quat_from_rotvec(turn)
    error = tracking_error("rotation", reference._replace(qpos=after), reference._replace(qpos=before), layout)
    torch.testing.assert_close(error, torch.full((5,), 0.1**2 / 7), rtol=1e-3, atol=0)


def test_moving_character_and_object_together_keeps_their_relation(reference: Kinematics, layout: Layout) -> None:
    """The relative term is blind to a shift of the whole scene; the position terms are not."""
    shift = torch.tensor([0.3, -0.2, 0.1])
    state = reference._replace(key_pos_w=reference.key_pos_w + shift, object_pos_w=reference.object_pos_w + shift)
    errors = {term: tracking_error(term, state, reference, layout) for term in TERMS}
    torch.testing.assert_close(errors["relative"], torch.zeros(5), rtol=0, atol=1e-12)
    assert float(errors["position"].min()) > 0.01
    assert float(errors["object_position"].min()) > 0.01


def test_without_objects_nothing_of_an_object_is_compared(reference: Kinematics, layout: Layout) -> None:
    """Pure locomotion: object and relative errors are zero, not NaN."""
    bare = reference._replace(
        **{name: getattr(reference, name)[:, :0] for name in Kinematics._fields if name.startswith("object")}
    )
    for term in TERMS:
        torch.testing.assert_close(tracking_error(term, bare, bare, layout), torch.zeros(5), rtol=0, atol=1e-12)
    assert torch.equal(reward(bare, bare, everything(), layout), torch.ones(5))


def test_the_weights_are_those_of_the_paper() -> None:
    """The BallPlay-M column of the reward weights, and the weights of the additive reward."""
    assert TrackingWeights() == TrackingWeights(20.0, 20.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 20.0)
    assert DeepMimicWeights() == DeepMimicWeights(40.0, 2.0, 0.1, 40.0)
    assert EnvConfig().contact_weights == (5.0, 5.0, 5.0)


def test_the_contact_error_sums_the_weights_of_mismatching_pairs() -> None:
    """A pair that touches and should not, or should and does not, costs its own weight."""
    pairs = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    reference = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    error = contact_graph_error(pairs, reference, (5.0, 3.0, 2.0))
    assert error.tolist() == [0.0, 5.0, 7.0, 10.0]


def test_a_wrong_contact_multiplies_the_reward() -> None:
    """A perfect pose with one wrong contact of weight 5 is worth e^-5; half a reward, e^-5 of that half."""
    tracking, contacts = torch.tensor([0.0, math.log(2.0)]), torch.tensor([5.0, 5.0])
    expected = torch.tensor([math.exp(-5.0), 0.5 * math.exp(-5.0)])
    torch.testing.assert_close(skillmimic_reward(tracking, contacts), expected)


def test_the_deepmimic_reward_is_four_at_the_reference(reference: Kinematics, layout: Layout) -> None:
    """Four exponentials, each 1 without an error; a hopeless term takes away one and no more."""
    weights = DeepMimicWeights()
    assert torch.equal(deepmimic_reward(reference, reference, weights, layout), torch.full((5,), 4.0))
    for term in ("position", "rotation_velocity", "object_position"):
        hopeless = disturbed(term, reference, 1e3, layout)
        assert torch.equal(deepmimic_reward(hopeless, reference, weights, layout), torch.full((5,), 3.0))
    turned = deepmimic_reward(disturbed("rotation", reference, 1.5, layout), reference, weights, layout)
    assert bool(((turned > 3.0) & (turned < 3.1)).all())


def test_without_objects_the_deepmimic_reward_has_three_terms(reference: Kinematics, layout: Layout) -> None:
    """Nothing is earned for what there is none of."""
    bare = reference._replace(object_pos_w=reference.object_pos_w[:, :0])
    for away in (None, AWAY):
        assert torch.equal(deepmimic_reward(bare, bare, DeepMimicWeights(), layout, away), torch.full((5,), 3.0))


AWAY = torch.tensor([True, False, True, False, False])
OF_BODY = ("position", "rotation", "velocity", "rotation_velocity")


@pytest.mark.parametrize("term", TERMS)
def test_with_objects_away_the_body_alone_is_compared(term: str, reference: Kinematics, layout: Layout) -> None:
    """Where they are away, the exponent is that of the body's weights alone; elsewhere nothing changes."""
    state = disturbed(term, reference, 0.3, layout)
    body = TrackingWeights(**{name: 2.0 if name in OF_BODY else 0.0 for name in TERMS})
    usual, alone = (tracking_exponent(state, reference, weights, layout) for weights in (everything(), body))
    exponent = tracking_exponent(state, reference, everything(), layout, AWAY)
    torch.testing.assert_close(exponent[AWAY], alone[AWAY])
    assert torch.equal(exponent[~AWAY], usual[~AWAY])
    assert bool((exponent[AWAY] > 1e-6).all()) == (term in OF_BODY)


def test_with_objects_away_the_deepmimic_reward_has_three_terms(reference: Kinematics, layout: Layout) -> None:
    """Wherever they are, theirs is neither earned nor missed: 3 at the best, and elsewhere still 4."""
    weights, expected = DeepMimicWeights(), torch.tensor([3.0, 4.0, 3.0, 4.0, 4.0])
    assert torch.equal(deepmimic_reward(reference, reference, weights, layout, AWAY), expected)
    gone = disturbed("object_position", reference, 1e3, layout)
    assert torch.equal(deepmimic_reward(gone, reference, weights, layout, AWAY), torch.full((5,), 3.0))
