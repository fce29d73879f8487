"""Ways onto a skill from states that none of its frames is like.

A hand flies up and comes down again; another one stays low. Of a hand that is d metres higher, -ln β is 7 d² (20 of the
body and 1 of the ball, on one of three axes), and what is unlike is more than 0.993 m away: -ln β is 6.91 there.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puppets import idle
from skillfield.api import env_factory, train_run
from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.configuration import to_dict
from skillfield.experiments.run import RunConfig, build_env, build_motion, build_ppo, preset
from skillfield.experiments.tasks import task
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.anchoring import Anchor
from skillfield.imitation.carrying import onward
from skillfield.learning.checkpoint import latest_checkpoint, resume
from skillfield.learning.networks import ActorCritic
from skillfield.learning.training import Budget
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, TrackingWeights, tracking_exponent
from skillfield.reference.detours import with_detours
from skillfield.reference.endings import return_exponent
from skillfield.reference.graph import StitchedGraph, build_graph
from skillfield.reference.looping import looped
from skillfield.reference.states import StateKinematics
from skillfield.reporting.runs import read_run
from strolling import NEVER, against, elsewhere, everyone, missing, motion_of, walker_clip

MakeClip = Callable[..., Clip]
Two = Callable[..., ReferenceMotion]

FLY, LOW, DETOUR = 0, 1, 2  # clips
FIRST, LAST, PEAK, STEPS = 10, 20, 12, 32
AIR = np.array([1.2] * FIRST + [2.8 - 0.04 * k for k in range(LAST - FIRST)] + [2.38] + [2.4] * 9 + [1.2] * 10)
GROUND = 1.4 - 0.01 * np.abs(np.arange(60) - PEAK)
"""From 2.44 m and higher nothing of this is near; 2.38 m is 0.98 m over its peak: 7 · 0.98² = 6.72, 2.92 tens."""
WAY, MASKED, WEIGHTS, RULES = LAST + 1 - FIRST, 3, TrackingWeights(), Augmentation()


@pytest.fixture
def states(hand_character: Character) -> StateKinematics:
    """Of the hand."""
    return StateKinematics(hand_character)


@pytest.fixture
def two(make_clip: MakeClip, hand_character: Character) -> Two:
    """A hand that flies ahead, and one elsewhere that stays low and goes aside. The low one is the first skill."""

    def at(height: np.ndarray, skill: str, ahead: float, aside: float) -> Clip:
        time, still = np.arange(len(height)) / 60, make_clip(len(height), name=skill, skill=skill)
        root = np.stack((ahead * time, aside * time, height), axis=1).astype(np.float32)
        ball, turn = (root - np.array([0, 0, 0.5], np.float32))[:, None], np.eye(4, dtype=np.float32)[[0] * len(height)]
        still = replace(still, joint_pos=np.full_like(still.joint_pos, 0.3))
        return replace(still, root_pos=root, object_pos=ball, root_quat=turn, object_quat=turn[:, None])

    def make(air: np.ndarray = AIR, ground: np.ndarray = GROUND, gone: tuple[int, ...] = ()) -> ReferenceMotion:
        fly, low = missing(at(air, "fly", 0.6, 0.0), [*gone]), elsewhere(at(ground, "low", 0.3, -0.9), 0.0, (5.0, -2.0))
        return ReferenceMotion([fly, low], hand_character, ("low", "fly"))

    return make


@pytest.fixture
def motion(two: Two, states: StateKinematics) -> ReferenceMotion:
    """Both with detours."""
    return with_detours(two(), states, WEIGHTS, RULES, STEPS)


def sampler_of(motion: ReferenceMotion, who: Character, **switches: Any) -> AugmentedSampler:
    """Starts as the switches say."""
    return AugmentedSampler(motion, who, WEIGHTS, Augmentation(detours=True, **switches))


def test_a_flight_goes_on_until_the_skill_can_be_joined(motion: ReferenceMotion) -> None:
    """From the first frame that nothing is like, to the first that something is; then masked states and the skill."""
    assert motion.names == ("fly", "low", "fly from 10 to low")
    assert motion.skill.tolist() == [1, 0, 0]
    assert motion.length.tolist() == [40, 60, WAY + MASKED + STEPS]
    assert torch.nonzero(motion.entry).squeeze(1).tolist() == list(range(100, 110))
    assert motion.valid[100:].tolist() == [True] * WAY + [False] * MASKED + [True] * STEPS
    after = 40 + PEAK + 1  # what follows the highest of the low frames
    assert motion.origin[100:].tolist() == [*range(FIRST, LAST + 1), *[LAST] * MASKED, *range(after, after + STEPS)]
    assert torch.equal(motion.qpos[100 : 100 + WAY], motion.qpos[FIRST : LAST + 1])
    assert torch.equal(motion.qvel[100 : 100 + WAY], motion.qvel[FIRST : LAST + 1])


def test_the_skill_is_joined_where_the_flight_has_come_to(motion: ReferenceMotion) -> None:
    """Over the ground the root goes on from the end of the flight at the pace of the skill; heights are the skill's."""
    shown = motion.kinematics(torch.arange(100, len(motion.qpos)))
    root = shown.qpos[:, :3]
    expected = root[WAY - 1] + torch.arange(1, STEPS + 1).unsqueeze(1) * torch.tensor([0.3, -0.9, 0.0]) / 60
    expected[:, 2] = torch.from_numpy(GROUND[PEAK + 1 :][:STEPS])
    torch.testing.assert_close(root[WAY + MASKED :], expected, rtol=0, atol=1e-5)
    assert torch.equal(root[WAY : WAY + MASKED], root[[WAY - 1] * MASKED])
    below = torch.tensor([0.0, 0.0, -0.5]).expand_as(root)
    torch.testing.assert_close(shown.object_pos_w[:, 0] - root, below, rtol=0, atol=1e-5)


