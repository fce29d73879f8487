"""Trainings in stages: what holds when, who may change it, and that a stage begins where the last one ended."""

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import skillfield.api as api
from skillfield.api import train_run
from skillfield.cli.train import parse
from skillfield.configuration import changed
from skillfield.errors import ConfigError
from skillfield.experiments.run import RunConfig, build_ppo, load_config, preset, save_config
from skillfield.experiments.stages import Stage, describe, merged, paced, stage_at, without
from skillfield.experiments.tasks import task as find_task
from skillfield.files import read_json, write_json
from skillfield.imitation import ImitationEnv
from skillfield.learning.checkpoint import Counters, latest_checkpoint, load_model, resume, save_checkpoint
from skillfield.learning.ppo import PPO
from skillfield.learning.training import Budget
from skillfield.reporting.logs import METRICS_FILE, read_metrics

UPDATE = 8 * 4
STAGES = (Stage(2 * UPDATE, {"env.clip_end": "loop"}), Stage(3 * UPDATE, {"env.insight": True, "ppo.gae_lambda": 0.9}))


def staged(updates: int = 5, stages: tuple[Stage, ...] = STAGES) -> RunConfig:
    """The starter, small enough for a test."""
    config = preset("starter")
    ppo = replace(config.ppo, hidden=(16,), horizon=4, minibatch=32, epochs=1)
    ppo = replace(ppo, learning_rate_final=None, sigma_final=None)  # the same whatever the budget
    return replace(config, num_envs=8, threads=1, ppo=ppo, budget=Budget(samples=updates * UPDATE), stages=stages)


def settings(config: RunConfig) -> tuple[str, bool, float]:
    """Those that the stages above change."""
    return config.env.clip_end, config.env.insight, config.ppo.gae_lambda


def test_settings_hold_from_their_stage_on() -> None:
    """From the very sample that is named, together with those of earlier stages; what is resolved has no stages."""
    config, first = staged(), preset("starter").ppo.gae_lambda
    assert settings(config.at(0)) == settings(config.at(2 * UPDATE - 1)) == ("auto", False, first)
    assert settings(config.at(2 * UPDATE)) == ("loop", False, first)
    assert settings(config.at(3 * UPDATE)) == settings(config.in_the_end()) == ("loop", True, 0.9)
    assert config.at(10**9) == replace(
        config,
        env=replace(config.env, clip_end="loop", insight=True),
        ppo=replace(config.ppo, gae_lambda=0.9),
        stages=(),
    )
    plain = replace(config, stages=())
    assert plain.at(10**9) == plain.in_the_end() == plain


def test_they_are_part_of_the_configuration(tmp_path: Path) -> None:
    """What config.json holds is what was written."""
    save_config(staged(), tmp_path)
    assert load_config(tmp_path) == staged()
    assert read_json(tmp_path / "config.json", ConfigError)["stages"][0] == {
        "after": 64,
        "changes": {"env.clip_end": "loop"},
    }


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"after": 0, "changes": {}}], "stages: number 1 begins after 0 samples, not after 0"),
        ([{"after": 5}, {"after": 5}], "stages: number 2 begins after 5 samples, not after 5"),
        ([{"after": 5, "changes": {"env.speed": 1}}], "'env.speed': no setting 'speed' of EnvConfig; known:"),
        ([{"after": 5, "changes": {"seed.env": 1}}], "'seed.env': no setting 'env' of int"),
        ([{"after": 5, "changes": {"env.p_carry": 2}}], "env: p_carry is 2, a probability is between 0 and 1"),
        ([{"after": 5, "changes": ["loop"]}], "the changes of a stage are names and values, found list"),
        ([{"before": 5}], r"stages\[0\]: unknown fields \['before'\] of Stage"),
    ],
)
def test_bad_stages_are_refused(stages: list[Any], message: str, tmp_path: Path) -> None:
    """When the configuration is read, and not hours later when they would begin."""
    save_config(staged(), tmp_path)
    values = read_json(tmp_path / "config.json", ConfigError)
    write_json(tmp_path / "config.json", values | {"stages": stages})
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path)


def test_a_change_keeps_the_kind_of_its_setting() -> None:
    """Lists of a JSON file are the tuples of the configuration."""
    assert changed(staged(), {"ppo.hidden": [8, 4]}, "here").ppo.hidden == (8, 4)
    assert changed(staged(), {"env.termination.lost_after": 3}, "here").env.termination.lost_after == 3


def test_where_a_training_is() -> None:
    """In words, and when it changes next."""
    assert stage_at(STAGES, 0) == ([], 64)
    assert stage_at(STAGES, 64) == ([STAGES[0]], 96)
    assert stage_at(STAGES, 97) == (list(STAGES), None)
    assert describe([], ()) == ""
    assert describe([], STAGES) == "stage 1 of 3"
    assert describe(STAGES, STAGES) == "stage 3 of 3: env.insight True, ppo.gae_lambda 0.9"


