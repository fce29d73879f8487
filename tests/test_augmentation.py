"""Augmentation: similarity, neighbourhoods, the transition field, the stitched graph, Algorithm 1, and hard starts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.errors import ClipError, ConfigError
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig, Rollout
from skillfield.reference import (
    Augmentation,
    AugmentedSampler,
    Kinematics,
    Neighbourhood,
    ReferenceMotion,
    Starts,
    TrackingWeights,
    tracking_exponent,
)
from skillfield.reference.adaptive import AdaptiveSampling, skill_weights, start_weights
from skillfield.reference.field import TransitionField
from skillfield.reference.graph import build_graph
from skillfield.reference.neighbourhood import neighbour
from skillfield.reference.similarity import earliest_best, masked_states, similarity_exponent, similarity_features
from skillfield.reference.states import StateKinematics
from skillfield.rotations import (
    heading_cos_sin,
    quat_from_rotvec,
    quat_multiply,
    quat_rotate,
    rotate_heading_inverse,
)

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]

EVERYTHING = TrackingWeights(3.0, 2.0, 0.05, 0.07, 1.0, 0.9, 0.03, 0.02, 4.0)
"""Every term is felt, each with a weight of its own."""

COLUMNS = ("root_pos", "root_quat", "joint_pos", "object_pos", "object_quat", "contacts")
NEVER = Termination(min_root_height=None)


def walker_clip(frames: int = 14, phase: float = 0.0, **changes: Any) -> Clip:
    """A walker that wanders and turns while it waves its arm, the box beside it; phase: where in its motion it is."""
    time = phase + torch.arange(frames) / 60.0
    zero = torch.zeros_like(time)
    root = torch.stack((0.8 * time, 0.3 * torch.sin(2 * time), 1.0 + 0.1 * torch.sin(5 * time)), dim=1)
    tilt = torch.stack((0.2 * torch.sin(4 * time), 0.2 * torch.cos(3 * time), 1.5 * time), dim=1)
    shoulder = torch.stack((0.4 * torch.sin(5 * time), 0.3 * torch.cos(4 * time), 0.5 * torch.sin(3 * time)), dim=1)
    box = root + torch.stack((0.5 * torch.cos(time), 0.5 * torch.sin(3 * time), -0.2 + 0.1 * time), dim=1)
    clip = Clip(
        name="stroll",
        skill="stroll",
        character="walker",
        fps=60.0,
        root_pos=root.numpy(),
        root_quat=quat_from_rotvec(tilt).numpy(),
        joint_pos=torch.cat((shoulder, torch.sin(4 * time).unsqueeze(1)), dim=1).numpy(),
        object_pos=box.unsqueeze(1).numpy(),
        object_quat=quat_from_rotvec(torch.stack((time, zero, 2 * time), dim=1)).unsqueeze(1).numpy(),
        contacts=np.zeros((frames, 1), dtype=np.float32),
        joint_names=("shoulder_x", "shoulder_y", "shoulder_z", "elbow"),
        object_names=("box",),
    )
    return replace(clip, **changes)


def elsewhere(clip: Clip, angle: float, shift: Sequence[float]) -> Clip:
    """The same motion recorded at another place of the ground plane, turned about the vertical."""
    turn = quat_from_rotvec(torch.tensor([0.0, 0.0, angle]))
    away = torch.tensor([*shift, 0.0])

    def turned(quat: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(quat)
        return quat_multiply(turn.expand_as(given), given).numpy()

    def moved(pos: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(pos)
        return (quat_rotate(turn.expand(*given.shape[:-1], 4), given) + away).numpy()

    return replace(
        clip,
        root_pos=moved(clip.root_pos),
        root_quat=turned(clip.root_quat),
        object_pos=moved(clip.object_pos),
        object_quat=turned(clip.object_quat),
    )


def missing(clip: Clip, frames: list[int]) -> Clip:
    """The clip with these frames missing: marked so, and NaN in every column."""
    gone = {name: getattr(clip, name).copy() for name in (*COLUMNS, "valid")}
    for name in COLUMNS:
        gone[name][frames] = np.nan
    gone["valid"][frames] = False
    return replace(clip, **gone)


def lifted(clip: Clip, height: float) -> Clip:
    """The clip that much higher, character and object."""
    up = np.array([0.0, 0.0, height], dtype=np.float32)
    return replace(clip, root_pos=clip.root_pos + up, object_pos=clip.object_pos + up)


def everyone(count: int) -> Tensor:
    """All of these episodes have ended."""
    return torch.ones(count, dtype=torch.bool)


def motion_of(clips: Sequence[Clip], character: Character) -> ReferenceMotion:
    """Clips of the character, their skills in order of appearance."""
    return ReferenceMotion(clips, character, tuple(dict.fromkeys(clip.skill for clip in clips)))


def clip_of(motion: ReferenceMotion, row: Tensor) -> Tensor:
    """Which clip a row belongs to."""
    return torch.searchsorted(motion.start, row, right=True) - 1


def startable(motion: ReferenceMotion) -> Tensor:
    """Rows that an episode may start from."""
    return torch.nonzero(motion.start_mask()).squeeze(1)


def random_states(character: Character, count: int, away: float = 0.0) -> tuple[Tensor, Tensor]:
    """States at random, as far from the origin as asked."""
    layout = character.layout()
    rest = torch.tensor(character.model.qpos0).float().expand(count, -1)
    change = torch.randn(count, layout.num_dofs)
    change[:, layout.fields["root_pos"]] += away
    change[:, layout.fields["object_pos"]] += away
    return layout.integrate(rest, change), torch.randn(count, layout.num_dofs)


def against(state: Kinematics, reference: Kinematics) -> tuple[Kinematics, Kinematics]:
    """Every state beside every reference: [n, 1, …] and [1, m, …]."""
    return Kinematics(*(x.unsqueeze(1) for x in state)), Kinematics(*(x.unsqueeze(0) for x in reference))


@pytest.fixture(params=["hand", "walker"])
def character(request: pytest.FixtureRequest) -> Character:
    """A gantry with hinges; then a free root with a ball joint."""
    return request.getfixturevalue({"hand": "hand_character", "walker": "walker"}[request.param])


@pytest.fixture(scope="module")
def strolls(walker: Character) -> ReferenceMotion:
    """Three skills of the walker, one of them in two clips, recorded at different places and headings."""
    return motion_of(
        [
            walker_clip(12),
            elsewhere(walker_clip(10, phase=0.4, skill="run"), 1.9, (4.0, -3.0)),
            elsewhere(walker_clip(9, phase=0.9, skill="run"), -2.2, (-6.0, 1.0)),
            elsewhere(walker_clip(11, phase=0.2, skill="creep"), 0.7, (2.0, 8.0)),
        ],
        walker,
    )


@pytest.fixture
def sways(make_clip: MakeClip, hand_character: Character) -> ReferenceMotion:
    """Three skills of the hand: two alike in other places, and one too high up to be reached from either."""
    swing = elsewhere(make_clip(24, skill="swing"), 0.0, (3.0, -2.0))
    return motion_of([make_clip(30), swing, lifted(make_clip(20, skill="soar"), 5.0)], hand_character)


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


def test_neighbours_fill_the_box_of_every_field(character: Character) -> None:
    """Each field deviates by up to its own ε, uniformly and to both sides; positions and velocities alike."""
    layout = character.layout()
    widths = {field.name: 0.1 + 0.03 * number for number, field in enumerate(fields(Neighbourhood))}
    qpos, qvel = (part.expand(4000, -1) for part in random_states(character, 1))
    near_qpos, near_qvel = neighbour(qpos, qvel, Neighbourhood(**widths), layout)
    changes = {"": layout.difference(qpos, near_qpos), "_vel": near_qvel - qvel}
    height = layout.fields["object_pos"][2::3]
    for field, dofs in layout.fields.items():
        for suffix, change in changes.items():
            name = f"{field.removesuffix('_pos')}_vel" if suffix else field
            width = widths[name]
            for dof in dofs.tolist():
                drawn = change[:, dof]
                low = 0.0 if dof in height and not suffix else -width
                middle, spread = (low + width) / 2, (width - low) / math.sqrt(12)
                assert low - 1e-5 < float(drawn.min()) < low + 0.05 * width, (name, dof)
                assert 0.95 * width < float(drawn.max()) < width + 1e-5, (name, dof)
                assert float(drawn.mean()) == pytest.approx(middle, abs=0.06 * width)
                assert float(drawn.std()) == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("moved", [field.name for field in fields(Neighbourhood)])
def test_a_field_without_width_stays_exactly(character: Character, moved: str) -> None:
    """With one ε alone, only that field changes; every other number keeps all its bits."""
    layout = character.layout()
    widths = dict.fromkeys((field.name for field in fields(Neighbourhood)), 0.0) | {moved: 0.2}
    qpos, qvel = random_states(character, 20)
    near_qpos, near_qvel = neighbour(qpos, qvel, Neighbourhood(**widths), layout)
    place = {"root_vel": "root_pos", "object_vel": "object_pos"}.get(moved, moved.removesuffix("_vel"))
    is_velocity = moved.endswith("_vel")
    assert torch.equal(near_qvel, qvel) != is_velocity
    assert torch.equal(near_qpos, qpos) == is_velocity
    change = near_qvel != qvel if is_velocity else layout.difference(qpos, near_qpos).abs() > 1e-3
    assert set(torch.nonzero(change)[:, 1].tolist()) == set(layout.fields[place].tolist())


def test_neighbours_are_states(walker: Character) -> None:
    """Quaternions stay unit quaternions, and no object is pushed below where it was."""
    layout = walker.layout()
    qpos, qvel = random_states(walker, 500)
    near, _ = neighbour(qpos, qvel, Neighbourhood(root_rot=1.0, joint=1.0, object_rot=1.0, object_pos=0.5), layout)
    for first in (3, 7, 15):  # root, ball joint, box
        torch.testing.assert_close(near[:, first : first + 4].norm(dim=1), torch.ones(500), rtol=0, atol=1e-5)
    assert float((near[:, 14] - qpos[:, 14]).min()) >= 0.0


def brute_force(
    motion: ReferenceMotion, character: Character, weights: TrackingWeights, qpos: Tensor, qvel: Tensor, clip: Tensor
) -> Tensor:
    """Exponents of every state with every row; infinite where a row is no target of that state's clip.  [n, N]"""
    rows = torch.arange(len(motion.qpos))
    pair = against(StateKinematics(character)(qpos, qvel), motion.kinematics(rows))
    exponent = tracking_exponent(*pair, weights, character.layout())
    return exponent.masked_fill(~motion.start_mask() | (clip_of(motion, rows) != clip.unsqueeze(1)), torch.inf)


