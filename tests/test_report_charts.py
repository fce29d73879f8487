"""The pictures of a report: curves, bars, the graph of connections, and where training starts."""

import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from run_pages import SKILLS, add_graph, make_run, report
from skillfield.api import train_run
from skillfield.characters import Character
from skillfield.clips import Clip, save_clips
from skillfield.configuration import to_dict
from skillfield.evaluation.success import HoldRule
from skillfield.experiments.run import build_motion, preset
from skillfield.experiments.stages import Stage
from skillfield.experiments.tasks import starter
from skillfield.learning.training import Budget
from skillfield.reference import ReferenceMotion
from skillfield.reference.adaptive import AdaptiveSampling
from skillfield.reporting.bars import rate_bar
from skillfield.reporting.charts import axis_ticks
from skillfield.reporting.curves import curve
from skillfield.reporting.runs import ClipRows, RunRecord, read_run
from skillfield.reporting.starts import relative_weights
from strolling import missing


def record(values: Sequence[tuple[int, float]], **changes: Any) -> RunRecord:
    """A run that logged these rewards."""
    metrics = [{"samples": samples, "reward": value} for samples, value in values]
    config = {"task": "t", "method": "m", "seed": 0}
    return RunRecord(Path("run"), config, metrics, **changes)


def test_a_curve_is_the_mean_of_its_runs_in_a_band_of_their_range() -> None:
    """As far as all of them came; from there on it is the longest run alone."""
    short, long = ([(x, height) for x in range(0, end + 1, 10)] for end, height in ((100, 1.0), (200, 3.0)))
    line = curve("m", [record(short), record(long)], "reward")
    assert line is not None
    assert (line.x[0], line.x[-1], line.reach) == (0, 100, 200)
    assert np.allclose((line.low, line.mean, line.high), [[1.0], [2.0], [3.0]])
    assert np.allclose(line.tail, 3.0)


def test_a_curve_skips_what_was_not_measured() -> None:
    """A number that is not finite is no point; a metric that nobody logged is no curve."""
    line = curve("m", [record([(0, math.nan), (10, 1.0), (20, math.nan), (30, 3.0)])], "reward")
    assert line is not None
    assert (line.x[0], line.x[-1]) == (10, 30)
    assert np.isfinite(line.mean).all()
    assert curve("m", [record([(0, math.nan)])], "reward") is None
    assert curve("m", [record([(0, 1.0)])], "kl") is None