def test_a_method_decides_what_is_its_own_in_every_stage() -> None:
    """What we add to the paper is `full`'s, everything else is everyone's; the paper has one stage."""
    for task in ("ballplay", "courtside"):
        full, plain, sm = (preset(task, method) for method in ("full", "paper", "sm"))
        assert plain.stages == sm.stages
        assert full.stages[0] == plain.stages[0]
        last, other = full.in_the_end(), plain.in_the_end()
        assert (last.env.p_carry, last.env.p_lost, last.augmentation.p_away) == (0.7, 0.3, 0.1)
        assert (last.augmentation.p_external, last.augmentation.p_neighbour) == (0.4, 0.9)
        assert (other.env.p_carry, other.env.p_lost, other.augmentation.p_away) == (0, 0, 0)
        assert (other.augmentation.p_external, other.augmentation.p_neighbour) == (0.2, 0.1)
        assert (last.augmentation.detours, other.augmentation.detours) == (True, False)
        assert (other.env.clip_end, other.env.insight, other.ppo) == ("loop", True, last.ppo)


def test_a_task_cannot_give_it_to_others() -> None:
    """Not even in the stages that are everyone's."""
    own = {"env.p_carry": 0.7, "augmentation.p_away": 0.1, "ppo.gae_lambda": 0.9}
    task = replace(find_task("starter"), stages=(Stage(1000, own), Stage(2000, {"env.p_lost": 0.3})))
    assert preset(task, "sm").stages == (Stage(1000, {"ppo.gae_lambda": 0.9}),)
    assert preset(task, "full").stages == task.stages


@pytest.mark.parametrize("after", [100_000_000, 300_000_000, 500_000_000, 700_000_000])
def test_rows_of_the_ablation_differ_in_one_part_at_any_time(after: int) -> None:
    """Of the humanoid's: starts from other skills, reconnection, hard ones more often, the encoder, what we add."""
    rows = [preset("ballplay", name).at(after) for name in ("sm", "sm+stg", "sm+stg+stf", "sm+stg+stf+ats", "paper")]
    parts = [{"stitch"}, {"neighbourhood", "connect"}, {"adapt"}, {"history"}]
    for one, two, part in zip(rows[:-1], rows[1:], parts, strict=True):
        here, there = ({**vars(row.env), **vars(row.augmentation)} for row in (one, two))
        assert {name for name, value in here.items() if value != there[name]} == part
        assert (one.ppo, one.encoder) == (two.ppo, two.encoder)
    assert preset("ballplay-paper", "full").stages == preset("starter", "full").stages == ()


def test_stages_that_begin_at_once_are_one() -> None:
    """Of a setting that both change, the second's value holds."""
    first = (Stage(5, {"env.insight": True, "ppo.clip": 0.1}), Stage(9, {"ppo.clip": 0.2}))
    second = (Stage(7, {"env.p_carry": 0.5}), Stage(5, {"ppo.clip": 0.3}))
    assert merged(first, second) == (
        Stage(5, {"env.insight": True, "ppo.clip": 0.3}),
        Stage(7, {"env.p_carry": 0.5}),
        Stage(9, {"ppo.clip": 0.2}),
    )
    assert merged(first, ()) == first


def test_an_option_holds_in_every_stage() -> None:
    """Whoever names a setting does not want it changed later, even if it names the one of the first stage."""
    usual = preset("ballplay", "full").stages
    assert parse(["ballplay", "--method", "full"]).config().stages == usual
    given = ["--env.clip-end=auto", "--env.no-insight", "--augmentation.p-away", "0", "--ppo.gae_lambda", "0.9"]
    config = parse(["ballplay", "--method", "full", *given]).config()
    names = {"env.clip_end", "env.insight", "augmentation.p_away", "ppo.gae_lambda"}
    assert config.stages == without(usual, names)
    last = config.in_the_end()
    assert (last.env.clip_end, last.env.insight, last.augmentation.p_away) == ("auto", False, 0)
    assert (last.ppo.gae_lambda, last.env.p_carry) == (0.9, 0.7)
    assert without(STAGES, {"env.clip_end"}) == (STAGES[1],)


def test_stages_can_be_gone_through_at_another_pace(tmp_path: Path) -> None:
    """Each begins earlier or later by one factor, and the run's configuration says when."""
    assert [stage.after for stage in paced(STAGES, 2.0)] == [UPDATE, 3 * UPDATE // 2]
    assert paced(STAGES, 1.0) == STAGES
    assert [stage.changes for stage in paced(STAGES, 0.5)] == [stage.changes for stage in STAGES]
    config = parse(["ballplay", "--method", "full", "--pace", "1.5"]).config()
    usual = preset("ballplay", "full")
    assert [stage.after for stage in config.stages] == [round(stage.after / 1.5) for stage in usual.stages]
    assert config.at(0) == replace(usual.at(0), budget=config.budget)
    assert parse(["starter"]).config().stages == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ballplay", "--pace", "0"], "a pace of 0.0 leads nowhere"),
        (["ballplay", "--pace", "nan"], "a pace of nan leads nowhere"),
        (["starter", "--pace", "2"], "there are none to go through at another pace"),
    ],
)
def test_a_pace_that_means_nothing_is_refused(arguments: list[str], message: str) -> None:
    """Instead of a training that is not what was asked for."""
    with pytest.raises(ConfigError, match=message):
        parse(arguments).config()