def test_whoever_turns_joins_the_skill_as_it_is_turned(walker: Character) -> None:
    """One walks as the other, turned and raised for a while: after a masked state it goes on to the end as it would."""
    stroll, up = walker_clip(40), np.zeros((40, 3), np.float32)
    up[15:27, 2] = 3.0
    leap = replace(stroll, root_pos=stroll.root_pos + up, object_pos=stroll.object_pos + up[:, None])
    leap = elsewhere(replace(leap, name="leap", skill="leap"), 1.9, (4.0, -3.0))
    motion = with_detours(motion_of([stroll, leap], walker), StateKinematics(walker), WEIGHTS, RULES, 1000)
    assert motion.names[2:] == ("leap from 15 to stroll",)
    assert motion.valid[80:].tolist() == [True] * 13 + [False] + [True] * 12
    torch.testing.assert_close(motion.qpos[94:], motion.qpos[68:80], rtol=0, atol=1e-4)
    torch.testing.assert_close(motion.qvel[94:], motion.qvel[68:80], rtol=0, atol=1e-3)


def test_what_is_joined_exactly_has_a_masked_state_all_the_same(two: Two, states: StateKinematics) -> None:
    """It tells the seam. The ways in begin where the clip does: one metre is too high, 7 · 1² = 7."""
    motion = with_detours(two(np.array([2.0] * 5 + [4.0] * 5 + [1.0] * 5), np.ones(30)), states, WEIGHTS, RULES, STEPS)
    assert motion.names[2:] == ("fly from 0 to low",)
    assert torch.nonzero(~motion.valid).squeeze(1).tolist() == [45 + 11]
    assert motion.entry.sum() == 10


def test_skills_that_are_alike_need_no_detours(two: Two, make_clip: MakeClip, hand_character: Character) -> None:
    """The motion is the same object, a missing frame or not; so is that of a skill alone, and of one always unlike."""
    near, far = (partial(two, np.full(40, 1.0 + up), np.ones(60)) for up in (0.99, 1.0))  # 6.86 and 7
    for motion in (near(), near(gone=(7,)), far(), motion_of([make_clip(30)], hand_character)):
        assert with_detours(motion, StateKinematics(hand_character), WEIGHTS, RULES, STEPS) is motion


