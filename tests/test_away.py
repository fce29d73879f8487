"""Starts with the object out of reach: where it goes, and how often."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character, humanoid
from skillfield.clips import Clip
from skillfield.imitation import ImitationEnv
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, Starts, TrackingWeights
from skillfield.reference.away import out_of_reach
from strolling import places, random_states, walker_clip

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
Begin = Callable[..., None]


@pytest.fixture(scope="module")
def juggler(walker_xml: str) -> Character:
    """The walker with a cup beside its box; the cup, which comes later in the model, is its first object."""
    cup = '<body name="cup" pos="2 0 1"><freejoint name="cup"/><geom type="sphere" size="0.04"/></body>'
    xml = walker_xml.replace("</worldbody>", f"{cup}</worldbody>")
    return Character.from_mjcf(xml, objects=("cup", "box"), hands=("palm",))


@pytest.fixture(scope="module")
def stroller(walker_xml: str) -> Character:
    """The walker without its box."""
    before, box = walker_xml.split('<body name="box"')
    return Character.from_mjcf(before + box.split("</body>", 1)[1])


@pytest.fixture(scope="module", params=["humanoid", "hand", "walker"])
def anyone(request: pytest.FixtureRequest) -> Character:
    """A free root, a gantry, and a free root with an object that is no ball."""
    if request.param == "humanoid":
        return humanoid("fused")
    return request.getfixturevalue({"hand": "hand_character", "walker": "walker"}[request.param])


def without(values: Tensor, *parts: slice) -> Tensor:
    """The other columns."""
    kept = torch.ones(values.shape[1], dtype=torch.bool)
    for part in parts:
        kept[part] = False
    return values[:, kept]


def test_objects_are_moved_and_nothing_else(juggler: Character) -> None:
    """Each by its own name, whatever the order in the model; turn and spin stay, and so do the states given."""
    qpos, qvel = random_states(juggler, 5)
    before = qpos.clone(), qvel.clone()
    position, velocity = torch.randn(5, 2, 3), torch.randn(5, 2, 3)
    there, moving = juggler.layout().with_objects(qpos, qvel, position, velocity)
    (cup_q, cup_d), (box_q, box_d) = (places(juggler, name) for name in ("cup", "box"))
    assert cup_q.start > box_q.start
    assert torch.equal(there[:, cup_q], position[:, 0])
    assert torch.equal(there[:, box_q], position[:, 1])
    assert torch.equal(moving[:, cup_d], velocity[:, 0])
    assert torch.equal(moving[:, box_d], velocity[:, 1])
    assert torch.equal(without(there, cup_q, box_q), without(qpos, cup_q, box_q))
    assert torch.equal(without(moving, cup_d, box_d), without(qvel, cup_d, box_d))
    assert torch.equal(qpos, before[0])
    assert torch.equal(qvel, before[1])


def test_states_of_any_shape_have_objects(juggler: Character) -> None:
    """A single state, and a table of them."""
    layout, (cup_q, cup_d) = juggler.layout(), places(juggler, "cup")
    qpos, qvel = random_states(juggler, 6)
    place, speed = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.ones(2, 3)
    one = layout.with_objects(qpos[0], qvel[0], place, speed)
    table = layout.with_objects(qpos.reshape(2, 3, -1), qvel.reshape(2, 3, -1), place.expand(2, 3, 2, 3), speed[None])
    assert one[0][cup_q].tolist() == [1.0, 2.0, 3.0]
    assert torch.equal(one[0], table[0][0, 0])
    assert torch.equal(one[1], table[1][0, 0])
    assert table[1][..., cup_d].flatten().tolist() == [1.0] * 18


def test_an_object_out_of_reach_lies_or_flies_around_the_root(anyone: Character) -> None:
    """Uniformly 1 to 3 m from the root over the ground, in every direction; on the floor half of the time, else up to
    1.5 m over it; at up to 2 m/s in x and in y, and neither up nor down. All else stays."""
    qpos, qvel = random_states(anyone, 4000, away=7.0)
    q, d = places(anyone, anyone.object_names[0])
    there, moving = out_of_reach(qpos, qvel, torch.tensor([0.12]), anyone.layout())
    across = there[:, q][:, :2] - qpos[:, :2]
    distance = across.norm(dim=1)
    assert 1.0 - 1e-5 <= float(distance.min()) < 1.02
    assert 2.98 < float(distance.max()) <= 3.0 + 1e-5
    assert float(distance.mean()) == pytest.approx(2.0, abs=0.04)
    quadrant = 2 * (across[:, 0] > 0) + (across[:, 1] > 0)
    torch.testing.assert_close(torch.bincount(quadrant) / 4000, torch.full((4,), 0.25), rtol=0, atol=0.03)
    height = there[:, q][:, 2]
    flying = height > 0.12
    assert float(height.min()) == pytest.approx(0.12)
    assert float(flying.float().mean()) == pytest.approx(0.5, abs=0.03)
    assert float(height[flying].mean()) == pytest.approx(0.12 + 0.75, abs=0.04)
    assert 1.58 < float(height.max()) <= 1.62 + 1e-5
    speed = moving[:, d]
    assert 1.98 < float(speed[:, :2].abs().max()) <= 2.0
    torch.testing.assert_close(speed[:, :2].mean(dim=0), torch.zeros(2), rtol=0, atol=0.08)
    torch.testing.assert_close(speed[:, :2].std(dim=0), torch.full((2,), 2 / math.sqrt(3)), rtol=0, atol=0.03)
    assert not speed[:, 2].any()
    assert torch.equal(without(there, q), without(qpos, q))
    assert torch.equal(without(moving, d), without(qvel, d))


def test_what_is_out_of_reach_of_a_fixed_root_is_far_from_where_that_is() -> None:
    """An arm on a table need not stand at the world's origin."""
    xml = """<mujoco><option timestep="0.008333333333"/><worldbody><geom name="floor" type="plane" size="5 5 1"/>
      <body pos="1.5 1 0.4"><body name="base" pos="0.5 -1 0"><body name="arm" pos="0 0 0.1">
        <joint name="swing" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
        <site name="arm"/></body></body></body>
      <body name="ball" pos="0 0 1"><freejoint name="ball"/><geom type="sphere" size="0.1"/></body>
    </worldbody><actuator><position name="swing" joint="swing" kp="5"/></actuator></mujoco>"""
    arm = Character.from_mjcf(xml, objects=("ball",), root="base")
    qpos, qvel = torch.tensor(arm.model.qpos0).float().expand(2000, -1), torch.zeros(2000, arm.model.nv)
    there, _ = out_of_reach(qpos, qvel, torch.tensor([0.1]), arm.layout())
    distance = (there[:, places(arm, "ball")[0]][:, :2] - torch.tensor([2.0, 0.0])).norm(dim=1)
    assert 1.0 - 1e-5 <= float(distance.min()) < 1.02
    assert 2.98 < float(distance.max()) <= 3.0 + 1e-5


