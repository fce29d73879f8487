"""Draws the pictures of the method pages: `python docs/make_figures.py RUN` with the folder of a trained `full` run.

`python docs/make_figures.py RUN field graph` draws only these.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from safetensors.torch import load_file

from skillfield.api import load_networks
from skillfield.experiments.courtside import courtside
from skillfield.experiments.run import build_motion, build_sampler, load_config, preset
from skillfield.experiments.tasks import starter
from skillfield.imitation.history import History
from skillfield.learning.checkpoint import latest_checkpoint
from skillfield.learning.history_encoder import HistoryEncoder
from skillfield.reference import AugmentedSampler, ReferenceMotion
from skillfield.reference.adaptive import AdaptiveSampling
from skillfield.reference.neighbourhood import neighbour
from skillfield.reference.similarity import masked_states

IMAGES = Path(__file__).parent / "images"
INK, ACCENT = "#30343f", "#d1495b"


PICTURES = ("field", "graph", "sampling", "embedding", "detour")


def main(run: Path, wanted: Sequence[str]) -> None:
    """These pictures, or all."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 150})
    torch.manual_seed(0)
    config = load_config(run)
    task = starter()
    character = task.character()
    motion = build_motion(task, character)
    sampler = AugmentedSampler(motion, character, config.env.weights, config.augmentation)
    for name in wanted or PICTURES:
        if name == "field":
            draw_field(sampler)
        elif name == "graph":
            draw_graph(sampler)
        elif name == "sampling":
            draw_sampling(sampler, load_file(latest_checkpoint(run) / "training.safetensors")["sampler/mean_reward"])
        elif name == "embedding":
            encoder = load_networks(run).encoder
            assert isinstance(encoder, HistoryEncoder)
            draw_embedding(encoder, History(motion, character, 1, config.env.history_length), sampler)
        elif name == "detour":
            draw_detour()
        else:
            sys.exit(f"no picture {name!r}; there are: {', '.join(PICTURES)}")


def draw_field(sampler: AugmentedSampler, clip: int = 0, first: int = 27, last: int = 57, draws: int = 30) -> None:
    """Neighbourhood starts of a part of one clip, and the frames that they connect to."""
    motion, field = sampler.motion, sampler.field
    assert field is not None
    frame = torch.linspace(first, last, draws).round().long()
    row = motion.start[clip] + frame
    qpos, qvel = neighbour(motion.qpos[row], motion.qvel[row], sampler.config.box, sampler.states.layout)
    target, exponent = field.connect(qpos, qvel, torch.full((draws,), clip))
    line = _ball_height(motion, motion.start[clip] + torch.arange(int(motion.length[clip])))
    height = sampler.states(qpos, qvel).object_pos_w[:, 0, 2]
    figure, axes = plt.subplots(figsize=(7, 3.8))
    axes.plot(
        torch.arange(len(line)) / 60, line, "o-", color=INK, lw=1.6, ms=3.5, zorder=2, label="demonstrated frames"
    )
    for start, end, at in zip(frame.tolist(), target.tolist(), height.tolist(), strict=True):
        _arrow(axes, (start / 60, at), (end / 60, float(line[end])), color=ACCENT)
    dots = axes.scatter(
        frame / 60, height, c=torch.exp(-exponent), cmap="viridis", s=34, zorder=5, label="perturbed states"
    )
    figure.colorbar(dots, label="similarity β")
    edge = 0.02
    axes.set(
        xlabel="time in the demonstration (s)",
        ylabel="ball height (m)",
        title=motion.names[clip].replace("_", " "),
        xlim=(first / 60 - edge, last / 60 + edge),
    )
    axes.legend(frameon=False)
    save(figure, "field")


def draw_graph(
    sampler: AugmentedSampler,
    above: str = "dribble_forward",
    skill: str = "dribble_right",
    below: str = "toss",
    every: int = 6,
) -> None:
    """The ball's height in three clips, and arrows from states of two to the frames of the third that they lead to."""
    motion, graph = sampler.motion, sampler.graph
    assert graph is not None
    figure, axes = plt.subplots(figsize=(7, 4.6))
    bands = {motion.names.index(name): 2.1 - 1.05 * number for number, name in enumerate((above, skill, below))}
    own = motion.names.index(skill)
    curves = {}
    for clip, band in bands.items():
        curves[clip] = band + 0.55 * _ball_height(motion, motion.start[clip] + torch.arange(int(motion.length[clip])))
        style = {"color": ACCENT, "lw": 3} if clip == own else {"color": INK, "lw": 2}
        axes.plot(torch.arange(len(curves[clip])) / 60, curves[clip], zorder=3, **style)
    colours = plt.get_cmap("viridis")
    first, last = graph.skill_start[motion.skills.index(skill) :][:2].tolist()
    for edge in range(first, last):
        source, clip = place(motion.start, graph.source_row[edge])
        target, _ = place(motion.start, graph.target_row[edge])
        if clip in bands and source % every == 0:
            start, end = (source / 60, float(curves[clip][source])), (target / 60, float(curves[own][target]))
            _arrow(axes, start, end, colours(float(torch.exp(-graph.exponent[edge]))))
            axes.plot(*start, "o", color=INK, ms=3.5, zorder=5)
    axes.set_yticks([band + 0.25 for band in bands.values()], [motion.names[clip].replace("_", "\n") for clip in bands])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlabel="time in the demonstration (s)")
    figure.colorbar(plt.cm.ScalarMappable(cmap="viridis"), ax=axes, label="similarity β")
    save(figure, "graph")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: object) -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 9, "color": color, "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style, zorder=4)


