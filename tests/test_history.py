"""What the policy remembers: the same from a demonstration as from the engine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.errors import ConfigError
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.history import History, history_features, reference_features
from skillfield.imitation.termination import Termination
from skillfield.learning.history_encoder import EncoderConfig, HistoryEncoder
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, TrackingWeights
from skillfield.rotations import quat_from_rotvec, quat_multiply, quat_rotate
from skillfield.simulation import CpuEngine, Engine

MakeClip = Callable[..., Clip]
Begin = Callable[..., None]

SMALL = EncoderConfig(channels=(8, 8, 4), stride=2, steps=30, batch=32, hidden=(16,))
LENGTH = 12


def remembering(
    clips: list[Clip], character: Character, kind: str = "stacked", envs: int = 2, stride: int = 2, **changes: Any
) -> ImitationEnv:
    """An environment with a memory of twelve frames."""
    motion = ReferenceMotion(clips, character, tuple(dict.fromkeys(clip.skill for clip in clips)))
    config = EnvConfig(
        termination=Termination(min_root_height=None),
        history=kind,  # type: ignore[arg-type]
        history_length=LENGTH,
    )
    encoder = None
    if kind == "encoder":
        size = reference_features(motion, character).shape[1]
        with torch.random.fork_rng():
            torch.manual_seed(3)
            encoder = HistoryEncoder(size, LENGTH, replace(SMALL, stride=stride)).requires_grad_(False)
    sampler = AugmentedSampler(motion, character, TrackingWeights(), Augmentation(**changes))
    return ImitationEnv(CpuEngine(character, envs, 1), sampler, config, encoder)


def seen(engine: Engine) -> Tensor:
    """History features of what an engine shows, put together by hand."""
    character, state = engine.character, engine.state
    return history_features(
        state.body_pos_w[:, 0],
        state.body_quat_w[:, 0],
        state.body_pos_w,
        state.qpos[:, character.layout().joint_qpos],
        state.object_pos_w,
    )


def memory(env: ImitationEnv) -> History:
    """The environment's window."""
    assert env.history is not None
    return env.history


def test_the_past_begins_as_the_demonstration_does(
    make_clip: MakeClip, hand_character: Character, begin: Begin
) -> None:
    """After a reset the window holds the frames before the start, oldest first, without the start frame itself."""
    env = remembering([make_clip(40)], hand_character)
    begin(env, [0, 0], [20, 5])
    window, reference = memory(env).window(), memory(env).reference
    assert torch.equal(window[0], reference[8:20])
    assert torch.equal(window[1, -5:], reference[0:5])


def test_before_the_first_frame_there_is_the_first_frame(
    make_clip: MakeClip, hand_character: Character, begin: Begin
) -> None:
    """A clip that has just begun has always been where it begins; never the frames of the clip before it."""
    env = remembering([make_clip(20), make_clip(20, skill="swing")], hand_character)
    begin(env, [1, 1], [0, 3])
    window, reference = memory(env).window(), memory(env).reference
    assert torch.equal(window[0], reference[20].expand(LENGTH, -1))
    assert torch.equal(window[1], torch.cat((reference[20].expand(LENGTH - 3, -1), reference[20:23])))


def test_the_present_becomes_the_past_with_the_next_step(
    make_clip: MakeClip, hand_character: Character, begin: Begin
) -> None:
    """After three steps the last three frames are the states before each of them; the present one is not there yet."""
    env = remembering([make_clip(40)], hand_character)
    begin(env, [0, 0], [20, 25])
    before = memory(env).window().clone()
    states = []
    for _ in range(3):
        states.append(seen(env.engine))
        env.step(torch.randn(2, env.num_actions))
    window = memory(env).window()
    assert torch.equal(window[:, -3:], torch.stack(states, dim=1))
    assert torch.equal(window[:, :-3], before[:, 3:])
    assert not torch.equal(window[:, -1], seen(env.engine))


