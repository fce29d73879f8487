"""Adaptive trajectory sampling: start more often where imitation is still bad (paper, ATS).

Shape letters: N frames of all clips, C clips, S skills.
"""

import torch
from torch import Tensor

from skillfield.errors import CheckpointError
from skillfield.reference.motion import ReferenceMotion

__all__ = ["AdaptiveSampling", "skill_weights", "start_weights"]

_LARGEST = 50.0
"""The exponent of each clip's most likely frame is brought down to this, because e^-100 is 0 in single precision. With
the usual sharpnesses it is smaller and left as it is, to the bit."""


def start_weights(mean_reward: Tensor, clip: Tensor, possible: Tensor, clips: int, sharpness: float) -> Tensor:
    """p_i = exp(-λ_s r̄_i) / Σ_j exp(-λ_s r̄_j) within each clip; frames that cannot be started from get nothing.  [N]"""
    exponent = sharpness * mean_reward
    least = torch.full((clips,), torch.inf, device=exponent.device)
    least = least.scatter_reduce(0, clip, exponent.masked_fill(~possible, torch.inf), "amin")  # [C]
    shift = (least - _LARGEST).clamp_min(0.0)  # the same factor for a whole clip, which its sum takes out again
    weight = torch.where(possible, torch.exp(shift[clip] - exponent), 0.0)
    total = torch.zeros(clips, device=weight.device).index_add_(0, clip, weight)
    return weight / total.clamp_min(1e-30)[clip]


def skill_weights(mean_reward: Tensor, sharpness: float) -> Tensor:
    """The same over whole skills or clips: a softmax of -λ_c times their mean reward."""
    return torch.softmax(-sharpness * mean_reward, dim=0)


class AdaptiveSampling:
    """Which frame to start from: hard ones more often. With both sharpnesses 0 it is uniform."""

    def __init__(
        self, motion: ReferenceMotion, frame_sharpness: float, skill_sharpness: float, rate: float = 0.1
    ) -> None:
        """frame_sharpness: λ_s; skill_sharpness: λ_c; rate: how fast a running mean follows new episodes."""
        self._motion, self._rate = motion, rate
        self._frame_sharpness, self._skill_sharpness = frame_sharpness, skill_sharpness
        self._possible = motion.start_mask()
        self._clip = motion.clip_of_row
        self.mean_reward = torch.zeros(len(self._clip), device=motion.device)  # [N] a frame never tried counts as 0

    def weights(self) -> Tensor:
        """Probability of every frame.  [N]"""
        motion = self._motion
        within = start_weights(self.mean_reward, self._clip, self._possible, motion.num_clips, self._frame_sharpness)
        frames = torch.zeros(motion.num_clips, device=motion.device).index_add_(0, self._clip, self._possible.float())
        clip_sum = torch.zeros(motion.num_clips, device=motion.device).index_add_(
            0, self._clip, self.mean_reward * self._possible
        )
        clip_mean = clip_sum / frames.clamp_min(1)
        clips = torch.zeros(len(motion.skills), device=motion.device).index_add_(0, motion.skill, (frames > 0).float())
        skill_mean = torch.zeros_like(clips).index_add_(0, motion.skill, clip_mean) / clips.clamp_min(1)
        present = clips > 0
        of_skill = torch.zeros_like(clips)
        of_skill[present] = skill_weights(skill_mean[present], self._skill_sharpness)
        return within * (of_skill / clips.clamp_min(1))[motion.skill][self._clip]

    def sample(self, count: int) -> tuple[Tensor, Tensor]:
        """Clips and frames to start from.  [count] each"""
        cumulative = torch.cumsum(self.weights().double(), dim=0)
        draw = torch.rand(count, dtype=torch.float64, device=self._motion.device) * cumulative[-1]
        row = torch.searchsorted(cumulative, draw, right=True).clamp_max(len(cumulative) - 1)
        clip = self._clip[row]
        return clip, row - self._motion.start[clip]

    def record(self, clip: Tensor, frame: Tensor, mean_reward: Tensor, ended: Tensor) -> None:
        """Fold in the episodes that ended; several of one frame count as their mean, with the weight of all of them."""
        if not (self._frame_sharpness or self._skill_sharpness):
            return
        row = self._motion.row(clip, frame)
        count = torch.zeros_like(self.mean_reward).index_add_(0, row, ended.float())
        total = torch.zeros_like(self.mean_reward).index_add_(0, row, mean_reward * ended)
        share = 1 - (1 - self._rate) ** count
        self.mean_reward += share * (total / count.clamp_min(1) - self.mean_reward)

    def state_dict(self) -> dict[str, Tensor]:
        """The statistics of demonstrated frames, and how many of each clip's that are; detours have none."""
        motion, clips = self._motion, len(self._motion.recorded_length)
        return {
            "mean_reward": self.mean_reward[motion.demonstrated],
            "demonstrated_length": motion.demonstrated_length()[:clips],
            "recorded_length": motion.recorded_length.clone(),  # a file holds no tensor twice
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on with statistics of an earlier session, as far as its frames are still demonstrated; frames that it did
        not know are as never tried."""
        motion = self._motion
        recorded, mean_reward = motion.recorded_length.tolist(), state["mean_reward"].to(motion.device)
        shown = motion.demonstrated_length()[: len(recorded)].tolist()
        whole = len(mean_reward) == sum(recorded)
        known = _numbers(state, "demonstrated_length", recorded if whole else shown)  # older versions did not say
        if (found := _numbers(state, "recorded_length", recorded)) != recorded:
            raise CheckpointError(f"the record of hard starts is of clips with {found} frames, these have {recorded}")
        self.mean_reward.zero_()
        starts = motion.start[: len(recorded)].tolist()
        for values, start, length in zip(mean_reward.split(known), starts, shown, strict=True):
            kept = values[:length]
            self.mean_reward[start : start + len(kept)] = kept


def _numbers(state: dict[str, Tensor], name: str, otherwise: list[int]) -> list[int]:
    """A column of whole numbers, if it is there."""
    return [int(value) for value in state[name]] if name in state else otherwise
