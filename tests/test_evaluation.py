"""Success rules say yes to what they should, and no to everything near it."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from skillfield.characters import hand
from skillfield.errors import ConfigError
from skillfield.evaluation.crew import Crew
from skillfield.evaluation.judging import Closeness
from skillfield.evaluation.metrics import evaluate_policy, wilson_interval
from skillfield.evaluation.plan import shuffled_frames, starts_at
from skillfield.evaluation.rollout import Trials
from skillfield.evaluation.success import DribbleRule, HoldRule, TossRule
from skillfield.experiments.run import RunConfig, build_env, build_motion, preset
from skillfield.experiments.tasks import starter
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic

FPS = 60.0


def trials(root: Tensor, ball: Tensor, touching: Tensor) -> Trials:
    """One recorded trial."""
    alive = torch.ones(len(root), 1, dtype=torch.bool)
    return Trials(FPS, root.unsqueeze(1), ball.unsqueeze(1), touching.unsqueeze(1), alive)


def dribbling(seconds: float = 10.0, speed: float = 0.8, period: float = 0.7, lose_at: float = math.inf) -> Trials:
    time = torch.arange(round(seconds * FPS)) / FPS
    phase = (time % period) / period
    height = 0.12 + 0.6 * (1 - (2 * phase - 1).square())
    zero = torch.zeros_like(time)
    root = torch.stack((speed * time, zero, zero + 0.9), dim=1)
    ball = torch.stack((speed * time.clamp_max(lose_at), zero, torch.where(time < lose_at, height, 0.12)), dim=1)
    return trials(root, ball, (phase > 0.4) & (phase < 0.6) & (time < lose_at))


def tossing(
    still: float, thrown: bool = True, ahead: float = 1.0, follow: float = 0.0, touch_at: float = 9.9
) -> Trials:
    """Rests in the hand for `still` seconds, then flies at 2 m/s; the hand may follow, and touch it again."""
    time = torch.arange(600) / FPS
    flying = (time - still).clamp_min(0) if thrown else torch.zeros_like(time)
    zero = torch.zeros_like(time)
    root = torch.stack((2.0 * follow * flying, zero, zero + 0.93), dim=1)
    ball = torch.stack((2.0 * ahead * flying, zero, (0.8 - 4.9 * flying.square()).clamp_min(0.12)), dim=1)
    return trials(root, ball, (flying == 0) | (flying > touch_at))


def test_a_dribble_that_goes_on_is_a_success() -> None:
    """Right way, right speed, bouncing to the end."""
    assert DribbleRule((1.0, 0.0), 0.8).judge(dribbling()).item()


@pytest.mark.parametrize(
    "bad",
    [dribbling(lose_at=6.0), dribbling(speed=0.2), dribbling(speed=2.4), dribbling(speed=-0.8), dribbling(period=2.5)],
    ids=["loses the ball", "too slow", "too fast", "wrong way", "hardly bounces"],
)
def test_a_dribble_that_fails_in_one_way_is_none(bad: Trials) -> None:
    """Each condition alone is enough to fail."""
    assert not DribbleRule((1.0, 0.0), 0.8).judge(bad).item()


def test_a_hold_must_be_high_calm_and_to_the_end() -> None:
    """Lifted and kept is a success; low, shaken or dropped is none."""
    rule, steps = HoldRule(min_height=1.0), 600
    root = torch.tensor([0.0, 0.0, 1.28]).repeat(steps, 1)
    ball = torch.tensor([0.0, 0.0, 1.15]).repeat(steps, 1)
    touching = torch.ones(steps, dtype=torch.bool)
    assert rule.judge(trials(root, ball, touching)).item()
    low = torch.tensor([0.0, 0.0, 0.4])
    assert not rule.judge(trials(root - low, ball - low, touching)).item()
    dropped = ball.clone()
    dropped[500:, 2] = 0.12
    assert not rule.judge(trials(root, dropped, touching)).item()
    shaken = 0.1 * torch.sin(torch.arange(steps) * 2.0).unsqueeze(1) * torch.tensor([1.0, 0.0, 0.0])
    assert not rule.judge(trials(root + shaken, ball + shaken, touching)).item()


@pytest.mark.parametrize(("still", "success"), [(0.1, False), (0.5, True), (1.5, False)])
def test_a_toss_must_come_at_its_time(still: float, success: bool) -> None:
    """Too early and too late are failures: that is what needs memory."""
    assert TossRule(min_still_seconds=0.3, max_still_seconds=0.8).judge(tossing(still)).item() is success


@pytest.mark.parametrize(("carried", "success"), [(0.2, True), (0.7, True), (1.2, False), (5.0, False)])
def test_a_toss_follows_its_rest(carried: float, success: bool) -> None:
    """Whoever rests in time and then carries the ball about throws too late."""
    toss, rest = tossing(0.5), round(0.5 * FPS)
    step, pause = torch.arange(600), round(carried * FPS)
    steps = torch.where(step < rest, step, (step - pause).clamp_min(rest))
    along = 0.6 * (step - rest).clamp(0, pause) / FPS
    way = torch.stack((along, 0 * along, 0 * along), dim=1).unsqueeze(1)
    late = trials((toss.root_pos_w[steps] + way)[:, 0], (toss.object_pos_w[steps] + way)[:, 0], toss.touching[steps, 0])
    assert TossRule(min_still_seconds=0.3, max_still_seconds=0.8).judge(late).item() is success


def test_a_ball_that_is_kept_or_dropped_is_no_toss() -> None:
    """Holding for ever fails, and so does letting it fall straight down."""
    rule = TossRule(min_still_seconds=0.3, max_still_seconds=0.8)
    assert not rule.judge(tossing(0.5, thrown=False)).item()
    assert not rule.judge(tossing(0.5, ahead=0.0)).item()


@pytest.mark.parametrize("later", [3, 100])
def test_a_world_that_diverges_in_flight_or_later_has_not_thrown(later: int) -> None:
    """Where its ball is afterwards means nothing, and who blows up after a throw has not done well either."""
    rule, toss = TossRule(min_still_seconds=0.3, max_still_seconds=0.8), tossing(0.5)
    away = (toss.object_pos_w - toss.root_pos_w).norm(dim=-1)[:, 0]
    release = int(torch.nonzero(away > rule.release_distance)[0])
    alive = toss.alive.clone()
    alive[release + later :] = False
    assert rule.judge(toss).item()
    assert not rule.judge(replace(toss, alive=alive)).item()


def test_a_hand_may_follow_the_ball_but_not_carry_it() -> None:
    """What counts is how far the ball flies by itself from where it left the hand."""
    rule = TossRule(min_still_seconds=0.3, max_still_seconds=0.8)
    assert rule.judge(tossing(0.5, follow=1.0)).item()
    assert not rule.judge(tossing(0.5, touch_at=0.3)).item()
    assert not rule.judge(tossing(0.5, ahead=0.2)).item()  # 0.4 m/s reach 0.32 m


def test_wilson_interval_is_the_textbook_one() -> None:
    """8 of 10: [0.490, 0.943]; it never leaves [0, 1]."""
    low, high = wilson_interval(8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson_interval(0, 5)[0] == 0.0
    assert wilson_interval(5, 5)[1] == 1.0


def test_an_interval_has_its_rate_in_it() -> None:
    """Whatever the arithmetic makes of its last digit: all of 10,000 are 1, and not a little less at best."""
    assert wilson_interval(10_000, 10_000)[1] == 1.0
    for trials in range(1, 201):
        for successes in range(trials + 1):
            low, high = wilson_interval(successes, trials)
            assert 0 <= low <= successes / trials <= high <= 1


def make_env(count: int) -> ImitationEnv:
    character = hand()
    return build_env(config(), build_motion(starter(), character), character, count, None)


def config() -> RunConfig:
    return preset("starter")


def test_evaluation_measures_every_skill_and_repeats_exactly() -> None:
    """Same seed, same figures; the untrained policy's are low and finite."""
    task = starter()
    torch.manual_seed(0)
    env = make_env(1)
    model = ActorCritic(env.observation_size, env.num_actions, (16,))
    first = evaluate_policy(make_env, model, task.trials, trials=3, seed=5)
    again = evaluate_policy(make_env, model, task.trials, trials=3, seed=5)
    assert first == again
    assert tuple(first.success_rate) == task.skills
    assert all(0 <= value <= 1 for value in first.normalised_reward.values())
    with pytest.raises(ConfigError, match="at least 1"):
        evaluate_policy(make_env, model, task.trials, trials=0)


