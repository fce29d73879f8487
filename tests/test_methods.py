"""Methods: every row of the paper's tables is a value that reaches the run, trains, and can be resumed."""

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from skillfield.errors import ConfigError
from skillfield.experiments.methods import METHODS, method
from skillfield.experiments.published import PAIRS, PUBLISHED
from skillfield.experiments.run import RunConfig, build_ppo, load_config, preset, save_config
from skillfield.experiments.tables import EXPERIMENTS
from skillfield.experiments.tasks import starter
from skillfield.experiments.tasks import task as task_named
from skillfield.imitation import EnvConfig
from skillfield.learning.checkpoint import Counters, latest_checkpoint, load_model, resume, save_checkpoint
from skillfield.learning.networks import ActorCritic
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.learning.rollout import Rollout
from skillfield.learning.training import Budget

SKILLS = starter().skills


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Encoders trained here are nobody else's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def tiny(name: str, **changes: Any) -> RunConfig:
    """A method on the starter task, small enough for a test."""
    config = preset("starter", name)
    ppo = replace(config.ppo, hidden=(32, 16), horizon=4, minibatch=64, epochs=2)
    encoder = replace(config.encoder, channels=(8, 8, 4), steps=5, batch=16, hidden=(8,))
    return replace(
        config, num_envs=32, threads=1, ppo=ppo, encoder=encoder, budget=Budget(samples=32 * 4 * 20), **changes
    )


def first_layer(learner: PPO) -> Tensor:
    """Weights of the policy as they are now."""
    return learner.model.state_dict()["policy.0.weight"].clone()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains(name: str) -> None:
    """It builds, and two updates change the policy and leave every number finite."""
    learner = build_ppo(tiny(name))
    before = first_layer(learner)
    for progress in (0.0, 0.5):
        metrics = learner.update(progress)
        assert all(math.isfinite(value) for value in metrics.values())
    assert not torch.equal(first_layer(learner), before)
    assert all(value.isfinite().all() for value in learner.model.state_dict().values())


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_switches_on_reaches_the_run(name: str, tmp_path: Path) -> None:
    """Reward, starts, memory and exploration are those of the method; all else is the task's; a file keeps it."""
    switches, task, config = method(name), starter(), preset("starter", name)
    augmentation = config.augmentation
    assert (config.env.reward, config.env.history) == (switches.reward, switches.history)
    assert config.ppo.exploration == switches.exploration
    assert augmentation.neighbourhood == (switches.nsi or switches.stf)
    assert (augmentation.connect, augmentation.stitch, augmentation.adapt) == (switches.stf, switches.stg, switches.ats)
    assert replace(config.env, reward="sm", history="none") == task.env
    assert replace(config.ppo, exploration="fixed") == task.ppo
    off = {"neighbourhood": False, "connect": False, "stitch": False, "adapt": False}
    assert replace(augmentation, **off) == task.augmentation  # type: ignore[arg-type]
    save_config(config, tmp_path)
    assert load_config(tmp_path) == config


def test_the_tables_of_the_paper_have_their_rows() -> None:
    """The ablation adds one part at a time, and the full method has them all."""
    parts = {name: (row.nsi, row.stf, row.stg, row.ats, row.history) for name, row in METHODS.items()}
    assert parts["sm"] == parts["dm"] == parts["sm+iae"] == (False, False, False, False, "none")
    assert parts["sm+nsi"] == parts["dm+nsi"] == (True, False, False, False, "none")
    assert parts["sm+stg+stf"] == (False, True, True, False, "none")
    assert parts["sm+stg+stf+ats"] == (False, True, True, True, "none")
    assert parts["full"] == parts["dm+full"] == parts["paper"] == (False, True, True, True, "encoder")
    assert parts["sm+own"] == parts["sm"]
    assert {name for name, row in METHODS.items() if row.own} == {"full", "dm+full", "sm+own"}
    assert (parts["sm+t"][4], parts["sm+hs"][4]) == ("time", "stacked")
    assert {name for name, row in METHODS.items() if row.reward == "dm"} == {"dm", "dm+nsi", "dm+full"}
    with pytest.raises(ConfigError, match="unknown method 'amp'; known: sm, sm\\+nsi"):
        method("amp")


