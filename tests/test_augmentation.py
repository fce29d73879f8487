"""Algorithm 1: starts from other skills, from neighbourhoods, and how they are handed out."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.errors import ClipError, ConfigError
from skillfield.reference import (
    Augmentation,
    AugmentedSampler,
    Neighbourhood,
    ReferenceMotion,
    Starts,
    TrackingWeights,
    tracking_exponent,
)
from skillfield.reference.similarity import masked_states
from skillfield.reference.states import StateKinematics
from skillfield.rotations import (
    heading_cos_sin,
    rotate_heading_inverse,
)
from strolling import (
    brute_force,
    clip_of,
    everyone,
    lifted,
    missing,
    motion_of,
    walker_clip,
)

MakeClip = Callable[..., Clip]


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


def test_a_perturbed_state_of_another_skill_remembers_that_skill(strolls: ReferenceMotion, walker: Character) -> None:
    """As every transition that is tested does; one of its own skill remembers the frame that it follows."""
    alone = stitching(strolls, walker, p_external=1.0, p_neighbour=0.0).sample(500)
    both = stitching(strolls, walker, p_external=1.0, p_neighbour=1.0).sample(500)
    own = stitching(strolls, walker, p_external=0.0, p_neighbour=1.0).sample(500)
    assert is_external(strolls, alone).all()
    assert is_external(strolls, both).all()
    assert not torch.equal(both.qpos, strolls.qpos[both.past_row])  # perturbed they are
    assert torch.equal(own.past_row, strolls.row(own.clip, own.frame))


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


def test_starts_are_handed_out_in_turn_without_counting(sways: ReferenceMotion, hand_character: Character) -> None:
    """Each that ended gets the next start of the pool, nobody else uses one up, and the pool is drawn anew in time."""
    sampler = AugmentedSampler(sways, hand_character, TrackingWeights(), Augmentation())
    drawn: list[Starts] = []

    def draw(count: int) -> Starts:
        rows = torch.arange(count) + 100 * len(drawn)
        state = rows.unsqueeze(1).float()
        drawn.append(Starts(state, state.clone(), rows, rows.clone(), rows.clone(), rows.clone(), rows > 0))
        return drawn[-1]

    def give(ended: Tensor) -> Starts:
        sampler.prepare(len(ended))
        return sampler.sample_where(ended)

    sampler.draw = draw  # type: ignore[method-assign]
    ended = torch.tensor([False, True, False, True, True])
    assert give(ended).clip[ended].tolist() == [0, 1, 2]
    assert give(~ended).clip[~ended].tolist() == [3, 4]
    give(everyone(5))
    assert give(ended).qpos[ended, 0].tolist() == [0.0, 1.0, 2.0]  # dry: it begins again
    for _ in range(60):
        give(~everyone(5))
    assert len(drawn) == 1
    assert give(ended).frame[ended].tolist() == [100, 101, 102]


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"connect": True}, "connect .* needs neighbourhood"),
        ({"p_external": 1.5}, "p_external is 1.5"),
        ({"p_neighbour": -0.1}, "p_neighbour is -0.1"),
        ({"p_neighbour": math.nan}, "p_neighbour is nan"),
        ({"p_away": 1.01}, "p_away is 1.01"),
        ({"p_away": -0.5}, "p_away is -0.5"),
        ({"p_away": math.nan}, "p_away is nan"),
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
    with pytest.raises(ClipError, match="'gone': all but 0 of 8 frames missing"):
        motion_of([make_clip(), missing(make_clip(8, name="gone", skill="swing"), list(range(8)))], hand_character)
    with pytest.raises(ClipError, match=r"'blink': 1 frame\(s\)"):
        motion_of([make_clip(), make_clip(1, name="blink", skill="swing")], hand_character)
