"""PPO learns, checkpoints hold everything, and a resumed run is the same run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from skillfield.errors import CheckpointError
from skillfield.experiments.run import RunConfig, build_ppo, preset
from skillfield.experiments.tasks import starter
from skillfield.imitation import EnvConfig, StepResult
from skillfield.imitation.outcome import Finals
from skillfield.learning.checkpoint import Counters, latest_checkpoint, load_model, resume, save_checkpoint
from skillfield.learning.networks import ActorCritic
from skillfield.learning.normalisation import RunningNormaliser, ValueScale
from skillfield.learning.ppo import PPO, PPOConfig
from skillfield.learning.rollout import Rollout, advantages, batches_of, clipped_objective, normalised_within
from skillfield.learning.training import Budget, TrainingStatus, train_loop

SKILLS = starter().skills


class PointEnv:
    """A point on a line that is pushed by the action and rewarded near the origin; episodes last 20 steps."""

    observation_size, num_actions, num_envs, num_skills = 1, 1, 256, 1
    skill = torch.zeros(256, dtype=torch.long)
    away = torch.zeros(256, dtype=torch.bool)
    training_done = torch.ones(())
    device = torch.device("cpu")
    config = EnvConfig()
    sampling_seconds = 0.0
    insight_size = 0
    insight = torch.zeros(256, 0)

    def reset(self) -> Tensor:
        self.x = 4 * torch.rand(self.num_envs) - 2
        self.t = torch.zeros(self.num_envs)
        return self.x.unsqueeze(1)

    def step(self, action: Tensor) -> StepResult:
        self.x = self.x + 0.3 * action.squeeze(1).clamp(-1, 1)
        self.t += 1
        reward = torch.exp(-self.x.square())
        over = self.t >= 20
        finished = torch.nonzero(over).squeeze(1)
        finals = Finals(finished, self.x[finished].unsqueeze(1), self.insight[finished])
        self.x[finished] = 4 * torch.rand(len(finished)) - 2
        self.t[finished] = 0
        none = torch.zeros_like(over)
        return StepResult(self.x.unsqueeze(1).clone(), reward, ~none, ~none, ~none, none, over, over, finals)


def test_advantages_are_normalised_within_their_skill() -> None:
    """By hand; a group of one is only centred."""
    values, group = torch.tensor([1.0, 3.0, 10.0, 30.0, 20.0, 7.0]), torch.tensor([0, 0, 1, 1, 1, 3])
    expected = torch.tensor([-(0.5**0.5), 0.5**0.5, -1.0, 1.0, 0.0, 0.0])
    torch.testing.assert_close(normalised_within(values, group, 4), expected)


def test_steps_without_objects_are_a_kind_of_their_own() -> None:
    """So a life without the ball that earns a hundred times as much leaves those with it their advantages; without
    `by_skill` all are of one kind."""
    rollout = SimpleNamespace(skill=torch.tensor([[0, 1, 0, 1]]), away=torch.tensor([[False, False, True, True]]))
    assert Rollout.kind(rollout, True).tolist() == [[0, 2, 1, 3]]  # type: ignore[arg-type]
    assert Rollout.kind(rollout, False).tolist() == [[0, 0, 0, 0]]  # type: ignore[arg-type]


def test_a_learner_normalises_advantages_kind_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards a hundred times as large without objects change nothing in the advantages of the rest."""

    class Half(PointEnv):
        """Every other world is without objects, and earns more."""

        factor = 1.0
        away = torch.arange(256) % 2 == 1

        def step(self, action: Tensor) -> StepResult:
            result = super().step(action)
            more = torch.where(self.away, self.factor * result.reward, result.reward)
            return replace(result, reward=more, scored=~self.away, earning=~self.away)

    learned = []
    for by_skill, factor in ((True, 1.0), (True, 100.0), (False, 100.0)):
        torch.manual_seed(0)
        env = Half()
        env.factor = factor
        config = PPOConfig(hidden=(8,), horizon=4, minibatch=64, epochs=1, by_skill=by_skill)
        learner = PPO(env, ActorCritic(1, 1, (8,)), config)  # type: ignore[arg-type]
        monkeypatch.setattr(learner.model, "value", lambda seen, insight: torch.zeros(seen.shape[:-1]))
        figures = learner.update(0.0)
        assert (figures["away"], figures["earning"]) == (0.5, 0.5)  # the rest earns something, and is not scored
        assert learner._lesson is not None
        learned.append(learner._lesson.advantage.reshape(4, -1)[:, ::2].clone())
    torch.testing.assert_close(learned[0], learned[1])
    assert learned[2].std() < 0.1 * learned[0].std()