def test_a_method_without_states_of_its_own_starts_on_demonstrations_alone() -> None:
    """Whatever the task asks for; everything else is the same as with them."""
    chosen = task_named("ballplay")
    chosen = replace(chosen, env=replace(chosen.env, p_carry=0.7, p_lost=0.3), stages=(), own_stages=())
    chosen = replace(chosen, augmentation=replace(chosen.augmentation, p_away=0.1))
    for plain, own in (("sm", "sm+own"), ("paper", "full")):
        without, with_them = preset(chosen, plain), preset(chosen, own)
        assert (without.env.p_carry, without.env.p_lost, without.augmentation.p_away) == (0, 0, 0)
        assert (with_them.env.p_carry, with_them.env.p_lost, with_them.augmentation.p_away) == (0.7, 0.3, 0.1)
        there = replace(without.env, p_carry=0.7, p_lost=0.3)
        away = replace(without.augmentation, p_away=0.1)
        assert replace(without, method=own, env=there, augmentation=away) == with_them


def test_parts_that_are_off_cost_nothing() -> None:
    """Plain SkillMimic builds no field, no graph, no history and no encoder; the full method all of them."""
    plain: Any = build_ppo(tiny("sm"))
    full: Any = build_ppo(tiny("full"))
    assert (plain.env.sampler.field, plain.env.sampler.graph, plain.env.history, plain.model.encoder) == (None,) * 4
    assert None not in (full.env.sampler.field, full.env.sampler.graph, full.env.history, full.model.encoder)
    assert full.env.observation_size == plain.env.observation_size + 3


def updates(learner: PPO, config: RunConfig, counters: Counters, count: int) -> None:
    """Some more updates of a run with an unchanging budget."""
    for _ in range(count):
        learner.update(config.budget.progress(counters))
        counters.updates += 1
        counters.samples += learner.samples_per_update


@pytest.mark.parametrize("name", ["full", "sm+iae"])
def test_a_resumed_run_is_the_same_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten updates and ten more are twenty, bit for bit: hard starts, graph, memory and learned σ included."""
    config = tiny(name)
    identity = config.identity(SKILLS)
    whole, half = build_ppo(config), Counters()
    updates(whole, config, half, 10)
    save_checkpoint(tmp_path, whole, half, identity)
    updates(whole, config, Counters(half.samples, half.updates), 10)
    torch.manual_seed(12345)  # a resumed process has another random state until the checkpoint restores it
    monkeypatch.delattr("skillfield.experiments.run.pretrained_encoder")  # its encoder is in the checkpoint
    parts = build_ppo(config, begun=True)
    counters = resume(latest_checkpoint(tmp_path), parts, identity)
    assert counters == half
    updates(parts, config, counters, 10)
    ours, theirs = (
        learner.model.state_dict()
        | {f"env/{key}": value for key, value in learner.env.snapshot().items()}
        | {f"sampler/{key}": value for key, value in learner.env.sampler.state_dict().items()}
        for learner in (whole, parts)
    )
    assert set(ours) == set(theirs)
    for key, value in ours.items():
        assert torch.equal(value, theirs[key]), key


def test_a_learned_spread_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    """Loaded, the policy has the same mean and the same σ; its mean alone is what acts."""
    config = tiny("sm+iae")
    learner = build_ppo(config)
    learner.update(0.3)
    save_checkpoint(tmp_path, learner, Counters(128, 1), config.identity(SKILLS))
    model, _ = load_model(latest_checkpoint(tmp_path))
    seen = torch.randn(7, learner.env.observation_size)
    for ours, theirs in zip(
        learner.model.distribution(seen, torch.tensor(0.5).log()),
        model.distribution(seen, torch.tensor(0.5).log()),
        strict=True,
    ):
        assert torch.equal(ours, theirs)
    assert model.act(seen).shape == (7, learner.env.num_actions)


def test_the_entropy_weight_rises_and_is_annealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From nothing to its peak at a twentieth of the budget, then down to the end; without a learned σ it is zero."""
    weights: list[float] = []

    def improve(rollout: object, sigma: float, rate: float, entropy_weight: float = 0.0) -> dict[str, float]:
        weights.append(entropy_weight)
        return {"kl": 0.0}

    for name in ("sm+iae", "sm"):
        learner = build_ppo(tiny(name))
        monkeypatch.setattr(learner, "collect", lambda *_: None)
        monkeypatch.setattr(learner, "improve", improve)
        for progress in (0.0, 0.025, 0.05, 0.525, 1.0):
            learner.update(progress)
    middle = (5e-4 + 1e-5) / 2
    assert weights == pytest.approx([0.0, 2.5e-4, 5e-4, middle, 1e-5, 0.0, 0.0, 0.0, 0.0, 0.0], abs=1e-12)