def test_a_reference_state_connects_to_its_own_frame(strolls: ReferenceMotion, walker: Character) -> None:
    """With β = 1, so that no masked state is needed."""
    field = TransitionField(strolls, StateKinematics(walker), TrackingWeights())
    rows = startable(strolls)
    clip = clip_of(strolls, rows)
    frame, exponent = field.connect(strolls.qpos[rows], strolls.qvel[rows], clip)
    assert torch.equal(strolls.row(clip, frame), rows)
    torch.testing.assert_close(exponent, torch.zeros(len(rows)), rtol=0, atol=1e-5)


def test_a_state_connects_to_the_most_similar_frame_of_its_clip(strolls: ReferenceMotion, walker: Character) -> None:
    """Recomputed one by one, for states around any frame and for clips that they do not come from."""
    field = TransitionField(strolls, StateKinematics(walker), EVERYTHING)
    rows = startable(strolls)[torch.randint(len(startable(strolls)), (60,))]
    qpos, qvel = neighbour(strolls.qpos[rows], strolls.qvel[rows], Neighbourhood(), walker.layout())
    clip = torch.randint(strolls.num_clips, (60,))
    frame, exponent = field.connect(qpos, qvel, clip)
    expected = brute_force(strolls, walker, EVERYTHING, qpos, qvel, clip)
    torch.testing.assert_close(exponent, expected.amin(dim=1), rtol=1e-4, atol=1e-4)
    assert torch.equal(strolls.row(clip, frame), expected.argmin(dim=1))