def test_a_gap_that_nothing_follows_is_none_unless_the_clip_comes_round(two: Two, states: StateKinematics) -> None:
    """A wave of 40 frames, too high for 7.9 frames before and after each crest, ends 4 after the third: the frames that
    follow it in the next round lead down, to 0.978 m over the low peak, 2.91 tens, and within another five frames to
    0.29 m over it, where half a masked state is all that could still be gained."""
    plain = two(2.1 + 0.9 * np.cos(2 * np.pi * np.arange(85) / 40))
    once = with_detours(plain, states, WEIGHTS, RULES, STEPS)
    assert once.names[2:] == ("fly from 33 to low",)  # what is over in less than ten frames masked states can bridge
    motion = with_detours(looped(plain, states, WEIGHTS, 60), states, WEIGHTS, RULES, STEPS)
    assert motion.names[2:] == (*once.names[2:], "fly from 73 to low")
    first = int(motion.start[3])
    assert torch.nonzero(motion.entry[first:]).squeeze(1).tolist() == list(range(12))
    assert motion.valid[first:].tolist() == [*[True] * 12, False, *[True] * 9, False, *[True] * STEPS]
    time = torch.tensor([*range(73, 85), 84, *range(85, 94)])
    height = 2.1 + 0.9 * torch.cos(2 * torch.pi * time / 40)
    torch.testing.assert_close(motion.qpos[first : first + 22, 2], height, rtol=0, atol=1e-4)
    assert motion.demonstrated[motion.origin].all()


def test_what_never_comes_near_is_joined_where_it_comes_nearest(two: Two, states: StateKinematics) -> None:
    """1.1 m over the low hand -ln β is 8.47, 1.7 m over it 20.2. 1.2 m over it, at 10.1, the flight is as good as over,
    and three frames later it is better by more than half a masked state: 3.7 tens."""
    air = np.array([2.1] * 10 + [2.7] * 12 + [2.2] * 3 + [2.1] * 5)
    motion = with_detours(two(air, np.ones(60)), states, WEIGHTS, RULES, STEPS)
    assert motion.names[2:] == ("fly from 10 to low",)
    assert motion.origin[motion.entry].tolist() == list(range(10, 22))
    assert motion.valid[90:].tolist() == [True] * 16 + [False] * 4 + [True] * STEPS
    beyond = two(np.array([2.1] * 10 + [4.0] * 12 + [2.9] * 8), np.ones(60))  # 25.3 at last: more than 10 tens
    assert with_detours(beyond, states, WEIGHTS, RULES, STEPS) is beyond


def test_without_masked_states_every_gap_is_a_detour(two: Two, states: StateKinematics) -> None:
    """Even one of three frames, which is joined where it ends; one masked state tells the seam."""
    plain = two(np.array([1.0] * 10 + [4.0] * 3 + [1.3] * 5 + [1.0] * 5), np.ones(60))
    assert with_detours(plain, states, WEIGHTS, RULES, STEPS) is plain
    motion = with_detours(plain, states, WEIGHTS, replace(RULES, max_masked=0), STEPS)
    assert motion.names[2:] == ("fly from 10 to low",)
    assert motion.valid[int(motion.start[DETOUR]) :].tolist() == [True] * 4 + [False] + [True] * STEPS


def test_the_rules_of_the_graph_are_those_of_detours(two: Two, states: StateKinematics) -> None:
    """N_max masked states bridge so many frames, τ is the least similarity of a join, and of frames that are within the
    margin of the low peak, which is 6.72 away, the earliest is joined."""
    for rules in (Augmentation(max_masked=11), Augmentation(threshold=0.01)):
        strict = with_detours(two(air=AIR[:-19]), states, WEIGHTS, rules, STEPS)
        assert strict.num_clips == 2
    onto = with_detours(two(), states, WEIGHTS, Augmentation(max_masked=2, margin=0.15), STEPS)
    assert not onto.valid[100 + WAY : 100 + WAY + 2].any()
    earliest = int(np.argmax(7 * (2.38 - GROUND) ** 2 <= 7 * 0.98**2 + 0.15))
    assert earliest < PEAK
    assert onto.origin[100 + WAY + 2] == 40 + earliest + 1