def test_every_object_goes_its_own_way(juggler: Character) -> None:
    """Neither place nor speed of one says anything of the other, and each lies at its own height."""
    qpos, qvel = random_states(juggler, 3000)
    there, moving = out_of_reach(qpos, qvel, torch.tensor([0.04, 0.3]), juggler.layout())
    found = [
        (there[:, q] - torch.nn.functional.pad(qpos[:, :2], (0, 1)), moving[:, d][:, :2])
        for q, d in (places(juggler, name) for name in ("cup", "box"))
    ]
    for (place, _), lowest in zip(found, (0.04, 0.3), strict=True):
        assert float(place[:, 2].min()) == pytest.approx(lowest)
        assert float((place[:, 2] == place[:, 2].min()).float().mean()) == pytest.approx(0.5, abs=0.04)
    (cup, cup_speed), (box, box_speed) = found
    ours, theirs = torch.cat((cup, cup_speed), dim=1), torch.cat((box, box_speed), dim=1)
    together = torch.corrcoef(torch.cat((ours, theirs), dim=1).T)[:5, 5:]
    assert float(together.abs().max()) < 0.08


def test_without_objects_nothing_is_out_of_reach(stroller: Character) -> None:
    """The states come back as they were."""
    qpos, qvel = random_states(stroller, 10)
    there, moving = out_of_reach(qpos, qvel, torch.zeros(0), stroller.layout())
    assert torch.equal(there, qpos)
    assert torch.equal(moving, qvel)


def test_a_generator_of_its_own_decides(hand_character: Character) -> None:
    """The same one gives the same places, and the common random numbers are left alone."""
    qpos, qvel = random_states(hand_character, 10)
    before = torch.get_rng_state()
    first, second, third = (
        out_of_reach(qpos, qvel, torch.zeros(1), hand_character.layout(), torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0], third[0])