def test_a_state_has_one_way_onto_the_clip_whatever_it_was_drawn_around(
    make_clip: MakeClip, hand_character: Character, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state inside many neighbourhoods gets the same frame, the same mask and the same past from every centroid."""
    motion = motion_of([make_clip(20)], hand_character)
    between = 0.5 * (motion.qpos[8:9] + motion.qpos[9:10]), motion.qvel[8:9]
    centroids: list[Tensor] = []

    def always_there(qpos: Tensor, qvel: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        centroids.extend(qpos)
        return between[0].expand_as(qpos), between[1].expand_as(qvel)

    monkeypatch.setattr("skillfield.reference.augmentation.neighbour", always_there)
    config = Augmentation(neighbourhood=True, connect=True, p_neighbour=1.0)
    starts = AugmentedSampler(motion, hand_character, TrackingWeights(), config).sample(200)
    assert len(torch.stack(centroids).unique(dim=0)) == 19
    assert starts.frame.unique().tolist() in ([8], [9])
    assert starts.masked.unique().tolist() == [1]
    assert torch.equal(starts.past_row, starts.frame)


def test_connections_do_not_depend_on_the_company(strolls: ReferenceMotion, walker: Character) -> None:
    """Alone, in a batch, or in a batch in another order: the same frame and the same β."""
    field = TransitionField(strolls, StateKinematics(walker), TrackingWeights())
    rows = startable(strolls)
    qpos, qvel = neighbour(strolls.qpos[rows], strolls.qvel[rows], Neighbourhood(), walker.layout())
    clip = clip_of(strolls, rows)
    frame, exponent = field.connect(qpos, qvel, clip)
    order = torch.randperm(len(rows))
    for some in (order, *order[:5].split(1)):
        again, again_exponent = field.connect(qpos[some], qvel[some], clip[some])
        assert torch.equal(again, frame[some])
        torch.testing.assert_close(again_exponent, exponent[some], rtol=1e-6, atol=1e-7)


def test_missing_and_last_frames_are_no_targets(make_clip: MakeClip, hand_character: Character) -> None:
    """A state exactly there connects to the nearest frame that is present and has a future."""
    motion = motion_of([missing(make_clip(20), [6, 7, 8])], hand_character)
    field = TransitionField(motion, StateKinematics(hand_character), TrackingWeights())
    rows = torch.tensor([6, 8, 19])
    frame, exponent = field.connect(motion.qpos[rows], motion.qvel[rows], torch.zeros(3, dtype=torch.long))
    assert frame.tolist() == [5, 9, 18]
    assert float(exponent.min()) > 1e-4


def moved_onto(character: Character, motion: ReferenceMotion, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Source states turned about the vertical and shifted so that their roots stand and head as the targets'."""
    qpos, qvel = motion.qpos[source].clone(), motion.qvel[source].clone()
    goal = motion.qpos[target]
    if character.name == "hand":  # x, y, …, the ball's free joint last; a gantry never turns
        shift = goal[:, :2] - qpos[:, :2]
        qpos[:, :2] += shift
        qpos[:, -7:-5] += shift
        return qpos, qvel
    angle = torch.atan2(*heading_cos_sin(goal[:, 3:7]).flip(-1).unbind(-1))
    angle = angle - torch.atan2(*heading_cos_sin(qpos[:, 3:7]).flip(-1).unbind(-1))
    turn = quat_from_rotvec(torch.stack((0 * angle, 0 * angle, angle), dim=-1))
    origin = qpos[:, :3].clone()
    for q, d in ((0, 0), (qpos.shape[1] - 7, qvel.shape[1] - 6)):
        place = quat_rotate(turn, qpos[:, q : q + 3] - origin)
        qpos[:, q : q + 3] = place + torch.cat((goal[:, :2], origin[:, 2:]), dim=1)
        qpos[:, q + 3 : q + 7] = quat_multiply(turn, qpos[:, q + 3 : q + 7])
        qvel[:, d : d + 3] = quat_rotate(turn, qvel[:, d : d + 3])
    return qpos, qvel


def test_every_edge_leads_to_the_best_frame_after_alignment(strolls: ReferenceMotion, walker: Character) -> None:
    """From each state, to each other skill: the most similar frame of all its clips, states explicitly moved there."""
    states, layout = StateKinematics(walker), walker.layout()
    graph = build_graph(strolls, states, EVERYTHING, 1e-10)
    skill = strolls.skill[clip_of(strolls, torch.arange(len(strolls.qpos)))]
    edges = dict(zip(zip(graph.source_row.tolist(), skill[graph.target_row].tolist(), strict=True), count()))
    assert graph.num_edges == len(edges) == sum(int((skill != number).sum()) for number in range(3))
    for number in range(3):
        own = torch.nonzero((skill == number) & strolls.start_mask()).squeeze(1)
        target = states(strolls.qpos[own], strolls.qvel[own])
        for source in torch.nonzero(skill != number).squeeze(1).tolist():
            moved = states(*moved_onto(walker, strolls, torch.full_like(own, source), own))
            exponent = tracking_exponent(moved, target, EVERYTHING, layout)
            edge = edges[source, number]
            assert float(graph.exponent[edge]) == pytest.approx(float(exponent.min()), rel=1e-3, abs=1e-3)
            assert float(exponent[own == graph.target_row[edge]]) == pytest.approx(float(exponent.min()), abs=1e-3)


def test_edges_come_from_other_skills_and_are_sorted_by_their_target(
    sways: ReferenceMotion, hand_character: Character
) -> None:
    """Never to a last frame, and none into a skill that is like no other."""
    graph = build_graph(sways, StateKinematics(hand_character), TrackingWeights(), 1e-10)
    skill = sways.skill[clip_of(sways, torch.arange(len(sways.qpos)))]
    assert bool((skill[graph.source_row] != skill[graph.target_row]).all())
    assert bool(sways.start_mask()[graph.target_row].all())
    first, edges = graph.edges_of(torch.arange(3))
    assert edges.tolist() == [24, 30, 0]
    assert first.tolist() == [0, 24, 54]
    assert skill[graph.target_row].tolist() == [0] * 24 + [1] * 30


def test_missing_frames_have_no_edges(make_clip: MakeClip, hand_character: Character) -> None:
    """Neither from them nor to them."""
    swing = make_clip(12, skill="swing")
    motion = motion_of([missing(make_clip(12), [4]), missing(swing, [7])], hand_character)
    graph = build_graph(motion, StateKinematics(hand_character), TrackingWeights(), 1e-10)
    assert not {4, 12 + 7} & {*graph.source_row.tolist(), *graph.target_row.tolist()}
    assert graph.num_edges == 22


def test_connections_under_the_threshold_do_not_exist(strolls: ReferenceMotion, walker: Character) -> None:
    """τ keeps exactly the edges with β > τ."""
    states = StateKinematics(walker)
    whole = build_graph(strolls, states, TrackingWeights(), 1e-10)
    middle = float(whole.exponent.median())
    part = build_graph(strolls, states, TrackingWeights(), math.exp(-middle * (1 + 1e-5)))
    kept = whole.exponent < middle * (1 + 1e-5)
    assert 0 < part.num_edges < whole.num_edges
    assert torch.equal(part.source_row, whole.source_row[kept])
    assert torch.equal(part.target_row, whole.target_row[kept])


@pytest.mark.parametrize("angle", [0.8, math.pi, -2.0])
def test_where_a_clip_was_recorded_changes_no_edge(walker: Character, angle: float) -> None:
    """Moved and turned in the plane, a source clip connects to the same frames with the same β."""
    stroll, run = walker_clip(14), walker_clip(12, phase=0.5, skill="run")
    states = StateKinematics(walker)
    here = build_graph(motion_of([stroll, run], walker), states, EVERYTHING, 1e-10)
    away = motion_of([stroll, elsewhere(run, angle, (7.0, -11.0))], walker)
    there = build_graph(away, states, EVERYTHING, 1e-10)
    assert torch.equal(there.source_row, here.source_row)
    assert torch.equal(there.target_row, here.target_row)
    torch.testing.assert_close(there.exponent, here.exponent, rtol=1e-2, atol=2e-2)


def test_a_clip_of_the_hand_may_be_shifted(make_clip: MakeClip, hand_character: Character) -> None:
    """A gantry cannot turn, but x and y mean nothing to it either."""
    states = StateKinematics(hand_character)
    swing = make_clip(20, skill="swing")
    here = build_graph(motion_of([make_clip(30), swing], hand_character), states, TrackingWeights(), 1e-10)
    away = motion_of([make_clip(30), elsewhere(swing, 0.0, (5.0, 9.0))], hand_character)
    there = build_graph(away, states, TrackingWeights(), 1e-10)
    assert torch.equal(there.target_row, here.target_row)
    torch.testing.assert_close(there.exponent, here.exponent, rtol=1e-3, atol=1e-4)


def test_a_clip_that_stands_on_its_head_still_has_a_place(walker: Character) -> None:
    """A root whose x axis points straight up heads nowhere; its distances must not shrink for that."""
    upright = torch.tensor([0.0, -math.pi / 2, 0.0])
    lying = replace(walker_clip(8), root_quat=quat_from_rotvec(upright).expand(8, 4).numpy())
    far = replace(lying, skill="run", object_pos=lying.object_pos + np.array([1.0, 0.0, 0.0], dtype=np.float32))
    graph = build_graph(motion_of([lying, far], walker), StateKinematics(walker), TrackingWeights(), 1e-10)
    assert graph.num_edges == 16
    assert float(graph.exponent.min()) > 5.0


def stitching(motion: ReferenceMotion, character: Character, **changes: Any) -> AugmentedSampler:
    """A sampler with every part on but hard starts."""
    config = Augmentation(neighbourhood=True, connect=True, stitch=True, **changes)
    return AugmentedSampler(motion, character, TrackingWeights(), config)


def is_external(motion: ReferenceMotion, starts: Starts) -> Tensor:
    """Starts whose state is of another skill than the one they follow."""
    return motion.skill[clip_of(motion, starts.past_row)] != motion.skill[starts.clip]


def test_external_starts_stand_where_their_target_stands(strolls: ReferenceMotion, walker: Character) -> None:
    """Root x, y and heading are the target frame's; all else is the source state's, seen from its own heading."""
    starts = stitching(strolls, walker, p_external=1.0, p_neighbour=0.0).sample(300)
    assert bool(is_external(strolls, starts).all())
    source, target = strolls.qpos[starts.past_row], strolls.qpos[strolls.row(starts.clip, starts.frame)]
    torch.testing.assert_close(starts.qpos[:, :2], target[:, :2], rtol=0, atol=1e-5)
    before, after = heading_cos_sin(source[:, 3:7]), heading_cos_sin(starts.qpos[:, 3:7])
    torch.testing.assert_close(after, heading_cos_sin(target[:, 3:7]), rtol=0, atol=1e-5)
    assert torch.equal(starts.qpos[:, [2, 7, 8, 9, 10, 11, 14]], source[:, [2, 7, 8, 9, 10, 11, 14]])
    box = [rotate_heading_inverse(h, q[:, 12:15] - q[:, :3]) for h, q in ((before, source), (after, starts.qpos))]
    torch.testing.assert_close(*box, rtol=0, atol=1e-4)
    rest, moving = strolls.qvel[starts.past_row], starts.qvel
    for first in (0, 10):  # root, box
        seen = [rotate_heading_inverse(h, v[:, first : first + 3]) for h, v in ((before, rest), (after, moving))]
        torch.testing.assert_close(*seen, rtol=0, atol=1e-4)
    assert torch.equal(moving[:, [3, 4, 5, 6, 7, 8, 9, 13, 14, 15]], rest[:, [3, 4, 5, 6, 7, 8, 9, 13, 14, 15]])


def test_external_starts_are_bridged_as_their_similarity_asks(strolls: ReferenceMotion, walker: Character) -> None:
    """N follows from the similarity of the start state as handed out and the frame that it is to follow."""
    sampler = stitching(strolls, walker, p_external=1.0, p_neighbour=0.0)
    starts = sampler.sample(200)
    target = strolls.kinematics(strolls.row(starts.clip, starts.frame))
    state = StateKinematics(walker)(starts.qpos, starts.qvel)
    exponent = tracking_exponent(state, target, TrackingWeights(), walker.layout())
    certain = (exponent / math.log(10) % 1 - 0.5).abs() < 0.49
    assert torch.equal(starts.masked[certain], masked_states(exponent, 10)[certain])
    assert len(starts.masked.unique()) > 1


def test_external_starts_are_uniform_over_the_states_of_other_skills(
    sways: ReferenceMotion, hand_character: Character
) -> None:
    """Every state that has an edge comes equally often, and only where there is an edge."""
    starts = stitching(sways, hand_character, p_external=1.0, p_neighbour=0.0).sample(12000)
    external = is_external(sways, starts)
    soaring = sways.skill[starts.clip] == 2
    assert torch.equal(external, ~soaring)  # no edge leads up there
    assert float(soaring.float().mean()) == pytest.approx(1 / 3, abs=0.02)
    into_sway = torch.bincount(starts.past_row[external & (sways.skill[starts.clip] == 0)], minlength=74)
    assert int((into_sway > 0).sum()) == 24
    assert float(into_sway[into_sway > 0].float().std()) < 30.0  # 4000 / 24 ± 13


def test_without_chances_it_is_reference_state_initialisation(
    sways: ReferenceMotion, hand_character: Character
) -> None:
    """p_e = p_n = 0: every start is a reference state, follows its own frame at once, and all are equally likely."""
    starts = stitching(sways, hand_character, p_external=0.0, p_neighbour=0.0).sample(9000)
    row = sways.row(starts.clip, starts.frame)
    assert torch.equal(starts.past_row, row)
    assert int(starts.masked.max()) == 0
    torch.testing.assert_close(starts.qpos, sways.qpos[row], rtol=0, atol=1e-5)
    torch.testing.assert_close(starts.qvel, sways.qvel[row], rtol=0, atol=1e-5)
    share = torch.bincount(row, minlength=74)[sways.start_mask()] / 9000
    expected = torch.cat([torch.full((n - 1,), 1 / 3 / (n - 1)) for n in sways.length.tolist()])
    torch.testing.assert_close(share, expected, rtol=0, atol=0.006)


def test_the_two_chances_are_independent(make_clip: MakeClip, hand_character: Character) -> None:
    """External p_e, perturbed p_n, both p_e · p_n; what is neither follows its own frame without a mask."""
    bent = make_clip(30).joint_pos + np.float32(0.05)  # which skill a state is of shows in its fingers
    motion = motion_of([make_clip(30), make_clip(30, skill="swing", joint_pos=bent)], hand_character)
    spin = replace(Neighbourhood(**dict.fromkeys(vars(Neighbourhood()), 0.0)), object_rot_vel=0.5)
    starts = stitching(motion, hand_character, p_external=0.4, p_neighbour=0.3, box=spin).sample(8000)
    fields_of = hand_character.layout().fields
    fingers = starts.qpos[:, hand_character.layout().joint_qpos].mean(dim=1)  # 0.3 or 0.35
    external = (fingers > 0.325).long() != motion.skill[starts.clip]
    usual = torch.tensor([0.0, 0.0, 2.0])  # radians per second, in every frame of both
    perturbed = (starts.qvel[:, fields_of["object_rot"]] - usual).abs().amax(dim=1) > 1e-2
    for happened, chance in ((external, 0.4), (perturbed, 0.3), (external & perturbed, 0.12)):
        assert float(happened.float().mean()) == pytest.approx(chance, abs=0.02)
    plain = ~external & ~perturbed
    assert int(starts.masked[plain].max()) == 0
    assert torch.equal(motion.row(starts.clip, starts.frame)[plain], starts.past_row[plain])


def test_masks_appear_only_where_a_connection_was_made(sways: ReferenceMotion, hand_character: Character) -> None:
    """Reference states have none; every perturbed or external state has one to N_max."""
    starts = stitching(sways, hand_character, p_external=0.3, p_neighbour=0.3, max_masked=4).sample(2000)
    row = sways.row(starts.clip, starts.frame)
    reference = (starts.qpos - sways.qpos[row]).abs().amax(dim=1) < 1e-5
    assert 0.4 < float(reference.float().mean()) < 0.7
    assert int(starts.masked[reference].max()) == 0
    assert int(starts.masked[~reference].min()) >= 1
    assert int(starts.masked.max()) <= 4


def test_an_external_state_may_be_perturbed_and_is_reconnected_within_the_clip(
    strolls: ReferenceMotion, walker: Character
) -> None:
    """STF on top of STG: the start follows the most similar frame of the clip that its edge led to."""
    starts = stitching(strolls, walker, p_external=1.0, p_neighbour=1.0).sample(100)
    exponent = brute_force(strolls, walker, TrackingWeights(), starts.qpos, starts.qvel, starts.clip)
    chosen = exponent.gather(1, strolls.row(starts.clip, starts.frame).unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(chosen, exponent.amin(dim=1), rtol=1e-3, atol=1e-3)
    certain = (chosen / math.log(10) % 1 - 0.5).abs() < 0.49
    assert torch.equal(starts.masked[certain], masked_states(chosen, 10)[certain])


def test_without_reconnection_a_perturbed_state_follows_its_own_frame_at_once(
    make_clip: MakeClip, hand_character: Character
) -> None:
    """ε-NSI alone: another state, the same frame, no masked state."""
    motion = motion_of([make_clip(30)], hand_character)
    config = Augmentation(neighbourhood=True, p_neighbour=1.0)
    starts = AugmentedSampler(motion, hand_character, TrackingWeights(), config).sample(500)
    assert torch.equal(motion.row(starts.clip, starts.frame), starts.past_row)
    assert int(starts.masked.max()) == 0
    change = (starts.qpos - motion.qpos[starts.past_row]).abs().amax(dim=1)
    assert 0.01 < float(change.min()) <= float(change.max()) <= 0.1 + 1e-5


def test_a_perturbation_that_cannot_be_connected_is_dropped(make_clip: MakeClip, hand_character: Character) -> None:
    """Under τ there is no way onto the clip: the episode starts in the reference state instead."""
    motion = motion_of([make_clip(30)], hand_character)
    config = Augmentation(neighbourhood=True, connect=True, p_neighbour=1.0, threshold=0.9999)
    starts = AugmentedSampler(motion, hand_character, TrackingWeights(), config).sample(200)
    row = motion.row(starts.clip, starts.frame)
    assert torch.equal(starts.qpos, motion.qpos[row])
    assert torch.equal(starts.past_row, row)
    assert int(starts.masked.max()) == 0


def test_frame_probabilities_by_hand() -> None:
    """p_i = exp(-λ_s r̄_i) / Σ_j exp(-λ_s r̄_j) within each clip; the last frame of a clip is no start."""
    mean_reward = torch.tensor([0.1, 0.2, 0.3, 0.9, 0.5, 0.0])
    possible = torch.tensor([True, True, True, False, True, False])
    clip = torch.tensor([0, 0, 0, 0, 1, 1])
    total = math.exp(-1) + math.exp(-2) + math.exp(-3)
    expected = [math.exp(-1) / total, math.exp(-2) / total, math.exp(-3) / total, 0.0, 1.0, 0.0]
    weights = start_weights(mean_reward, clip, possible, 2, 10.0)
    torch.testing.assert_close(weights, torch.tensor(expected))


def test_skill_probabilities_by_hand() -> None:
    """The same over skills with λ_c."""
    first, second = math.exp(-5 * 0.2), math.exp(-5 * 0.6)
    expected = torch.tensor([first, second]) / (first + second)
    torch.testing.assert_close(skill_weights(torch.tensor([0.2, 0.6]), 5.0), expected)


def test_a_start_is_as_likely_as_its_skill_and_its_frame(make_clip: MakeClip, hand_character: Character) -> None:
    """A skill counts with the mean of its clips' means; its clips share alike; draws follow the probabilities."""
    motion = motion_of([make_clip(4), make_clip(3, skill="swing"), make_clip(3, skill="swing")], hand_character)
    hard = AdaptiveSampling(motion, 10.0, 5.0)
    hard.mean_reward.copy_(torch.tensor([0.1, 0.2, 0.3, 9.0, 0.4, 0.8, 9.0, 0.2, 0.2, 9.0]))
    skill = torch.softmax(torch.tensor([-5 * 0.2, -5 * (0.6 + 0.2) / 2]), 0)
    first = skill[0] * torch.softmax(torch.tensor([-1.0, -2.0, -3.0]), 0)
    second = skill[1] / 2 * torch.softmax(torch.tensor([-4.0, -8.0]), 0)
    third = skill[1] / 2 * torch.softmax(torch.tensor([-2.0, -2.0]), 0)
    none = torch.zeros(1)
    expected = torch.cat((first, none, second, none, third, none))
    torch.testing.assert_close(hard.weights(), expected)
    clip, frame = hard.sample(20000)
    share = torch.bincount(motion.row(clip, frame), minlength=10) / 20000
    torch.testing.assert_close(share, expected, rtol=0, atol=0.015)


def test_without_sharpness_every_frame_is_alike(make_clip: MakeClip, hand_character: Character) -> None:
    """λ_s = λ_c = 0 is uniform, whatever was recorded."""
    motion = motion_of([make_clip(5)], hand_character)
    hard = AdaptiveSampling(motion, 0.0, 0.0)
    hard.record(torch.tensor([0]), torch.tensor([1]), torch.tensor([0.9]), everyone(1))
    torch.testing.assert_close(hard.weights(), torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0]))