def test_only_after_a_seam_is_it_compared_from_where_it_stands(two: Two, states: StateKinematics) -> None:
    """Not after a frame that its demonstration lacks, and not where a detour begins after one that ends in a mask."""
    motion = with_detours(two(gone=(14,)), states, WEIGHTS, RULES, STEPS)
    anchor = Anchor(motion, states.layout, 1)
    anchored = []
    for row in range(100, len(motion.qpos)):
        anchor.clear(torch.tensor([0]))
        anchor.drop(torch.tensor([row]), motion.qpos[:1])
        if not torch.equal(anchor.place, anchor.at_home()):
            anchored.append(row - 100)
    assert anchored == [WAY + MASKED]
    plain = two()
    plain.valid[40 + PEAK + 1] = False  # what follows the frame that is joined
    late = with_detours(plain, states, WEIGHTS, RULES, STEPS)
    place = Anchor(late, states.layout, 2)
    place.drop(torch.tensor([100 + WAY + MASKED, 100 + WAY + MASKED + 1]), late.qpos[:2])
    assert (place.place != place.at_home()).any(dim=(1, 2)).tolist() == [False, True]
    wave = looped(two(2.1 + 0.9 * np.cos(2 * np.pi * np.arange(85) / 40)), states, WEIGHTS, 60)
    motion = with_detours(wave, states, WEIGHTS, RULES, 48)
    assert not motion.valid[motion.start[3] - 1]
    start = motion.start[2:4]
    anchor = Anchor(motion, states.layout, 2)
    anchor.drop(start, motion.qpos[:2])
    assert torch.equal(anchor.place, anchor.at_home())


def test_nobody_starts_in_a_detour(two: Two, motion: ReferenceMotion) -> None:
    """Nothing in it is demonstrated, and the demonstrations are as they were."""
    plain = two()
    assert motion.start_mask().tolist() == plain.start_mask().tolist() + [False] * (WAY + MASKED + STEPS)
    assert motion.demonstrated_length().tolist() == [40, 60, 0]
    shown = zip(plain.kinematics(torch.arange(100)), motion.kinematics(torch.arange(100)), strict=True)
    assert all(torch.equal(*pair) for pair in shown)


def test_a_missing_frame_is_no_way_in(two: Two, states: StateKinematics) -> None:
    """Nor a way out: the flight passes it, and where its last frame is missing it goes on to the next, at 1.2 m."""
    motion = with_detours(two(gone=(14, LAST)), states, WEIGHTS, RULES, STEPS)
    assert motion.origin[motion.entry].tolist() == [*range(10, 14), *range(15, 20), *range(21, 30)]
    assert torch.nonzero(~motion.valid[100:]).squeeze(1).tolist() == [4, 10, 21]


def test_the_record_of_rewards_knows_no_detours(two: Two, motion: ReferenceMotion, hand_character: Character) -> None:
    """Whatever episodes earned there: what is saved, and how often each frame is drawn, is as without them."""
    ours, theirs = (sampler_of(which, hand_character, adapt=True) for which in (motion, two()))
    theirs.adaptive.mean_reward.copy_(torch.rand(100))
    ours.load_state_dict(theirs.state_dict())
    ours.record(torch.full((20,), DETOUR), torch.arange(20), torch.rand(20), everyone(20))
    assert torch.equal(ours.state_dict()["mean_reward"], theirs.adaptive.mean_reward)
    weights = ours.adaptive.weights()
    torch.testing.assert_close(weights[:100], theirs.adaptive.weights())
    assert weights[100:].tolist() == [0.0] * (WAY + MASKED + STEPS)


def test_what_a_detour_passes_is_no_return(two: Two, states: StateKinematics) -> None:
    """A low hand that at last jumps as the flight began has never been there before, although its detour has."""
    plain = two(ground=np.concatenate((GROUND[:-2], AIR[FIRST - 1 : FIRST + 1])))
    motion = with_detours(plain, states, WEIGHTS, RULES, STEPS)
    assert motion.num_clips == 3  # nothing joins a last frame
    exponent = return_exponent(motion, states, WEIGHTS)
    torch.testing.assert_close(exponent[:2], return_exponent(plain, states, WEIGHTS))


