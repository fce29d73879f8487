"""Settings: what is written in a file or on the command line is checked, and named where it makes no sense."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillfield.api import train_run
from skillfield.cli.main import main
from skillfield.configuration import changed, from_dict, to_dict
from skillfield.errors import ConfigError
from skillfield.experiments.methods import METHODS
from skillfield.experiments.run import RunConfig, load_config, preset, save_config
from skillfield.experiments.shipped import shipped_policies
from skillfield.experiments.stages import Stage
from skillfield.experiments.tasks import TASKS
from skillfield.imitation import EnvConfig
from skillfield.imitation.rewards import DeepMimicWeights
from skillfield.imitation.termination import Termination
from skillfield.learning.history_encoder import EncoderConfig
from skillfield.learning.ppo import PPOConfig
from skillfield.learning.training import Budget
from skillfield.reference import Augmentation, TrackingWeights
from skillfield.reference.neighbourhood import Neighbourhood


def written(name: str, value: Any) -> dict[str, Any]:
    """The starter's configuration as in a file, with one setting by its dotted name replaced by anything."""
    values = json.loads(json.dumps(to_dict(preset("starter", "full"))))
    *groups, last = name.split(".")
    group = values
    for part in groups:
        group = group[part]
    group[last] = value
    return values


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_preset_is_read_back_as_it_was_written(task: str, method: str, tmp_path: Path) -> None:
    """Nothing that we ship is refused."""
    config = preset(task, method)
    save_config(config, tmp_path)
    assert load_config(tmp_path) == config