def test_running_means_follow_the_episodes(make_clip: MakeClip, hand_character: Character) -> None:
    """Several episodes of one frame in one report weigh as several; other frames stay; nothing is lost in between."""
    motion = motion_of([make_clip(5), make_clip(4, skill="swing")], hand_character)
    hard = AdaptiveSampling(motion, 10.0, 5.0, rate=0.1)
    hard.record(torch.tensor([0, 0, 1]), torch.tensor([2, 2, 1]), torch.tensor([0.4, 0.8, 0.5]), everyone(3))
    twice, once = 0.6 * (1 - 0.9**2), 0.05
    expected = torch.tensor([0, 0, twice, 0, 0, 0, once, 0, 0])
    torch.testing.assert_close(hard.mean_reward, expected)
    hard.record(torch.tensor([0]), torch.tensor([2]), torch.tensor([1.0]), everyone(1))
    expected[2] += 0.1 * (1.0 - twice)
    torch.testing.assert_close(hard.mean_reward, expected)


def test_episodes_that_go_on_are_not_recorded(make_clip: MakeClip, hand_character: Character) -> None:
    """A report about everyone, with a mask, is the same as a report about those that ended."""
    motion = motion_of([make_clip(5), make_clip(4, skill="swing")], hand_character)
    some, all_of_them = (AdaptiveSampling(motion, 10.0, 5.0) for _ in range(2))
    clip, frame, reward = torch.tensor([0, 0, 1, 1]), torch.tensor([2, 2, 1, 0]), torch.tensor([0.4, 0.8, 0.5, 0.9])
    ended = torch.tensor([True, False, True, False])
    some.record(clip[ended], frame[ended], reward[ended], everyone(2))
    all_of_them.record(clip, frame, reward, ended)
    assert torch.equal(some.mean_reward, all_of_them.mean_reward)
    assert float(some.mean_reward.abs().sum()) > 0


