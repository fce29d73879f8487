"""Actions become targets of drives: one grip for two fingers, limits, and tables that make no sense."""

import pytest
import torch

from skillfield.characters import Action, Character
from skillfield.errors import CharacterError


def test_one_grip_moves_both_fingers(hand_character: Character) -> None:
    """The sixth action is the target of both finger drives."""
    targets = hand_character.action_map().targets(torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.1]]), torch.zeros(1, 14))
    torch.testing.assert_close(targets[:, 5:], torch.full((1, 2), 0.35 + 2.1 * 0.1))


def test_relative_actions_start_from_where_the_joint_is(hand_character: Character) -> None:
    """No action holds the hand in place, whatever place that is; roll and pitch are absolute."""
    qpos = torch.zeros(1, 14)
    qpos[0, :5] = torch.tensor([1.5, -2.0, 1.1, 0.6, 0.7])
    targets = hand_character.action_map().targets(torch.zeros(1, 6), qpos)
    torch.testing.assert_close(targets[0, :5], torch.tensor([1.5, -2.0, 1.1, 0.0, 0.0]))


def test_actions_beyond_one_and_targets_beyond_their_limits_are_cut(hand_character: Character) -> None:
    """An action of 100 is an action of 1, and the hand is never told to dig into the floor."""
    mapping = hand_character.action_map()
    down = torch.tensor([[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]])
    assert torch.equal(mapping.targets(100 * down, torch.ones(1, 14)), mapping.targets(down, torch.ones(1, 14)))
    assert float(mapping.targets(down, torch.zeros(1, 14))[0, 2]) == pytest.approx(0.15)


def test_by_default_every_drive_has_an_action_of_its_own(walker: Character) -> None:
    """Without a table of actions, one number per drive spans its control range, or ±π without one."""
    mapping = walker.action_map()
    assert mapping.num_actions == 4
    torch.testing.assert_close(mapping.targets(torch.ones(1, 4), torch.zeros(1, 19)), torch.full((1, 4), torch.pi))


def with_actions(walker_xml: str, *actions: Action) -> Character:
    """The walker with a table of actions."""
    return Character.from_mjcf(walker_xml, actions=actions)


SHOULDER = Action("shoulder", ("shoulder_x", "shoulder_y", "shoulder_z"), scale=1.0)


def test_a_drive_has_one_master(walker_xml: str) -> None:
    """Two actions for one actuator are refused, and the actuator is named."""
    twice = with_actions(walker_xml, SHOULDER, Action("a", ("elbow",), 1.0), Action("b", ("elbow",), 1.0))
    with pytest.raises(CharacterError, match="actuator 'elbow' is driven by two actions"):
        twice.action_map()


def test_no_drive_is_left_alone(walker_xml: str) -> None:
    """An actuator without an action is refused and named."""
    with pytest.raises(CharacterError, match=r"actuators \['elbow'\] are driven by no action"):
        with_actions(walker_xml, SHOULDER).action_map()


def test_an_action_of_an_unknown_drive_is_refused(walker_xml: str) -> None:
    """An actuator that is not in the model is named, and so are those that are."""
    with pytest.raises(CharacterError, match=r"'knee'.*shoulder_x.*elbow"):
        with_actions(walker_xml, SHOULDER, Action("elbow", ("elbow", "knee"), 1.0)).action_map()


def test_a_ball_joint_has_no_relative_action(walker_xml: str) -> None:
    """Relative targets need one coordinate to be relative to; a ball joint has a quaternion."""
    relative = Action("shoulder", SHOULDER.actuators, scale=1.0, relative=True)
    with pytest.raises(CharacterError, match="action 'shoulder' is relative"):
        with_actions(walker_xml, relative, Action("elbow", ("elbow",), 1.0)).action_map()


def test_actions_that_ask_for_targets(hand_character: Character) -> None:
    """The way back from targets to actions, where the way there is one to one; relative actions stay zero."""
    mapping = hand_character.action_map()
    qpos = torch.zeros(4, hand_character.model.nq)
    actions = torch.rand(4, mapping.num_actions, generator=torch.Generator().manual_seed(0)) / 10
    again = mapping.actions(mapping.targets(actions, qpos))
    absolute = again.abs().sum(dim=0) > 0
    assert absolute.any()
    torch.testing.assert_close(again[:, absolute], actions[:, absolute], atol=1e-5, rtol=0)
