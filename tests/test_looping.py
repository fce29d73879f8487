"""Clips that come round go on across their last frame."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import skillfield.api as api
from skillfield.api import train_run
from skillfield.characters import Character
from skillfield.clips import Clip, save_clips
from skillfield.configuration import to_dict
from skillfield.errors import CheckpointError
from skillfield.evaluation.plan import starts_at
from skillfield.evaluation.success import HoldRule
from skillfield.experiments.run import RunConfig, preset
from skillfield.experiments.stages import Stage
from skillfield.experiments.task import Task
from skillfield.experiments.tasks import starter
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.learning.training import Budget
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, TrackingWeights
from skillfield.reference.adaptive import AdaptiveSampling
from skillfield.reference.looping import looped
from skillfield.reference.states import StateKinematics
from skillfield.reporting.runs import read_run
from skillfield.simulation import CpuEngine
from strolling import missing

MakeClip = Callable[..., Clip]
PERIOD, FRAMES = 35, 80


def bobbing(make_clip: MakeClip, name: str = "bob", ahead: float = 0.6) -> Clip:
    """A hand and its ball, up and down more than twice, travelling ahead."""
    still = make_clip(FRAMES, name=name, skill="bob")
    time = np.arange(FRAMES)
    height = 1.2 + 0.2 * np.sin(2 * np.pi * time / PERIOD)
    root = np.stack((ahead * time / 60, 0 * time, height), axis=1).astype(np.float32)
    return replace(
        still,
        root_pos=root,
        root_quat=np.tile(np.array([1, 0, 0, 0], np.float32), (FRAMES, 1)),
        joint_pos=np.full_like(still.joint_pos, 0.3),
        object_pos=(root - np.array([0, 0, 0.5], np.float32))[:, None],
        object_quat=np.tile(np.array([1, 0, 0, 0], np.float32), (FRAMES, 1, 1)),
    )


def lifted(make_clip: MakeClip, height: np.ndarray, skill: str) -> Clip:
    """The same hand and ball at other heights.  [T]"""
    clip, frames = bobbing(make_clip, skill, ahead=0.0), len(height)
    columns: dict[str, Any] = {
        name: value[:frames].copy() for name, value in vars(clip).items() if isinstance(value, np.ndarray)
    }
    columns["root_pos"][:, 2], columns["object_pos"][:, 0, 2] = height, height - 0.5
    return replace(clip, skill=skill, **columns)


def climbing(make_clip: MakeClip) -> Clip:
    """Up and away: never where it was."""
    clip = bobbing(make_clip, "climb")
    rise = (2.5 * (np.arange(FRAMES) / FRAMES) ** 2).astype(np.float32)
    root, ball = clip.root_pos.copy(), clip.object_pos.copy()
    root[:, 2], ball[:, 0, 2] = 0.9 + rise, 0.4 + rise
    return replace(clip, skill="climb", root_pos=root, object_pos=ball)


@pytest.fixture
def both(make_clip: MakeClip, hand_character: Character) -> ReferenceMotion:
    """One clip that comes round and one that does not."""
    return ReferenceMotion([bobbing(make_clip), climbing(make_clip)], hand_character, ("bob", "climb"))


@pytest.fixture
def states(hand_character: Character) -> StateKinematics:
    """Of the hand."""
    return StateKinematics(hand_character)


def test_the_reference_time_ends_with_the_demonstration(
    make_clip: MakeClip, both: ReferenceMotion, hand_character: Character
) -> None:
    """On across its end nothing else is shown than in a trial, which follows no frames beyond it."""
    steps, rules = 60, EnvConfig(termination=Termination(min_root_height=None), history="time", clip_end="loop")
    longer = looped(both, StateKinematics(hand_character), TrackingWeights(), steps)
    times = []
    for motion in (longer, both):
        sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), Augmentation())
        env = ImitationEnv(CpuEngine(hand_character, 1, 1), sampler, rules)
        env.start(torch.zeros(1, dtype=torch.long), starts_at(motion, torch.tensor([0]), torch.tensor([FRAMES - 3])))
        for _ in range(6):
            env.advance(torch.zeros(1, env.num_actions))
            times.append(float(env.observe()[0, -1]) * 60)
    assert times == pytest.approx(2 * [FRAMES - 2, FRAMES - 1, FRAMES - 1, FRAMES - 1, FRAMES - 1, FRAMES - 1])


def test_a_clip_that_comes_round_goes_on_where_it_ended(both: ReferenceMotion, states: StateKinematics) -> None:
    """The tail is what a longer recording would have shown."""
    motion = looped(both, states, TrackingWeights(), 60)
    assert motion.length[0] >= FRAMES + 60
    assert motion.length[1] == FRAMES
    tail = torch.arange(FRAMES, FRAMES + 60)
    tail = tail[motion.valid[tail]]  # the clock waits in masked states
    time = torch.arange(FRAMES, FRAMES + len(tail))
    expected = 1.2 + 0.2 * torch.sin(2 * torch.pi * time / PERIOD)
    torch.testing.assert_close(motion.kinematics(tail).key_pos_w[:, 0, 2], expected, atol=1e-3, rtol=0)
    assert len(tail) > 55


def test_the_seam_does_not_jump(both: ReferenceMotion, states: StateKinematics) -> None:
    """From the last frame to the first after the masked ones, the root travels on at its pace."""
    motion = looped(both, states, TrackingWeights(), 60)
    place = motion.kinematics(torch.arange(int(motion.length[0]))).key_pos_w[:, 0, 0]
    pace = 0.6 / 60
    steps = place.diff()[motion.valid[1 : int(motion.length[0])]]
    assert steps.min() > 0.5 * pace
    assert steps.max() < 2.5 * pace


def test_nobody_starts_in_a_tail_and_nothing_connects_to_it(both: ReferenceMotion, states: StateKinematics) -> None:
    """Starts are those of the demonstrations, and so is the saved record of how they went."""
    motion = looped(both, states, TrackingWeights(), 60)
    assert motion.start_mask().sum() == both.start_mask().sum()
    assert not motion.start_mask()[FRAMES : int(motion.length[0])].any()
    assert motion.demonstrated_length().tolist() == [FRAMES, FRAMES]


def test_the_record_of_rewards_fits_either_way(
    both: ReferenceMotion, states: StateKinematics, hand_character: Character
) -> None:
    """A run may be resumed with loops although it began without."""
    augmentation = Augmentation(adapt=True)
    plain = AugmentedSampler(both, hand_character, TrackingWeights(), augmentation)
    plain.adaptive.mean_reward.copy_(torch.rand(2 * FRAMES))
    after = AugmentedSampler(
        looped(both, states, TrackingWeights(), 60), hand_character, TrackingWeights(), augmentation
    )
    after.load_state_dict(plain.state_dict())
    assert torch.equal(after.state_dict()["mean_reward"], plain.state_dict()["mean_reward"])
    weights = after.adaptive.weights()
    torch.testing.assert_close(weights[after.motion.demonstrated], plain.adaptive.weights())
    assert weights[~after.motion.demonstrated].sum() == 0


def test_an_episode_runs_across_the_end(
    both: ReferenceMotion, states: StateKinematics, hand_character: Character, begin: Callable[..., None]
) -> None:
    """Started five frames before it, it lasts its full time, and is scored in every step that is not masked."""
    motion = looped(both, states, TrackingWeights(), 60)
    motion.valid[FRAMES + 2] = False
    config = EnvConfig(termination=Termination(min_root_height=None), clip_end="loop", episode_length=20)
    sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), Augmentation())
    env = ImitationEnv(CpuEngine(hand_character, 2, 1), sampler, config)
    begin(env, [0, 1], [FRAMES - 6, FRAMES - 6])
    results = [env.step(torch.zeros(2, env.num_actions)) for _ in range(20)]
    assert [result.truncated.tolist() for result in results].index([False, True]) == 4
    assert results[-1].truncated[0]
    assert not any(result.truncated[0] for result in results[:-1])
    assert [step for step, result in enumerate(results) if not result.scored[0]] == [
        5,
        5 + 2,
    ]  # the seam, and the frame taken out


def test_another_clip_of_the_skill_may_carry_on(
    make_clip: MakeClip, hand_character: Character, states: StateKinematics
) -> None:
    """A short clip that never comes round by itself goes on in the longer one, to its end and round again."""
    whole = bobbing(make_clip)
    columns: dict[str, Any] = {name: value[:40] for name, value in vars(whole).items() if isinstance(value, np.ndarray)}
    short = replace(whole, **columns)
    motion = ReferenceMotion([replace(short, name="short"), whole], hand_character, ("bob",))
    long = looped(motion, states, TrackingWeights(), 60)
    assert (long.length >= torch.tensor([40 + 60, FRAMES + 60])).all()


def test_another_skill_may_show_the_way_back(
    make_clip: MakeClip, hand_character: Character, states: StateKinematics
) -> None:
    """A lift never comes round by itself; a swing passes through its end, and ends where the lift began."""
    wave = 2.0 - np.cos(np.linspace(0, 2 * np.pi, 80))  # 1 to 3 and back
    lift, swing = lifted(make_clip, wave[:41], "lift"), lifted(make_clip, wave[20:], "swing")
    alone = looped(ReferenceMotion([lift], hand_character, ("lift",)), states, TrackingWeights(), 60)
    assert alone.length.tolist() == [41]
    both = looped(ReferenceMotion([lift, swing], hand_character, ("lift", "swing")), states, TrackingWeights(), 60)
    assert both.length[0] >= 41 + 60
    height = both.kinematics(torch.arange(41, 41 + 60)).key_pos_w[:, 0, 2]
    down = int(height.argmin())
    assert height[0] > 2.9
    assert height[down] < 1.1
    assert (height[:down].diff() <= 1e-4).all()  # it comes down as the swing does
    assert height[down:].max() > 1.5  # and is lifted again


def test_another_skill_shows_it_even_to_who_could_jump(
    make_clip: MakeClip, hand_character: Character, states: StateKinematics
) -> None:
    """A small lift is near enough to its own beginning to jump back to it; the swing needs no jump."""
    wave = 2.0 - 0.5 * np.cos(np.linspace(0, 2 * np.pi, 80))
    lift, swing = lifted(make_clip, wave[:41], "lift"), lifted(make_clip, wave[20:], "swing")
    alone = looped(ReferenceMotion([lift], hand_character, ("lift",)), states, TrackingWeights(), 60)
    both = looped(ReferenceMotion([lift, swing], hand_character, ("lift", "swing")), states, TrackingWeights(), 60)
    jumps = [motion.kinematics(torch.arange(40, 100)).key_pos_w[:, 0, 2].diff().abs().max() for motion in (alone, both)]
    assert jumps[0] > 0.5
    assert jumps[1] < 0.05


def test_a_skill_that_does_not_lead_back_shows_no_way(
    make_clip: MakeClip, hand_character: Character, states: StateKinematics
) -> None:
    """A lift whose end another skill stays at for ever is over: nobody is told to lift and paid for hovering."""
    wave = 2.0 - np.cos(np.linspace(0, np.pi, 41))  # 1 to 3
    lift = lifted(make_clip, wave, "lift")
    hover = lifted(make_clip, np.concatenate((wave[20:], np.full(50, 3.0))), "hover")
    motion = looped(ReferenceMotion([lift, hover], hand_character, ("lift", "hover")), states, TrackingWeights(), 60)
    assert motion.length[0] == 41
    assert motion.length[1] >= 71 + 60


def test_what_a_run_leaves_for_reports_counts_demonstrated_frames_alone(tmp_path: Path) -> None:
    """Clips, edges and the record of rewards of a run with loops fit together, and are those of one without."""
    records = []
    for end in ("auto", "loop"):
        config = preset("starter", "sm+stg+stf+ats")
        ppo = replace(config.ppo, hidden=(8,), horizon=4, minibatch=64, epochs=1)
        env = replace(config.env, clip_end=end)
        config = replace(config, num_envs=16, ppo=ppo, env=env, budget=Budget(samples=64), threads=1)
        train_run(config, tmp_path / end, progress=False)
        records.append(read_run(tmp_path / end, to_dict(config)))
    plain, loop = records
    assert loop.clips == plain.clips
    assert loop.edges is not None
    assert plain.edges is not None
    for ours, theirs in zip(vars(loop.edges).values(), vars(plain.edges).values(), strict=True):
        assert np.array_equal(ours, theirs)
    assert loop.mean_reward is not None
    assert len(loop.mean_reward) == sum(clip.length for clip in loop.clips)


def test_a_clip_leaves_where_it_comes_round_best(
    make_clip: MakeClip, hand_character: Character, states: StateKinematics
) -> None:
    """A ball that is pulled up in the last five frames, at 3.5 m/s more than a round ago: these are given up, and no
    more. A tenth of that speed is not worth a frame. What is over with its end, such as a leap, stays whole."""
    for speed, kept in ((3.5, FRAMES - 5), (0.35, FRAMES)):
        clip = bobbing(make_clip)
        ball = clip.object_pos.copy()
        ball[-5:, 0, 2] += speed / 60 * np.arange(1, 6)
        motion = ReferenceMotion(
            [replace(clip, object_pos=ball), climbing(make_clip)], hand_character, ("bob", "climb")
        )
        longer = looped(motion, states, TrackingWeights(), 60)
        assert longer.demonstrated_length().tolist() == [kept, FRAMES]
        torch.testing.assert_close(longer.qpos[:kept], motion.qpos[:kept])
        assert int(longer.length[0]) >= kept + 60


def test_shortened_clips_are_the_same_up_to_their_new_ends(both: ReferenceMotion) -> None:
    """Rows are numbered anew. A record of rewards is taken over as far as its frames are still there, or as it is; one
    of other clips does not fit."""
    shorter = both.shortened(torch.tensor([50, 80]))
    assert (shorter.length.tolist(), shorter.start.tolist(), len(shorter.qpos)) == ([50, 80], [0, 50], 130)
    kept = torch.cat((torch.arange(50), torch.arange(80, 160)))
    assert torch.equal(shorter.qpos, both.qpos[kept])
    assert torch.equal(shorter.origin, torch.arange(130))
    for ours, theirs in zip(shorter.kinematics(torch.arange(130)), both.kinematics(kept), strict=True):
        assert torch.equal(ours, theirs)
    record = AdaptiveSampling(shorter, 10.0, 5.0)
    whole = torch.rand(160)
    record.load_state_dict({"mean_reward": whole})
    assert torch.equal(record.mean_reward, whole[kept])
    record.load_state_dict({"mean_reward": torch.full((130,), 0.5)})
    assert (record.mean_reward == 0.5).all()
    with pytest.raises(RuntimeError, match="split_sizes"):
        record.load_state_dict({"mean_reward": torch.rand(140)})


def test_a_record_finds_its_frames_again_whatever_was_given_up(both: ReferenceMotion) -> None:
    """Clip by clip, from any lengths to any others; frames that were not there are as never tried."""
    long, short, mixed = (both.shortened(torch.tensor(length)) for length in ([80, 80], [50, 80], [70, 40]))
    before, after = AdaptiveSampling(short, 10.0, 5.0), AdaptiveSampling(long, 10.0, 5.0)
    before.mean_reward.uniform_(0.1, 0.9)
    after.mean_reward.fill_(0.7)
    after.load_state_dict(before.state_dict())
    first, second = after.mean_reward.split(80)
    assert torch.equal(first[:50], before.mean_reward[:50])
    assert torch.equal(second, before.mean_reward[50:])
    assert (first[50:] == 0).all()
    other = AdaptiveSampling(mixed, 10.0, 5.0)
    other.load_state_dict(before.state_dict())
    expected = torch.cat((before.mean_reward[:50], torch.zeros(20), before.mean_reward[50:90]))
    assert torch.equal(other.mean_reward, expected)


def test_a_record_of_other_clips_does_not_fit(
    both: ReferenceMotion, make_clip: MakeClip, hand_character: Character
) -> None:
    """Even if there are as many frames of them."""
    clips = [make_clip(70, skill="bob"), make_clip(90, skill="climb")]
    other = AdaptiveSampling(ReferenceMotion(clips, hand_character, ("bob", "climb")), 10.0, 5.0)
    with pytest.raises(CheckpointError, match=r"of clips with \[70, 90\] frames, these have \[80, 80\]"):
        AdaptiveSampling(both, 10.0, 5.0).load_state_dict(other.state_dict())


@pytest.mark.parametrize("frames", [20, 30, 31, 32])
def test_a_short_clip_gives_up_nothing(
    frames: int, make_clip: MakeClip, hand_character: Character, states: StateKinematics
) -> None:
    """A hand that hardly moves ends as it was; but there is nothing to come round to, half a second before its end."""
    still = lifted(make_clip, np.full(frames, 1.2), "still")
    motion = ReferenceMotion([still, climbing(make_clip)], hand_character, ("still", "climb"))
    assert looped(motion, states, TrackingWeights(), 60).demonstrated_length().tolist() == [frames, FRAMES]


def test_a_clip_goes_on_from_a_frame_that_was_recorded(
    make_clip: MakeClip, hand_character: Character, states: StateKinematics
) -> None:
    """The frames one and two rounds before its end, which it is most like, are missing and only filled in."""
    gone = [FRAMES - 1 - PERIOD, FRAMES - 1 - 2 * PERIOD]
    for clip, most_alike in ((bobbing(make_clip), True), (missing(bobbing(make_clip), gone), False)):
        motion = looped(ReferenceMotion([clip], hand_character, ("bob",)), states, TrackingWeights(), 60)
        follows = FRAMES + int((motion.origin[FRAMES:] != FRAMES - 1).int().argmax())  # the first after the seam
        similar = int(motion.origin[follows]) - 1
        assert motion.valid[similar]
        assert (similar in gone) == most_alike


def pulled_task(make_clip: MakeClip, folder: Path) -> Task:
    """A skill whose clip gives up its last five frames to come round, and one that is over with its end."""
    clip = bobbing(make_clip)
    ball = clip.object_pos.copy()
    ball[-5:, 0, 2] += 3.5 / 60 * np.arange(1, 6)
    save_clips([replace(clip, object_pos=ball), climbing(make_clip)], folder)
    task, rule = starter(), HoldRule(min_height=1.0)
    return replace(task, clips=folder, trials=replace(task.trials, rules={"bob": rule, "climb": rule}, start_before={}))


def in_stages(task: Task, *stages: Stage) -> RunConfig:
    """Six updates with a graph and hard starts, small enough for a test."""
    config = preset(task, "sm+stg+stf+ats")
    ppo = replace(config.ppo, hidden=(8,), horizon=4, minibatch=64, epochs=1)
    env = replace(config.env, weights=TrackingWeights())
    return replace(config, num_envs=16, ppo=ppo, env=env, budget=Budget(samples=6 * 64), threads=1, stages=stages)


def test_a_stage_may_give_up_frames_and_the_next_take_them_back(make_clip: MakeClip, tmp_path: Path) -> None:
    """What is recorded follows: the clips, the graph and the record of rewards."""
    task = pulled_task(make_clip, tmp_path / "clips")
    stages = (Stage(2 * 64, {"env.clip_end": "loop"}), Stage(4 * 64, {"env.clip_end": "auto"}))
    for name, config, length in (("loop", in_stages(task, *stages[:1]), 75), ("auto", in_stages(task, *stages), 80)):
        assert train_run(config, tmp_path / name, task=task, progress=False)
        record = read_run(tmp_path / name, to_dict(config))
        assert [clip.length for clip in record.clips] == [length, 80]
        assert record.mean_reward is not None
        assert len(record.mean_reward) == length + 80


def test_a_run_that_dies_when_a_stage_begins_can_be_shown(
    make_clip: MakeClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of the files that it writes then: what is of the stage before is left out."""
    task = pulled_task(make_clip, tmp_path / "clips")
    config = in_stages(task, Stage(2 * 64, {"env.clip_end": "loop"}))
    for name, dies in (("before the graph", "save_file"), ("before a checkpoint", "train_loop")):
        done: list[int] = []
        original = getattr(api, dies)

        def once(*arguments: Any, original: Any = original, done: list[int] = done) -> Any:
            done.append(1)
            if len(done) == 2:
                raise RuntimeError
            return original(*arguments)

        monkeypatch.setattr(api, dies, once)
        with pytest.raises(RuntimeError):
            train_run(config, tmp_path / name, task=task, progress=False)
        monkeypatch.undo()
        record = read_run(tmp_path / name, to_dict(config))
        assert [clip.length for clip in record.clips] == [75, 80]
        assert record.mean_reward is None
        assert (record.edges is None) == (dies == "save_file")
        assert train_run(config, tmp_path / name, task=task, resumed=True, progress=False)
        record = read_run(tmp_path / name, to_dict(config))
        assert record.mean_reward is not None
        assert record.edges is not None