def test_starts_are_handed_out_in_turn_without_counting(sways: ReferenceMotion, hand_character: Character) -> None:
    """Each that ended gets the next start of the pool, nobody else uses one up, and the pool is drawn anew in time."""
    sampler = AugmentedSampler(sways, hand_character, TrackingWeights(), Augmentation())
    drawn: list[Starts] = []

    def draw(count: int) -> Starts:
        rows = torch.arange(count) + 100 * len(drawn)
        drawn.append(Starts(rows.unsqueeze(1).float(), rows.unsqueeze(1).float(), rows, rows, rows, rows))
        return drawn[-1]

    sampler.draw = draw  # type: ignore[method-assign]
    ended = torch.tensor([False, True, False, True, True])
    assert sampler.sample_where(ended).clip[ended].tolist() == [0, 1, 2]
    assert sampler.sample_where(~ended).clip[~ended].tolist() == [3, 4]
    sampler.sample_where(everyone(5))
    assert sampler.sample_where(ended).qpos[ended, 0].tolist() == [0.0, 1.0, 2.0]  # dry: it begins again
    for _ in range(60):
        sampler.sample_where(~everyone(5))
    assert len(drawn) == 1
    assert sampler.sample_where(ended).frame[ended].tolist() == [100, 101, 102]


def test_frames_never_tried_are_most_likely(make_clip: MakeClip, hand_character: Character) -> None:
    """Everything that has earned a reward is drawn less often than what has never been tried."""
    motion = motion_of([make_clip(12)], hand_character)
    hard = AdaptiveSampling(motion, 10.0, 5.0)
    tried = torch.tensor([0, 3, 5])
    hard.record(torch.zeros(3, dtype=torch.long), tried, torch.tensor([0.2, 0.9, 0.5]), everyone(3))
    weights = hard.weights()[:11]
    new = torch.ones(11, dtype=torch.bool).index_fill(0, tried, False)
    assert float(weights[new].min()) > float(weights[~new].max())