def draw_sampling(sampler: AugmentedSampler, mean_reward: torch.Tensor) -> None:
    """Reward by start frame, and the share of starts that follows from it."""
    motion, config = sampler.motion, sampler.config
    adaptive = AdaptiveSampling(motion, config.frame_sharpness, config.skill_sharpness)
    adaptive.load_state_dict({"mean_reward": mean_reward})
    weights = adaptive.weights()
    figure, panels = plt.subplots(1, motion.num_clips, figsize=(9, 2.2), sharey=True)
    for clip, (axes, name) in enumerate(zip(panels, motion.names, strict=True)):
        rows = slice(int(motion.start[clip]), int(motion.start[clip] + motion.length[clip]) - 1)  # nobody starts last
        time = torch.arange(int(motion.length[clip]) - 1) / 60
        axes.plot(time, mean_reward[rows], color=INK, lw=1.2)
        axes.set(title=name.replace("_", " "), xlabel="s", ylim=(0, 1))
        share: Axes = axes.twinx()
        share.fill_between(time, weights[rows], color=ACCENT, alpha=0.35, lw=0)
        share.set(ylim=(0, float(weights.max()) * 1.1), yticks=[])
    panels[0].set_ylabel("mean reward")
    save(figure, "sampling")


@torch.no_grad()
def draw_embedding(encoder: HistoryEncoder, history: History, sampler: AugmentedSampler) -> None:
    """Three numbers over the toss."""
    motion = sampler.motion
    clip = motion.names.index("toss")
    rows = motion.start[clip] + torch.arange(int(motion.length[clip]))
    embedding = encoder(history.past_of(rows))
    figure, axes = plt.subplots(figsize=(7, 2.6))
    axes.axvspan(18 / 60, 48 / 60, color="#e6e8ee", lw=0)
    for number in range(embedding.shape[1]):
        axes.plot(torch.arange(len(rows)) / 60, embedding[:, number], lw=1.5, label=f"h[{number}]")
    axes.set(xlabel="time in the toss demonstration (s)", ylabel="embedding")
    axes.legend(frameon=False)
    save(figure, "embedding")


@torch.no_grad()
def draw_detour(source: str = "courtside_shot_1", skill: str = "dribble_left", begins: int = 150) -> None:
    """The ball's height from a state in mid-flight on: by the edge alone, and by the detour."""
    config, task = preset("courtside", "full").in_the_end(), courtside()
    character = task.character()
    motion = build_motion(task, character)
    plain = replace(config, augmentation=replace(config.augmentation, detours=False))
    samplers = [build_sampler(which, motion, character) for which in (plain, config)]
    shown = motion.names.index(source)
    frames = torch.arange(int(motion.length[shown]))
    figure, axes = plt.subplots(figsize=(7, 3))
    axes.plot(
        frames / 60, _ball_height(motion, motion.start[shown] + frames), color="#9aa0ad", lw=4, label="courtside's shot"
    )
    times = torch.tensor([begins])
    start = _ball_height(motion, motion.start[shown] + times)
    styles = ({"color": INK, "label": "the edge alone"}, {"color": ACCENT, "label": "with a detour"})
    for sampler, style in zip(samplers, styles, strict=True):
        reference, graph = sampler.motion, sampler.graph
        assert graph is not None
        first, last = graph.skill_start[task.skills.index(skill) :][:2].tolist()
        state = reference.start[reference.names.index(source)] + begins
        edge = first + int(torch.nonzero(graph.source_row[first:last] == state))
        target = graph.target_row[edge]
        clip = reference.clip_of_row[target]
        rows = torch.arange(int(target) + 1, int(reference.start[clip] + reference.length[clip]))
        waits = int(masked_states(graph.exponent[edge], sampler.config.max_masked))
        time, height = begins + 1 + waits + torch.arange(len(rows)), _ball_height(reference, rows)
        told = reference.valid[rows]
        gaps = (torch.cat((times, time[told])) / 60, torch.cat((start, height[told])))  # straight across what is masked
        axes.plot(*gaps, lw=1.2, ls=":", color=style["color"])
        height[~told] = torch.nan
        axes.plot(time / 60, height, lw=1.8, **style)
    axes.plot([], [], lw=1.2, ls=":", color=INK, label="masked states")
    axes.plot(times / 60, start, "o", color=INK)
    axes.set(xlabel="time (s)", ylabel="ball height (m)", xlim=(1, 4.6))
    axes.legend(frameon=False)
    save(figure, "detour")


def _ball_height(motion: ReferenceMotion, rows: torch.Tensor) -> torch.Tensor:
    return motion.kinematics(rows).object_pos_w[:, 0, 2]


def place(start: torch.Tensor, row: torch.Tensor) -> tuple[int, int]:
    """Frame and clip of a row."""
    clip = int(torch.searchsorted(start, row, right=True)) - 1
    return int(row - start[clip]), clip


def save(figure: plt.Figure, name: str) -> None:
    """As a PNG beside the pages."""
    figure.tight_layout()
    figure.savefig(IMAGES / f"{name}.png", pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
