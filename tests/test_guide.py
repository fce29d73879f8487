"""The guide leads along demonstrations, comes back after a mistake, and an untrained policy can learn from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.experiments.courtside import courtside
from skillfield.experiments.run import build_env, build_motion, build_ppo, preset
from skillfield.experiments.starter import starter
from skillfield.experiments.tasks import from_clips
from skillfield.imitation import ImitationEnv
from skillfield.imitation.guidance import Guidance
from skillfield.learning.ppo import PPO
from skillfield.reference import ReferenceMotion, Starts
from skillfield.reference.guide import Guide, _regulate
from skillfield.reference.inverse_dynamics import leading_targets
from skillfield.reference.looping import looped
from skillfield.reference.states import StateKinematics


@pytest.fixture(scope="module")
def dribbler() -> tuple[Character, ReferenceMotion]:
    task = from_clips("dribble", courtside().clips or "", like=courtside(), skills=["dribble_left"])
    character = task.character()
    return character, build_motion(task, character)


@pytest.fixture(scope="module")
def guided() -> PPO:
    task = starter()
    config = preset(task, "sm")
    return build_ppo(replace(config, num_envs=64, threads=1, ppo=replace(config.ppo, guided=True, target_kl=0.01)))


def test_a_step_of_the_recursion_is_the_textbooks() -> None:
    """x' = 2 x + u with costs x² + u² has P = 2 + √5 and u = -(2 P / (1 + P)) x; a one-dimensional system by hand."""
    one, two = np.ones((1, 1)), np.full((1, 1), 2.0)
    ahead = one
    for _ in range(50):
        gain, ahead = _regulate(two, one, one, one, ahead)
    limit = 2 + 5**0.5
    assert ahead.item() == pytest.approx(limit)
    assert gain.item() == pytest.approx(2 * limit / (1 + limit))


def test_targets_are_ahead_of_what_moves(sways: ReferenceMotion, hand_character: Character) -> None:
    """A drive brakes what moves: to come along, its target is ahead by the time constant of its law."""
    model = hand_character.model
    targets = leading_targets(sways, model)
    places = sways.qpos[:, : model.nu]
    moving = sways.qvel[:, : model.nu].abs() > 0.1
    lead = (targets - places)[moving] / sways.qvel[:, : model.nu][moving]
    assert moving.any()
    assert float(lead.median()) == pytest.approx(-model.actuator_biasprm[0, 2] / model.actuator_gainprm[0, 0], rel=0.5)


def test_the_guide_comes_back_where_played_back_targets_do_not(dribbler: tuple[Character, ReferenceMotion]) -> None:
    """Half a second of dribbling on courtside's clip earns more with the corrections than without."""
    character, motion = dribbler
    env = build_env(replace(preset(courtside(), "sm"), threads=1), motion, character, 110, None)
    guidance = Guidance(env)

    def earned() -> float:
        torch.manual_seed(0)
        env.reset()
        return sum(float(env.step(guidance()).reward.mean()) for _ in range(40)) / 40

    with_corrections = earned()
    guidance._guide._gains.zero_()
    without = earned()
    assert with_corrections > without + 0.05
    assert without > 0.3


