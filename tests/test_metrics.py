"""Metrics: which states trials start from, what they are to do, and how outcomes become figures."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.errors import ConfigError, DeviceError
from skillfield.evaluation import Evaluation, TrialPlan, evaluate_policy
from skillfield.evaluation.crew import Crew
from skillfield.evaluation.judging import Closeness, Judge
from skillfield.evaluation.rollout import Trials
from skillfield.evaluation.success import SuccessRule
from skillfield.files import write_json
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.learning.networks import ActorCritic
from skillfield.reference import (
    Augmentation,
    AugmentedSampler,
    Neighbourhood,
    ReferenceMotion,
    Starts,
    TrackingWeights,
)
from skillfield.simulation import CpuEngine
from strolling import missing

MakeClip = Callable[..., Clip]
Scene = tuple[Callable[[int], ImitationEnv], ActorCritic]

BOX = Neighbourhood(root_pos=0.2, object_pos=0.15, joint=0.05, root_vel=0.3)


@dataclass(frozen=True)
class Right(SuccessRule):
    """A success starts with the root to the right of a line."""

    beyond: float = 0.0

    def judge(self, trials: Trials) -> Tensor:
        return trials.root_pos_w[0, :, 0] > self.beyond


PLAN = TrialPlan(
    rules={"sway": Right(), "swing": Right(0.1), "hover": Right(-9.0)},
    seconds=1.0,
    start_before={"swing": 0.1},
    box=BOX,
)


@pytest.fixture(scope="module")
def scene(make_clip: MakeClip, hand_character: Character) -> Scene:
    """Three skills, one of them in two clips, and a policy that knows nothing."""
    clips = [make_clip(20), make_clip(16, skill="swing"), make_clip(10, skill="hover"), make_clip(14)]
    motion = ReferenceMotion(clips, hand_character, PLAN.skills)
    sampler = AugmentedSampler(motion, hand_character, TrackingWeights(), Augmentation())
    config = EnvConfig(termination=Termination(min_root_height=None))

    def make_env(count: int) -> ImitationEnv:
        return ImitationEnv(CpuEngine(hand_character, count, 1), sampler, config)

    env = make_env(1)
    torch.manual_seed(0)
    return make_env, ActorCritic(env.observation_size, env.num_actions, (4,))


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Starts, int]]:
    """Starts and lengths of all trials, which are not simulated: what is recorded of each is its start."""
    ran: list[tuple[Starts, int]] = []

    def run_trials(env: ImitationEnv, model: ActorCritic, starts: Starts, steps: int, watch: Any) -> Trials:
        ran.append((starts, steps))
        for _ in range(steps):
            watch(env.engine.state)
        place = starts.qpos[None, :, :3]
        yes = torch.ones(place.shape[:2], dtype=torch.bool)
        return Trials(60.0, place, place, yes, yes)

    monkeypatch.setattr("skillfield.evaluation.judging.run_trials", run_trials)
    return ran


def judge_of(scene: Scene, plan: TrialPlan = PLAN) -> Judge:
    """With one worker."""
    make_env, model = scene
    return Judge(Crew(make_env, torch.device("cpu"), 1), model, plan, seed=0)


def together(trials: list[tuple[Starts, int]]) -> Starts:
    """The starts of all batches."""
    first, *others = (starts for starts, _ in trials)
    for starts in others:
        first = first.joined(starts)
    return first


def skill_of(motion: ReferenceMotion, row: Tensor) -> Tensor:
    """Skill of reference rows."""
    return motion.skill[torch.searchsorted(motion.start, row, right=True) - 1]


def test_success_is_tested_from_reference_states_of_the_skill(scene: Scene, trials: list[tuple[Starts, int]]) -> None:
    """Any frame of any of its clips with a future, as early as the plan asks; the condition is the skill."""
    motion = scene[0](1).motion
    judge = judge_of(scene)
    judge.run(judge.own_states(200))
    ((starts, steps),) = trials
    assert steps == 60
    assert torch.equal(starts.qpos, motion.qpos[starts.past_row])
    assert torch.equal(starts.qvel, motion.qvel[starts.past_row])
    skill = skill_of(motion, starts.past_row)
    assert torch.equal(motion.skill[starts.clip], skill)
    drawn = [sorted(starts.past_row[skill == number].tolist()) for number in range(3)]
    assert drawn[0] == [*range(19), *range(46, 59)]
    assert drawn[1] == list(range(20, 27))  # a start within 0.1 s
    assert drawn[2] == list(range(36, 45))


def test_trials_that_begin_alike_are_run_once_and_count_as_often_as_they_were_drawn(
    scene: Scene, trials: list[tuple[Starts, int]]
) -> None:
    """On a CPU, where a trial from a frame is the same every time. Neighbours of a frame are never alike."""
    judge, motion = judge_of(scene), scene[0](1).motion
    won = judge.run(judge.own_states(33))["sway", "sway"]
    judge.run(judge.neighbours(33))
    assert [len(starts.clip) for starts, _ in trials] == [32 + 7 + 9, 3 * 33]
    starts = trials[0][0]
    succeed = int((starts.qpos[skill_of(motion, starts.past_row) == 0, 0] > 0.0).sum())
    assert 0 < succeed < 32
    assert len(won) == 33
    assert int(won.sum()) in (succeed, succeed + 1)  # one of the 32 frames was drawn twice


def test_neighbourhood_success_is_tested_from_perturbed_states(
    scene: Scene, trials: list[tuple[Starts, int]], hand_character: Character
) -> None:
    """Every trial starts off its reference state, within the plan's ε of every field, and remembers that state."""
    judge, motion, layout = judge_of(scene), scene[0](1).motion, hand_character.layout()
    judge.run(judge.neighbours(200))
    starts = together(trials)
    assert torch.equal(skill_of(motion, starts.past_row), torch.arange(3).repeat_interleave(200))
    change = layout.difference(motion.qpos[starts.past_row], starts.qpos).abs()
    for field in ("root_pos", "joint", "object_pos"):
        largest = float(change[:, layout.fields[field]].max())
        assert 0.9 * getattr(BOX, field) < largest <= getattr(BOX, field) + 1e-5
    assert float(change.amax(dim=1).min()) > 0.01
    speed = (starts.qvel - motion.qvel[starts.past_row])[:, layout.fields["root_pos"]].abs()
    assert 0.9 * BOX.root_vel < float(speed.max()) <= BOX.root_vel + 1e-5


