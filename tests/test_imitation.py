"""Imitation: what a step is worth, what the policy sees, when an episode ends, and what a clip becomes."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.layout import Layout
from skillfield.clips import Clip
from skillfield.errors import ClipError
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.env import StepResult
from skillfield.imitation.observations import observation_size, observe
from skillfield.imitation.rewards import DeepMimicWeights, contact_graph_error, deepmimic_reward, skillmimic_reward
from skillfield.imitation.termination import Termination, failed
from skillfield.reference import (
    Augmentation,
    AugmentedSampler,
    Kinematics,
    ReferenceMotion,
    TrackingWeights,
    tracking_error,
    tracking_exponent,
)
from skillfield.reference.interpolation import fill_gaps, resample
from skillfield.rotations import quat_from_rotvec, quat_multiply, quat_rotate, rotvec_between

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]

TERMS = tuple(field.name for field in fields(TrackingWeights))
NEVER = Termination(min_root_height=None)


def ended(result: StepResult) -> list[int]:
    """Environments whose episode is over."""
    assert result.finished is not None
    return result.finished.tolist()


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


def test_a_fallen_root_is_a_failure() -> None:
    """Under the height is failed, at it or above is not, and without a height nobody falls."""
    root = torch.tensor([[0.0, 0.0, 0.29], [0.0, 0.0, 0.3], [0.0, 0.0, 1.0]])
    ball, everywhere = torch.zeros(3, 1, 3), torch.ones(3, dtype=torch.bool)
    assert failed(Termination(min_root_height=0.3), root, ball, ball, everywhere).tolist() == [True, False, False]
    assert failed(NEVER, root, ball, ball, everywhere).tolist() == [False, False, False]


def test_an_object_lost_is_a_failure() -> None:
    """Any one object further from its reference than allowed ends the episode, if the rule says so."""
    root, reference = torch.ones(3, 3), torch.zeros(3, 2, 3)
    things = torch.zeros(3, 2, 3)
    things[1, 1, 0], things[2, 0, 2] = 0.49, 0.51
    rule, everywhere = Termination(min_root_height=None, max_object_distance=0.5), torch.ones(3, dtype=torch.bool)
    assert not failed(rule, root, things, reference, ~everywhere).any()  # nothing to be far from
    assert failed(rule, root, things, reference, everywhere).tolist() == [False, False, True]
    assert failed(rule, root, things[:, :0], reference[:, :0], everywhere).tolist() == [False, False, False]
    assert failed(NEVER, root, things, reference, everywhere).tolist() == [False, False, False]


def steer(env: ImitationEnv, pose: Callable[[], tuple[Tensor, Tensor]]) -> None:
    """Decide where the worlds of a puppet environment are after each step."""
    engine: Any = env.engine
    engine.pose = pose


def follow(env: ImitationEnv) -> None:
    """Make a puppet environment show, after each step, exactly the reference frame that the step is compared with."""

    def pose() -> tuple[Tensor, Tensor]:
        frame = env.frame + (env.progress + 1 - env.masked).clamp_min(0)  # progress moves on after the engine
        row = env.motion.row(env.clip, frame)
        return env.motion.qpos[row], env.motion.qvel[row]

    steer(env, pose)


def idle(env: ImitationEnv) -> Tensor:
    """No action."""
    return torch.zeros(env.num_envs, env.num_actions)


def test_following_the_reference_earns_one_per_step(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """r_t compares the state after the step with the reference one frame on; a puppet on the reference earns 1."""
    env = make_env([make_clip()], puppet=True)
    follow(env)
    begin(env, [0, 0], [0, 7])
    for _ in range(20):
        result = env.step(idle(env))
        torch.testing.assert_close(result.reward, torch.ones(2), rtol=0, atol=1e-6)
        assert result.scored.tolist() == [True, True]


def test_lagging_behind_the_reference_earns_less(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A puppet that stays at the start is compared with frames that move away from it."""
    env = make_env([make_clip()], puppet=True)
    steer(env, lambda: (env.motion.qpos[[0, 0]], env.motion.qvel[[0, 0]]))
    begin(env, [0, 0], [0, 0])
    rewards = torch.stack([env.step(idle(env)).reward for _ in range(8)])
    assert bool((rewards[1:] < rewards[:-1]).all())