def test_another_round_is_guided_as_the_first(dribbler: tuple[Character, ReferenceMotion]) -> None:
    """A repeated frame lies elsewhere and heads elsewhere; what is to be done there is the same."""
    character, motion = dribbler
    states, weights = StateKinematics(character), courtside().env.weights
    motion = looped(motion, states, weights, 30)
    guide, layout = Guide(motion, character), character.layout()
    row = torch.nonzero(~motion.demonstrated & motion.valid).squeeze(1)[5:20]
    home = motion.origin[row]
    ahead = home + 1
    error = 0.02 * torch.randn(len(row), layout.num_dofs)
    qpos, qvel = layout.integrate(motion.qpos[home], error), motion.qvel[home] + error
    there = layout.move_in_plane(qpos, qvel, *layout.alignment(motion.qpos[home], motion.qpos[row]))
    assert float((motion.qpos[row] - motion.qpos[home])[:, :2].norm(dim=1).min()) > 0.1
    away = torch.zeros(len(row), dtype=torch.bool)
    for ours, theirs in zip(
        guide.targets(row, ahead, *there, away), guide.targets(home, ahead, qpos, qvel, away), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def test_a_policy_learns_what_the_guide_does(guided: PPO) -> None:
    """It comes nearer to the guide's actions, and earns more in a third of a second; the step size is not adapted
    meanwhile."""
    env = guided.env
    guidance = Guidance(env)

    @torch.no_grad()
    def performance() -> tuple[float, float]:
        torch.manual_seed(0)
        seen, missed, earned = env.reset(), 0.0, 0.0
        for _ in range(20):
            action = guided.model.act(seen)
            missed += float((action - guidance()).square().mean())
            result = env.step(action)
            seen, earned = result.observation, earned + float(result.reward.mean())
        guided.observation = seen
        return missed, earned

    missed_before, earned_before = performance()
    for _ in range(40):
        guided.update(0.0)
    missed, earned = performance()
    assert missed < 0.5 * missed_before
    assert earned > 1.2 * earned_before
    assert guided.kl_factor == 1.0


def test_who_earns_nothing_learns_nothing_from_the_guide(guided: PPO) -> None:
    """The reward is the weight: only where the way was not lost does the policy come nearer to what was advised."""
    rollout = guided.collect(guided.env.reset(), 0.1)
    rollout.reward[:, ::2], rollout.reward[:, 1::2] = 0.0, 1.0
    lesson = guided._lesson_of(rollout)
    lesson.advantage.zero_()
    everyone = torch.arange(len(lesson.reward))
    lost = lesson.reward == 0
    assert 0 < int(lost.sum()) < len(lost)
    for batch, moves in ((everyone[lost], False), (everyone[~lost], True)):
        loss, _ = guided._policy_loss_now(lesson, batch)
        (slope,) = torch.autograd.grad(loss, [next(guided.model.policy.parameters())])
        assert (float(slope.abs().max()) > 1e-6) is moves


def started(guided: PPO, qpos: Tensor, qvel: Tensor, row: Tensor, away: bool = False) -> ImitationEnv:
    """Every world in such a state, at such a frame."""
    env, motion = guided.env, guided.env.motion
    clip, none = motion.clip_of_row[row], torch.zeros_like(row)
    env.start(
        torch.arange(env.num_envs),
        Starts(qpos, qvel, clip, row - motion.start[clip], none, row, torch.full_like(none, away, dtype=torch.bool)),
    )
    return env


def test_who_stands_elsewhere_is_told_the_same(guided: PPO) -> None:
    """A hand's actions are steps from where it is: from there, and not from where its demonstration was."""
    motion, layout = guided.env.motion, guided.env.engine.character.layout()
    row = torch.nonzero(motion.start_mask()).squeeze(1)[: 7 * 64 : 7]
    guidance, error = guided._guide, 0.05 * torch.randn(64, layout.num_dofs)
    assert guidance is not None
    qpos = layout.integrate(motion.qpos[row], error)
    started(guided, qpos, motion.qvel[row], row)
    at_home = guidance()
    moved = qpos.clone()
    moved[:, layout._moved_q] += 1.0
    env = started(guided, moved, motion.qvel[row], row)
    env.anchor.place[:, 1:] = torch.tensor([[1.0, 1.0], [0.0, 0.0]])  # as compared: moved back
    assert float(at_home[:, :2].abs().median()) < 1.0
    torch.testing.assert_close(guidance(), at_home, rtol=1e-3, atol=1e-3)


def test_an_object_out_of_reach_corrects_nothing(guided: PPO) -> None:
    """Wherever it is, the body is told the same as if it were in its place."""
    motion, layout = guided.env.motion, guided.env.engine.character.layout()
    row = torch.nonzero(motion.start_mask()).squeeze(1)[: 7 * 64 : 7]
    guidance, error = guided._guide, 0.05 * torch.randn(64, layout.num_dofs)
    assert guidance is not None
    error[:, torch.cat((layout.fields["object_pos"], layout.fields["object_rot"]))] = 0.0
    qpos, qvel = layout.integrate(motion.qpos[row], error), motion.qvel[row]
    started(guided, qpos, qvel, row)
    in_place = guidance()
    far = layout.with_objects(qpos, qvel, 4 * torch.randn(64, 1, 3), torch.randn(64, 1, 3))
    started(guided, *far, row, away=True)
    torch.testing.assert_close(guidance(), in_place, rtol=1e-4, atol=1e-4)
    started(guided, *far, row)
    assert float((guidance() - in_place).abs().mean()) > 0.05


def test_no_guide_is_made_where_none_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes half a minute for six clips."""
    monkeypatch.setattr("skillfield.learning.ppo.Guidance", lambda env: pytest.fail("a guide was made"))
    config = preset(starter(), "sm")
    ppo = build_ppo(replace(config, num_envs=8, threads=1))
    assert ppo.collect(ppo.env.reset(), 0.1).guide.shape == (config.ppo.horizon, 8, 0)


def test_actions_ask_for_targets_from_where_a_drive_is(hand_character: Character) -> None:
    """With positions, relative actions are found as well: targets → actions → targets."""
    actions = hand_character.action_map()
    qpos = torch.tensor(hand_character.model.qpos0, dtype=torch.float32).expand(5, -1) + 0.1 * torch.rand(5, 1)
    wanted = actions.targets(1.6 * torch.rand(5, actions.num_actions) - 0.8, qpos)
    torch.testing.assert_close(actions.targets(actions.actions(wanted, qpos), qpos), wanted)


@pytest.mark.parametrize(("task", "lesson"), [("courtside", 8_000_000), ("courtside-laptop", 2_000_000)])
def test_with_clips_of_a_simulation_the_guide_goes_first(task: str, lesson: int) -> None:
    """For as many samples, and never again, whatever the method; nobody else is guided."""
    for method in ("sm", "full"):
        config = preset(task, method)
        guided = [config.at(samples).ppo.guided for samples in (0, lesson - 1, lesson, 10 * lesson)]
        assert guided == [True, True, False, False]
        assert not config.in_the_end().ppo.guided
    assert not any(preset(name).ppo.guided for name in ("starter", "ballplay", "ballplay-paper"))
