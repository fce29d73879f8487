"""Success rules say yes to what they should, and no to everything near it; and what an evaluation measures."""

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
from skillfield.evaluation.success import DribbleRule, HoldRule, KeepRule, TossRule
from skillfield.experiments.run import RunConfig, build_env, build_motion, preset
from skillfield.experiments.tasks import starter
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic

FPS = 60.0
TIME = torch.arange(600) / FPS


def trial(root: Tensor, ball: Tensor, touching: Tensor) -> Trials:
    """One execution.  [T, 3], [T, 3], [T]"""
    alive = torch.ones(len(root), 1, dtype=torch.bool)
    return Trials(FPS, root.unsqueeze(1), ball.unsqueeze(1), touching.unsqueeze(1), alive)


def between(trial: Trials, first: int, last: int, **changes: bool | tuple[float, float, float]) -> Trials:
    """The same, but that from one step to another a position is so much farther, or a fact is this."""
    columns = {name: getattr(trial, name).clone() for name in changes}
    for name, change in changes.items():
        moved = not isinstance(change, bool)
        columns[name][first:last] = torch.tensor(change) + (columns[name][first:last] if moved else 0)
    return replace(trial, **columns)


def dribbling(
    speed: float = 0.8, aside: float = 0.0, low: float = 0.12, rise: float = 0.6, period: float = 0.7
) -> Trials:
    """Walks along (0.6, 0.8), or aside of that, while the ball rises between two bounces; touched every 0.7 s."""
    phase = (TIME % period) / period
    way = speed * torch.tensor([0.6 - 0.8 * aside, 0.8 + 0.6 * aside]) * TIME.unsqueeze(1)
    height = low + rise * (1 - (2 * phase - 1).square())
    root = torch.cat((way, torch.full_like(way[:, :1], 0.9)), dim=1)
    return trial(root, torch.cat((way, height.unsqueeze(1)), dim=1), (TIME % 0.7 > 0.28) & (TIME % 0.7 < 0.42))


@pytest.mark.parametrize(
    ("success", "dribble"),
    [
        pytest.param(True, dribbling(), id="goes on"),
        pytest.param(True, between(dribbling(), 0, 90, object_pos_w=(5.0, 0.0, 0.0), touching=False), id="begins late"),
        pytest.param(False, between(dribbling(), 300, 301, object_pos_w=(-0.88, 0.66, 0.0)), id="loses the ball"),
        pytest.param(False, between(dribbling(), 300, 378, touching=False), id="leaves it alone"),
        pytest.param(False, between(dribbling(), 500, 600, alive=False), id="falls"),
        pytest.param(False, dribbling(period=2.0), id="hardly bounces"),
        pytest.param(False, dribbling(rise=0.0), id="rolls"),
        pytest.param(False, dribbling(low=0.2), id="never reaches the floor"),
        pytest.param(False, dribbling(speed=0.2), id="too slow"),
        pytest.param(False, dribbling(speed=2.4), id="too fast"),
        pytest.param(False, dribbling(speed=-0.8), id="wrong way"),
        pytest.param(False, dribbling(aside=0.6), id="too far left"),
        pytest.param(False, dribbling(aside=-0.6), id="too far right"),
    ],
)
def test_a_dribble_goes_on_the_right_way_to_the_end(success: bool, dribble: Trials) -> None:
    """After a second and a half to get going, each condition alone is enough to fail."""
    assert DribbleRule((0.6, 0.8), 0.8).judge(dribble).item() is success


def holding(lowered_at: float = math.inf) -> Trials:
    """The ball 1.15 m high, and the palm on it; half a metre lower from some time on, within half a second."""
    height = 1.15 - (TIME - lowered_at).clamp(0, 0.5)
    ball = torch.stack((0 * TIME, 0 * TIME, height), dim=1)
    return trial(ball + torch.tensor([0.0, 0.0, 0.13]), ball, torch.ones_like(TIME, dtype=torch.bool))


JERK = (0.05, 0.0, 0.0)


@pytest.mark.parametrize(
    ("success", "hold"),
    [
        pytest.param(True, holding(), id="keeps it"),
        pytest.param(True, between(holding(), 0, 150, object_pos_w=(2.0, 0.0, -1.0)), id="gathers it first"),
        pytest.param(False, between(holding(), 300, 301, root_pos_w=(0.0, 0.3, 0.0)), id="lets go"),
        pytest.param(False, between(holding(), 300, 301, root_pos_w=JERK, object_pos_w=JERK), id="shakes it"),
        pytest.param(False, between(holding(), 500, 600, alive=False), id="falls"),
        pytest.param(False, holding(lowered_at=0.0), id="does not lift it"),
        pytest.param(False, holding(lowered_at=8.0), id="lowers it again"),
    ],
)
def test_a_hold_is_high_calm_and_to_the_end(success: bool, hold: Trials) -> None:
    """After two seconds and a half to gather the ball, each condition alone is enough to fail."""
    assert HoldRule(min_height=1.0).judge(hold).item() is success


