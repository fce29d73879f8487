"""Similarity of states: the reward without contacts, and what it says about masked states."""

import math
from typing import Any

import pytest
import torch

from skillfield.characters import Character
from skillfield.reference import (
    tracking_exponent,
)
from skillfield.reference.similarity import (
    earliest_best,
    in_nearest_clip,
    masked_states,
    similarity_exponent,
    similarity_features,
)
from skillfield.reference.states import StateKinematics
from strolling import (
    EVERYTHING,
    against,
    random_states,
)


def test_similarity_is_the_reward_without_contacts(character: Character) -> None:
    """-ln S_k of all pairs equals Σ λ·MSE of each pair, with every term weighted: root, ball joint, hinges, object."""
    states, layout = StateKinematics(character), character.layout()
    first, second = states(*random_states(character, 40)), states(*random_states(character, 30))
    features = [similarity_features(state, EVERYTHING, layout) for state in (first, second)]
    expected = tracking_exponent(*against(first, second), EVERYTHING, layout)
    torch.testing.assert_close(similarity_exponent(*features), expected, rtol=1e-4, atol=1e-4)
    assert float(expected.std()) > 1.0


@pytest.mark.parametrize("away", [0.0, 20.0])
def test_a_state_is_perfectly_similar_to_itself(character: Character, away: float) -> None:
    """β = 1, wherever in the world it stands."""
    state = StateKinematics(character)(*random_states(character, 40, away))
    features = similarity_features(state, EVERYTHING, character.layout())
    beta = torch.exp(-similarity_exponent(features, features)).diagonal()
    torch.testing.assert_close(beta, torch.ones(40), rtol=0, atol=1e-5)


def test_kinematics_of_a_state_are_those_of_the_engine(character: Character, make_engine: Any) -> None:
    """Key bodies and objects, their poses and velocities: computed in torch as MuJoCo computes them."""
    qpos, qvel = random_states(character, 6)
    engine = make_engine(6, character)
    engine.reset(torch.arange(6), qpos, qvel)
    ours, theirs = StateKinematics(character)(qpos, qvel), engine.state
    key = character.key_body_index
    torch.testing.assert_close(ours.key_pos_w, theirs.body_pos_w[:, key], rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.key_vel_w, theirs.body_lin_vel_w[:, key], rtol=0, atol=2e-2)
    for name in ("object_pos_w", "object_quat_w", "object_lin_vel_w", "object_ang_vel_w"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("beta", "masked"), [(1.0, 0), (0.5, 1), (0.1, 1), (0.0999, 2), (0.01, 2), (1e-5, 5), (1e-10, 10), (1e-30, 10)]
)
def test_the_number_of_masked_states(beta: float, masked: int) -> None:
    """N = min(-⌊log10 β⌋, N_max)."""
    assert masked_states(torch.tensor([-math.log(beta)]), most=10).tolist() == [masked]


def test_of_frames_that_are_alike_the_earliest_is_taken() -> None:
    """Within the margin of the best they count as equal; without a margin only the best counts."""
    exponent = torch.tensor([[5.0, 1.08, 1.0, 1.05], [0.3, 9.0, 0.1, torch.inf], [2.0, 2.0, 2.0, 2.0]])
    assert earliest_best(exponent, 0.0)[0].tolist() == [2, 2, 0]
    first, value = earliest_best(exponent, 0.1)
    assert first.tolist() == [1, 2, 0]
    torch.testing.assert_close(value, torch.tensor([1.08, 0.1, 2.0]))


def test_the_earliest_of_equals_is_one_of_the_nearest_clip() -> None:
    """A column of another clip that is nearly as alike, and lies before it, is none of its equals."""
    exponent, clip = torch.tensor([[0.3, 5.0, 0.2, 0.1], [0.0, 0.2, 5.0, 5.0]]), torch.tensor([0, 0, 1, 1])
    best, value = earliest_best(in_nearest_clip(exponent, clip), 0.5)
    assert best.tolist() == [2, 0]
    torch.testing.assert_close(value, torch.tensor([0.2, 0.0]))