@pytest.mark.parametrize("method", METHODS)
def test_a_task_of_ones_own_with_a_setting_that_does_not_exist_is_refused(method: str) -> None:
    """Before it is trained: its config.json could not be read afterwards."""
    wrong = replace(TASKS["starter"](), env=EnvConfig(clip_end="looped"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r'env\.clip_end: expected one of .*, found "looped"'):
        preset(wrong, method)


def test_configurations_of_older_versions_are_still_read() -> None:
    """Those of the shipped policies lack what came later."""
    for folder in shipped_policies().values():
        assert load_config(folder).budget != Budget()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("env.clip_end", "lop", 'expected one of "auto", "continue", "stop", "loop", found "lop"'),
        ("env.reward", "SM", 'expected one of "sm", "dm", found "SM"'),
        ("env.masked", "foo", 'expected one of "zero", "mean", "skip", found "foo"'),
        ("env.history", "enc", 'expected one of "none", "encoder", "stacked", "time", found "enc"'),
        ("ppo.exploration", "lerned", 'expected one of "fixed", "learned", found "lerned"'),
        ("env.insight", "false", 'expected true or false, found "false"'),
        ("env.insight", 1, "expected true or false, found 1"),
        ("env.contact_weights", [1], "expected a list of 3, found a list of 1"),
        ("env.contact_weights", [1, 2, 3, 4], "expected a list of 3, found a list of 4"),
        ("augmentation.box", None, "expected an object for Neighbourhood, found null"),
        ("env", None, "expected an object for EnvConfig, found null"),
        ("env.termination", None, "expected an object for Termination, found null"),
        ("task", [], "expected a text, found a list of 0"),
        ("num_envs", "abc", 'expected a whole number, found "abc"'),
        ("num_envs", True, "expected a whole number, found true"),
        ("num_envs", 1.5, "expected a whole number, found 1.5"),
        ("seed", "x", 'expected a whole number, found "x"'),
        ("device", None, "expected a text, found null"),
        ("data", 5, "expected a text, found 5"),
        ("ppo.hidden", "16", 'expected a list, found "16"'),
        ("ppo.sigma", "a", 'expected a number, found "a"'),
        ("ppo.sigma", False, "expected a number, found false"),
        ("ppo.sigma", {}, "expected a number, found an object"),
        ("ppo.gae_lambda", None, "expected a number, found null"),
        ("stages", [5], "expected an object for Stage, found 5"),
        ("stages", {}, "expected a list, found an object"),
    ],
)
def test_a_value_of_another_kind_is_refused(name: str, value: Any, message: str, tmp_path: Path) -> None:
    """With the file, the setting, what it should be and what it is."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(written(name, value)))
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path)
    place = f"{name}[0]" if value == [5] else name
    assert str(refused.value) == f"{path}: {place}: {message}"


def test_an_element_of_a_list_is_named_too() -> None:
    """By its number."""
    with pytest.raises(ConfigError, match=r'^here: ppo\.hidden\[1\]: expected a whole number, found "b"$'):
        from_dict(RunConfig, written("ppo.hidden", [8, "b"]), "here")


def test_what_is_missing_is_named() -> None:
    """Only what has no usual value is needed."""
    with pytest.raises(ConfigError, match=r"^here: missing fields \['task'\] of RunConfig$"):
        from_dict(RunConfig, {"seed": 1}, "here")
    assert from_dict(RunConfig, {"task": "starter"}, "here") == RunConfig("starter")


def test_numbers_may_be_written_either_way() -> None:
    """A whole number for any number, and 5e6 for a whole one."""
    config = from_dict(RunConfig, written("budget.samples", 5e6) | {"threads": 2.0}, "here")
    assert (config.budget.samples, config.threads) == (5_000_000, 2)
    assert isinstance(config.budget.samples, int)
    assert from_dict(RunConfig, written("ppo.sigma", 1), "here").ppo.sigma == 1


POSITIVE, NUMBER, COUNT = (0.0, -1.0, math.nan, math.inf), (-1.0, math.nan, math.inf), (0, -1)
RANGES: list[tuple[Any, str, tuple[Any, ...]]] = [
    *((PPOConfig, name, COUNT) for name in ("horizon", "minibatch", "epochs")),
    (PPOConfig, "hidden", ((0,), (8, -1))),
    *((PPOConfig, name, POSITIVE) for name in ("learning_rate", "target_kl", "max_learning_rate", "sigma")),
    *((PPOConfig, name, POSITIVE) for name in ("critic_learning_rate", "sigma_final", "clip", "max_grad_norm")),
    *((PPOConfig, name, NUMBER) for name in ("learning_rate_final", "entropy_peak", "entropy_final", "bound_weight")),
    *((PPOConfig, name, (-0.1, 1.1, math.nan)) for name in ("gamma", "gae_lambda")),
    *((EnvConfig, name, COUNT) for name in ("episode_length", "history_length")),
    (EnvConfig, "contact_weights", ((1.0, -1.0, 1.0), (1.0, 1.0, math.nan))),
    (Termination, "min_root_height", (math.nan,)),
    (Termination, "max_object_distance", POSITIVE),
    (Termination, "lost_after", COUNT),
    (Termination, "lost_reward", NUMBER),
    *((EncoderConfig, name, COUNT) for name in ("size", "stride", "steps", "batch")),
    (EncoderConfig, "channels", ((8, 0, 8),)),
    (EncoderConfig, "horizons", ((0,), ())),
    *((EncoderConfig, name, NUMBER) for name in ("noise", "drift", "penalty")),
    (EncoderConfig, "learning_rate", POSITIVE),
    *((Augmentation, name, NUMBER) for name in ("frame_sharpness", "skill_sharpness", "velocity", "margin")),
    *((Budget, name, POSITIVE) for name in ("samples", "minutes")),
]


@pytest.mark.parametrize(("kind", "name", "values"), RANGES)
def test_a_value_that_makes_no_sense_is_refused(kind: Any, name: str, values: tuple[Any, ...]) -> None:
    """Whoever gives it: zero of what there must be some, less than nothing, and what is no number."""
    for value in values:
        with pytest.raises(ConfigError, match=rf"^[\w.]+: {name} is "):
            kind(**{name: value})


def test_weights_and_widths_are_numbers() -> None:
    """Of the groups below, too."""
    for config in (
        lambda: EnvConfig(weights=TrackingWeights(relative=math.nan)),
        lambda: EnvConfig(deepmimic=DeepMimicWeights(rotation=-1.0)),
        lambda: Augmentation(box=Neighbourhood(joint=math.nan)),
    ):
        with pytest.raises(ConfigError, match=r"(weights: relative|deepmimic: rotation|neighbourhood: joint) is"):
            config()


@pytest.mark.parametrize(("name", "value"), [("num_envs", 0), ("threads", -1), ("seed", 2**64)])
def test_a_run_has_worlds_threads_and_a_seed(name: str, value: int) -> None:
    """As many as make sense; a file that says otherwise is named."""
    with pytest.raises(ConfigError, match=f"^run: {name} is {value}, "):
        replace(preset("starter"), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"^here: run: {name} is {value}, "):
        from_dict(RunConfig, written(name, value), "here")


def test_an_update_needs_two_samples() -> None:
    """One world has more than one step, in every stage; many worlds may have one."""
    config = preset("starter")
    one_step = replace(config, ppo=replace(config.ppo, horizon=1))
    assert one_step.num_envs > 1
    with pytest.raises(ConfigError, match="one sample, an update needs two"):
        replace(one_step, num_envs=1)
    with pytest.raises(ConfigError, match="one sample, an update needs two"):
        replace(config, num_envs=1, stages=(Stage(100, {"ppo.horizon": 1}),))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--ppo.epochs", "0", "ppo: epochs is 0, it must be 1 or more"),
        ("--ppo.learning-rate", "nan", "ppo: learning_rate is nan, it must be positive and finite"),
        ("--ppo.hidden", "0", "ppo: hidden is (0,), it must be 1 or more"),
        ("--env.episode-length", "0", "env: episode_length is 0, it must be 1 or more"),
        ("--num-envs", "0", "run: num_envs is 0, it must be 1 or more"),
        ("--threads", "-2", "run: threads is -2, it must be finite, and 0 or more"),
        ("--minutes", "inf", "budget: minutes is inf, it must be positive and finite"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_line(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And nothing is trained."""
    assert main(["train", "starter", "--out", str(tmp_path / "run"), option, value]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not (tmp_path / "run").exists()


def test_a_training_without_a_budget_is_refused(tmp_path: Path) -> None:
    """It would never end."""
    assert RunConfig("starter").budget == Budget()
    with pytest.raises(ConfigError, match="neither samples nor minutes are given"):
        train_run(replace(preset("starter"), budget=Budget()), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_changes_are_made_together() -> None:
    """One may need the other, whichever is named first; and what they make is looked at once."""
    names = ("augmentation.connect", "augmentation.neighbourhood")
    for order in (names, names[::-1]):
        config = changed(preset("starter"), dict.fromkeys(order, True), "here")
        assert config.augmentation.connect
        assert config.augmentation.neighbourhood
    with pytest.raises(ConfigError, match=r"^here: augmentation: connect .* needs neighbourhood"):
        changed(preset("starter"), {names[0]: True}, "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ppo.gae_lambda": None}, "stages: ppo.gae_lambda: expected a number, found null"),
        ({"env.clip_end": "lop"}, "stages: env.clip_end: expected one of"),
        ({"env": {}}, "stages: 'env': a group of settings; name one of them: ['clip_end', "),
        ({"ppo.sigma": 0}, "stages: ppo: sigma is 0, it must be positive"),
        ({"env.insight": False}, "stages: 'env.insight' cannot be taken back"),
    ],
)
def test_changes_of_a_stage_are_checked(changes: dict[str, Any], message: str) -> None:
    """When the run is configured, not when they would begin."""
    config = preset("starter")
    config = replace(config, env=replace(config.env, insight=True))
    with pytest.raises(ConfigError) as refused:
        replace(config, stages=(Stage(5, changes),))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task", "courtside"),
        ("method", "dm"),
        ("seed", 1),
        ("num_envs", 8),
        ("threads", 1),
        ("device", "cpu"),
        ("data", "clips"),
        ("budget.samples", 5),
        ("encoder.size", 4),
        ("stages", []),
        ("ppo.hidden", [8]),
        ("ppo.exploration", "learned"),
        ("ppo.first_action", "demonstrated"),
        ("env.history", "time"),
        ("env.history_length", 5),
    ],
)
def test_what_a_run_is_cannot_change_in_its_course(name: str, value: Any) -> None:
    """Nor what its networks are made of."""
    stage = Stage(5, {"ppo.sigma": 0.1, name: value})
    with pytest.raises(ConfigError, match=rf"^stages: '{name}' cannot change in the course of a training$"):
        replace(preset("starter"), stages=(stage,))


def test_insight_can_be_taken_back_by_no_later_stage() -> None:
    """A stage that gives it is fine, and so is one that gives it again."""
    given, again, taken = (Stage(n + 5, {"env.insight": value}) for n, value in enumerate((True, True, False)))
    assert replace(preset("starter"), stages=(given, again)).in_the_end().env.insight
    assert not replace(preset("starter"), stages=(taken,)).in_the_end().env.insight
    with pytest.raises(ConfigError, match=r"'env\.insight' cannot be taken back"):
        replace(preset("starter"), stages=(given, again, taken))
