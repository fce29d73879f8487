"""Neighbourhoods, and the field that leads from them onto a clip."""

import math
from collections.abc import Callable
from dataclasses import fields

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.reference import (
    Augmentation,
    AugmentedSampler,
    Neighbourhood,
    ReferenceMotion,
    TrackingWeights,
)
from skillfield.reference.field import TransitionField
from skillfield.reference.neighbourhood import neighbour
from skillfield.reference.states import StateKinematics
from strolling import (
    EVERYTHING,
    brute_force,
    clip_of,
    missing,
    motion_of,
    random_states,
    startable,
)

MakeClip = Callable[..., Clip]


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


@pytest.mark.parametrize("weights", [TrackingWeights(), TrackingWeights().at_least(1.0, 1.0)])
def test_a_reference_state_connects_to_its_own_frame(
    strolls: ReferenceMotion, walker: Character, weights: TrackingWeights
) -> None:
    """With β = 1, whatever is compared, so that no masked state is needed."""
    field = TransitionField(strolls, StateKinematics(walker), weights)
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
