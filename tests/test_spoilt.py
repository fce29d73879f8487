"""What must not go on quietly: networks that are no longer finite, and damaged checkpoints or those of another run."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from puppets import pose_beside
from skillfield.api import train_run
from skillfield.clips import Clip
from skillfield.errors import CheckpointError, TrainingError
from skillfield.experiments.run import RunConfig, build_ppo, load_config, preset
from skillfield.imitation import EnvConfig, ImitationEnv, StepResult
from skillfield.imitation.termination import Termination
from skillfield.learning.checkpoint import (
    Counters,
    latest_checkpoint,
    load_model,
    resume,
    save_checkpoint,
    saved_counters,
)
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.learning.training import Budget, train_loop

UPDATE = 8 * 4


def tiny(updates: int = 2, **ppo: Any) -> RunConfig:
    """The starter, small enough for a test, with a fixed step size unless told otherwise."""
    config = preset("starter")
    small: dict[str, Any] = {"hidden": (16,), "horizon": 4, "minibatch": 16, "epochs": 1, "learning_rate_final": None}
    budget = Budget(samples=updates * UPDATE)
    return replace(config, num_envs=8, threads=1, ppo=replace(config.ppo, **(small | ppo)), budget=budget)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that went well."""
    folder = tmp_path_factory.mktemp("runs") / "good"
    assert train_run(tiny(), folder, progress=False)
    return folder


def test_a_training_that_is_spoilt_ends_at_once(tmp_path: Path) -> None:
    """Steps of an absurd size: nothing is saved, and the message says what happened and when."""
    with pytest.raises(
        TrainingError, match=rf"not finite after {UPDATE} samples: .*critic_loss; there is no checkpoint"
    ):
        train_run(tiny(epochs=3, learning_rate=1e20), tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_good_checkpoints_survive_it(run: Path, tmp_path: Path) -> None:
    """The last one is named and loads; with smaller steps the run goes on from there."""
    copy = shutil.copytree(run, tmp_path / "run")
    good = latest_checkpoint(copy)
    with pytest.raises(TrainingError) as ended:
        train_run(tiny(9, epochs=3, learning_rate=1e20), copy, resumed=True, progress=False)
    assert f"not finite after {3 * UPDATE} samples" in str(ended.value)
    assert f"the last good checkpoint is {good}: lower the step sizes of ppo (learning_rate, " in str(ended.value)
    assert latest_checkpoint(copy) == good
    assert all(value.isfinite().all() for value in load_model(good)[0].state_dict().values())
    assert load_config(copy).ppo.learning_rate == 1e20
    assert train_run(tiny(3), copy, resumed=True, progress=False)


@pytest.mark.parametrize("often", [True, False])
def test_what_the_last_step_has_spoilt_is_not_saved(
    often: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are taken before each step, so the weights are looked at, too: every minute and in the end."""
    ppo = build_ppo(tiny())
    usual, updates = ppo.update, 0

    def update(progress: float) -> dict[str, float]:
        nonlocal updates
        updates += 1
        metrics = usual(progress)
        assert all(map(math.isfinite, metrics.values()))
        if updates == 2:
            ppo.model.state_dict()["policy.0.weight"][0, 0] = math.inf
        return metrics

    monkeypatch.setattr(ppo, "update", update)
    budget, seconds = Budget(samples=2 * UPDATE), 0.0 if often else 60.0
    with pytest.raises(TrainingError, match=rf"not finite after {2 * UPDATE} samples: policy\.0\.weight; "):
        train_loop(ppo, tmp_path, budget, {}, Counters(), lambda _: None, checkpoint_seconds=seconds)
    names = [path.name for path in tmp_path.glob("checkpoints/0*")]
    assert names == (["00000001"] if often else [])


def test_an_update_without_anything_to_learn_from_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If every step was masked, the training goes on, and says nothing of what it did not measure."""
    ppo = build_ppo(tiny())
    step = ppo.env.step

    def masked(actions: Tensor) -> StepResult:
        result = step(actions)
        return replace(result, scored=result.scored & False, trained=result.trained & False)

    monkeypatch.setattr(ppo.env, "step", masked)
    seen: list[dict[str, float]] = []
    assert train_loop(ppo, tmp_path, Budget(samples=UPDATE), {}, Counters(), lambda status: seen.append(status.metrics))
    assert seen[0]["reward"] == 0.0
    assert not {"kl", "critic_loss"} & set(seen[0])


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    """Leaves something out."""
    return lambda state: {key: value for key, value in state.items() if key != name}


def with_(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    """Replaces something."""
    return lambda state: state | changes


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: {"format": 1}, "missing fields ['identity', 'counters', 'kl_factor', "),
        (lambda _: [], "checkpoint format None"),
        (without("observations"), "missing fields ['observations'] of SavedState"),
        (with_(identity=None), "identity: expected names and values, found NoneType"),
        (with_(counters=None), "counters: expected an object for Counters, found null"),
        (with_(counters={"samples": "many"}), 'counters.samples: expected a whole number, found "many"'),
        (with_(counters={"steps": 1}), "counters: unknown fields ['steps']"),
        (with_(counters={"updates": -1}), "counters: updates is -1, it must be finite, and 0 or more"),
        (with_(counters={"seconds": math.nan}), "counters: seconds is nan"),
        (with_(kl_factor=None), "kl_factor: expected a number, found null"),
        (with_(kl_factor=0), "kl_factor is 0, it must be positive"),
        (with_(hidden=16), "hidden: expected a list, found 16"),
        (with_(hidden=[0]), "hidden is (0,), it must be 1 or more"),
        (with_(actions=0), "actions is 0, it must be 1 or more"),
        (with_(insight=-1), "insight is -1"),
        (with_(learned_spread="wide"), 'learned_spread: expected a number, found "wide"'),
        (with_(history={}), "history: missing fields ['features', 'length', 'encoder']"),
        (with_(history={"features": 3, "length": 0, "encoder": {}}), "history: length is 0"),
        (with_(history={"features": 3, "length": 5, "encoder": {"size": 0}}), "encoder: size is 0"),
    ],
)
def test_a_damaged_state_is_named(
    damage: Callable[[dict[str, Any]], Any], message: str, run: Path, tmp_path: Path
) -> None:
    """With its file, whoever reads it."""
    copy = shutil.copytree(latest_checkpoint(run), tmp_path / "copy")
    state = copy / "state.json"
    state.write_text(json.dumps(damage(json.loads(state.read_text()))))
    for read in (load_model, saved_counters):
        with pytest.raises(CheckpointError) as refused:
            read(copy)
        assert str(refused.value).startswith(str(copy))
        assert message in str(refused.value)


