"""Clips made by a policy."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from skillfield.api import env_factory, load_networks
from skillfield.characters import Character
from skillfield.characters.humanoid import humanoid
from skillfield.cli.main import main
from skillfield.clips import Clip, load_clips, save_clip
from skillfield.errors import ClipError, ConfigError
from skillfield.evaluation import recording
from skillfield.evaluation.metrics import MakeEnv
from skillfield.evaluation.plan import TrialPlan
from skillfield.evaluation.recording import (
    Attempts,
    clip_of_states,
    closeness,
    follows,
    last_followed,
    record_clips,
    stands,
)
from skillfield.evaluation.rollout import Trials
from skillfield.evaluation.success import SuccessRule
from skillfield.experiments.recordings import task_clips
from skillfield.experiments.run import Origin, load_config, save_config
from skillfield.experiments.shipped import run_folder
from skillfield.experiments.starter.authoring import CLIP_FOLDER
from skillfield.experiments.tasks import starter
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reference import ReferenceMotion, Starts
from skillfield.reference.motion import clip_positions
from strolling import missing


def blank(character: Character, frames: int) -> Clip:
    """Any clip with the columns of the whole humanoid."""
    joints, turn = tuple(character.joint_names), np.tile(np.array([1, 0, 0, 0], np.float32), (frames, 1))
    return Clip(
        name="blank",
        skill="stand",
        character="humanoid",
        fps=60.0,
        root_pos=np.zeros((frames, 3), np.float32),
        root_quat=turn,
        joint_pos=np.zeros((frames, len(joints)), np.float32),
        object_pos=np.zeros((frames, 1, 3), np.float32),
        object_quat=turn[:, None],
        contacts=np.zeros((frames, 1), np.float32),
        joint_names=joints,
        object_names=tuple(character.object_names),
    )


def test_states_come_back_from_their_clip() -> None:
    """A humanoid with fused fingers writes a clip for all fingers, and reads the same positions back from it."""
    full, fused = humanoid("full"), humanoid("fused")
    generator = torch.Generator().manual_seed(0)
    layout = fused.layout()
    at_rest = torch.tensor(fused.model.qpos0, dtype=torch.float64).expand(5, -1)
    qpos = layout.integrate(at_rest, 0.3 * torch.randn(5, layout.num_dofs, generator=generator, dtype=torch.float64))
    clip = clip_of_states(fused, qpos, torch.ones(5, 3), blank(full, 5))
    torch.testing.assert_close(clip_positions(clip, fused), qpos, atol=1e-5, rtol=0)
    assert clip_positions(clip, full).shape == (5, full.model.nq)
    finger = clip.joint_names.index("left_index_1_z")
    assert np.allclose(clip.joint_pos[:, finger], fused.fixed_columns["left_index_1_z"])


class Only(SuccessRule):
    """Calls these trials good, whatever happened."""

    def __init__(self, *good: int) -> None:
        self.good = good

    def judge(self, trials: Trials) -> torch.Tensor:
        return torch.tensor([number in self.good for number in range(trials.alive.shape[1])])


def hold(rule: SuccessRule | None = None) -> tuple[MakeEnv, ActorCritic, TrialPlan, Clip]:
    """What `record_clips` needs to record the starter's hold, with another success rule if there is one."""
    task, model = starter(), load_networks("starter")
    plan = replace(task.trials, rules={**task.trials.rules, "hold": rule or task.trials.rules["hold"]})
    (demonstration,) = [clip for clip in load_clips(CLIP_FOLDER) if clip.skill == "hold"]
    return env_factory(task, load_config(run_folder("starter")), model), model, plan, demonstration


def start_frame(clip: Clip) -> int:
    """That the attempt began in, from the clip's source."""
    found = re.search(r"a start in frame (\d+) of", clip.source)
    assert found
    return int(found[1])