def test_what_is_seen_without_objects_does_not_count_for_the_normaliser() -> None:
    """An object far away in half of the worlds would make every near one look the same; those are cut off instead."""

    class Far(PointEnv):
        """Every other point is out of reach, a thousand times as far away."""

        away = torch.arange(256) % 2 == 1

        def step(self, action: Tensor) -> StepResult:
            result = super().step(action)
            return replace(result, observation=torch.where(self.away[:, None], 1000.0, result.observation))

    env = Far()
    learner = PPO(env, ActorCritic(1, 1, (8,)), PPOConfig(hidden=(8,), horizon=4, minibatch=64, epochs=1))  # type: ignore[arg-type]
    torch.manual_seed(0)
    learner.collect(env.reset(), 0.1)
    normaliser = learner.model.normaliser
    assert int(normaliser.count) == 4 * 128
    assert float(normaliser.variance.sqrt()) < 3.0
    assert normaliser(torch.tensor([[1000.0]])).tolist() == [[5.0]]
    before = normaliser.variance.clone()
    env.away = torch.ones(256, dtype=torch.bool)  # nobody has an object
    learner.collect(env.reset(), 0.1)
    assert int(normaliser.count) == 4 * 128
    assert torch.equal(normaliser.variance, before)


def small_run(**changes: object) -> RunConfig:
    """The starter, small enough for a test."""
    config = preset("starter")
    ppo = replace(config.ppo, hidden=(32, 16), horizon=4, minibatch=64, epochs=2)
    return replace(config, num_envs=32, ppo=ppo, budget=Budget(samples=32 * 4 * 20), **changes)  # type: ignore[arg-type]


def test_ppo_solves_a_point_that_must_go_to_the_origin() -> None:
    """After 40 updates the mean action steers towards the origin from either side, and the reward is near its best."""
    torch.manual_seed(0)
    env = PointEnv()
    model = ActorCritic(1, 1, (32, 32))
    learner = PPO(env, model, PPOConfig(hidden=(32, 32), horizon=20, minibatch=1280, learning_rate=3e-3, sigma=0.3))  # type: ignore[arg-type]
    first = learner.update(0.0)["reward"]
    for _ in range(40):
        last = learner.update(0.0)["reward"]
    right, left = model.act(torch.tensor([[1.5], [-1.5]])).squeeze(1).tolist()
    assert right < -0.5
    assert left > 0.5
    assert last > first + 0.25


def test_an_update_of_one_step_is_measured_after_it() -> None:
    """Before it nothing has moved, and a step size that adapts to that would grow without end."""
    torch.manual_seed(0)
    config = PPOConfig(hidden=(8,), horizon=4, minibatch=4096, epochs=1, learning_rate=1e-2, target_kl=1e-4)
    learner = PPO(PointEnv(), ActorCritic(1, 1, (8,)), config)  # type: ignore[arg-type]
    metrics = learner.update(0.0)
    rollout = learner._rollout
    assert rollout is not None
    with torch.no_grad():
        mean, log_sigma = learner.model.distribution(rollout.observation, learner._log_sigma)
        change = -(0.5 * ((rollout.action - mean) / log_sigma.exp()).square() + log_sigma).sum(-1) - rollout.log_prob
    assert metrics["kl"] == pytest.approx(float((change.exp() - 1 - change).mean()), rel=1e-3)
    assert metrics["kl"] > 2e-4
    assert learner.kl_factor == pytest.approx(1 / 1.5)


def test_without_samples_nothing_is_said_of_a_step_and_nothing_adapts() -> None:
    """What was not measured is no divergence of zero."""

    class Masked(PointEnv):
        """Nothing is compared with anything."""

        def step(self, action: Tensor) -> StepResult:
            result = super().step(action)
            return replace(result, trained=~result.trained)

    learner = PPO(Masked(), ActorCritic(1, 1, (8,)), PPOConfig(hidden=(8,), horizon=2, target_kl=0.02))  # type: ignore[arg-type]
    assert not {"kl", "clipped", "critic_loss"} & set(learner.update(0.0))
    assert learner.kl_factor == 1.0


def test_a_small_rest_joins_the_minibatch_before_it() -> None:
    """From half of a minibatch on it is one of its own; every sample is in one of them."""
    for count, sizes in ((9, [4, 5]), (10, [4, 4, 2]), (8, [4, 4]), (5, [5]), (3, [3]), (1, [1])):
        batches = batches_of(count, 4)
        assert [len(batch) for batch in batches] == sizes
        assert torch.cat(batches).tolist() == list(range(count))
    learner = PPO(PointEnv(), ActorCritic(1, 1, (8,)), PPOConfig(hidden=(8,), horizon=2, minibatch=100, epochs=2))  # type: ignore[arg-type]
    trained = torch.arange(201) + 50
    batches = learner._batches(trained)
    assert [len(batch) for batch in batches] == [100, 101] * 2
    assert torch.equal(torch.cat(batches[2:]).sort().values, trained)


