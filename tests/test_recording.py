"""Clips made by a policy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from skillfield.api import env_factory, load_networks
from skillfield.characters import Character
from skillfield.characters.humanoid import humanoid
from skillfield.cli.main import main
from skillfield.clips import Clip, load_clips
from skillfield.errors import ConfigError
from skillfield.evaluation.recording import clip_of_states, record_clip
from skillfield.evaluation.success import SuccessRule
from skillfield.experiments.run import load_config
from skillfield.experiments.shipped import run_folder
from skillfield.experiments.starter.authoring import CLIP_FOLDER
from skillfield.experiments.tasks import starter
from skillfield.reference import ReferenceMotion
from skillfield.reference.motion import clip_positions


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


def test_a_recorded_skill_is_what_the_simulation_did() -> None:
    """As long as the demonstration, judged good, with the contacts that were felt, and near what was demonstrated."""
    task, model = starter(), load_networks("starter")
    make_env = env_factory(task, load_config(run_folder("starter")), model)
    (demonstration,) = [clip for clip in load_clips(CLIP_FOLDER) if clip.skill == "hold"]
    clip = record_clip(make_env, model, task.trials, demonstration, attempts=4)
    assert len(clip) == len(demonstration)
    assert clip.source.startswith("recorded from a policy, 0.25 s after frame")
    assert clip.contacts[:, 0].mean() > 0.8
    held = clip.object_pos[-20:, 0] - demonstration.object_pos[-20:, 0]
    assert np.linalg.norm(held, axis=-1).mean() < 0.2
    ReferenceMotion([clip], task.character(), task.skills)


class Never(SuccessRule):
    """Nothing is good enough."""

    def judge(self, trials: object) -> torch.Tensor:
        return torch.zeros(2, dtype=torch.bool)


def test_what_never_succeeds_is_not_recorded() -> None:
    """The skill and the clip are named."""
    task, model = starter(), load_networks("starter")
    make_env = env_factory(task, load_config(run_folder("starter")), model)
    (demonstration,) = [clip for clip in load_clips(CLIP_FOLDER) if clip.skill == "hold"]
    plan = replace(task.trials, rules={**task.trials.rules, "hold": Never()}, seconds=0.1)
    with pytest.raises(ConfigError, match="skill 'hold': none of 2 attempts from clip 'hold' succeeds"):
        record_clip(make_env, model, plan, demonstration, attempts=2)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writes what was asked for; an unknown skill is named and nothing appears."""
    out = tmp_path / "mine"
    assert main(["data", "record", "starter", "--out", str(out), "--skills", "levitate"]) == 2
    assert "unknown skill 'levitate'" in capsys.readouterr().err
    assert not out.exists()
    options = ["--skills", "hold", "--attempts", "2", "--source", "a test"]
    assert main(["data", "record", "starter", "--out", str(out), *options]) == 0
    (clip,) = load_clips(out)
    assert clip.source.endswith("; a test")