def test_a_recorded_skill_is_what_the_simulation_did() -> None:
    """As long as the demonstration, judged good, with the contacts that were felt, and near what was demonstrated."""
    make_env, model, plan, demonstration = hold()
    (clip,) = record_clips(make_env, model, plan, demonstration, attempts=4)
    assert len(clip) == len(demonstration)
    assert clip.source.startswith("recorded from a policy, 0.25 s after a start in frame")
    assert clip.source.endswith("the whole trial of 10 s is a success")
    assert clip.contacts[:, 0].mean() > 0.8
    held = clip.object_pos[-20:, 0] - demonstration.object_pos[-20:, 0]
    assert np.linalg.norm(held, axis=-1).mean() < 0.2
    ReferenceMotion([clip], starter().character(), starter().skills)


def test_whole_successes_come_first_then_those_that_follow_closest() -> None:
    """Takes are different attempts; only one that succeeds as a whole is recorded past the demonstration's end."""
    by_closeness = [start_frame(clip) for clip in record_clips(*hold(Only()), takes=4, attempts=4)]
    assert sorted(by_closeness) == [0, 1, 2, 3]
    make_env, model, plan, demonstration = hold(Only(by_closeness[-1]))
    first, *others = record_clips(make_env, model, plan, demonstration, takes=3, attempts=4)
    assert [start_frame(clip) for clip in (first, *others)] == [by_closeness[-1], *by_closeness[:2]]
    assert len(first) == len(demonstration)
    assert first.source.endswith("is a success")
    for clip in others:
        assert len(clip) == len(demonstration) - 1 - start_frame(clip) - 15
        assert clip.source.endswith("it stands 1 s beyond that clip's end, but the whole trial of 10 s is no success")


@pytest.mark.parametrize(
    ("gone", "expected"), [([1, 3], [0, 2, 4]), (list(range(1, 37)), [0, 37, 38]), (list(range(33)), [0, 1])]
)
def test_no_attempt_starts_in_a_missing_frame(
    make_clip: Callable[..., Clip],
    make_env: Callable[..., ImitationEnv],
    monkeypatch: pytest.MonkeyPatch,
    gone: list[int],
    expected: list[int],
) -> None:
    """Attempts take the first frames that are there, of their own clip, and there are fewer where frames are fewer.
    Frames are counted from the first that is there."""
    like = missing(make_clip(40, name="holed"), gone)
    started: list[int] = []

    def run_trials(env: ImitationEnv, _model: ActorCritic, starts: Starts, *_: object) -> Trials:
        assert starts.clip.tolist() == [1] * env.num_envs
        started.extend(starts.frame.tolist())
        raise InterruptedError

    monkeypatch.setattr(recording, "run_trials", run_trials)
    env = make_env([make_clip(20), like], 1)
    model = ActorCritic(env.observation_size, env.num_actions, (4,))
    with pytest.raises(InterruptedError):
        record_clips(lambda count: make_env([make_clip(20), like], count), model, starter().trials, like, attempts=3)
    assert started == expected


def test_clips_of_one_name_are_refused(tmp_path: Path) -> None:
    """A recording finds its demonstration by name, so the files of a task hold different ones."""
    clips = load_clips(CLIP_FOLDER)
    for number, clip in enumerate([*clips, clips[0]]):
        save_clip(clip, tmp_path / f"{number}.npz")
    with pytest.raises(ClipError, match=rf"several clips are called \['{clips[0].name}'\]"):
        task_clips(starter(), tmp_path)


def attempts(reward: list[list[float]], alive: list[list[float]]) -> Attempts:
    """One list per attempt, one number per step; the rest does not matter."""
    earned, up = torch.tensor(reward).T, torch.tensor(alive).T > 0
    steps, count = earned.shape
    still = torch.zeros(steps, count, 3)
    trials = Trials(60.0, still, still, up, up)
    return Attempts(torch.zeros(count), trials, still, still, earned, torch.ones_like(up))


def test_an_attempt_that_loses_the_clip_or_falls_does_not_count() -> None:
    """Fifteen steps without reward before the end; a fall before the end; neither matters after it."""
    lost, flicker, fell = [1.0] * 5 + [0.0] * 15 + [1.0] * 10, [0.0, 0.0, 1.0] * 10, [1.0] * 25 + [0.0] * 5
    tried = attempts([lost, flicker], [[1.0] * 30, fell])
    end = torch.tensor([25, 25])
    assert follows(tried, end).tolist() == [False, True]
    assert follows(tried, end - 10).tolist() == [True, True]
    assert stands(tried.trials, end).tolist() == [True, True]
    assert stands(tried.trials, end + 1).tolist() == [True, False]