def test_a_state_of_an_older_version_is_read(run: Path, tmp_path: Path) -> None:
    """What came later has its usual value, and what this version knows nothing of does no harm."""
    copy = shutil.copytree(latest_checkpoint(run), tmp_path / "copy")
    state = json.loads((copy / "state.json").read_text())
    for name in ("insight", "learned_spread", "history"):
        del state[name]
    (copy / "state.json").write_text(json.dumps(state | {"weather": "fine"}))
    assert load_model(copy)[1] == load_model(latest_checkpoint(run))[1]


def test_a_checkpoint_of_another_network_is_refused(run: Path) -> None:
    """One whose sizes agree, but which learns its own σ, or remembers: named by the first tensor that does not fit."""
    config = tiny()
    learned = replace(config, ppo=replace(config.ppo, exploration="learned"))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: tensor 'policy\.2\.weight' has shape"):
        resume(latest_checkpoint(run), build_ppo(learned), {})
    other = build_ppo(config)
    other.model.register_buffer("more", torch.zeros(3))
    path = save_checkpoint(run.parent / "more", other, Counters(), {})
    with pytest.raises(CheckpointError, match=r"model\.safetensors: tensors \['more'\] are of another network"):
        resume(path, build_ppo(config), {})


def test_a_resumed_run_keeps_its_step_size(tmp_path: Path) -> None:
    """What `target_kl` has made of it is part of a checkpoint, and the next update uses it."""
    config = tiny(target_kl=0.01)
    before, after = build_ppo(config), build_ppo(config)
    before.kl_factor = 0.25
    resume(save_checkpoint(tmp_path, before, Counters(), {}), after, {})
    assert after.kl_factor == 0.25
    assert after.update(0.0)["learning_rate"] == pytest.approx(0.25 * config.ppo.learning_rate)


def test_the_step_size_grows_up_to_its_limit() -> None:
    """Policies that hardly move take larger and larger steps, none larger than allowed; without a limit they go on."""
    rates = {}
    for limit in (2.5e-6, None):
        ppo = build_ppo(tiny(target_kl=1e3, learning_rate=1e-6, max_learning_rate=limit))
        rates[limit] = [ppo.update(0.0)["learning_rate"] for _ in range(5)]
    assert rates[2.5e-6] == pytest.approx([1e-6, 1.5e-6, 2.25e-6, 2.5e-6, 2.5e-6])
    assert rates[None] == pytest.approx([1.5**n * 1e-6 for n in range(5)])


def test_what_follows_an_episode_is_judged_by_what_was_known_at_its_end(
    make_clip: Callable[..., Clip], make_env: Callable[..., ImitationEnv], begin: Callable[..., None]
) -> None:
    """A critic that says which share of the clip has gone by: at a time-out that of the old episode, not that of the
    new one."""
    rules = EnvConfig(termination=Termination(None), insight=True, episode_length=4, clip_end="continue")
    env = make_env([make_clip(60)], num_envs=2, config=rules, puppet=True)
    pose_beside(env)
    model = ActorCritic(env.observation_size, env.num_actions, (), insight=env.insight_size)
    time = env.observation_size + 3
    for weight in model.critic.state_dict().values():
        weight.zero_()
    model.critic.state_dict()["0.weight"][0, time] = 60.0
    begin(env, [0, 0], [5, 21])
    rollout = PPO(env, model, PPOConfig(hidden=(), horizon=4, minibatch=8)).collect(env.observe(), 0.1)
    assert rollout.done[3].all()
    torch.testing.assert_close(rollout.bootstrap[3], torch.tensor([9.0, 25.0]))
    assert not torch.isclose(60.0 * env.insight[:, 3], rollout.bootstrap[3]).any()