def test_a_start_from_another_skill_remembers_that_skill(make_clip: MakeClip, hand_character: Character) -> None:
    """The history of an external start is what led to its state, not to the frame that it is to follow."""
    clips = [make_clip(30), make_clip(30, skill="swing")]
    env = remembering(clips, hand_character, envs=40, stitch=True, p_external=1.0)
    starts = env.sampler.sample(40)
    env.start(torch.arange(40), starts)
    reference = memory(env).reference
    before = torch.maximum(starts.past_row - 1, env.motion.start[1 - starts.clip])
    assert torch.equal(memory(env).window()[:, -1], reference[before])


def test_a_finished_episode_leaves_no_memory(make_clip: MakeClip, hand_character: Character, begin: Begin) -> None:
    """At a reset the window of that environment is new, and the others' go on."""
    env = remembering([make_clip(40)], hand_character)
    begin(env, [0, 0], [38, 10])
    env.step(torch.randn(2, env.num_actions))
    fresh = memory(env).past_of(env.motion.row(env.clip, env.frame))
    assert env.progress.tolist() == [0, 1]
    assert torch.equal(memory(env).window()[0], fresh[0])
    assert not torch.equal(memory(env).window()[1], fresh[1])


def test_a_demonstration_and_the_engine_show_the_same_features(
    make_clip: MakeClip, hand_character: Character, begin: Begin
) -> None:
    """Features of a reference frame are those of an engine in that state: one function for training and running."""
    env = remembering([make_clip(40)], hand_character, envs=40)
    begin(env, [0] * 40, list(range(40)))
    torch.testing.assert_close(seen(env.engine), memory(env).reference, rtol=0, atol=1e-4)


def test_features_of_a_free_root_do_not_know_where_north_is(walker: Character) -> None:
    """A ball joint counts as its four numbers; moved and turned in the plane, nothing changes; lifted, the height."""
    layout, engine = walker.layout(), CpuEngine(walker, 5, 1)
    rest = torch.tensor(walker.model.qpos0).float().expand(5, -1)
    qpos = layout.integrate(rest, 0.4 * torch.randn(5, layout.num_dofs))
    still = torch.zeros(5, layout.num_dofs)

    def features(states: Tensor) -> Tensor:
        engine.reset(torch.arange(5), states, still)
        return seen(engine)

    here = features(qpos)
    assert here.shape == (5, 1 + 3 * 3 + 5)
    turn = quat_from_rotvec(torch.tensor([0.0, 0.0, 2.1])).expand(5, 4)
    moved = qpos.clone()
    for first in (0, qpos.shape[1] - 7):
        moved[:, first : first + 3] = quat_rotate(turn, qpos[:, first : first + 3]) + torch.tensor([3.0, -4.0, 0.0])
        moved[:, first + 3 : first + 7] = quat_multiply(turn, qpos[:, first + 3 : first + 7])
    torch.testing.assert_close(features(moved), here, rtol=0, atol=1e-4)
    higher = qpos.clone()
    higher[:, [2, -5]] += 0.5
    torch.testing.assert_close(features(higher)[:, 1:], here[:, 1:], rtol=0, atol=1e-4)
    torch.testing.assert_close(features(higher)[:, 0], here[:, 0] + 0.5, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["none", "encoder", "stacked", "time"])
def test_the_observation_grows_by_what_is_remembered(
    make_clip: MakeClip, hand_character: Character, begin: Begin, kind: str
) -> None:
    """Nothing, the embedding, the whole window, or one number; announced and delivered, and the rest stays."""
    env = remembering([make_clip(40)], hand_character, kind)
    plain = remembering([make_clip(40)], hand_character, "none")
    for each in (env, plain):
        begin(each, [0, 0], [6, 18])
    features = reference_features(env.motion, hand_character).shape[1]
    extra = {"none": 0, "encoder": 3, "stacked": LENGTH * features, "time": 1}[kind]
    observation = env.observe()
    assert observation.shape == (2, env.observation_size) == (2, plain.observation_size + extra)
    assert torch.equal(observation[:, : plain.observation_size], plain.observe())
    assert not observation.requires_grad
    if kind == "stacked":
        assert torch.equal(observation[:, plain.observation_size :], memory(env).window().flatten(1))
    assert env.step(torch.zeros(2, env.num_actions)).observation.shape == observation.shape