def test_statistics_of_starts_survive_a_checkpoint(sways: ReferenceMotion, hand_character: Character) -> None:
    """state_dict and load_state_dict give the same probabilities, also after the other has already drawn."""
    config = Augmentation(adapt=True)
    first, second = (AugmentedSampler(sways, hand_character, TrackingWeights(), config) for _ in range(2))
    clip, frame = first.adaptive.sample(200)
    first.record(clip, frame, torch.rand(200), everyone(200))
    second.sample(10)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.adaptive.weights(), second.adaptive.weights())
    torch.manual_seed(3)
    ours = first.sample(50).frame
    torch.manual_seed(3)
    assert torch.equal(ours, second.sample(50).frame)


@pytest.mark.parametrize("given", [0, 10, 256])
def test_starts_drawn_in_advance_survive_a_file(
    sways: ReferenceMotion, hand_character: Character, tmp_path: Path, given: int
) -> None:
    """Whether none, some or all of them have been handed out, another sampler goes on with the same ones."""
    first, second = (stitching(sways, hand_character) for _ in range(2))
    if given:
        first.sample(given)
    save_file({name: value.contiguous() for name, value in first.state_dict().items()}, tmp_path / "state")
    second.load_state_dict(load_file(tmp_path / "state"))
    torch.manual_seed(3)
    ours = first.sample(300)
    torch.manual_seed(3)
    for name, value in vars(second.sample(300)).items():
        assert torch.equal(value, getattr(ours, name)), name