@pytest.mark.parametrize("tau", [1e-10, 0.5])
def test_states_lead_to_their_copies(two: Two, motion: ReferenceMotion, states: StateKinematics, tau: float) -> None:
    """Where they have detours, at no distance, whatever τ asks for; all other edges are as they were."""
    edges = []
    for of in (two(), motion):
        graph = build_graph(of, states, WEIGHTS, tau)
        skill = of.skill[of.clip_of_row[graph.target_row]].tolist()
        assert graph.skill_start.tolist() == [0, skill.count(0), len(skill)]
        ends = zip(graph.target_row.tolist(), graph.exponent.tolist(), strict=True)
        edges.append(dict(zip(zip(skill, graph.source_row.tolist(), strict=True), ends, strict=True)))
        assert [skill for skill, _ in edges[-1]] == sorted(skill)
    copies = {(0, FIRST + k): (100 + k, 0.0) for k in range(LAST - FIRST)}
    assert bool(copies.keys() & edges[0].keys()) == (tau < 0.5)
    assert edges[1] == edges[0] | copies


def test_some_edges_are_sorted_as_all_were() -> None:
    """Two, none, three and one edge into four skills; the first, the last and one between stay."""
    row = torch.arange(6)
    graph = StitchedGraph(row, row + 10, row / 2, torch.tensor([0, 2, 2, 5, 6]))
    some = graph.only(torch.tensor([True, False, False, True, False, True]))
    assert [x.tolist() for x in vars(some).values()] == [[0, 3, 5], [10, 13, 15], [0.0, 1.5, 2.5], [0, 1, 1, 2, 3]]
    assert graph.only(row < 0).skill_start.tolist() == [0] * 5


def test_a_start_with_a_detour_follows_it_at_once(motion: ReferenceMotion, hand_character: Character) -> None:
    """It stands where it was recorded and remembers what led there; all ten come up, and the others join the skill."""
    starts = sampler_of(motion, hand_character, stitch=True, p_external=1.0).draw(1000)
    way = starts.rows(starts.clip == DETOUR)
    assert torch.equal(way.past_row, FIRST + way.frame)
    assert torch.equal(way.qpos, motion.qpos[100 + way.frame])
    assert torch.equal(way.qvel, motion.qvel[100 + way.frame])
    assert not way.masked.any()
    came = [set(starts.past_row[starts.clip == clip].tolist()) for clip in (FLY, LOW, DETOUR)]
    assert came == [{*range(40, 100)}, {*range(FIRST), *range(LAST, 40)}, {*range(FIRST, LAST)}]