def test_one_command_goes_through_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two updates, one and two more: each stage is built with its settings, when the one before is gone, and goes on
    counting."""
    built: list[tuple[str, bool, float]] = []
    worlds: list[weakref.ref[ImitationEnv]] = []

    def build(config: RunConfig, *rest: Any) -> PPO:
        assert not any(env() for env in worlds)
        built.append(settings(config))
        learner = build_ppo(config, *rest)
        worlds.append(weakref.ref(learner.env))
        return learner

    monkeypatch.setattr(api, "build_ppo", build)
    assert train_run(staged(), tmp_path, progress=False)
    lam = preset("starter").ppo.gae_lambda
    assert built == [("auto", False, lam), ("loop", False, lam), ("loop", True, 0.9)]
    assert read_metrics(tmp_path / METRICS_FILE)[-1]["samples"] == 5 * UPDATE
    model, state = load_model(latest_checkpoint(tmp_path))
    assert (state.counters.updates, model.insight > 0) == (5, True)
    assert load_config(tmp_path) == staged()


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_an_interrupted_training_goes_on_in_its_stage(stop: int, tmp_path: Path) -> None:
    """Stopped before, at and after the moments when stages begin, it becomes the same policy bit for bit."""
    stages = (Stage(2 * UPDATE, {"env.clip_end": "loop"}), Stage(3 * UPDATE, {"ppo.epochs": 2}))
    train_run(staged(5, stages), tmp_path / "whole", progress=False)
    train_run(staged(stop, stages), tmp_path / "parts", progress=False)
    train_run(staged(5, stages), tmp_path / "parts", resumed=True, progress=False)
    whole, parts = (load_model(latest_checkpoint(tmp_path / name))[0].state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
    other = staged(5, stages[1:])
    train_run(other, tmp_path / "other", progress=False)
    changed_policy = load_model(latest_checkpoint(tmp_path / "other"))[0].policy.state_dict()["0.weight"]
    assert not torch.equal(changed_policy, whole["policy.0.weight"])


def test_a_critic_that_is_told_more_begins_by_disregarding_it(tmp_path: Path) -> None:
    """After a stage that adds insight it says what it said before, and soon not any more."""
    config = staged(5, ())
    before = build_ppo(config)
    before.update(0.0)
    path = save_checkpoint(tmp_path, before, Counters(updates=1), {})
    told = build_ppo(replace(config, env=replace(config.env, insight=True)))
    resume(path, told, {})
    seen, insight = before.model.normaliser(torch.randn(9, before.env.observation_size)), torch.rand(9, 10)
    insight = insight[:, : told.env.insight_size]
    torch.testing.assert_close(told.model.value(seen, insight), before.model.value(seen))
    told.update(0.0)
    new = told.model.state_dict()["critic.0.weight"][:, -told.env.insight_size :]
    assert float(new.abs().max()) > 0
    assert not torch.equal(told.model.value(seen, insight), told.model.value(seen, 0 * insight))


def test_a_learned_spread_is_the_policys_own(tmp_path: Path) -> None:
    """No stage takes it from the policy, by a preset or by hand; what is saved next says the same."""
    assert preset("courtside-laptop", "sm").in_the_end().ppo.sigma == 0.055
    assert preset("courtside-laptop", "sm+iae").in_the_end().ppo.sigma == preset("courtside-laptop").ppo.sigma == 0.03
    config = staged(5, ())
    config = replace(config, ppo=replace(config.ppo, exploration="learned", sigma=0.03))
    before = build_ppo(config)
    path = save_checkpoint(tmp_path, before, Counters(updates=1), {})
    after = build_ppo(replace(config, ppo=replace(config.ppo, sigma=0.3)))
    resume(path, after, {})
    seen, unused = torch.randn(9, before.env.observation_size), torch.zeros(())
    torch.testing.assert_close(after.model.distribution(seen, unused), before.model.distribution(seen, unused))
    again = save_checkpoint(tmp_path, after, Counters(updates=2), {})
    assert load_model(again)[1].learned_spread == 0.03


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_stages_follow_one_another_on_a_gpu(tmp_path: Path) -> None:
    """What was recorded in one stage is gone in the next, which records anew."""
    stages = (
        Stage(6 * UPDATE, {"env.clip_end": "loop"}),
        Stage(12 * UPDATE, {"env.p_carry": 0.5, "env.insight": True}),
    )
    assert train_run(replace(staged(18, stages), device="cuda"), tmp_path, progress=False)
    assert load_model(latest_checkpoint(tmp_path))[1].counters.updates == 18