# the starts


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_that_share_of_the_starts_has_its_object_away(
    sways: ReferenceMotion, hand_character: Character, share: float
) -> None:
    """Marked so, at least a metre from the hand that had it right over it; the others are reference states."""
    sampler = AugmentedSampler(sways, hand_character, TrackingWeights(), Augmentation(p_away=share))
    starts, (q, d) = sampler.sample(6000), places(hand_character, "ball")
    away, row = starts.away, sways.row(starts.clip, starts.frame)
    assert float(away.float().mean()) == pytest.approx(share, abs=0.02)
    assert torch.equal(starts.qpos[~away], sways.qpos[row][~away])
    assert torch.equal(starts.qvel[~away], sways.qvel[row][~away])
    assert torch.equal(without(starts.qpos, q), without(sways.qpos[row], q))
    assert torch.equal(without(starts.qvel, d), without(sways.qvel[row], d))
    ball = starts.qpos[away, q]
    assert float((ball[:, :2] - starts.qpos[away, :2]).norm(dim=1).min()) >= 1.0 - 1e-5
    lowest = float(sways.qpos[:, q.start + 2].min())  # the lowest that any clip has it
    assert float(ball[:, 2].min()) == pytest.approx(lowest)
    assert float((ball[:, 2] < lowest + 1e-5).float().mean()) == pytest.approx(0.5, abs=0.04)


def test_losing_the_object_changes_nothing_else_of_a_start(sways: ReferenceMotion, hand_character: Character) -> None:
    """From one seed, stitched and perturbed starts with and without it agree in all but the object's place."""
    usual, losing = (
        AugmentedSampler(
            sways,
            hand_character,
            TrackingWeights(),
            Augmentation(neighbourhood=True, connect=True, stitch=True, p_external=0.3, p_neighbour=0.3, p_away=share),
        )
        for share in (0.0, 0.5)
    )
    drawn: list[Starts] = []
    for sampler in (usual, losing):
        torch.manual_seed(7)
        drawn.append(sampler.draw(500))
    first, second = drawn
    q, d = places(hand_character, "ball")
    assert not first.away.any()
    assert 200 < int(second.away.sum()) < 300
    for name in ("clip", "frame", "masked", "past_row"):
        assert torch.equal(getattr(first, name), getattr(second, name)), name
    assert torch.equal(without(first.qpos, q), without(second.qpos, q))
    assert torch.equal(without(first.qvel, d), without(second.qvel, d))
    assert torch.equal((first.qpos != second.qpos).any(dim=1), second.away)


def test_a_share_of_nothing_draws_no_random_numbers(sways: ReferenceMotion, hand_character: Character) -> None:
    """Plain starts use up one number each, as ever, so a run without it is the run that it was."""
    sampler = AugmentedSampler(sways, hand_character, TrackingWeights(), Augmentation())
    torch.manual_seed(11)
    assert not sampler.draw(40).away.any()
    after = torch.rand(5)
    torch.manual_seed(11)
    torch.rand(40, dtype=torch.float64)
    assert torch.equal(torch.rand(5), after)


def test_without_objects_no_start_has_them_away(stroller: Character) -> None:
    """There is nothing to lose, so every start counts in the figures."""
    whole = walker_clip(12)
    clip = walker_clip(12, object_names=(), object_pos=whole.object_pos[:, :0], object_quat=whole.object_quat[:, :0])
    motion = ReferenceMotion([clip], stroller, ("stroll",))
    starts = AugmentedSampler(motion, stroller, TrackingWeights(), Augmentation(p_away=1.0)).sample(50)
    assert not starts.away.any()
    assert torch.equal(starts.qpos, motion.qpos[starts.past_row])


def test_starts_drawn_by_an_older_version_are_drawn_anew(sways: ReferenceMotion, hand_character: Character) -> None:
    """Their checkpoint does not say which had the object away; what was learned of hard starts is kept."""
    first, second = (
        AugmentedSampler(sways, hand_character, TrackingWeights(), Augmentation(adapt=True)) for _ in range(2)
    )
    first.sample(10)
    first.record(torch.tensor([0]), torch.tensor([4]), torch.tensor([0.8]), torch.tensor([True]))
    state = first.state_dict()
    del state["drawn/away"]
    second.load_state_dict(state)
    assert torch.equal(second.adaptive.mean_reward, first.adaptive.mean_reward)
    assert len(second.sample(10).away) == 10
