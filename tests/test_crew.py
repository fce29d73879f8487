"""Who runs trials: how they are divided, that the figures do not depend on it, and how it ends."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from skillfield.clips import Clip
from skillfield.evaluation import KeepRule, TrialPlan, evaluate_policy
from skillfield.evaluation.crew import Crew
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.learning.rollout import full_batches

CPU = torch.device("cpu")
PLAN = TrialPlan(rules={"sway": KeepRule(2.0), "swing": KeepRule(0.5)}, seconds=0.5)

MakeEnv = Callable[[int], ImitationEnv]


@pytest.fixture
def make(make_clip: Callable[..., Clip], make_env: Callable[..., ImitationEnv]) -> MakeEnv:
    """Environments of two short clips."""
    clips = [make_clip(20), make_clip(16, skill="swing")]
    return lambda count: make_env(clips, count)


def no_env(count: int) -> ImitationEnv:
    """For work that looks at none."""
    env = object.__new__(ImitationEnv)
    env.num_envs = count
    return env


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (1, [1]),
        (63, [63]),  # two of them would be too small
        (64, [32, 32]),
        (790, [99] * 7 + [97]),
        (2048, [256] * 8),
        (5000, [250] * 20),
    ],
)
def test_a_cpu_has_about_eight_batches_if_they_are_neither_small_nor_large(count: int, sizes: list[int]) -> None:
    """Every trial is in one of them, in order."""
    batches = Crew(no_env, CPU, 1).batches(count)
    assert [len(batch) for batch in batches] == sizes
    assert torch.equal(torch.cat(batches), torch.arange(count))


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order_whoever_is_first(workers: int) -> None:
    """Later batches are quicker."""

    def work(_: ImitationEnv, batch: Tensor) -> int:
        time.sleep(0.02 / (1 + int(batch[0])))
        return int(batch[0])

    crew = Crew(no_env, CPU, 1, workers)
    assert crew.run(work, 200) == [int(batch[0]) for batch in crew.batches(200)]


def test_no_two_batches_share_worlds() -> None:
    """While one is run, no other has its environment; and a worker keeps what fits."""
    made: list[ImitationEnv] = []
    used, lock = set[int](), threading.Lock()

    def make(count: int) -> ImitationEnv:
        made.append(no_env(count))
        return made[-1]

    def work(env: ImitationEnv, batch: Tensor) -> None:
        assert env.num_envs == len(batch)
        with lock:
            assert id(env) not in used
            used.add(id(env))
        time.sleep(0.005)
        with lock:
            used.remove(id(env))

    Crew(make, CPU, 1, workers=2).run(work, 64 * 32)
    assert 1 <= len(made) <= 2


def test_figures_do_not_depend_on_the_number_of_workers(make: MakeEnv) -> None:
    """To the bit; and at the end as many steps have been simulated as were expected."""
    env = make(1)
    torch.manual_seed(0)
    model = ActorCritic(env.observation_size, env.num_actions, (8,))
    told: list[tuple[int, int]] = []
    alone = evaluate_policy(make, model, PLAN, trials=100, report=lambda *now: told.append(now))
    together = evaluate_policy(make, model, PLAN, trials=100, workers=3)
    assert alone == together
    assert len(set(alone.neighbourhood_rate.values()) | set(alone.success_rate.values())) > 1
    done, expected = zip(*told, strict=True)
    assert len(set(expected)) == 1
    assert done[-1] == expected[0]
    assert list(done) == sorted(done)


def test_who_fails_ends_the_others() -> None:
    """With their next step; the error is the first one's own."""
    steps: list[int] = []

    def work(_: ImitationEnv, batch: Tensor) -> None:
        if int(batch[0]) == 0:
            raise ValueError("the first")
        for number in range(10_000):
            crew.step(len(batch))
            steps.append(number)
            time.sleep(0.001)

    crew = Crew(no_env, CPU, 1, workers=4)
    with pytest.raises(ValueError, match="the first"):
        crew.run(work, 256)
    assert len(steps) < 9_000


def test_a_rule_that_fails_does_so_with_several_workers_too(make: MakeEnv) -> None:
    """As it would alone."""

    class Broken(KeepRule):
        def judge(self, trials: object) -> Tensor:
            raise ZeroDivisionError("its own")

    env = make(1)
    model = ActorCritic(env.observation_size, env.num_actions, (8,))
    plan = replace(PLAN, rules={"sway": Broken(1.0), "swing": KeepRule(1.0)})
    with pytest.raises(ZeroDivisionError, match="its own"):
        evaluate_policy(make, model, plan, trials=100, workers=2)


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(5, 2, [[0, 1], [2, 3], [4, 0]]), (4, 2, [[0, 1], [2, 3]]), (1, 3, [[0, 0, 0]]), (2, 5, [[0, 1, 0, 1, 0]])],
)
def test_batches_of_one_size_hold_every_number_in_order(count: int, size: int, expected: list[list[int]]) -> None:
    """What is too much at the end is the beginning again, so the first `count` outcomes are all of them."""
    assert [batch.tolist() for batch in full_batches(count, size)] == expected