def tossing(
    still: float = 0.5, carried: float = 0.2, ahead: float = 2.0, aside: float = 0.0, follow: float = 0.0
) -> Trials:
    """Rests in the hand, is carried along at 0.6 m/s, then flies at so many m/s; the hand may follow. By default it
    rests for 30 steps, and flies from step 42 on."""
    flying = (TIME - still - carried).clamp_min(0)
    along, zero = 0.6 * (TIME - still).clamp(0, carried), torch.zeros_like(TIME)
    root = torch.stack((along + follow * flying, zero, zero + 0.93), dim=1)
    height = (0.8 - 4.9 * flying.square()).clamp_min(0.12)
    return trial(root, torch.stack((along + ahead * flying, aside * flying, height), dim=1), flying == 0)


THERE, BACK = (1.0, 0.0, 0.0), (-0.01, 0.0, 0.0)


@pytest.mark.parametrize(
    ("success", "toss"),
    [
        pytest.param(True, tossing(), id="at its time"),
        pytest.param(True, between(tossing(), 0, 6, object_pos_w=THERE), id="caught first"),
        pytest.param(True, tossing(carried=0.7), id="after a swing"),
        pytest.param(True, tossing(follow=2.0), id="the hand follows"),
        pytest.param(False, tossing(still=0.1), id="too early"),
        pytest.param(False, tossing(still=1.5), id="too late"),
        pytest.param(False, tossing(still=99.0), id="never"),
        pytest.param(False, tossing(carried=1.2), id="carried about"),
        pytest.param(
            False, between(tossing(carried=1.2), 80, 81, root_pos_w=BACK, object_pos_w=BACK), id="with a short stop"
        ),
        pytest.param(False, between(tossing(), 15, 16, root_pos_w=JERK, object_pos_w=JERK), id="shaken before"),
        pytest.param(False, between(tossing(), 0, 42, root_pos_w=(0.0, 0.0, 0.1)), id="not in the palm before"),
        pytest.param(False, between(tossing(), 0, 42, touching=False), id="not touched before"),
        pytest.param(False, tossing(ahead=0.0), id="straight down"),
        pytest.param(False, tossing(ahead=-2.0), id="backwards"),
        pytest.param(False, tossing(ahead=0.4, carried=0.7), id="too gently"),
        pytest.param(False, tossing(aside=3.0), id="too far left"),
        pytest.param(False, tossing(aside=-3.0), id="too far right"),
        pytest.param(
            False, between(tossing(ahead=0.0), 0, 30, root_pos_w=THERE, object_pos_w=THERE), id="carried back, dropped"
        ),
        pytest.param(False, between(tossing(), 55, 56, touching=True), id="touched in flight"),
        pytest.param(False, between(tossing(), 55, 600, alive=False), id="diverges in flight"),
        pytest.param(False, between(tossing(), 599, 600, alive=False), id="diverges later"),
    ],
)
def test_a_toss_comes_at_its_time_and_flies_ahead_by_itself(success: bool, toss: Trials) -> None:
    """When it must come is what needs memory; how far it flies counts from where it left the hand."""
    assert TossRule(min_still_seconds=0.3, max_still_seconds=0.8).judge(toss).item() is success


@pytest.mark.parametrize("steps", [2, 30])
def test_a_trial_may_be_shorter_than_the_time_to_settle(steps: int) -> None:
    """Its end is then what is judged: the ball is held, calm and near by then, and nobody has got anywhere."""
    hold = holding()
    short = trial(hold.root_pos_w[:steps, 0], hold.object_pos_w[:steps, 0], hold.touching[:steps, 0])
    assert HoldRule(min_height=1.0).judge(short).item()
    shaken = between(short, steps - 1, steps, root_pos_w=JERK, object_pos_w=JERK)
    assert not HoldRule(min_height=1.0).judge(shaken).item()
    assert KeepRule(max_distance=0.2).judge(short).item()
    assert not KeepRule(max_distance=0.1).judge(short).item()
    assert not DribbleRule((0.6, 0.8), 0.8).judge(short).item()


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
