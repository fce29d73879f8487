"""Online augmentation of demonstrations (paper, Algorithm 1): stitched, perturbed, reconnected, adaptively sampled.

With every switch off this is reference state initialisation: a skill, a clip and a frame at random.
Shape letters: n episodes, Q, D as in MuJoCo.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.configuration import CHANCE, NOT_NEGATIVE, check
from skillfield.errors import ConfigError
from skillfield.reference.adaptive import AdaptiveSampling
from skillfield.reference.away import out_of_reach
from skillfield.reference.field import TransitionField
from skillfield.reference.graph import StitchedGraph, build_graph
from skillfield.reference.kinematics import TrackingWeights
from skillfield.reference.motion import ReferenceMotion
from skillfield.reference.neighbourhood import Neighbourhood, neighbour
from skillfield.reference.sampling import Starts, StartSampler
from skillfield.reference.similarity import masked_states
from skillfield.reference.states import StateKinematics

__all__ = ["Augmentation", "AugmentedSampler"]


_POOL = 256  # starts drawn at once
_POOL_CALLS = 64  # steps that a pool lasts: drawing asks for 1,700 small kernels, however many starts it gives
_POOL_STARTS = 2  # per environment: one for every 32 steps


@dataclass(frozen=True)
class Augmentation:
    """Which parts are on, and their hyper-parameters (paper, table of augmentation hyper-parameters)."""

    neighbourhood: bool = False
    """ε-NSI: some starts are drawn from the neighbourhood of their state."""
    connect: bool = False
    """STF: such a start follows its most similar frame, after masked states; off: its own frame, at once."""
    stitch: bool = False
    """STG: some starts are states of other skills."""
    adapt: bool = False
    """ATS: hard starts and hard skills more often."""
    detours: bool = False
    """STG: a state that no frame of the skill is like first follows its own demonstration (not in the paper)."""
    p_external: float = 0.1
    """p_e: share of starts from other skills."""
    p_neighbour: float = 0.1
    """p_n: share of starts from a neighbourhood."""
    frame_sharpness: float = 10.0
    """λ_s: how strongly hard frames are preferred."""
    skill_sharpness: float = 5.0
    """λ_c: how strongly hard skills are preferred."""
    threshold: float = 1e-10
    """τ: connections less similar than this do not exist."""
    p_away: float = 0.0
    """Share of starts with the object out of reach, which follow the body alone (not in the paper)."""
    max_masked: int = 10
    """N_max: masked states at most."""
    velocity: float = 0.0
    """Weight of body and object velocities in the similarity (paper: none; release: 0.1). Without it a falling ball
    connects to a rising one at the same height."""
    margin: float = 0.0
    """Frames whose -ln β is within this of the best are equally similar, and the earliest is taken (paper: 0)."""
    box: Neighbourhood = field(default_factory=Neighbourhood)
    """ε of each field."""

    def __post_init__(self) -> None:
        if self.connect and not self.neighbourhood:
            raise ConfigError("augmentation: connect (STF) needs neighbourhood (ε-NSI): there is nothing to connect")
        check("augmentation", self, CHANCE, "p_external", "p_neighbour", "p_away")
        numbers = ("frame_sharpness", "skill_sharpness", "max_masked", "velocity", "margin")
        check("augmentation", self, NOT_NEGATIVE, *numbers)
        if not 0.0 < self.threshold < 1.0:
            raise ConfigError(f"augmentation: threshold is {self.threshold}, a similarity is between 0 and 1")

    @property
    def limit(self) -> float:
        """-ln τ."""
        return -math.log(self.threshold)


class AugmentedSampler(StartSampler):
    """Algorithm 1, for n episodes at once."""

    def __init__(
        self, motion: ReferenceMotion, character: Character, weights: TrackingWeights, config: Augmentation
    ) -> None:
        self.motion, self.config = motion, config
        weights = weights.at_least(config.velocity, config.velocity)
        self._drawn: Starts | None = None
        self._pool: Starts | None = None
        self._pool_age = 0
        self._pool_next = torch.zeros((), dtype=torch.long, device=motion.device)
        self.notes: list[str] = []
        """What could not be done, for people."""
        self.states = StateKinematics(character, motion.device)
        everything = torch.arange(len(motion.qpos), device=motion.device)
        self._lowest = motion.kinematics(everything).object_pos_w[..., 2].amin(dim=0)  # [O]
        self.adaptive = AdaptiveSampling(
            motion,
            config.frame_sharpness if config.adapt else 0.0,
            config.skill_sharpness if config.adapt else 0.0,
        )
        self.field = TransitionField(motion, self.states, weights, config.margin) if config.connect else None
        self.graph = self._build_graph(weights) if config.stitch else None

    def sample(self, count: int) -> Starts:
        """Hand out starts; they are drawn many at a time, because a batch costs hardly more than a single one."""
        if self._drawn is None or len(self._drawn.clip) < count:
            fresh = self.draw(max(count, _POOL))
            self._drawn = fresh if self._drawn is None else self._drawn.joined(fresh)
        given, self._drawn = self._drawn.split(count)
        return given

    def draw(self, count: int) -> Starts:
        """Algorithm 1: start states and the trajectories {s, masked …, ŝ_j, …, ŝ_T} that they follow."""
        motion, config = self.motion, self.config
        clip, frame = self.adaptive.sample(count)
        row = motion.row(clip, frame)
        qpos, qvel, past_row = motion.qpos[row], motion.qvel[row], row.clone()
        exponent = torch.zeros(count, device=motion.device)  # -ln β of the connection

        if self.graph is not None:
            external = self._chance(count, config.p_external)
            edge, exists = self._edges(self.graph, motion.skill[clip])
            external &= exists
            row = torch.where(external, self.graph.target_row[edge], row)
            past_row = torch.where(external, self.graph.source_row[edge], past_row)
            exponent = torch.where(external, self.graph.exponent[edge], exponent)
            qpos, qvel = self._aligned(past_row, row)
            clip = motion.clip_of_row[row]
            frame = row - motion.start[clip]

        if config.neighbourhood:
            chosen = torch.nonzero(self._chance(count, config.p_neighbour)).squeeze(1)
            if len(chosen):
                near_qpos, near_qvel = neighbour(qpos[chosen], qvel[chosen], config.box, self.states.layout)
                if self.field is not None:
                    near_frame, near_exponent = self.field.connect(near_qpos, near_qvel, clip[chosen])
                    kept = near_exponent < config.limit
                    chosen, near_qpos, near_qvel = chosen[kept], near_qpos[kept], near_qvel[kept]
                    frame[chosen], exponent[chosen] = near_frame[kept], near_exponent[kept]
                    # its past is that of the frame it follows, so that memory and reference clock agree; that of a
                    # state of another skill remains that skill's, as in every transition that is tested
                    followed, came = motion.origin[motion.row(clip[chosen], frame[chosen])], past_row[chosen]
                    at_home = motion.skill_of(followed) == motion.skill_of(came)
                    past_row[chosen] = torch.where(at_home, followed, came)
                qpos[chosen], qvel[chosen] = near_qpos, near_qvel

        masked = masked_states(exponent, config.max_masked)
        away = torch.zeros_like(clip, dtype=torch.bool)
        if config.p_away and len(self._lowest):  # without objects none can be away
            away = self._chance(count, config.p_away)
            far_qpos, far_qvel = out_of_reach(qpos, qvel, self._lowest, self.states.layout)
            qpos, qvel = (torch.where(away.unsqueeze(1), *pair) for pair in ((far_qpos, qpos), (far_qvel, qvel)))
        return Starts(qpos, qvel, clip, frame, masked, past_row, away)

    def prepare(self, envs: int) -> None:
        """Fill the pool anew every few calls."""
        if self._pool is None:
            self._pool = self.draw(_POOL_STARTS * envs)
        elif self._pool_age == _POOL_CALLS:
            self._pool.copy_(self.draw(_POOL_STARTS * envs))
            self._pool_next.zero_()
            self._pool_age = 0
        self._pool_age += 1

    def sample_where(self, ended: Tensor) -> Starts:
        """The next starts of the pool; if it runs dry, it begins again."""
        assert self._pool is not None
        number = torch.cumsum(ended, 0)  # 1 for the first that ended, 2 for the second, …
        starts = self._pool.rows((self._pool_next + number - 1).clamp_min(0) % len(self._pool.clip))
        self._pool_next += number[-1]
        return starts

    def record(self, clip: Tensor, frame: Tensor, mean_reward: Tensor, ended: Tensor) -> None:
        self.adaptive.record(clip, frame, mean_reward, ended)

    def state_dict(self) -> dict[str, Tensor]:
        drawn = {} if self._drawn is None else {f"drawn/{name}": value for name, value in vars(self._drawn).items()}
        return {**self.adaptive.state_dict(), "length": self.motion.length, **drawn}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.adaptive.load_state_dict(state)
        drawn = {name.removeprefix("drawn/"): value for name, value in state.items() if name.startswith("drawn/")}
        known = drawn.keys() == Starts.__dataclass_fields__.keys()  # an older version may have drawn other columns
        length = state.get("length", self.motion.length)
        known &= torch.equal(length.to(self.motion.device), self.motion.length)  # or for other clips
        self._drawn = Starts(**{name: value.to(self.motion.device) for name, value in drawn.items()}) if known else None

    def _build_graph(self, weights: TrackingWeights) -> StitchedGraph | None:
        if len(self.motion.skill.unique()) < 2:
            self.notes.append("one skill only: there is nothing to stitch, starts from other skills are off")
            return None
        graph = build_graph(self.motion, self.states, weights, self.config.threshold, self.config.margin)
        if not graph.num_edges:
            self.notes.append(f"no two skills are as similar as τ = {self.config.threshold:g}: the graph has no edges")
            return None
        return graph

    def _chance(self, count: int, probability: float) -> Tensor:
        return torch.rand(count, device=self.motion.device) < probability

    def _edges(self, graph: StitchedGraph, skill: Tensor) -> tuple[Tensor, Tensor]:
        """One edge into each skill, uniformly; and whether there is any."""
        first, edges = graph.edges_of(skill)
        drawn = (torch.rand(len(skill), device=skill.device) * edges).long().clamp_max(graph.num_edges - 1)
        return (first + drawn).clamp_max(graph.num_edges - 1), edges > 0

    def _aligned(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """States of source rows, moved in the plane to where the target rows stand and head."""
        motion, layout = self.motion, self.states.layout
        onto = layout.alignment(motion.qpos[source], motion.qpos[target])
        return layout.move_in_plane(motion.qpos[source], motion.qvel[source], *onto)