def test_hard_starts_are_found(make_clip: MakeClip, make_env: MakeEnv, hand_character: Character) -> None:
    """An environment that rewards only the first clip comes to start in the second."""
    env = make_env([make_clip(20), lifted(make_clip(20, skill="soar"), 1.0)], num_envs=32, puppet=True)
    config = Augmentation(adapt=True)
    env.sampler = AugmentedSampler(env.motion, hand_character, TrackingWeights(), config)
    follow_first_clip(env)
    env.reset()
    for _ in range(60):
        env.step(torch.zeros(32, env.num_actions))
    starts = env.sampler.sample(2000)
    assert float((starts.clip == 1).float().mean()) > 0.6


def follow_first_clip(env: ImitationEnv) -> None:
    """A puppet that is always on the first clip's frame of the same number."""

    def pose() -> tuple[Tensor, Tensor]:
        row = env.motion.row(torch.zeros_like(env.clip), env.frame + (env.progress + 1 - env.masked).clamp_min(0))
        return env.motion.qpos[row], env.motion.qvel[row]

    engine: Any = env.engine
    engine.pose = pose


def masked_env(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, treatment: str) -> ImitationEnv:
    """Five puppets on the first clip's frames: masked twice, right, late, right on another clip, and masked there."""
    clips = [make_clip(30), make_clip(30, skill="swing")]
    config = EnvConfig(termination=NEVER, masked=treatment)  # type: ignore[arg-type]
    env = make_env(clips, num_envs=5, config=config, puppet=True)
    engine: Any = env.engine

    def pose() -> tuple[Tensor, Tensor]:
        late = torch.tensor([0, 0, 4, 0, 0])
        row = env.motion.row(torch.zeros_like(env.clip), env.frame + env.progress + 1 - env.masked - late)
        return env.motion.qpos[row.clamp_min(0)], env.motion.qvel[row.clamp_min(0)]

    engine.pose = pose
    begin(env, [0, 0, 0, 1, 1], [5, 5, 5, 5, 5], masked=[2, 0, 0, 0, 1])
    return env


@pytest.mark.parametrize("treatment", ["zero", "mean", "skip"])
def test_the_three_treatments_of_a_masked_step(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, treatment: str
) -> None:
    """Zero; the mean of those scored on the same clip; or zero and left out of training. Scored steps never differ."""
    env = masked_env(make_clip, make_env, begin, treatment)
    result = env.step(torch.zeros(5, env.num_actions))
    assert result.scored.tolist() == [False, True, True, True, False]
    right, late = result.reward[1:3].tolist()
    assert right == pytest.approx(1.0, abs=1e-4)
    assert late < 0.99
    expected = {"zero": [0.0, 0.0], "mean": [(right + late) / 2, 1.0], "skip": [0.0, 0.0]}[treatment]
    assert result.reward[[0, 4]].tolist() == pytest.approx(expected, abs=1e-4)
    left_out = [False, True, True, True, False] if treatment == "skip" else [True] * 5
    assert result.trained.tolist() == left_out


@pytest.mark.parametrize("treatment", ["zero", "mean", "skip"])
def test_no_treatment_enters_the_figures(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch, treatment: str
) -> None:
    """Neither the reported mean per skill, nor the mean of the rollout, nor what the sampler hears."""
    env = masked_env(make_clip, make_env, begin, treatment)
    learner = PPO(env, ActorCritic(env.observation_size, env.num_actions, (4,)), PPOConfig(hidden=(4,), horizon=2))
    learner.observation = env.observe()
    rollout = learner.collect(learner.observation, 0.1)
    scored = torch.tensor([[False, True, True, True, False], [False, True, True, True, True]])
    mean = float(rollout.reward[scored].mean())
    assert learner.improve(rollout, 0.1, 1e-4)["reward"] == pytest.approx(mean, abs=1e-5)
    statistics = env.take_statistics()
    assert statistics.steps.tolist() == [4.0, 3.0]
    assert float(statistics.reward.sum() / 7) == pytest.approx(mean, abs=1e-5)
    heard: list[float] = []
    monkeypatch.setattr(env.sampler, "record", lambda clip, frame, reward, ended: heard.extend(reward[ended].tolist()))
    env.motion.length[:] = 9  # the episodes end three steps after frame 5
    begin(env, [0] * 5, [5] * 5, masked=[2] * 5)
    for _ in range(5):
        env.step(torch.zeros(5, env.num_actions))
    assert heard[0] == pytest.approx(1.0, abs=1e-4)