@pytest.mark.parametrize(("high", "ticks"), [(1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (4.7e6, [0, 1e6, 2e6, 3e6, 4e6])])
def test_axes_have_round_numbers(high: float, ticks: list[float]) -> None:
    """Steps of 1, 2 or 5."""
    assert axis_ticks(0.0, high, 5) == ticks


def test_stages_are_marked_in_every_chart(tmp_path: Path) -> None:
    """Those that any run came to, with what they change for anyone, said once."""
    early, late = Stage(2000, {"env.clip_end": "loop"}), Stage(9000, {"env.p_carry": 0.5})
    own = Stage(2000, {"env.clip_end": "loop", "env.insight": True})
    html = report(make_run(tmp_path / "a", stages=(early, late)), make_run(tmp_path / "b", "full", stages=(own, late)))
    charts = [chart for chart in html.split("<svg ") if 'class="line c0' in chart]
    assert len(charts) == 3  # the reward, and that of either skill
    assert all(chart.count('class="mark"') == 1 for chart in charts)
    assert "From 2k samples on: env.clip_end loop, env.insight True." in html
    assert "beginning of a stage" in html
    assert "env.p_carry 0.5" not in html
    plain = report(make_run(tmp_path / "c"))
    assert 'class="mark"' not in plain
    assert "beginning of a stage" not in plain


def test_start_weights_are_those_that_training_samples_with(
    hand_character: Character, make_clip: Callable[..., Clip]
) -> None:
    """Weight within the clip times the clip's share is the sampler's own probability of every frame."""
    lengths = {"a": 12, "b": 20, "c": 9}
    skills = {"a": "hold", "b": "toss", "c": "toss"}
    clips = [make_clip(frames, name=name, skill=skills[name]) for name, frames in lengths.items()]
    motion = ReferenceMotion(clips, hand_character, SKILLS)
    sampler = AdaptiveSampling(motion, frame_sharpness=4.0, skill_sharpness=3.0)
    sampler.load_state_dict({"mean_reward": torch.rand(len(motion.qpos))})
    starts = np.cumsum([0, *lengths.values()])
    rows = tuple(
        ClipRows(name, skills[name], int(start), length)
        for (name, length), start in zip(lengths.items(), starts[:-1], strict=True)
    )
    run = RunRecord(
        Path("run"),
        {"augmentation": {"frame_sharpness": 4.0, "skill_sharpness": 3.0}},
        [{"samples": 1}],
        clips=rows,
        mean_reward=sampler.mean_reward.double().numpy(),
    )
    weights, shares = relative_weights(run)
    clip = np.repeat(np.arange(3), list(lengths.values()))
    startable = np.array(list(lengths.values())) - 1
    probability = np.nan_to_num(weights) / startable[clip] * shares[clip]
    assert np.allclose(probability, sampler.weights().numpy(), atol=1e-6)
    assert math.isclose(probability.sum(), 1.0, abs_tol=1e-5)


def test_missing_frames_are_no_starts_in_the_report_either(
    hand_character: Character, make_clip: Callable[..., Clip], tmp_path: Path
) -> None:
    """What training writes and the report reads: the frames of a clip as it is imitated, without its missing ends."""
    clips = [missing(make_clip(24, skill="hold"), [0, 1, 9, 10]), missing(make_clip(20, skill="toss"), [5, 19])]
    save_clips([replace(clip, name=clip.skill) for clip in clips], tmp_path / "clips")
    rule = HoldRule(min_height=1.0)
    task = replace(starter(), clips=tmp_path / "clips")
    task = replace(task, trials=replace(task.trials, rules=dict.fromkeys(SKILLS, rule), start_before={}))
    config = replace(preset(task, "sm+ats"), num_envs=16, budget=Budget(samples=64), threads=1)
    config = replace(config, ppo=replace(config.ppo, hidden=(8,), horizon=4, minibatch=64, epochs=1))
    assert train_run(config, tmp_path / "run", task=task, progress=False)
    run = read_run(tmp_path / "run", to_dict(config))
    assert [(clip.name, clip.length, clip.missing) for clip in run.clips] == [("hold", 22, (7, 8)), ("toss", 19, (5,))]
    weights, _ = relative_weights(run)
    starts = build_motion(task, hand_character).start_mask()
    assert np.isfinite(weights).tolist() == starts.tolist()


def test_where_training_starts_is_told_with_the_settings_of_then(tmp_path: Path) -> None:
    """A stage that has begun counts, one that has not does not."""
    run = make_run(tmp_path / "a", "full")
    add_graph(run)
    usual = re.findall("λ<sub>s</sub> = [^<]*", report(run))
    stages = Stage(2000, {"augmentation.frame_sharpness": 7.5}), Stage(9000, {"augmentation.adapt": False})
    staged = make_run(tmp_path / "b", "full", stages=stages)
    add_graph(staged)
    html = report(staged)
    assert usual != re.findall("λ<sub>s</sub> = [^<]*", html) == ["λ<sub>s</sub> = 7.5"]
    plain = replace(read_run(staged, json.loads((staged / "config.json").read_text())))
    sharp = {"frame_sharpness": 7.5, "skill_sharpness": plain.augmentation["skill_sharpness"]}
    later = relative_weights(replace(plain, latest={"augmentation": sharp}))[0]
    assert not np.allclose(later, relative_weights(plain)[0], equal_nan=True)
    over = make_run(tmp_path / "c", "full", stages=(Stage(2000, {"augmentation.adapt": False}),))
    add_graph(over)
    assert "Where training starts" not in report(over)


def test_the_graph_is_drawn_skill_by_skill(tmp_path: Path) -> None:
    """One line per edge, in the colour of its similarity; not without the list of clips."""
    run = make_run(tmp_path / "a", "full")
    add_graph(run)
    html = report(run)
    assert [html.count(f'<path class="edge s{level}" d="M') - 1 for level in range(5)] == [1, 0, 1, 0, 1]  # - legend
    assert "toss_01 1 → hold_01 2, β = 0.9" in html
    assert "into hold</text>" in html
    assert "1 edges" in html
    assert "2 edges" in html
    assert "Where training starts" in html
    (run / "clips.json").unlink()
    html = report(run)
    assert "Connections" not in html
    assert "Where training starts" not in html


def test_a_method_that_does_not_adapt_has_no_weights_to_show(tmp_path: Path) -> None:
    """Its statistics are never written to."""
    run = make_run(tmp_path / "a", "sm+stg")
    add_graph(run)
    html = report(run)
    assert "Connections" in html
    assert "Where training starts" not in html


def test_bars_have_the_rates_and_their_intervals(tmp_path: Path) -> None:
    """A bar per metric, skill and method; a single run has the interval of its trials."""
    runs = [make_run(tmp_path / method, method, rate=rate) for method, rate in (("sm", 0.5), ("full", 0.8))]
    html = report(*runs)
    assert html.count('<g class="rate') == 3 * len(SKILLS) * 2
    assert "sm, hold: 50.0 % (45.0 … 55.0; 95 % interval)" in html
    assert "full, toss: 40.0 % (0.0 … 80.0; 95 % interval)" in html  # εNSR
    assert re.search(r"full, toss: 20\.0 % \(12\.\d … 31\.\d; 95 % interval\)", html)  # TSR, 64 trials
    assert "Method against method" not in report(make_run(tmp_path / "new", rate=None))


def test_a_bar_over_several_runs_has_their_spread() -> None:
    """One sample standard deviation either way, within 0 and 1."""
    assert rate_bar([], []) is None
    assert rate_bar([math.nan], [None]) is None
    bar = rate_bar([0.9, 1.0, math.nan], [(0.8, 1.0), (0.9, 1.0), None])
    assert bar is not None
    assert (bar.rate, bar.runs, bar.high) == (pytest.approx(0.95), 2, 1.0)
    assert bar.low == pytest.approx(0.95 - statistics.stdev([0.9, 1.0]))


def test_what_was_written_for_other_clips_is_left_out(tmp_path: Path) -> None:
    """When a stage begins, a run has new lengths of clips, then a new graph, and up to a minute later a new record: if
    it is stopped in between, or looked at, the report shows what fits. Files of older versions do not say."""
    run = make_run(tmp_path / "a", "full")
    add_graph(run)
    graph, record = run / "graph.safetensors", run / "checkpoints" / "00000001" / "training.safetensors"
    shown = ("Connections", "Where training starts")
    for file, name, gone in zip((graph, record), ("length", "sampler/demonstrated_length"), shown, strict=True):
        tensors = load_file(file)
        save_file(tensors | {name: torch.tensor([7, 7])}, file)  # as many frames, of others
        html = report(run)
        assert [heading in html for heading in shown] == [heading != gone for heading in shown]
        save_file(tensors | {name: torch.tensor([6, 8])}, file)
        assert all(heading in report(run) for heading in shown)
    save_file({"sampler/mean_reward": torch.rand(15)}, record)
    assert "Where training starts" not in report(run)
