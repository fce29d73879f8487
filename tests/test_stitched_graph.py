"""The stitched graph: edges from every state of the other skills."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.reference import (
    ReferenceMotion,
    TrackingWeights,
    tracking_exponent,
)
from skillfield.reference.graph import build_graph
from skillfield.reference.states import StateKinematics
from skillfield.rotations import (
    heading_cos_sin,
    quat_from_rotvec,
    quat_multiply,
    quat_rotate,
)
from strolling import (
    EVERYTHING,
    clip_of,
    elsewhere,
    missing,
    motion_of,
    walker_clip,
)

MakeClip = Callable[..., Clip]


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