def test_transitions_are_tested_between_all_ordered_pairs(scene: Scene, trials: list[tuple[Starts, int]]) -> None:
    """Started in reference states of the one skill, with the condition of the other; never with its own."""
    judge, motion = judge_of(scene), scene[0](1).motion
    outcome = judge.run(judge.other_states(50))
    skills = PLAN.skills
    assert list(outcome) == [(a, b) for a in skills for b in skills if a != b]
    assert {len(won) for won in outcome.values()} == {50}
    starts = together(trials)
    assert torch.equal(starts.qpos, motion.qpos[starts.past_row])
    pairs = torch.stack((skill_of(motion, starts.past_row), motion.skill[starts.clip]), dim=1)
    asked = [(skills.index(source), skills.index(target)) for source, target in outcome]
    frames = {"sway": 32, "swing": 7, "hover": 9}
    for pair, (source, _) in zip(asked, outcome, strict=True):
        assert int((pairs == torch.tensor(pair)).all(dim=1).sum()) == frames[source]
    assert len(starts.clip) == 2 * sum(frames.values())


def test_each_trial_is_judged_by_the_rule_of_what_it_was_to_do(
    scene: Scene, trials: list[tuple[Starts, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates are shares of what the target skill's rule calls a success, also when trials come in several batches."""
    monkeypatch.setattr("skillfield.evaluation.crew._MOST", 20 * judge_of(scene)._character.model.nv)
    counts, judge, motion = {"sway": 32, "swing": 7, "hover": 9}, judge_of(scene), scene[0](1).motion
    own, across = judge.own_states(32 * 7 * 9), judge.other_states(32 * 7 * 9)
    judged = judge.run(own) | judge.run(across)
    assert [len(starts.clip) for starts, _ in trials] == [16, 16, 16, 20, 20, 20, 20, 16]
    place, source, target = (
        torch.cat(column)
        for column in zip(
            *((s.qpos[:, 0], skill_of(motion, s.past_row), motion.skill[s.clip]) for s, _ in trials), strict=True
        )
    )
    for (first, then), won in judged.items():
        mine = (source == PLAN.skills.index(first)) & (target == PLAN.skills.index(then))
        assert int(mine.sum()) == counts[first]
        rule = PLAN.rules[then]
        assert isinstance(rule, Right)
        assert float(won.float().mean()) == pytest.approx(float((place[mine] > rule.beyond).float().mean()))


def test_an_evaluation_has_every_figure(scene: Scene, trials: list[tuple[Starts, int]]) -> None:
    """Every skill, every ordered pair, no diagonal; the same seed gives the same, another seed other starts."""
    make_env, model = scene
    first, again, other = (evaluate_policy(make_env, model, PLAN, trials=25, seed=seed) for seed in (4, 4, 5))
    assert first == again
    skills = set(PLAN.skills)
    for figures in (
        first.success_rate,
        first.success_interval,
        first.neighbourhood_rate,
        first.neighbourhood_interval,
        first.normalised_reward,
        first.transition_rate,
    ):
        assert set(figures) == skills
    assert {source: set(into) for source, into in first.transition_rate.items()} == {
        source: skills - {source} for source in skills
    }
    low, high = first.success_interval["sway"]
    assert 0 <= low <= first.success_rate["sway"] <= high <= 1
    starts = [tuple(starts.past_row.tolist()) for starts, _ in trials]
    assert starts[0] == starts[len(starts) // 3] != starts[2 * len(starts) // 3]
    assert other.seed == 5


FIGURES = Evaluation(
    trials=10,
    transition_trials=10,
    seconds=10.0,
    seed=3,
    success_rate={"a": 0.9, "b": 0.5, "c": 0.1},
    success_interval={"a": (0.6, 1.0), "b": (0.2, 0.8), "c": (0.0, 0.4)},
    neighbourhood_rate={"a": 0.6, "b": 0.3, "c": 0.0},
    neighbourhood_interval={"a": (0.3, 0.8), "b": (0.1, 0.6), "c": (0.0, 0.3)},
    transition_rate={"a": {"b": 0.2, "c": 0.4}, "b": {"a": 0.6, "c": 0.0}, "c": {"a": 1.0, "b": 0.8}},
    normalised_reward={"a": 0.4, "b": 0.6, "c": 0.2},
)


def test_pairs_may_have_fewer_trials_than_skills(scene: Scene, trials: list[tuple[Starts, int]]) -> None:
    """Three skills from both kinds of start, then six pairs, each with its own number; a pair needs a trial too."""
    make_env, model = scene
    result = evaluate_policy(make_env, model, PLAN, trials=25, transition_trials=4)
    assert [len(starts.clip) for starts, _ in trials] == [25 + 7 + 9, 3 * 25, 6 * 4]
    assert (result.trials, result.transition_trials) == (25, 4)
    quarters = {0.0, 0.25, 0.5, 0.75, 1.0}
    assert {rate for into in result.transition_rate.values() for rate in into.values()} <= quarters
    assert not set(result.success_rate.values()) <= quarters
    with pytest.raises(ConfigError, match="transition_trials is 0; at least 1"):
        evaluate_policy(make_env, model, PLAN, trials=25, transition_trials=0)


@pytest.mark.parametrize(("named", "across"), [("trials", None), ("trials", 1), ("transition_trials", None)])
def test_more_trials_than_fit_into_memory_are_refused(
    named: str, across: int | None, scene: Scene, trials: list[tuple[Starts, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the number that was asked for, and about how many would fit: a few less do, a few more do not."""
    monkeypatch.setattr("skillfield.evaluation.plan.device_memory", lambda _: 200_000.0)

    def measure(count: int) -> None:
        own, pairs = (count, across) if named == "trials" else (1, count)
        evaluate_policy(*scene, PLAN, own, transition_trials=pairs)

    with pytest.raises(DeviceError, match=rf"^{named} is {10**12}: \S+ GiB of memory are enough for about") as caught:
        measure(10**12)
    most = int(str(caught.value).split()[-1].replace(",", ""))
    with pytest.raises(DeviceError, match=rf"^{named} is {most + 2}: "):
        measure(most + 2)
    assert trials == []
    measure(most - 2)
    assert trials


def test_averages_are_plain_means() -> None:
    """Over skills, and over all ordered pairs."""
    assert FIGURES.averages() == pytest.approx(
        {"success_rate": 0.5, "neighbourhood_rate": 0.3, "transition_rate": 0.5, "normalised_reward": 0.4}
    )
    assert FIGURES.transitions_into() == pytest.approx({"a": 0.8, "b": 0.5, "c": 0.2})


def test_an_evaluation_survives_a_file() -> None:
    """Through JSON and back it is equal; the averages go along for readers."""
    for figures in (FIGURES, replace(FIGURES, samples=5_000_000, device="cuda")):
        text = json.dumps(figures.to_dict())
        assert json.loads(text)["average"] == FIGURES.averages()
        assert Evaluation.from_dict(json.loads(text)) == figures


def test_a_file_from_before_pairs_had_trials_of_their_own_is_read() -> None:
    """Its one number was for both."""
    old = FIGURES.to_dict()
    del old["transition_trials"]
    assert Evaluation.from_dict(old) == FIGURES
    apart = replace(FIGURES, trials=10_000, transition_trials=500)
    assert Evaluation.from_dict(apart.to_dict()) == apart


def test_the_number_of_trials_in_words() -> None:
    """Both, where they differ."""
    assert FIGURES.measured_with() == "10 trials of 10 s per skill and per pair of skills"
    apart = replace(FIGURES, trials=10_000, transition_trials=500)
    assert apart.measured_with() == "10,000 trials of 10 s per skill, 500 per pair of skills"
    elsewhere = replace(FIGURES, clips="/some/where/noisy")
    assert elsewhere.measured_with() == f"{FIGURES.measured_with()}, beginning in clips from 'noisy'"


def test_one_trial_is_not_several() -> None:
    """In words."""
    once = replace(FIGURES, trials=1, transition_trials=1)
    assert once.measured_with() == "1 trial of 10 s per skill and per pair of skills"


def test_rates_are_counted(scene: Scene, trials: list[tuple[Starts, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """9 of 10 are 0.9, which a sum of 32-bit numbers is not."""
    nine = dict.fromkeys(product(PLAN.skills, repeat=2), torch.arange(10) > 0)
    monkeypatch.setattr(Judge, "run", lambda *_: nine)
    assert evaluate_policy(*scene, PLAN, trials=10).success_rate == dict.fromkeys(PLAN.skills, 0.9)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_fits_into_64_bits(seed: int, scene: Scene) -> None:
    """The generator has no room for more."""
    with pytest.raises(ConfigError, match=f"seed is {seed}, it must fit into 64 bits"):
        evaluate_policy(*scene, PLAN, trials=1, seed=seed)


def test_one_skill_alone_has_no_transitions(scene: Scene, trials: list[tuple[Starts, int]]) -> None:
    """The matrix is empty, its average unknown, and nothing else is missing."""
    judge = judge_of(scene, replace(PLAN, rules={"sway": Right()}, start_before={}))
    assert judge.run(judge.other_states(10)) == {}
    assert set(judge.run(judge.own_states(10))) == {("sway", "sway")}
    alone = replace(FIGURES, transition_rate={"a": {}})
    assert math.isnan(alone.averages()["transition_rate"])
    assert alone.transitions_into() == {}


@pytest.mark.parametrize(
    ("judged", "found"),
    [
        (torch.zeros(7, 10, dtype=torch.bool), r"torch.bool \(7, 10\)"),
        (torch.zeros(1, dtype=torch.bool), r"torch.bool \(1,\)"),
        (torch.zeros(10), r"torch.float32 \(10,\)"),
        (True, "bool"),
    ],
)
def test_a_rule_that_does_not_judge_every_trial_is_named(scene: Scene, judged: Any, found: str) -> None:
    """With what it gave and what it should have given."""

    class Odd(SuccessRule):
        def judge(self, trials: Trials) -> Tensor:
            return judged

    judge = judge_of(scene, replace(PLAN, rules={**PLAN.rules, "sway": Odd()}))
    message = rf"skill 'sway': Odd.judge gave {found}, it must give torch.bool \(10,\)"
    with pytest.raises(ConfigError, match=message):
        judge.run(judge.own_states(10))


def test_a_skill_without_a_start_is_named(scene: Scene) -> None:
    """A plan that leaves no frame to start from cannot be carried out."""
    judge = judge_of(scene, replace(PLAN, start_before={"swing": -1.0}))
    with pytest.raises(ConfigError, match="skill 'swing' has no frame"):
        judge.own_states(10)


def test_missing_frames_cost_nothing(
    make_clip: MakeClip, make_env: Callable[..., ImitationEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every scored step earns one, so the mean is one, whichever frames are gone."""
    clips = [missing(make_clip(6), [4, 5]), missing(make_clip(8, skill="swing"), [0, 3, 4, 5])]
    score = ImitationEnv.score

    def one_each(env: ImitationEnv) -> tuple[Tensor, Tensor, Tensor]:
        _, scored, failed = score(env)
        return scored.float(), scored, failed

    monkeypatch.setattr(ImitationEnv, "score", one_each)

    env = make_env(clips, 1)
    model = ActorCritic(env.observation_size, env.num_actions, (4,))
    measured = Closeness(Crew(lambda count: make_env(clips, count), env.device, 1), model).by_skill()
    assert measured == {"sway": 1.0, "swing": 1.0}


def test_figures_that_do_not_exist_are_null_in_json(tmp_path: Path) -> None:
    """One skill has no transitions; NaN is no JSON."""
    alone = replace(FIGURES, transition_rate={})
    assert math.isnan(alone.averages()["transition_rate"])
    write_json(tmp_path / "evaluation.json", alone.to_dict())
    found = json.loads((tmp_path / "evaluation.json").read_text(), parse_constant=pytest.fail)
    assert found["average"]["transition_rate"] is None
    assert Evaluation.from_dict(found) == alone