def rates_for(
    divergences: list[float], progress: list[float], monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> list[float]:
    """Step sizes of updates that move the policy so far; the first is 1e-4."""
    config = tiny("sm")
    learner = build_ppo(
        replace(config, ppo=replace(config.ppo, learning_rate=1e-4, learning_rate_final=None, **settings))
    )
    moved = iter(divergences)
    monkeypatch.setattr(learner, "collect", lambda *_: None)
    monkeypatch.setattr(learner, "improve", lambda *_: {"kl": next(moved)})
    return [learner.update(share)["learning_rate"] for share in progress]


def test_the_step_size_follows_the_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up by half where the policy moved less than half the target, down where more than twice; not beyond its limit."""
    start = [0.0] * 5
    assert rates_for([9.0] * 5, start, monkeypatch) == pytest.approx([1e-4] * 5)
    rates = rates_for([0.01, 0.03, 0.07, 0.001, 0.0], start, monkeypatch, target_kl=0.03)
    assert rates == pytest.approx([1e-4, 1.5e-4, 1.5e-4, 1e-4, 1.5e-4])
    rates = rates_for([0.0] * 5, start, monkeypatch, target_kl=0.03, max_learning_rate=2e-4)
    assert rates == pytest.approx([1e-4, 1.5e-4, 2e-4, 2e-4, 2e-4])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"target_kl": 0.03}, [8e-4, 12e-4]),
        ({"target_kl": 0.03, "max_learning_rate": 5e-4}, [5e-4, 5e-4]),
        ({"target_kl": 0.03, "max_learning_rate": 5e-5}, [5e-5, 5e-5]),
        ({"target_kl": None}, [1e-4, 1e-4]),
        ({"target_kl": 0.03, "guided": True}, [1e-4, 1e-4]),
    ],
)
def test_what_has_become_of_the_step_size_holds_where_it_adapts(
    settings: dict[str, Any], expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on, as each stage does, takes it within its limit, and otherwise the step size that is set."""
    monkeypatch.setattr("skillfield.learning.ppo.Guidance", lambda env: None)
    config = tiny("sm")
    ppo = replace(config.ppo, learning_rate=1e-4, learning_rate_final=None)
    before = build_ppo(replace(config, ppo=ppo))
    before.kl_factor = 8.0
    path = save_checkpoint(tmp_path, before, Counters(updates=1), {})
    learner = build_ppo(replace(config, ppo=replace(ppo, **settings)))
    resume(path, learner, {})
    monkeypatch.setattr(learner, "collect", lambda *_: None)
    monkeypatch.setattr(learner, "improve", lambda *_: {"kl": 0.0})
    assert [learner.update(0.0)["learning_rate"] for _ in range(2)] == pytest.approx(expected)
    if expected[0] == 1e-4:
        assert learner.kl_factor == 8.0


def test_the_critic_may_have_a_step_size_of_its_own() -> None:
    """Otherwise it has the policy's, which the divergence holds back; its own is held back by nothing."""
    rates = {}
    for own in (None, 3e-4):
        config = tiny("sm")
        ppo = replace(config.ppo, learning_rate=1e-4, target_kl=1e-9, critic_learning_rate=own)
        learner = build_ppo(replace(config, ppo=ppo))
        for _ in range(3):
            learner.update(0.0)
        optimisers = (learner.policy_optimiser, learner.critic_optimiser)
        rates[own] = [optimiser.param_groups[0]["lr"] for optimiser in optimisers]
    held_back = 1e-4 / 1.5**2
    assert rates[None] == pytest.approx([held_back, held_back])
    assert rates[3e-4] == pytest.approx([held_back, 3e-4])


@torch.no_grad()
def test_a_learned_spread_stays_within_its_limits() -> None:
    """log σ starts at its initial value and is never more than 0.1 under or 1.1 above it, whatever is seen."""
    model = ActorCritic(4, 2, (8,), learned_spread=0.055)
    start = math.log(0.055)
    _, log_sigma = model.distribution(torch.zeros(1, 4), torch.tensor(0.5).log())
    assert float((log_sigma - start).abs().max()) < 0.1
    _, extreme = model.distribution(1e4 * torch.randn(500, 4), torch.tensor(0.5).log())
    assert float(extreme.min()) == pytest.approx(start - 0.1, abs=1e-5)
    assert float(extreme.max()) == pytest.approx(start + 1.1, abs=1e-5)


def test_a_fixed_spread_is_the_one_given() -> None:
    """The same for every state and action."""
    mean, log_sigma = ActorCritic(4, 2, (8,)).distribution(torch.randn(5, 4), torch.tensor(0.08).log())
    assert mean.shape == log_sigma.shape == (5, 2)
    torch.testing.assert_close(log_sigma, torch.full((5, 2), math.log(0.08)))


def idle_rollout(model: ActorCritic) -> Rollout:
    """Four steps of sixteen environments in one state with nothing to gain: only entropy is left to climb."""
    with torch.no_grad():
        mean, log_sigma = model.distribution(torch.zeros(4, 16, 1), torch.tensor(0.1).log())
        noise = torch.randn_like(mean)
    yes = torch.ones(4, 16, dtype=torch.bool)
    values = {
        "raw": torch.zeros(4, 16, 1),
        "observation": torch.zeros(4, 16, 1),
        "insight": torch.zeros(4, 16, 0),
        "action": mean + log_sigma.exp() * noise,
        "log_prob": -(0.5 * noise.square() + log_sigma).sum(-1),
        "guide": torch.zeros(4, 16, 0),
        "reward": torch.zeros(4, 16),
        "done": ~yes,
        "scored": yes,
        "earning": ~yes,
        "trained": yes,
        "bootstrap": torch.zeros(4, 16),
        "cut": torch.zeros(4, 16, dtype=torch.bool),
        "skill": torch.zeros(4, 16, dtype=torch.long),
        "away": ~yes,
        "last_observation": torch.zeros(16, 1),
        "last_insight": torch.zeros(16, 0),
    }
    return Rollout(**{field.name: values[field.name] for field in fields(Rollout)})


def test_entropy_raises_the_learned_spread_and_the_log_says_so() -> None:
    """With nothing else to learn σ grows, up to its limit, and the reported σ is the policy's own."""
    env: Any = SimpleNamespace(config=EnvConfig(), device=torch.device("cpu"), num_envs=16, num_skills=1)
    model = ActorCritic(1, 2, (8,), learned_spread=0.1)
    learner = PPO(env, model, PPOConfig(hidden=(8,), minibatch=64, exploration="learned"))
    said = [learner.improve(idle_rollout(model), 0.1, 1e-2, entropy_weight=1.0)["sigma"] for _ in range(30)]
    now = float(model.distribution(torch.zeros(1, 1), torch.tensor(0.1).log())[1].exp().mean().detach())
    assert 0.09 < said[0] < 0.15 < said[-1] <= 0.1 * math.exp(1.1) + 1e-6
    assert said[-1] == pytest.approx(now, rel=0.05)


def test_published_figures_agree_with_their_own_averages() -> None:
    """The paper's averages are means of its skills and pairs, to the last digit; every row is one of ours."""
    assert set(PUBLISHED["ballplay"]) < {row.label for table in EXPERIMENTS.values() for row in table.rows}
    skills = task_named("ballplay").skills
    for name, row in PUBLISHED["ballplay"].items():
        if f"success_rate/{skills[0]}" in row:
            for metric, digit in (("success_rate", 1e-3), ("neighbourhood_rate", 1e-3), ("normalised_reward", 1e-2)):
                mean = sum(row[f"{metric}/{skill}"] for skill in skills) / len(skills)
                assert mean == pytest.approx(row[metric], abs=digit), (name, metric)
            across = [row[f"transition_rate/{source}/{target}"] for source, target in PAIRS["ballplay"].values()]
            assert sum(across) / 4 == pytest.approx(row["paper_transition_rate"], abs=1e-3), name
