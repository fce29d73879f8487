"""Where training starts: mean reward and adaptive weight of every frame, clip by clip.

Shape letters: N frames of all clips, C clips, S skills.
"""

import numpy as np
import torch

from skillfield.reference.adaptive import skill_weights, start_weights
from skillfield.reporting.charts import Numbers, area_chart
from skillfield.reporting.runs import RunRecord

__all__ = ["relative_weights", "start_charts"]


def start_charts(record: RunRecord) -> list[str]:
    """A chart per clip; none if the run does not adapt, or its folder does not say."""
    if record.mean_reward is None or not record.augmentation["adapt"]:
        return []
    weights, shares = relative_weights(record)
    charts = []
    for clip, share in zip(record.clips, shares, strict=True):
        rows = slice(clip.start, clip.start + clip.length)
        reward = np.where(np.isfinite(weights[rows]), record.mean_reward[rows], np.nan)
        charts.append(area_chart(clip.name, f"{100 * share:.0f} % of starts", reward, weights[rows]))
    return charts


def relative_weights(record: RunRecord) -> tuple[Numbers, Numbers]:
    """How much more often than evenly each frame of a clip is started from, and each clip's share of all starts.

    Frames that no episode starts from are not a number.  [N], [C]
    """
    assert record.mean_reward is not None
    clips, augmentation = record.clips, record.augmentation
    reward = torch.from_numpy(record.mean_reward).float()
    clip = torch.repeat_interleave(torch.arange(len(clips)), torch.tensor([c.length for c in clips]))
    possible = torch.ones(len(clip), dtype=torch.bool)
    for c in clips:
        possible[[c.start + frame for frame in (*c.missing, c.length - 1)]] = False
    frames = torch.zeros(len(clips)).index_add_(0, clip, possible.float())  # [C]
    within = start_weights(reward, clip, possible, len(clips), augmentation["frame_sharpness"]) * frames[clip]
    clip_mean = torch.zeros(len(clips)).index_add_(0, clip, reward * possible) / frames.clamp_min(1)
    skills = list(dict.fromkeys(c.skill for c in clips))
    of_skill = torch.tensor([skills.index(c.skill) for c in clips])
    count = torch.bincount(of_skill)  # [S]
    skill_mean = torch.zeros(len(skills)).index_add_(0, of_skill, clip_mean) / count
    shares = (skill_weights(skill_mean, augmentation["skill_sharpness"]) / count)[of_skill]
    return torch.where(possible, within, torch.nan).double().numpy(), shares.double().numpy()