def test_the_reference_time_waits_for_masked_steps(
    make_clip: MakeClip, hand_character: Character, begin: Begin
) -> None:
    """As a condition, time is the reference frame in seconds."""
    env = remembering([make_clip(40)], hand_character, "time")
    begin(env, [0, 0], [6, 18], masked=[2, 0])
    times = [env.observe()[:, -1]] + [env.step(torch.zeros(2, env.num_actions)).observation[:, -1] for _ in range(4)]
    expected = torch.tensor([[6, 18], [6, 19], [6, 20], [7, 21], [8, 22]]) / 60
    torch.testing.assert_close(torch.stack(times), expected)


def test_the_reference_time_ends_with_the_clip(make_clip: MakeClip, hand_character: Character, begin: Begin) -> None:
    """A trial goes on after the clip's last frame; the condition stays what training has shown."""
    env = remembering([make_clip(20)], hand_character, "time")
    begin(env, [0, 0], [17, 3])
    for _ in range(4):
        env.advance(torch.zeros(2, env.num_actions))
    torch.testing.assert_close(env.observe()[:, -1], torch.tensor([19, 7]) / 60)


def test_an_encoder_is_needed_to_encode(make_clip: MakeClip, hand_character: Character) -> None:
    """Asking for an embedding without anything that makes one is an error."""
    motion = ReferenceMotion([make_clip()], hand_character, ["sway"])
    sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), Augmentation())
    with pytest.raises(ConfigError, match="there is no encoder"):
        ImitationEnv(CpuEngine(hand_character, 1, 1), sampler, EnvConfig(history="encoder"))


def test_the_memory_is_part_of_a_snapshot(make_clip: MakeClip, hand_character: Character) -> None:
    """A restored environment sees and remembers the same; what it does next leaves the snapshot as it was."""
    env, other = (remembering([make_clip(30)], hand_character, "encoder", envs=4) for _ in range(2))
    env.reset()
    for _ in range(8):
        env.step(torch.randn(4, env.num_actions))
    snapshot = env.snapshot()
    kept = snapshot["history"].clone()
    other.restore(snapshot)
    assert torch.equal(other.observe(), env.observe())
    other.reset()
    assert torch.equal(snapshot["history"], kept)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_an_embedding_made_frame_by_frame_is_that_of_the_whole_window(
    make_clip: MakeClip, hand_character: Character, stride: int
) -> None:
    """While running, after resets and when the encoder changes: as if it read all of the past at every step."""
    clips = [make_clip(30), make_clip(24, skill="swing", name="swing")]
    env = remembering(clips, hand_character, "encoder", envs=4, stride=stride)
    whole = remembering(clips, hand_character, "stacked", envs=4)
    encoder: Any = memory(env)._embedding
    encoder.mean.normal_(0.0, 0.1)
    encoder.spread.uniform_(0.05, 0.2)
    memory(env).refresh()
    starts = env.sampler.sample(4)
    for each in (env, whole):
        each.start(torch.arange(4), starts)
    for step in range(2 * LENGTH):
        expected = encoder(memory(whole).window())
        assert expected.std() > 0.01
        torch.testing.assert_close(memory(env).recall(), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(memory(env).recall(torch.tensor([2, 0])), expected[[2, 0]], atol=1e-5, rtol=1e-5)
        actions = torch.randn(4, env.num_actions)
        for each in (env, whole):
            each.advance(actions)
        if step == LENGTH // 2:
            some, others = torch.tensor([1, 3]), env.sampler.sample(2)
            for each in (env, whole):
                each.start(some, others)
                memory(each).reset_where(torch.tensor([True, False, False, False]), torch.tensor([9, 0, 0, 0]))