def test_noise_is_led_back_to_a_way_in(motion: ReferenceMotion, hand_character: Character) -> None:
    """To the most similar of those, and remembers what led there; the end of the flight is none, even if nearer."""
    switches = {"neighbourhood": True, "connect": True, "stitch": True, "p_external": 1.0, "p_neighbour": 1.0}
    starts = sampler_of(motion, hand_character, **switches).draw(1000)
    starts = starts.rows(starts.clip == DETOUR)
    pair = against(StateKinematics(hand_character)(starts.qpos, starts.qvel), motion.kinematics(torch.arange(100, 111)))
    exponent = tracking_exponent(*pair, WEIGHTS, hand_character.layout())
    chosen = exponent.gather(1, starts.frame.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(chosen, exponent[:, :10].amin(dim=1), rtol=1e-3, atol=1e-3)
    assert (exponent[:, 10] < chosen - 1e-3).any()
    assert torch.equal(starts.past_row, FIRST + starts.frame)
    assert starts.masked.min() >= 1


def test_a_detour_leads_onto_the_clip_of_its_skill(motion: ReferenceMotion) -> None:
    """On the way and while it waits it is its own; then it is the demonstration that it repeats."""
    frame = torch.tensor([0, 9, 10, 11, 13, 14, 20, 45, 99])
    clip, then = onward(motion, torch.full_like(frame, DETOUR), frame)
    assert clip.tolist() == [2, 2, 2, 2, 2, 1, 1, 1, 1]
    assert then.tolist() == [0, 9, 10, 11, 13, 13, 19, 44, 44]


@pytest.mark.parametrize("by_mask", [False, True])
def test_who_follows_a_detour_ends_up_on_the_skill(
    make_clip: MakeClip, make_env: Callable[..., ImitationEnv], motion: ReferenceMotion, begin: Any, by_mask: bool
) -> None:
    """All the way it earns everything but in masked states. Out of time after 8 it goes on: on its way first, then
    with the demonstration of the skill, metres away, compared from where it stands."""
    engine: Any = make_env([make_clip(30)], num_envs=1, puppet=True).engine
    config = EnvConfig(termination=NEVER, episode_length=8, p_carry=1.0)
    env = ImitationEnv(engine, sampler_of(motion, engine.character, stitch=True), config)
    env.masked_resets = by_mask
    engine.pose = zip(motion.qpos[101:].split(1), motion.qvel[101:].split(1), strict=True).__next__
    begin(env, [DETOUR], [0])
    reached, rewards = [], []
    for _ in range(24):
        result = env.step(idle(env))
        assert not (result.terminated | result.truncated).any()
        reached.append((int(env.clip), int(env.frame + env.progress)))
        rewards.append(float(result.reward))
    assert reached[7::8] == [(DETOUR, 8), (LOW, 15), (LOW, 23)]
    assert rewards == pytest.approx([1.0] * (WAY - 1) + [0.0] * MASKED + [1.0] * 11, abs=1e-3)


def test_a_run_has_detours_while_it_trains_and_nowhere_else(tmp_path: Path) -> None:
    """Clips, edges and record for reports are those of a run without, less the edges into detours; and a policy is
    tested on what was demonstrated."""
    usual, chosen = preset("starter", "sm+stg+stf+ats"), task("starter")
    ppo = replace(usual.ppo, hidden=(8,), horizon=4, minibatch=64)
    without = replace(usual.augmentation, velocity=1.0)
    usual = replace(usual, num_envs=16, ppo=ppo, budget=Budget(samples=64), threads=1, augmentation=without)
    config = replace(usual, augmentation=replace(without, detours=True))
    motion = build_motion(chosen, chosen.character())

    def env_of(which: RunConfig) -> Any:
        return build_env(which, motion, chosen.character(), 1, None)

    ways = ("dribble_right from 33 to hold", "dribble_right from 72 to hold")
    assert env_of(config).motion.names == (*motion.names, *ways)
    for off in (replace(without, detours=True, stitch=False), without):
        assert env_of(replace(config, augmentation=off)).motion.names == motion.names
    train_run(config, tmp_path, progress=False)
    record = read_run(tmp_path, to_dict(config))
    assert [clip.name for clip in record.clips] == list(motion.names)
    assert [clip.length for clip in record.clips] == motion.length.tolist()
    assert record.mean_reward is not None  # and as long as all clips, or it could not be read
    graph = env_of(usual).sampler.graph
    frame, onto = graph.source_row - motion.start[2], motion.clip_of_row[graph.target_row]  # of dribble_right; clips
    kept = ~((onto == 3) & (((frame >= 33) & (frame < 43)) | ((frame >= 72) & (frame < 82))))
    assert int((~kept).sum()) == 20
    columns = [column.tolist() for column in vars(record.edges).values()]
    assert columns == [column[kept].tolist() for column in (graph.source_row, graph.target_row, graph.exponent)]
    assert env_factory(chosen, config, ActorCritic(1, 1, (8,)))(1).motion.names == motion.names


def test_a_run_is_resumed_although_its_detours_have_changed(tmp_path: Path) -> None:
    """Its worlds and drawn starts follow clips that are others now, so they start anew; the rest goes on."""
    config = preset("starter", "sm+stg+stf+ats")
    ppo = replace(config.ppo, hidden=(8,), horizon=4, minibatch=64)
    rules = replace(config.augmentation, velocity=1.0, detours=True, p_external=1.0)
    config = replace(config, num_envs=16, ppo=ppo, budget=Budget(samples=64), threads=1, augmentation=rules)
    train_run(config, tmp_path, progress=False)
    for changed in (replace(rules, detours=False), replace(rules, velocity=2.0), rules):
        learner: Any = build_ppo(replace(config, augmentation=changed))
        identity = config.identity(learner.env.motion.skills)
        assert resume(latest_checkpoint(tmp_path), learner, identity).samples == 64
        assert (learner.observation is None) == (changed is not rules)
        assert (learner.env.sampler._drawn is None) == (changed is not rules)
        learner.update(0.0)