def test_a_recording_ends_with_the_last_step_that_follows() -> None:
    """A ball that is not caught again is left out; what happens after the demonstration's end is not looked at."""
    tried = attempts([[0.5] * 6 + [0.005] * 2 + [0.5] * 2, [0.0] * 10], [[1.0] * 10] * 2)
    assert last_followed(tried, torch.tensor([8, 8])).tolist() == [5, 0]
    assert last_followed(tried, torch.tensor([10, 10])).tolist() == [9, 0]


def test_closeness_is_the_mean_reward_of_what_is_recorded() -> None:
    """From the first recorded step to the demonstration's end."""
    tried = attempts([[9.0, 0.2, 0.4, 9.0], [9.0, 0.3, 9.0, 9.0]], [[1.0] * 4] * 2)
    torch.testing.assert_close(closeness(tried, 1, torch.tensor([3, 2])), torch.tensor([0.3, 0.3]))


def test_what_is_never_followed_is_not_recorded() -> None:
    """A policy that always does the same loses the clip; the skill and the clip are named."""
    make_env, model, plan, demonstration = hold()
    with torch.no_grad():
        for weight in model.policy.parameters():
            weight.zero_()
    with pytest.raises(ConfigError, match="skill 'hold': 0 of 2 attempts follow clip 'hold' and stand 1 s longer; 1 n"):
        record_clips(make_env, model, plan, demonstration, attempts=2)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writes what was asked for; an unknown skill is named and nothing appears."""
    out = tmp_path / "mine"
    assert main(["data", "record", "starter", "--out", str(out), "--skills", "levitate"]) == 2
    assert "unknown skill 'levitate'" in capsys.readouterr().err
    assert not out.exists()
    options = ["--skills", "hold", "--attempts", "3", "--takes", "2", "--prefix", "my", "--source", "a test"]
    assert main(["data", "record", "starter", "--out", str(out), *options]) == 0
    clips = load_clips(out)
    assert [clip.name for clip in clips] == ["my_hold_1", "my_hold_2"]
    for clip in clips:
        assert "policy: task starter, method full, 5,005,312 samples; simulated by MuJoCo" in clip.source
        assert clip.source.endswith("; a test")


@pytest.mark.parametrize("origin", [None, "starter", "/home/somebody/runs/starter"])
def test_a_clip_says_how_long_its_policy_has_learned(origin: str | None, tmp_path: Path) -> None:
    """Exactly, and what it had begun with: its name, not where it lay."""
    run, out = tmp_path / "run", tmp_path / "mine"
    shutil.copytree(run_folder("starter"), run)
    state = json.loads((run / "state.json").read_text())
    state["counters"]["samples"] = 1_024
    (run / "state.json").write_text(json.dumps(state))
    save_config(replace(load_config(run), origin=Origin(origin, 5_005_312) if origin else None), run)
    assert main(["data", "record", str(run), "--out", str(out), "--skills", "hold", "--attempts", "2"]) == 0
    (clip,) = load_clips(out)
    had = "1,024 samples, begun with 'starter' of 5,005,312 samples" if origin else "1,024 samples"
    assert f"; policy: task starter, method full, {had}; simulated by MuJoCo" in clip.source


def test_a_folder_that_is_not_empty_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recording takes minutes."""
    monkeypatch.setattr("skillfield.cli.record.record_clips", lambda *_: pytest.fail("it was recorded"))
    (tmp_path / "notes.txt").touch()
    assert main(["data", "record", "starter", "--out", str(tmp_path), "--skills", "hold"]) == 2
    assert f"{tmp_path}: already there and not empty" in capsys.readouterr().err


def test_more_takes_than_attempts_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is simulated."""
    options = ["--takes", "3", "--attempts", "2"]
    assert main(["data", "record", "starter", "--out", str(tmp_path / "mine"), *options]) == 2
    assert "cannot record 3 of 2 attempts" in capsys.readouterr().err
