"""A policy is tested by the settings of the stage that it has come to; a run goes on where its worlds do not fit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from skillfield.api import env_factory, evaluate, train_run
from skillfield.experiments.loading import load_run
from skillfield.experiments.run import RunConfig, build_ppo, preset
from skillfield.experiments.stages import Stage
from skillfield.learning.checkpoint import latest_checkpoint, resume
from skillfield.learning.training import Budget

UPDATE = 8 * 4
STAGES = (
    Stage(2 * UPDATE, {"env.weights.position": 7.0}),
    Stage(4 * UPDATE, {"env.contact_weights": (1.0, 1.0, 9.0), "env.clip_end": "loop"}),
)


def staged(updates: int, stages: tuple[Stage, ...] = STAGES) -> RunConfig:
    """The starter, small enough for a test."""
    config = preset("starter")
    ppo = replace(config.ppo, hidden=(16,), horizon=4, minibatch=32, epochs=1)
    return replace(config, num_envs=8, threads=1, ppo=ppo, budget=Budget(samples=updates * UPDATE), stages=stages)


@pytest.mark.parametrize("updates", [1, 3, 5])
def test_a_run_is_loaded_with_the_settings_of_its_stage(updates: int, tmp_path: Path) -> None:
    """Those that hold for its checkpoint, and so its rewards are compared with its own."""
    config = staged(updates)
    train_run(config, tmp_path, progress=False)
    loaded = load_run(tmp_path)
    assert loaded.config == config.at(updates * UPDATE)
    tested = env_factory(loaded.task, loaded.config, loaded.networks)(1).config
    assert tested.weights.position == (7.0 if updates >= 2 else config.env.weights.position)
    assert tested.contact_weights == ((1.0, 1.0, 9.0) if updates >= 4 else config.env.contact_weights)
    assert tested.clip_end == "auto"


def test_a_policy_is_scored_as_in_its_last_stage(tmp_path: Path) -> None:
    """One that becomes so strict that nothing earns anything."""
    train_run(staged(1, ()), tmp_path / "mild", progress=False)
    train_run(staged(2, (Stage(UPDATE, {"env.weights.position": 1e9}),)), tmp_path / "strict", progress=False)
    mild, strict = (evaluate(tmp_path / name, trials=1).averages()["normalised_reward"] for name in ("mild", "strict"))
    assert mild > 0.01 > strict


def test_other_numbers_of_worlds_begin_new_episodes(tmp_path: Path) -> None:
    """A run whose configuration was changed by hand goes on with its networks."""
    config = staged(1, ())
    train_run(config, tmp_path, progress=False)
    for worlds in (4, 8, 16):
        learner = build_ppo(replace(config, num_envs=worlds))
        assert resume(latest_checkpoint(tmp_path), learner, config.identity(learner.env.motion.skills)).updates == 1
        assert (learner.observation is None) == (worlds != 8)
        assert all(torch.isfinite(torch.tensor(value)) for value in learner.update(0.5).values())