def test_advantages_match_a_hand_computed_example() -> None:
    """γ = 0.5, λ = 0.5, three steps, no end: δ = r + γV' - V and A = δ + γλA'."""
    reward = torch.tensor([[1.0], [2.0], [3.0]])
    value = torch.tensor([[0.5], [1.0], [2.0]])
    none = torch.zeros(3, 1, dtype=torch.bool)
    result = advantages(reward, value, torch.tensor([4.0]), none, torch.zeros(3, 1), 0.5, 0.5)
    deltas = [1 + 0.5 * 1 - 0.5, 2 + 0.5 * 2 - 1, 3 + 0.5 * 4 - 2]
    expected = [deltas[0] + 0.25 * (deltas[1] + 0.25 * deltas[2]), deltas[1] + 0.25 * deltas[2], deltas[2]]
    torch.testing.assert_close(result.squeeze(1), torch.tensor(expected))


def test_a_time_out_bootstraps_from_its_final_observation_and_a_failure_from_nothing() -> None:
    """At an end the next value is the bootstrap, and later steps of the next episode do not leak back."""
    reward, value = torch.tensor([[1.0, 1.0], [9.0, 9.0]]), torch.zeros(2, 2)
    done = torch.tensor([[True, True], [False, False]])
    bootstrap = torch.tensor([[5.0, 0.0], [0.0, 0.0]])
    result = advantages(reward, value, torch.zeros(2), done, bootstrap, 0.9, 0.95)
    torch.testing.assert_close(result[0], torch.tensor([1 + 0.9 * 5, 1.0]))


def test_an_episode_whose_end_was_not_seen_is_cut_off_one_step_earlier() -> None:
    """The step before bootstraps from the value of the last one, whose own advantage is nothing."""
    reward, value = torch.tensor([[1.0], [7.0], [9.0]]), torch.tensor([[2.0], [3.0], [4.0]])
    end = torch.tensor([[False], [True], [False]])
    result = advantages(reward, value, torch.zeros(1), end, torch.zeros(3, 1), 0.9, 0.95, end)
    torch.testing.assert_close(result[:2, 0], torch.tensor([1 + 0.9 * 3 - 2, 0.0]))


def test_the_clipped_objective_stops_rewarding_large_changes() -> None:
    """A good action gains nothing beyond 1 + ε; a bad one is charged in full."""
    ratio, advantage = torch.tensor([1.5, 0.5, 1.5]), torch.tensor([1.0, 1.0, -1.0])
    torch.testing.assert_close(clipped_objective(ratio, advantage, 0.2), torch.tensor([1.2, 0.5, -1.5]))


def test_the_normaliser_agrees_with_the_whole_data() -> None:
    """Folding in batches gives the mean and variance of all of it."""
    data = torch.randn(1000, 3) * torch.tensor([1.0, 5.0, 0.1]) + torch.tensor([0.0, 3.0, -2.0])
    normaliser = RunningNormaliser(3)
    for batch in data.split([100, 700, 200]):
        normaliser.update(batch)
    torch.testing.assert_close(normaliser.mean, data.mean(0), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(normaliser.variance, data.var(0, unbiased=False), atol=1e-3, rtol=1e-3)
    assert float(normaliser(torch.full((1, 3), 1e6)).abs().max()) == 5.0


def test_moving_the_value_scale_keeps_predictions() -> None:
    """New statistics of returns rescale the last layer, so that the critic says the same in real units."""
    torch.manual_seed(0)
    head, scale = torch.nn.Linear(4, 1), ValueScale()
    x = torch.randn(10, 4)
    scale.update(torch.randn(100) * 3 + 7, head)
    before = scale.to_real(head(x))
    scale.update(torch.randn(100) * 30 - 70, head)
    torch.testing.assert_close(scale.to_real(head(x)), before, atol=1e-4, rtol=1e-4)


def run_updates(config: RunConfig, folder: Path, updates: int, resumed: bool = False) -> PPO:
    learner = build_ppo(config)
    counters = resume(latest_checkpoint(folder), learner, config.identity(SKILLS)) if resumed else Counters()
    samples = counters.samples + updates * learner.samples_per_update
    # the whole budget stays the same, so that schedules do too: stop by hand
    for _ in range(updates):
        learner.update(config.budget.progress(counters))
        counters.updates += 1
        counters.samples += learner.samples_per_update
    assert counters.samples == samples
    save_checkpoint(folder, learner, counters, config.identity(SKILLS))
    return learner


def test_ten_updates_and_ten_more_are_twenty_bit_for_bit(tmp_path: Path) -> None:
    """Networks, optimisers, normalisers, worlds and random numbers all survive a checkpoint exactly."""
    config = small_run()
    whole = run_updates(config, tmp_path / "whole", 20)
    run_updates(config, tmp_path / "parts", 10)
    torch.manual_seed(12345)  # a resumed process has another random state until the checkpoint restores it
    parts = run_updates(config, tmp_path / "parts", 10, resumed=True)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, parts.model.state_dict()[name]), name
    for name, value in whole.env.snapshot().items():
        assert torch.equal(value, parts.env.snapshot()[name]), name
    first, second = (p.policy_optimiser.state_dict()["state"][0]["exp_avg"] for p in (whole, parts))
    assert torch.equal(first, second)


