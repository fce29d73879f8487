"""The stitched trajectory graph: from every state of the other skills, an edge onto a skill's demonstrations.

Before two states are compared, the one is moved in the ground plane so that both roots stand in the same place and
head the same way: rewards are in world coordinates, and where in the world a clip was recorded means nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from skillfield.reference.kinematics import Kinematics, TrackingWeights
from skillfield.reference.motion import ReferenceMotion
from skillfield.reference.similarity import earliest_best, in_nearest_clip, similarity_exponent, similarity_features
from skillfield.reference.states import StateKinematics

__all__ = ["StitchedGraph", "build_graph", "canonical"]

_CHUNK = 2048  # states compared at once


@dataclass(frozen=True)
class StitchedGraph:
    """Edges sorted by the skill that they lead to."""

    source_row: Tensor  # [M] a state of another skill
    target_row: Tensor  # [M] the frame that it connects to
    exponent: Tensor  # [M] -ln β
    skill_start: Tensor  # [S + 1] edges of skill s are skill_start[s] … skill_start[s + 1]

    @property
    def num_edges(self) -> int:
        """M."""
        return len(self.source_row)

    def edges_of(self, skill: Tensor) -> tuple[Tensor, Tensor]:
        """First edge and number of edges of each skill."""
        first = self.skill_start[skill]
        return first, self.skill_start[skill + 1] - first

    def only(self, kept: Tensor) -> "StitchedGraph":
        """Some of the edges.  [M] bool"""
        before = torch.cat((torch.zeros_like(self.skill_start[:1]), torch.cumsum(kept, 0)))
        edges = (self.source_row[kept], self.target_row[kept], self.exponent[kept])
        return StitchedGraph(*edges, before[self.skill_start])

    def tensors(self) -> dict[str, Tensor]:
        """To be saved with a run."""
        return dict(vars(self))


@torch.no_grad()
def build_graph(
    motion: ReferenceMotion, states: StateKinematics, weights: TrackingWeights, threshold: float, margin: float = 0.0
) -> StitchedGraph:
    """One edge from each state to each other skill: to its detour, if it has one; or else to the most similar frame, if
    that is at least as similar as `threshold` (τ)."""
    everything = torch.arange(len(motion.qpos), device=motion.device)
    features = similarity_features(canonical(motion, states), weights, states.layout)
    possible = motion.start_mask()
    clip_of_row = motion.clip_of_row
    skill_of_row = motion.skill[clip_of_row]
    limit = -torch.log(torch.tensor(threshold)).item()
    detour_of_row = torch.full_like(clip_of_row, -1)
    sources, targets, exponents, counts = [], [], [], []
    for skill in range(len(motion.skills)):
        own = torch.nonzero((skill_of_row == skill) & possible).squeeze(1)
        others = torch.nonzero((skill_of_row != skill) & motion.valid & motion.demonstrated).squeeze(1)
        kept, clips = 0, len(clip_of_row[own].unique())
        entries = torch.nonzero((skill_of_row == skill) & motion.entry).squeeze(1)
        detour_of_row.fill_(-1)[motion.origin[entries]] = entries
        for part in others.split(_CHUNK) if len(own) and len(others) else ():
            exponent = similarity_exponent(features.rows(part), features.rows(own))
            if clips > 1:
                exponent = in_nearest_clip(exponent, clip_of_row[own])
            best, value = earliest_best(exponent, margin)
            detour = detour_of_row[part]
            value = torch.where(detour < 0, value, 0.0)  # a detour begins with the state itself
            near = value < limit
            sources.append(part[near])
            targets.append(torch.where(detour < 0, own[best], detour)[near])
            exponents.append(value[near])
            kept += int(near.sum())
        counts.append(kept)
    none = everything[:0]
    return StitchedGraph(
        source_row=torch.cat([none, *sources]),
        target_row=torch.cat([none, *targets]),
        exponent=torch.cat([none.float(), *exponents]),
        skill_start=torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], device=motion.device),
    )


def canonical(motion: ReferenceMotion, states: StateKinematics) -> Kinematics:
    """Every frame moved to the origin of the ground plane, heading along x."""
    origin, ahead = states.layout.plane_frame(motion.qpos)
    back = ahead * ahead.new_tensor([1.0, -1.0])
    return states(*states.layout.move_in_plane(motion.qpos, motion.qvel, back, origin, torch.zeros_like(origin)))