@pytest.mark.parametrize("count", [5, 24, 25, 26, 200])
def test_every_frame_is_drawn_as_often_as_any_other(count: int) -> None:
    """Or once more; none twice before all have been drawn, and never in the order of the clips."""
    motion, plan = build_motion(starter(), hand()), starter().trials
    clip, frame = shuffled_frames(motion, plan, "toss", count, torch.Generator().manual_seed(1))
    assert {motion.names[number] for number in clip.tolist()} == {"toss"}
    often = frame.bincount(minlength=25)
    assert (len(often), int(often.sum())) == (25, count)  # the first 0.4 s
    assert int(often.max() - often.min()) <= 1
    assert not torch.equal(frame, frame.sort().values)


def test_normalised_reward_is_the_mean_over_starts_of_the_mean_reward_to_the_end() -> None:
    """Recomputed frame by frame for one skill."""
    torch.manual_seed(0)
    env = make_env(1)
    model = ActorCritic(env.observation_size, env.num_actions, (16,))
    skills = env.motion.skills
    measured = Closeness(Crew(make_env, env.device, 1), model).by_skill()["hold"]
    clip = skills.index("hold") if env.motion.names[skills.index("hold")] == "hold" else env.motion.names.index("hold")
    length = int(env.motion.length[clip])
    means = []
    for frame in range(length - 1):
        env.start(torch.zeros(1, dtype=torch.long), starts_at(env.motion, torch.tensor([clip]), torch.tensor([frame])))
        rewards = []
        for _ in range(length - 1 - frame):
            with torch.no_grad():
                env.advance(model.act(env.observe()))
            rewards.append(float(env.score()[0]))
        means.append(sum(rewards) / len(rewards))
    assert measured == pytest.approx(sum(means) / len(means), abs=2e-3)