def test_the_training_loop_writes_a_checkpoint_and_reports_every_update(tmp_path: Path) -> None:
    """It stops at the budget and says what it did."""
    config = replace(small_run(), budget=Budget(samples=32 * 4 * 3))
    seen: list[TrainingStatus] = []
    finished = train_loop(build_ppo(config), tmp_path, config.budget, config.identity(SKILLS), Counters(), seen.append)
    assert finished
    assert [status.counters.updates for status in seen][-1] == 3
    assert set(seen[0].skill_reward) == set(SKILLS)
    assert load_model(latest_checkpoint(tmp_path))[1].counters.samples == 32 * 4 * 3


def test_a_training_from_an_earlier_checkpoint_replaces_the_later_ones(tmp_path: Path) -> None:
    """Whoever goes back and learns otherwise gets what was learned, though the number of updates is the same."""
    config = small_run()
    run_updates(config, tmp_path, 1)
    first = (tmp_path / "checkpoints" / "latest").read_text()
    later = run_updates(config, tmp_path, 1, resumed=True)
    (tmp_path / "checkpoints" / "latest").write_text(first)
    other = replace(config, ppo=replace(config.ppo, learning_rate=0.01))
    learner = run_updates(other, tmp_path, 1, resumed=True)
    networks = (load_model(latest_checkpoint(tmp_path))[0], learner.model, later.model)
    saved, wanted, older = (model.state_dict()["policy.0.weight"] for model in networks)
    assert torch.equal(saved, wanted)
    assert not torch.equal(saved, older)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    run_updates(small_run(), folder, 1)
    return folder


def test_a_checkpoint_of_another_task_is_refused_by_name(checkpoint: Path) -> None:
    """Both names are in the message."""
    with pytest.raises(CheckpointError, match=r"task of the checkpoint is 'starter', this run has 'other'"):
        load_model(latest_checkpoint(checkpoint), {"task": "other"})


def test_a_checkpoint_of_another_version_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """Both versions are in the message."""
    copy = shutil.copytree(latest_checkpoint(checkpoint), tmp_path / "copy")
    state = json.loads((copy / "state.json").read_text())
    (copy / "state.json").write_text(json.dumps(state | {"format": 99}))
    with pytest.raises(CheckpointError, match=r"checkpoint format 99, this version reads 1"):
        load_model(copy)


def test_other_network_sizes_are_refused_with_both_shapes(checkpoint: Path) -> None:
    """A run with other layers cannot be resumed from it."""
    config = small_run()
    other = build_ppo(replace(config, ppo=replace(config.ppo, hidden=(8,))))
    with pytest.raises(CheckpointError, match=r"\(32, 16\).*\(8,\)"):
        resume(latest_checkpoint(checkpoint), other, config.identity(SKILLS))


def test_damaged_and_missing_files_are_named(checkpoint: Path, tmp_path: Path) -> None:
    """Truncated tensors, broken JSON, no checkpoint at all."""
    copy = shutil.copytree(latest_checkpoint(checkpoint), tmp_path / "copy")
    (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load_model(copy)
    (copy / "state.json").write_text('{"format": 1,')
    with pytest.raises(CheckpointError, match=r"state\.json"):
        load_model(copy)
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        latest_checkpoint(tmp_path / "nothing")


def test_a_full_disk_leaves_the_last_checkpoint_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing half-written stays behind, and the run can still be loaded."""
    config = small_run()
    learner = run_updates(config, tmp_path, 1)
    before = latest_checkpoint(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("skillfield.learning.checkpoint.save_file", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        save_checkpoint(tmp_path, learner, Counters(samples=1, updates=2), config.identity(SKILLS))
    assert latest_checkpoint(tmp_path) == before
    load_model(before)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [before.name, "latest"]