def test_a_gap_in_the_clip_makes_no_start_hard(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A perfect episode over missing frames is reported with a mean of 1: they are no steps that could earn."""
    env = make_env([missing(make_clip(12), [4, 5, 6])], num_envs=1, puppet=True)
    follow_first_clip(env)
    heard: list[float] = []
    monkeypatch.setattr(env.sampler, "record", lambda clip, frame, reward, ended: heard.extend(reward[ended].tolist()))
    begin(env, [0], [1], masked=[2])
    for _ in range(12):
        env.step(torch.zeros(1, env.num_actions))
    assert heard[0] == pytest.approx(1.0, abs=1e-4)


def rollout_with_masks() -> Rollout:
    """Six steps of eight environments; the first two steps of four of them are masked."""
    torch.manual_seed(1)
    trained = torch.ones(6, 8, dtype=torch.bool)
    trained[:2, :4] = False
    action = torch.randn(6, 8, 2)
    values = {
        "observation": torch.randn(6, 8, 3),
        "action": action,
        "log_prob": -0.5 * action.square().sum(-1),
        "reward": torch.rand(6, 8) * trained,
        "done": torch.zeros(6, 8, dtype=torch.bool),
        "trained": trained,
        "scored": trained.clone(),
        "bootstrap": torch.zeros(6, 8),
        "cut": torch.zeros(6, 8, dtype=torch.bool),
        "skill": torch.zeros(6, 8, dtype=torch.long),
        "last_observation": torch.randn(8, 3),
    }
    return Rollout(**{field.name: values[field.name] for field in fields(Rollout)})


def improved(rollout: Rollout, treatment: str) -> dict[str, Tensor]:
    """Networks after one round of updates from the same beginnings."""
    torch.manual_seed(2)
    env: Any = SimpleNamespace(config=EnvConfig(masked=treatment), device=torch.device("cpu"), num_envs=8, num_skills=1)  # type: ignore[arg-type]
    model = ActorCritic(3, 2, (8,))
    PPO(env, model, PPOConfig(hidden=(8,), minibatch=20, epochs=2)).improve(rollout, 0.5, 1e-2)
    return model.state_dict()


@pytest.mark.parametrize("changed", ["reward", "action", "log_prob", "observation"])
def test_skipped_samples_teach_nothing(changed: str) -> None:
    """Whatever is done or earned in them, policy, critic and the scale of values come out the same."""
    before, other = rollout_with_masks(), rollout_with_masks()
    values = getattr(other, changed)
    values[~other.trained] += 3.0
    ours, theirs = improved(before, "skip"), improved(other, "skip")
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def test_samples_that_are_not_skipped_teach() -> None:
    """The same change in a trained sample changes the networks."""
    before, other = rollout_with_masks(), rollout_with_masks()
    other.reward[:2, 4:] += 3.0
    assert not torch.equal(improved(before, "skip")["policy.0.weight"], improved(other, "skip")["policy.0.weight"])


def test_a_rollout_of_masked_steps_alone_teaches_nothing_and_breaks_nothing() -> None:
    """With no sample left, the networks stay as they are."""
    rollout = rollout_with_masks()
    rollout.trained[:] = False
    torch.manual_seed(2)
    fresh = ActorCritic(3, 2, (8,)).state_dict()
    for name, value in improved(rollout, "skip").items():
        assert torch.equal(value, fresh[name]), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"connect": True}, "connect .* needs neighbourhood"),
        ({"p_external": 1.5}, "p_external is 1.5"),
        ({"p_neighbour": -0.1}, "p_neighbour is -0.1"),
        ({"p_neighbour": math.nan}, "p_neighbour is nan"),
        ({"threshold": 0.0}, "threshold is 0.0"),
        ({"threshold": 1.0}, "threshold is 1.0"),
        ({"max_masked": -1}, "max_masked is -1"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"velocity": -0.1}, "velocity is -0.1"),
        ({"frame_sharpness": -1.0}, "frame_sharpness is -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    """The field and its value are named."""
    with pytest.raises(ConfigError, match=message):
        Augmentation(**changes)


def test_a_neighbourhood_has_no_negative_width() -> None:
    """The field and its width are named."""
    with pytest.raises(ConfigError, match=r"object_vel is -0\.1"):
        Neighbourhood(object_vel=-0.1)


def test_one_skill_alone_has_nothing_to_stitch(make_clip: MakeClip, hand_character: Character) -> None:
    """A note says so, and starts are reference states."""
    motion = motion_of([make_clip(20), make_clip(15)], hand_character)
    config = Augmentation(stitch=True, p_external=1.0)
    sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), config)
    assert [note for note in sampler.notes if "one skill only" in note]
    starts = sampler.sample(100)
    assert torch.equal(starts.qpos, motion.qpos[starts.past_row])
    assert int(starts.masked.max()) == 0


def test_skills_too_far_apart_are_not_stitched(make_clip: MakeClip, hand_character: Character) -> None:
    """With every similarity under τ a note says so, with τ, and starts are reference states."""
    motion = motion_of([make_clip(20), lifted(make_clip(20, skill="soar"), 5.0)], hand_character)
    config = Augmentation(stitch=True, p_external=1.0, threshold=1e-3)
    sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), config)
    assert [note for note in sampler.notes if "0.001" in note]
    starts = sampler.sample(100)
    assert torch.equal(starts.qpos, motion.qpos[starts.past_row])


def test_clips_of_two_characters_do_not_mix(make_clip: MakeClip, hand_character: Character) -> None:
    """The clip that does not belong is named."""
    with pytest.raises(ClipError, match="clip 'stroll' is for character 'walker', not 'hand'"):
        motion_of([make_clip(), walker_clip()], hand_character)


def test_a_skill_needs_a_frame_to_start_from(make_clip: MakeClip, hand_character: Character) -> None:
    """Not even among good clips is one accepted that is all gap, or a single frame."""
    with pytest.raises(ClipError, match="'gone': every frame that could start an episode is marked missing"):
        motion_of([make_clip(), missing(make_clip(8, name="gone", skill="swing"), list(range(8)))], hand_character)
    with pytest.raises(ClipError, match=r"'blink': 1 frame\(s\)"):
        motion_of([make_clip(), make_clip(1, name="blink", skill="swing")], hand_character)
