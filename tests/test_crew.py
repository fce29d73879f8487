"""Who runs trials: how they are divided, that the figures do not depend on it, and how it ends."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

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

MakeEnv = Callable[..., ImitationEnv]


@pytest.fixture
def make(make_clip: Callable[..., Clip], make_env: Callable[..., ImitationEnv]) -> MakeEnv:
    """Environments of two short clips."""
    clips = [make_clip(20), make_clip(16, skill="swing")]
    return lambda count, _=None: make_env(clips, count)


def no_env(count: int, _: int | None = None, dofs: int = 125) -> ImitationEnv:
    """For work that looks at none."""
    env: Any = object.__new__(ImitationEnv)
    env.num_envs, env.engine = count, SimpleNamespace(character=SimpleNamespace(model=SimpleNamespace(nv=dofs)))
    return env


@pytest.mark.parametrize(
    ("count", "dofs", "sizes"),
    [
        (1, 125, [1]),
        (191, 125, [191]),  # two of them would be too small
        (192, 125, [96, 96]),
        (1999, 12, [1999]),  # a light character's are larger
        (790, 125, [99] * 7 + [97]),
        (1600, 125, [178] * 8 + [176]),
    ],
)
def test_a_cpu_has_about_eight_batches_if_they_are_neither_small_nor_large(
    count: int, dofs: int, sizes: list[int]
) -> None:
    """Every trial is in one of them, in order."""
    batches = Crew(partial(no_env, dofs=dofs), CPU, 1).batches(count)
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
    made: list[tuple[int | None, ImitationEnv]] = []
    used, lock = set[int](), threading.Lock()

    def make(count: int, threads: int | None = None) -> ImitationEnv:
        made.append((threads, no_env(count)))
        return made[-1][1]

    def work(env: ImitationEnv, batch: Tensor) -> None:
        assert env.num_envs == len(batch)
        with lock:
            assert id(env) not in used
            used.add(id(env))
        time.sleep(0.005)
        with lock:
            used.remove(id(env))

    crew = Crew(make, CPU, 1, workers=2)
    crew.run(work, 160 * 8)
    assert [threads for threads, _ in made[1:]] in ([1], [1, 1])  # the first is looked at
    crew.run(work, 90)
    assert [(threads, env.num_envs) for threads, env in made[-1:]] == [(None, 90)]  # alone, with all cores


def test_figures_do_not_depend_on_the_number_of_workers(make: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit; and at the end as many steps have been simulated as were expected."""
    monkeypatch.setattr("skillfield.evaluation.crew._LEAST", 100)
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


def test_a_rule_that_fails_does_so_with_several_workers_too(make: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it would alone."""
    monkeypatch.setattr("skillfield.evaluation.crew._LEAST", 100)

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