def test_a_wrong_contact_label_costs_its_weight(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A reference that claims contact while the ball hovers apart leaves e^-5 of the reward."""
    clip = make_clip(contacts=np.ones((40, 1), dtype=np.float32))
    env = make_env([clip], puppet=True)
    follow(env)
    begin(env, [0, 0], [0, 0])
    torch.testing.assert_close(env.step(idle(env)).reward, torch.full((2,), math.exp(-5.0)), rtol=1e-4, atol=0)


def test_the_additive_reward_earns_four_per_step(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """With the DeepMimic reward a puppet on the reference earns 4."""
    env = make_env([make_clip()], config=EnvConfig(reward="dm", termination=NEVER), puppet=True)
    follow(env)
    begin(env, [0, 0], [0, 3])
    torch.testing.assert_close(env.step(idle(env)).reward, torch.full((2,), 4.0), rtol=0, atol=1e-4)


def test_the_environment_announces_its_observation(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """observation_size and num_actions are what reset and step use, and the condition is the skill's one-hot."""
    env = make_env([make_clip(), make_clip(skill="throw")], num_envs=16)
    seen = env.reset()
    assert seen.shape == (16, env.observation_size)
    assert env.step(idle(env)).observation.shape == (16, env.observation_size)
    assert torch.equal(seen[:, -2:], torch.eye(2)[env.motion.skill[env.clip]])


@pytest.mark.parametrize(
    ("frames", "start", "steps"), [(40, 0, 39), (40, 30, 9), (40, 38, 1), (100, 0, 60), (61, 0, 60)]
)
def test_time_ends_an_episode_as_a_truncation(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, frames: int, start: int, steps: int
) -> None:
    """After min(60, frames left) steps the episode is truncated, never terminated, and not one step earlier."""
    env = make_env([make_clip(frames)], num_envs=1)
    begin(env, [0], [start])
    for step in range(1, steps + 1):
        result = env.step(idle(env))
        assert result.truncated.tolist() == [step == steps]
        assert result.terminated.tolist() == [False]
        assert ended(result) == ([0] if step == steps else [])
    assert env.progress.tolist() == [0]


def test_masked_steps_earn_nothing_and_stop_the_clock(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """The reference waits for N steps that are not scored; then it goes on from where it stood."""
    env = make_env([make_clip()], puppet=True)
    follow(env)
    begin(env, [0, 0], [4, 4], masked=[3, 0])
    results = [env.step(idle(env)) for _ in range(6)]
    assert [bool(result.scored[0]) for result in results] == [False] * 3 + [True] * 3
    assert [bool(result.scored[1]) for result in results] == [True] * 6
    rewards = torch.stack([result.reward for result in results])
    assert rewards[:3, 0].tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(rewards[3:, 0], torch.ones(3), rtol=0, atol=1e-6)
    torch.testing.assert_close(env.engine.state.qpos[0], env.motion.qpos[4 + 3])


def test_masked_steps_prolong_the_episode(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """Ten frames before the end, with three masked steps, an episode lasts twelve steps: 3 + 9."""
    env = make_env([make_clip(40)], num_envs=1)
    begin(env, [0], [30], masked=[3])
    assert [bool(env.step(idle(env)).truncated[0]) for _ in range(12)] == [False] * 11 + [True]


def missing(clip: Clip, frames: list[int]) -> Clip:
    """The clip with these frames missing: marked so, and NaN in every column."""
    valid = clip.valid.copy()
    valid[frames] = False
    gone = {}
    for name in ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts"):
        gone[name] = getattr(clip, name).copy()
        gone[name][frames] = np.nan
    return replace(clip, valid=valid, **gone)


def test_missing_frames_earn_nothing(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A step whose reference frame is missing is not scored, earns exactly 0, and the clock goes on."""
    env = make_env([missing(make_clip(), [3, 4])], num_envs=1)
    begin(env, [0], [0])
    results = [env.step(idle(env)) for _ in range(6)]
    assert [bool(result.scored[0]) for result in results] == [True, True, False, False, True, True]
    rewards = torch.cat([result.reward for result in results])
    assert bool(rewards.isfinite().all())
    assert rewards[2:4].tolist() == [0.0, 0.0]


def test_a_gap_throws_nothing(make_clip: MakeClip, hand_character: Character) -> None:
    """Frames beside missing ones have about the velocities and poses that they have in the whole clip."""
    whole = ReferenceMotion([make_clip()], hand_character, ["sway"])
    holed = ReferenceMotion([missing(make_clip(), [10, 11, 12, 25])], hand_character, ["sway"])
    rows = torch.nonzero(holed.start_mask()).squeeze(1)
    torch.testing.assert_close(holed.qvel[rows], whole.qvel[rows], rtol=0, atol=0.5)
    for ours, theirs in zip(holed.kinematics(rows), whole.kinematics(rows), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0.5)


def test_a_gap_at_an_end_throws_nothing(make_clip: MakeClip, hand_character: Character) -> None:
    """With the first or last frames missing, no frame is faster than the whole clip is."""
    whole = ReferenceMotion([make_clip()], hand_character, ["sway"])
    holed = ReferenceMotion([missing(make_clip(), [0, 1, 38, 39])], hand_character, ["sway"])
    rows = torch.nonzero(holed.valid).squeeze(1)
    assert float(holed.qvel[rows].abs().max()) < 1.2 * float(whole.qvel.abs().max())


def test_the_final_observation_is_of_the_episode_that_ended(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """At a reset, what was seen last belongs to the last state, and the observation to the new episode."""
    env = make_env([make_clip(10), make_clip(40)])
    begin(env, [0, 1], [0, 0])
    for _ in range(9):
        result = env.step(0.3 * torch.ones(2, env.num_actions))
    assert ended(result) == [0]
    assert result.final_observation is not None
    assert torch.equal(result.final_observation[0], result.observation[1])  # the twin whose clip goes on
    assert not torch.equal(result.observation[0], result.observation[1])
    assert torch.equal(result.observation, env.observe())


def test_a_failure_terminates(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """A root under the limit ends the episode as a termination, even when time is up in the same step."""
    env = make_env([make_clip(40)], config=EnvConfig(termination=Termination(min_root_height=5.0)))
    begin(env, [0, 0], [0, 38])
    result = env.step(idle(env))
    assert result.terminated.tolist() == [True, True]
    assert result.truncated.tolist() == [False, False]


def test_a_diverged_world_terminates(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """An explosion is a failure of its own episode; it is reset, and no number in the result is NaN."""
    env = make_env([make_clip()], num_envs=3)
    begin(env, [0, 0, 0], [0, 0, 0])
    env.engine.reset(torch.tensor([1]), env.motion.qpos[:1], torch.full((1, 13), 1e5))
    result = env.step(idle(env))
    assert result.terminated.tolist() == [False, True, False]
    assert ended(result) == [1]
    assert result.final_observation is not None
    for tensor in (result.observation, result.reward, result.final_observation):
        assert bool(tensor.isfinite().all())
    assert env.step(idle(env)).terminated.tolist() == [False, False, False]


def test_statistics_per_skill_add_up(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """Rewards, scored steps, failures and episodes of each skill are the sums of what the steps returned."""
    clips = [make_clip(12), make_clip(25, skill="throw"), make_clip(18, skill="throw")]
    env = make_env(clips, num_envs=12, config=EnvConfig(termination=Termination(1.15)))
    env.reset()
    expected = torch.zeros(4, 2)
    for _ in range(40):
        skill = env.motion.skill[env.clip]
        result = env.step(torch.randn(12, env.num_actions))
        ended = result.terminated | result.truncated
        for row, value in enumerate((result.reward, result.scored, result.terminated, ended)):
            expected[row].index_add_(0, skill, value.float())
    taken = env.take_statistics()
    assert float(expected[2].min()) > 0
    for row, name in enumerate(("reward", "steps", "failures", "episodes")):
        torch.testing.assert_close(getattr(taken, name), expected[row])
    assert float(taken.steps.sum()) == 12 * 40
    assert float(env.take_statistics().steps.sum()) == 0


def test_the_sampler_hears_how_each_episode_went(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Perfect episodes are reported with their clip, their start frame and a mean reward of 1, masked steps apart."""
    env = make_env([make_clip(10), make_clip(12)], puppet=True)
    follow(env)
    heard: dict[tuple[int, int], float] = {}

    def record(clip: Tensor, frame: Tensor, mean_reward: Tensor, ended: Tensor) -> None:
        assert ended.all()
        for episode in zip(clip.tolist(), frame.tolist(), mean_reward.tolist(), strict=True):
            heard.setdefault(episode[:2], episode[2])

    monkeypatch.setattr(env.sampler, "record", record)
    begin(env, [0, 1], [3, 5], masked=[0, 4])
    for _ in range(10):
        env.step(idle(env))
    assert heard[0, 3] == pytest.approx(1.0, abs=1e-4)
    assert heard[1, 5] == pytest.approx(1.0, abs=1e-4)


def test_an_environment_goes_on_from_a_snapshot(make_clip: MakeClip, make_env: MakeEnv) -> None:
    """The same observation at once, and the same rewards and resets afterwards, bit for bit."""
    clips = [make_clip(30), make_clip(20, skill="throw")]
    env, resumed = make_env(clips, num_envs=6), make_env(clips, num_envs=6)
    env.reset()
    actions = [torch.randn(6, env.num_actions) for _ in range(30)]
    for action in actions[:15]:
        env.step(action)
    resumed.restore(env.snapshot())
    resumed.sampler.load_state_dict(env.sampler.state_dict())
    assert torch.equal(resumed.observe(), env.observe())
    futures = []
    for each in (env, resumed):
        torch.manual_seed(5)
        futures.append([each.step(action) for action in actions[15:]])
    for ours, theirs in zip(*futures, strict=True):
        for name, value in vars(ours).items():
            assert torch.equal(value, getattr(theirs, name)), name


def test_reference_velocities_are_differences_of_frames(make_clip: MakeClip, hand_character: Character) -> None:
    """A frame's velocity is MuJoCo's difference from the frame before, times 60; the first takes the second's."""
    motion = ReferenceMotion([make_clip(8)], hand_character, ["sway"])
    qpos, model = motion.qpos.double().numpy(), hand_character.model
    for frame in range(1, 8):
        velocity = np.zeros(model.nv)
        mujoco.mj_differentiatePos(model, velocity, 1 / 60, qpos[frame - 1], qpos[frame])
        np.testing.assert_allclose(motion.qvel[frame], velocity, atol=1e-4)
    assert torch.equal(motion.qvel[0], motion.qvel[1])


def test_reference_bodies_move_as_their_positions_do(make_clip: MakeClip, hand_character: Character) -> None:
    """Velocities of key bodies and objects are differences of their poses; the ball spins at two radians per second."""
    motion = ReferenceMotion([make_clip(8)], hand_character, ["sway"])
    seen = motion.kinematics(torch.arange(8))
    torch.testing.assert_close(seen.key_vel_w[1:], 60 * seen.key_pos_w.diff(dim=0), rtol=0, atol=1e-3)
    torch.testing.assert_close(seen.object_lin_vel_w[1:], 60 * seen.object_pos_w.diff(dim=0), rtol=0, atol=1e-3)
    spin = torch.tensor([0.0, 0.0, 2.0]).expand(8, 1, 3)
    torch.testing.assert_close(seen.object_ang_vel_w, spin, rtol=0, atol=1e-4)


def test_reference_bodies_are_where_the_clip_puts_them(make_clip: MakeClip, hand_character: Character) -> None:
    """The root and the ball of every reference frame are those of the clip's columns."""
    clip = make_clip()
    motion = ReferenceMotion([clip], hand_character, ["sway"])
    seen = motion.kinematics(torch.arange(len(clip)))
    torch.testing.assert_close(seen.key_pos_w[:, 0], torch.from_numpy(clip.root_pos), rtol=0, atol=1e-5)
    torch.testing.assert_close(seen.object_pos_w, torch.from_numpy(clip.object_pos), rtol=0, atol=1e-5)


def test_jumps_in_a_clip_do_not_become_wild_velocities(make_clip: MakeClip, hand_character: Character) -> None:
    """A finger that flips within one frame starts no episode faster than the limit."""
    joint_pos = make_clip().joint_pos.copy()
    joint_pos[20:, 0] += 3.0
    motion = ReferenceMotion([make_clip(joint_pos=joint_pos)], hand_character, ["sway"], max_velocity=40.0)
    assert float(motion.qvel.abs().max()) == 40.0


def test_frames_of_all_clips_are_found_by_clip_and_number(make_clip: MakeClip, hand_character: Character) -> None:
    """Rows count through the clips, and a number past a clip's end is its last frame, not the next clip."""
    motion = ReferenceMotion([make_clip(5), make_clip(7, skill="throw")], hand_character, ["throw", "sway"])
    assert motion.row(torch.tensor([0, 1, 0, 1]), torch.tensor([2, 2, 9, 9])).tolist() == [2, 7, 4, 11]
    assert motion.skill.tolist() == [1, 0]
    assert motion.num_clips == 2


def test_labels_find_their_pair_by_name(make_clip: MakeClip, hand_character: Character) -> None:
    """Contact columns come in any order; a pair without a label is apart."""
    labels = np.array([[1, 0], [1, 1], [0, 1], [0, 0]], dtype=np.float32)
    clip = make_clip(4, contacts=labels, contact_names=("body-hand", "object-hand"))
    motion = ReferenceMotion([clip], hand_character, ["sway"])
    assert motion.contact_pairs.tolist() == [[0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_thirty_frames_per_second_become_sixty(make_clip: MakeClip) -> None:
    """Resampling keeps both ends and every old frame, and puts the middle between its neighbours."""
    slow = make_clip(20, fps=30.0)
    fast = resample(slow, 60.0)
    assert (len(fast), fast.fps, fast.seconds) == (39, 60.0, slow.seconds)
    for name in ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat"):
        before, after = getattr(slow, name), getattr(fast, name)
        np.testing.assert_allclose(after[::2], before, atol=1e-6)
        assert after.dtype == np.float32
    np.testing.assert_allclose(fast.root_pos[1::2], (slow.root_pos[1:] + slow.root_pos[:-1]) / 2, atol=1e-6)
    exact = make_clip(39, fps=60.0)
    np.testing.assert_allclose(np.abs((fast.root_quat * exact.root_quat).sum(axis=1)), 1.0, atol=1e-4)
    np.testing.assert_allclose(np.abs((fast.object_quat * exact.object_quat).sum(axis=2)), 1.0, atol=1e-4)


def test_resampling_ignores_the_sign_of_a_quaternion(make_clip: MakeClip) -> None:
    """A clip whose quaternions flip sign between frames is the same motion."""
    slow = make_clip(20, fps=30.0)
    flipped = slow.root_quat * np.where(np.arange(20) % 2, -1, 1).astype(np.float32)[:, None]
    ours, theirs = resample(replace(slow, root_quat=flipped), 60.0).root_quat, resample(slow, 60.0).root_quat
    np.testing.assert_allclose(np.abs((ours * theirs).sum(axis=1)), 1.0, atol=1e-6)


def test_resampling_keeps_labels_whole_and_gaps_open(make_clip: MakeClip) -> None:
    """Labels stay 0 or 1; old frames stay present or missing as they were, and nothing is invented beside a gap."""
    valid = np.ones(20, dtype=bool)
    valid[5] = False
    labels = (np.arange(20) > 9).astype(np.float32)[:, None]
    fast = resample(make_clip(20, fps=30.0, contacts=labels, valid=valid), 60.0)
    assert set(np.unique(fast.contacts)) == {0.0, 1.0}
    assert np.flatnonzero(~fast.valid).tolist() == [9, 10, 11]


def spinning_ball_joint(make_clip: MakeClip, frames: int, fps: float, **changes: Any) -> Clip:
    """A ball joint that turns about one axis at 4 rad/s, through π and on; its vector jumps to the other side."""
    angle = 2.0 + 4.0 * np.arange(frames) / fps
    wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
    joint_pos = (wrapped[:, None] * [0.6, 0.0, 0.8]).astype(np.float32)
    names = ("shoulder_x", "shoulder_y", "shoulder_z")
    return make_clip(frames, fps=fps, joint_pos=joint_pos, joint_names=names, **changes)


def turns(rotvec: np.ndarray) -> torch.Tensor:
    """Orientations of rotation vectors."""
    return quat_from_rotvec(torch.from_numpy(rotvec).double())


def test_a_ball_joint_is_resampled_as_a_rotation(make_clip: MakeClip) -> None:
    """Between two frames on either side of π the joint turns on; it does not swing back through rest."""
    fast = resample(spinning_ball_joint(make_clip, 20, 30.0), 60.0, ball_columns=[0])
    exact = spinning_ball_joint(make_clip, 39, 60.0)
    error = rotvec_between(turns(fast.joint_pos), turns(exact.joint_pos)).norm(dim=-1)
    assert float(error.max()) < 1e-5
    np.testing.assert_allclose(fast.joint_pos[::2], spinning_ball_joint(make_clip, 20, 30.0).joint_pos, atol=1e-6)


def test_three_hinges_are_no_ball_joint(make_clip: MakeClip) -> None:
    """Columns that only look like a rotation vector by name are numbers like any others."""
    slow = spinning_ball_joint(make_clip, 20, 30.0)
    np.testing.assert_allclose(
        resample(slow, 60.0).joint_pos[1::2], (slow.joint_pos[1:] + slow.joint_pos[:-1]) / 2, atol=1e-6
    )


def test_a_gap_is_filled_by_turning_on(make_clip: MakeClip) -> None:
    """Frames lost while a ball joint passes π are the even turn from one neighbour to the other."""
    whole = spinning_ball_joint(make_clip, 30, 60.0)
    filled = fill_gaps(missing(whole, list(range(14, 21))), ball_columns=[0])
    error = rotvec_between(turns(filled.joint_pos), turns(whole.joint_pos)).norm(dim=-1)
    assert float(error.max()) < 1e-5
    np.testing.assert_allclose(np.linalg.norm(filled.root_quat, axis=1), 1.0, atol=1e-6)
    assert np.isfinite(filled.contacts).all()


def test_nonsense_in_a_missing_frame_reaches_no_table(make_clip: MakeClip, hand_character: Character) -> None:
    """Poses and labels of a missing frame may be NaN; the reference is finite all the same."""
    motion = ReferenceMotion([missing(make_clip(), [7, 8])], hand_character, ["sway"])
    assert bool(motion.qpos.isfinite().all() and motion.contact_pairs.isfinite().all())


def test_resampling_at_the_same_rate_changes_nothing(make_clip: MakeClip) -> None:
    """Sixty frames per second stay as they are."""
    clip = make_clip()
    assert resample(clip, 60.0) is clip


def test_a_slow_clip_is_followed_at_the_rate_of_the_policy(make_clip: MakeClip, hand_character: Character) -> None:
    """A 30 fps clip enters the reference with twice the frames and the same velocities."""
    slow = ReferenceMotion([make_clip(20, fps=30.0)], hand_character, ["sway"])
    fast = ReferenceMotion([make_clip(39, fps=60.0)], hand_character, ["sway"])
    assert slow.length.tolist() == [39]
    torch.testing.assert_close(slow.qvel, fast.qvel, rtol=0, atol=0.1)


def plain_sampler(motion: ReferenceMotion, character: Character) -> AugmentedSampler:
    """Every augmentation off: reference state initialisation."""
    return AugmentedSampler(motion, character, TrackingWeights(), Augmentation())


def test_starts_are_present_frames_with_a_future(make_clip: MakeClip, hand_character: Character) -> None:
    """No episode starts in a missing frame or in the last frame of a clip; every other frame is used."""
    clips = [missing(make_clip(6), [2]), make_clip(4, skill="throw")]
    motion = ReferenceMotion(clips, hand_character, ["sway", "throw"])
    starts = plain_sampler(motion, hand_character).sample(4000)
    drawn = set(zip(starts.clip.tolist(), starts.frame.tolist(), strict=True))
    assert drawn == {(0, 0), (0, 1), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2)}
    row = motion.row(starts.clip, starts.frame)
    assert torch.equal(starts.qpos, motion.qpos[row])
    assert torch.equal(starts.qvel, motion.qvel[row])
    assert int(starts.masked.max()) == 0


def test_skills_are_drawn_alike(make_clip: MakeClip, hand_character: Character) -> None:
    """A skill with three long clips is practised as often as one with a single short clip."""
    clips = [make_clip(40), make_clip(30), make_clip(20), make_clip(4, skill="throw")]
    motion = ReferenceMotion(clips, hand_character, ["sway", "throw"])
    starts = plain_sampler(motion, hand_character).sample(6000)
    share = torch.bincount(starts.clip, minlength=4) / 6000
    torch.testing.assert_close(share, torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2]), rtol=0, atol=0.03)


def with_nan(clip: Clip, column: str, frames: list[int]) -> Clip:
    """The clip with NaN in one column of frames that claim to be present."""
    values = getattr(clip, column).copy()
    values[frames] = np.nan
    return replace(clip, **{column: values})


def test_a_clip_of_another_character_is_refused(make_clip: MakeClip, hand_character: Character) -> None:
    """The clip, its character and ours are named."""
    with pytest.raises(ClipError, match="clip 'sway' is for character 'humanoid', not 'hand'"):
        ReferenceMotion([make_clip(character="humanoid")], hand_character, ["sway"])


@pytest.mark.parametrize(
    ("names", "theirs", "ours"),
    [
        ("joint_names", ("finger_right", "finger_left"), ("finger_left", "finger_right")),
        ("object_names", ("cube",), ("ball",)),
    ],
)
def test_wrong_columns_are_refused_with_both_lists(
    make_clip: MakeClip, hand_character: Character, names: str, theirs: tuple[str, ...], ours: tuple[str, ...]
) -> None:
    """Columns in another order, or of another thing, are an error that shows what came and what was wanted."""
    with pytest.raises(ClipError) as caught:
        ReferenceMotion([make_clip(**{names: theirs})], hand_character, ["sway"])
    for part in ("'sway'", str(list(theirs)), str(list(ours))):
        assert part in str(caught.value)


@pytest.mark.parametrize("column", ["root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts"])
def test_a_frame_that_is_not_a_number_is_refused(make_clip: MakeClip, hand_character: Character, column: str) -> None:
    """NaN in a frame that is not marked missing names the column and the first such frame."""
    with pytest.raises(ClipError, match=rf"'sway': {column} is not finite in frame 17 \(2 such frames\)"):
        ReferenceMotion([with_nan(make_clip(), column, [17, 21])], hand_character, ["sway"])


def test_frames_are_numbered_as_in_the_file(make_clip: MakeClip, hand_character: Character) -> None:
    """A bad frame of a 30 fps clip is named by its own number, not by that of the resampled one."""
    with pytest.raises(ClipError, match="not finite in frame 7 "):
        ReferenceMotion([with_nan(make_clip(20, fps=30.0), "root_pos", [7])], hand_character, ["sway"])


def test_an_unknown_skill_is_refused_with_the_known_ones(make_clip: MakeClip, hand_character: Character) -> None:
    """The clip's skill and the task's skills are named."""
    with pytest.raises(ClipError, match="clip 'sway': unknown skill 'sway'; known: throw, catch"):
        ReferenceMotion([make_clip()], hand_character, ["throw", "catch"])


@pytest.mark.parametrize(("frames", "fps", "left"), [(0, 60.0, 0), (1, 60.0, 1), (1, 30.0, 1), (2, 240.0, 1)])
def test_one_frame_is_no_trajectory(
    make_clip: MakeClip, hand_character: Character, frames: int, fps: float, left: int
) -> None:
    """A single frame cannot be followed, nor two that are one at the policy's rate."""
    with pytest.raises(ClipError, match=rf"'sway': {left} frame\(s\); a trajectory needs at least 2"):
        ReferenceMotion([make_clip(frames, fps=fps)], hand_character, ["sway"])


@pytest.mark.parametrize(("fps", "present"), [(60.0, []), (60.0, [39]), (30.0, []), (25.0, [3])])
def test_a_clip_without_a_present_frame_is_refused(
    make_clip: MakeClip, hand_character: Character, fps: float, present: list[int]
) -> None:
    """Nothing present, or only the last frame, or only a frame between those of the policy: nothing to start from."""
    valid = np.zeros(40, dtype=bool)
    valid[present] = True
    with pytest.raises(ClipError, match="'sway': every frame that could start an episode is marked missing"):
        ReferenceMotion([make_clip(40, fps=fps, valid=valid)], hand_character, ["sway"])


def test_no_clips_are_refused(hand_character: Character) -> None:
    """A task needs a demonstration."""
    with pytest.raises(ClipError, match="no clips for character 'hand'"):
        ReferenceMotion([], hand_character, ["sway"])


def test_a_root_that_the_character_cannot_reach_is_refused(make_clip: MakeClip, hand_character: Character) -> None:
    """The hand has no yaw: a clip that turns it names the frame and how far off it is."""
    root_quat = make_clip().root_quat.copy()
    root_quat[12] = (math.cos(0.4), 0.0, 0.0, math.sin(0.4))
    with pytest.raises(ClipError, match=r"cannot take the root pose of frame 12: off by 0.000 m and 0.800 rad"):
        ReferenceMotion([make_clip(root_quat=root_quat)], hand_character, ["sway"])


def test_a_demonstration_that_is_lost_for_long_enough_ends_the_episode(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin
) -> None:
    """After so many steps in a row that earn nothing; a start that is N masked states away has N more."""
    lost = Termination(min_root_height=None, lost_after=4, lost_reward=2.0)  # nothing ever earns that much
    env = make_env([make_clip(40)], num_envs=2, config=EnvConfig(termination=lost))
    begin(env, [0, 0], [5, 5], masked=[0, 3])
    ended = [env.step(torch.zeros(2, env.num_actions)).terminated.tolist() for _ in range(10)]
    assert [pair[0] for pair in ended].index(True) == 3
    assert [pair[1] for pair in ended].index(True) == 3 + 4 + 3 - 1  # masked, allowed, allowed for being masked


def test_earning_something_again_in_time_goes_on(make_clip: MakeClip, make_env: MakeEnv, begin: Begin) -> None:
    """The count begins anew with every step that earns something."""
    never = Termination(min_root_height=None, lost_after=1, lost_reward=0.0)
    env = make_env([make_clip(40)], num_envs=2, config=EnvConfig(termination=never))
    begin(env, [0, 0], [5, 5])
    assert not any(env.step(torch.zeros(2, env.num_actions)).terminated.any() for _ in range(20))
