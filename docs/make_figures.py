"""Draws the pictures of the method pages: `python docs/make_figures.py RUN` with the folder of a trained `full` run."""

import sys
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


def main(run: Path) -> None:
    """All pictures."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 150})
    torch.manual_seed(0)
    config = load_config(run)
    task = starter()
    character = task.character()
    motion = build_motion(task, character)
    sampler = AugmentedSampler(motion, character, config.env.weights, config.augmentation)
    draw_field(sampler)
    draw_graph(sampler)
    draw_sampling(sampler, load_file(latest_checkpoint(run) / "training.safetensors")["sampler/mean_reward"])
    encoder = load_networks(run).encoder
    assert isinstance(encoder, HistoryEncoder)
    draw_embedding(encoder, History(motion, character, 1, config.env.history_length), sampler)
    draw_detour()


def draw_field(sampler: AugmentedSampler, clip: int = 0, draws: int = 160) -> None:
    """Neighbourhood starts of one clip, and what they connect to."""
    motion, field = sampler.motion, sampler.field
    assert field is not None
    frame = torch.randint(0, int(motion.length[clip]) - 1, (draws,))
    row = motion.row(torch.full((draws,), clip), frame)
    qpos, qvel = neighbour(motion.qpos[row], motion.qvel[row], sampler.config.box, sampler.states.layout)
    target, exponent = field.connect(qpos, qvel, torch.full((draws,), clip))
    rows = motion.start[clip] + torch.arange(int(motion.length[clip]))
    line = motion.kinematics(rows).object_pos_w[:, 0, 2]
    height = sampler.states(qpos, qvel).object_pos_w[:, 0, 2]
    figure, axes = plt.subplots(figsize=(7, 3))
    axes.plot(torch.arange(len(line)) / 60, line, color=INK, lw=1.6, zorder=3)
    for start, end, at in zip(frame.tolist(), target.tolist(), height.tolist(), strict=True):
        axes.plot([start / 60, end / 60], [at, float(line[end])], color="#9aa0ad", lw=0.5, zorder=1)
    dots = axes.scatter(frame / 60, height, c=torch.exp(-exponent), cmap="viridis", s=14, zorder=4)
    figure.colorbar(dots, label="similarity β")
    axes.set(
        xlabel="time in the demonstration (s)", ylabel="ball height (m)", title=motion.names[clip].replace("_", " ")
    )
    save(figure, "field")


def draw_graph(sampler: AugmentedSampler, lines: int = 500) -> None:
    """A bar per clip, a line per edge."""
    motion, graph = sampler.motion, sampler.graph
    assert graph is not None
    figure, axes = plt.subplots(figsize=(7, 3.4))
    pick = torch.randperm(graph.num_edges)[:lines]
    masked = masked_states(graph.exponent[pick], sampler.config.max_masked)
    colours = plt.get_cmap("viridis")(masked.float() / max(1, int(masked.max())))
    for source, target, colour in zip(graph.source_row[pick], graph.target_row[pick], colours, strict=True):
        (x0, y0), (x1, y1) = place(motion.start, source), place(motion.start, target)
        axes.plot([x0 / 60, x1 / 60], [y0, y1], color=colour, lw=0.4, alpha=0.7)
    for clip, length in enumerate(motion.length.tolist()):
        axes.plot([0, length / 60], [clip, clip], color=INK, lw=5, solid_capstyle="butt", zorder=3)
    axes.set_yticks(range(motion.num_clips), [name.replace("_", " ") for name in motion.names])
    axes.set(xlabel="time in the demonstration (s)")
    scale = plt.cm.ScalarMappable(cmap="viridis", norm=plt.Normalize(0, max(1, int(masked.max()))))
    figure.colorbar(scale, ax=axes, label="masked states", ticks=range(int(masked.max()) + 1))
    save(figure, "graph")


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
    axes.plot(frames / 60, _ball_height(motion, motion.start[shown] + frames), color="#9aa0ad", lw=4)
    styles = ({"color": INK, "ls": "--", "label": "the edge alone"}, {"color": ACCENT, "label": "with a detour"})
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
        height[~reference.valid[rows]] = torch.nan
        axes.plot(time / 60, height, lw=1.6, **style)
    start = _ball_height(motion, motion.start[shown] + torch.tensor([begins]))
    axes.plot([begins / 60], start, "o", color=ACCENT)
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
    figure.savefig(IMAGES / f"{name}.png")
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
