"""Clips alone, without simulation: play them, scrub them, and go along the edges of the stitched graph over them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from skillfield.characters import Character
from skillfield.clips import CONTACT_PAIRS, Clip
from skillfield.errors import ConfigError
from skillfield.reference import Augmentation, ReferenceMotion, TrackingWeights
from skillfield.reference.graph import build_graph
from skillfield.reference.states import StateKinematics

__all__ = ["ClipSession", "Edge"]

_RUN_UP = 45  # frames that are shown before a jump

State = NDArray[np.float32]


@dataclass(frozen=True)
class Edge:
    """One connection of the stitched graph: a frame of another skill, and the frame that it leads to."""

    source_clip: int
    source_frame: int
    target_clip: int
    target_frame: int
    similarity: float  # β


class ClipSession:
    """A reader of clips: a position, whether it moves, and the edge that is looked at."""

    def __init__(self, clips: Sequence[Clip], character: Character, weights: TrackingWeights | None = None) -> None:
        skills = tuple(dict.fromkeys(sorted(clip.skill for clip in clips)))
        self.character = character
        self.motion = ReferenceMotion(clips, character, skills)
        self._layout = character.layout()
        weights = (weights or TrackingWeights()).at_least(0.1, 0.1)  # as the shipped tasks compare states
        self._graph = build_graph(self.motion, StateKinematics(character), weights, Augmentation().threshold)
        self.paused, self.speed, self.num_steps = False, 1.0, 0
        self.clip, self.frame = 0, 0
        self._edge: Edge | None = None
        self._run_up = 0

    @property
    def skills(self) -> tuple[str, ...]:
        """Of the clips."""
        return self.motion.skills

    @property
    def edge(self) -> Edge | None:
        """The edge that is looked at, or jumped along."""
        return self._edge

    def edges_into(self, skill: str) -> int:
        """How many edges lead to a skill."""
        number = self.skills.index(skill)
        return int(self._graph.skill_start[number + 1] - self._graph.skill_start[number])

    def go(self, clip: int, frame: int) -> None:
        """To a frame of a clip."""
        if not 0 <= clip < self.motion.num_clips:
            raise ConfigError(f"clip {clip} of {self.motion.num_clips}")
        self._edge, self._run_up = None, 0
        self.clip, self.frame = clip, max(0, min(frame, int(self.motion.length[clip]) - 1))

    def look(self, skill: str, number: int) -> Edge:
        """Stop at an edge and show both of its ends."""
        if not 0 <= number < self.edges_into(skill):
            raise ConfigError(f"edge {number} of {self.edges_into(skill)} into '{skill}'")
        row = int(self._graph.skill_start[self.skills.index(skill)]) + number
        source, target = self._place(self._graph.source_row[row]), self._place(self._graph.target_row[row])
        self.go(*target)
        self.paused = True
        self._edge = Edge(*source, *target, float(torch.exp(-self._graph.exponent[row])))
        return self._edge

    def jump(self) -> None:
        """Run up to the edge that is looked at, along its source, and go on along its target."""
        if self._edge is None:
            raise ConfigError("no edge is chosen")
        edge = self._edge
        self._run_up = min(_RUN_UP, edge.source_frame)
        self.clip, self.frame = edge.source_clip, edge.source_frame - self._run_up
        if not self._run_up:
            self._land(edge)
        self.paused = False

    def step(self) -> None:
        """One frame on; after the last comes the first."""
        self.num_steps += 1
        if self._edge is not None and self._run_up:
            self._run_up -= 1
            self.frame += 1
            if not self._run_up:
                self._land(self._edge)
            return
        self.frame = (self.frame + 1) % int(self.motion.length[self.clip])
        if self.frame == 0:
            self._edge = None

    @property
    def before_the_jump(self) -> bool:
        """Whether the source of an edge is on, and not yet its target."""
        return self._run_up > 0

    def pose(self) -> State:
        """Positions of the scene.  [Q]"""
        if self._edge is not None and self._run_up:
            return self._aligned(self.frame)
        return self.motion.qpos[self._row(self.clip, self.frame)].numpy()

    def ghost(self) -> State | None:
        """The other end of the edge: where the source would go on, or where it was left.  [Q]"""
        if self._edge is None:
            return None
        if self._run_up:
            return self.motion.qpos[self._row(self._edge.target_clip, self._edge.target_frame)].numpy()
        ahead = self.frame - self._edge.target_frame
        length = int(self.motion.length[self._edge.source_clip])
        return self._aligned(min(self._edge.source_frame + max(0, ahead), length - 1))

    def root_position(self) -> NDArray[np.float64]:
        """Where the character stands, roughly: height is of no concern.  [3]"""
        origin, _ = self._layout.plane_frame(torch.from_numpy(self.pose()))
        return np.array([*origin.tolist(), 0.0])

    def contacts(self) -> dict[str, bool]:
        """What touches in this frame."""
        labels = self.motion.contact_pairs[self._row(self.clip, self.frame)] > 0
        return dict(zip(CONTACT_PAIRS, labels.tolist(), strict=True))

    @property
    def missing(self) -> bool:
        """Whether the demonstration lacks this frame."""
        return not bool(self.motion.valid[self._row(self.clip, self.frame)])

    def _land(self, edge: Edge) -> None:
        self.clip, self.frame = edge.target_clip, edge.target_frame

    def _aligned(self, frame: int) -> State:
        """A frame of the edge's source, moved as the edge asks: its source frame stands where its target does."""
        edge = self._edge
        assert edge is not None
        rows = [
            self._row(*place)
            for place in ((edge.source_clip, edge.source_frame), (edge.target_clip, edge.target_frame))
        ]
        onto = self._layout.alignment(self.motion.qpos[rows[:1]], self.motion.qpos[rows[1:]])
        row = self._row(edge.source_clip, frame)
        qpos, _ = self._layout.move_in_plane(self.motion.qpos[row : row + 1], self.motion.qvel[row : row + 1], *onto)
        return qpos[0].numpy()

    def _row(self, clip: int, frame: int) -> int:
        return int(self.motion.start[clip]) + frame

    def _place(self, row: torch.Tensor) -> tuple[int, int]:
        clip = int(self.motion.clip_of_row[row])
        return clip, int(row - self.motion.start[clip])
