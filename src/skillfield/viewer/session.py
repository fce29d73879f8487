"""One character under a policy, and everything that a person may do to it. Knows nothing of pages or of wall clocks."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray

from skillfield.characters.layout import root_kind
from skillfield.characters.physics import POLICY_HZ, bounce_restitution
from skillfield.clips import CONTACT_PAIRS
from skillfield.errors import ConfigError, ViewerError, unknown_name
from skillfield.evaluation.plan import starts_at
from skillfield.imitation import ImitationEnv
from skillfield.imitation.comparison import kinematics_of
from skillfield.learning.history_encoder import HistoryEncoder
from skillfield.learning.networks import ActorCritic
from skillfield.reference.endings import returns
from skillfield.reference.kinematics import Kinematics, tracking_error
from skillfield.reference.states import StateKinematics
from skillfield.simulation import CpuEngine
from skillfield.viewer.following import Following
from skillfield.viewer.recording import Recording
from skillfield.viewer.springs import Springs, felt_weight, movable_body, moving_mass

__all__ = ["DIRECTIONS", "GHOSTS", "Readings", "Session"]

DIRECTIONS = {
    "random": None,
    "forward": (1.0, 0.0, 0.0),
    "back": (-1.0, 0.0, 0.0),
    "left": (0.0, 1.0, 0.0),
    "right": (0.0, -1.0, 0.0),
    "up": (0.0, 0.0, 1.0),
}
"""Where a push goes, as the character sees it; random is somewhere in the plane."""

GHOSTS = ("inside", "beside", "off")
"""Where the ghost of the reference is shown."""

_BESIDE = (0.0, 1.0, 0.0)  # metres
_LIE_SECONDS = 1.0  # a fallen character is left to itself for so long before it is set up again

State = NDArray[np.float32]


@dataclass(frozen=True)
class Readings:
    """What the instruments show."""

    skill: str
    clip: str
    frame: int
    length: int
    seconds: float  # of simulated time since the last reset
    over: bool  # the clip has ended and nothing follows: there is nothing to compare with
    reward: float
    terms: dict[str, float]  # term of the reward → its factor, 0 to 1
    contacts: dict[str, tuple[bool, bool]]  # pair → touching now, touching in the reference
    embedding: tuple[float, ...]  # what the history encoder makes of the past second
    fallen: bool


class Session:
    """A world of its own: nothing that is done here reaches any other engine."""

    def __init__(self, env: ImitationEnv, model: ActorCritic, seed: int = 0) -> None:
        """env: an environment with a single world on the CPU."""
        if not isinstance(env.engine, CpuEngine) or env.num_envs != 1:
            raise ViewerError("the viewer needs an environment with one world on the CPU")
        self._env, self._model, self._engine = env, model, env.engine
        self.motion, self.character = env.motion, env.engine.character
        self._following = Following(self.motion, self.character, env.config.weights)
        self._returns = returns(self.motion, StateKinematics(self.character), env.config.weights)
        self._root = self.character.body_names.index(self.character.root)
        at_rest = torch.from_numpy(self.character.model.qpos0)
        self._rest_ahead = self._following.layout.plane_frame(at_rest)[1].tolist()
        self._key = torch.tensor(self.character.key_body_index)
        self._random = np.random.default_rng(seed)
        self._springs = Springs(env.engine)
        self._embedding: tuple[float, ...] = ()
        self.paused, self.speed = False, 1.0
        self.stands_up = True
        """Whether a fallen character is set up again."""
        self.ghost_place = "inside"
        """One of `GHOSTS`; recordings have it there, too."""
        self.recording: Recording | None = None
        self.num_steps, self.num_falls, self.num_diverged = 0, 0, 0
        self.reset()

    @property
    def skills(self) -> tuple[str, ...]:
        """What can be asked for."""
        return self.motion.skills

    @property
    def skill(self) -> str:
        """What is asked for."""
        return self.motion.skills[int(self._env.skill)]

    @property
    def clip(self) -> int:
        """Number of the clip that is followed."""
        return int(self._env.clip)

    @property
    def frame(self) -> int:
        """The frame that the character should be in; the last one once the clip is over."""
        return min(int(self._env.frame + self._env.progress), int(self.motion.length[self.clip]) - 1)

    @property
    def over(self) -> bool:
        """Whether the clip has ended and nothing follows it."""
        return int(self._env.frame + self._env.progress) > int(self.motion.length[self.clip]) - 1

    @torch.no_grad()
    def step(self) -> None:
        """One policy step, paused or not."""
        env = self._env
        self._springs.act()
        observation = env.observe()
        if isinstance(self._model.encoder, HistoryEncoder):
            self._embedding = tuple(observation[0, -self._model.encoder.size :].tolist())
        env.advance(self._model.act(observation))
        self.num_steps += 1
        self._mind_the_clip()
        self._mind_the_character()
        if self.recording is not None and not self.recording.full:
            self.recording.add(self.pose(), self._shifted_ghost())

    @torch.no_grad()
    def switch(self, skill: str) -> None:
        """Ask for a skill from here on; it is followed from its most similar frame."""
        if skill not in self.skills:
            raise ConfigError(unknown_name("skill", skill, self.skills))
        self._follow(self.skills.index(skill))

    @torch.no_grad()
    def reset(self, clip: int | None = None, frame: int = 0) -> None:
        """Put the character into a frame of a clip, where it was recorded; by default where the last reset was."""
        if clip is None:
            clip, frame = getattr(self, "_home", (0, 0))
        if not 0 <= clip < self.motion.num_clips:
            raise ConfigError(f"clip {clip} of {self.motion.num_clips}")
        frame = max(0, min(frame, int(self.motion.length[clip]) - 2))
        self._home = (clip, frame)
        starts = starts_at(self.motion, torch.tensor([clip]), torch.tensor([frame]))
        self._env.start(torch.zeros(1, dtype=torch.long), starts)
        self._following.stay()
        self._down, self._since = 0, 0
        self._springs.clear()

    def push(self, what: str, direction: str = "random", speed: float = 1.0) -> None:
        """A blow to the body or to the first object.

        what: body or ball; of a body on a fixed base, the first part that can move. speed: of something as heavy as the
            whole of it, without the base, that is hit by the same blow, m/s.
        """
        if direction not in DIRECTIONS:
            raise ConfigError(unknown_name("direction", direction, tuple(DIRECTIONS)))
        body, model = self._target(what), self._engine.present_model()
        weight = moving_mass(model, body) if what == "body" and self._is_fixed else felt_weight(model, body)
        self._engine.push(body, self._vector(direction) * speed * weight)

    def pull(self, body: int, towards: NDArray[np.float64] | None) -> None:
        """Hold a body on a spring, until it is let go with None.

        towards: from where the body is now to the other end of the spring, which stays there, metres.  [3]
        """
        if towards is None:
            self._springs.let_go(body)
        else:
            self._springs.hold(body, towards)

    @property
    def ball_mass(self) -> float | None:
        """Kilograms, as the character was built; None without an object."""
        ids = self.character.object_ids
        return float(self.character.model.body_mass[ids[0]]) if ids else None

    @property
    def ball_bounce(self) -> float | None:
        """Coefficient of restitution on the floor, as built; None where the floor has no such pair, or it has none."""
        model = self.character.model
        pairs = [f"{thing}-floor" for thing in self.character.object_names[:1]]
        numbers = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_PAIR, name) for name in pairs]
        if not numbers or numbers[0] < 0:
            return None
        stiffness, damping = model.pair_solref[numbers[0]]
        return bounce_restitution((stiffness, damping)) if damping**2 < -4.0 * stiffness else None

    def set_ball_mass(self, mass: float) -> None:
        """From the next step on."""
        if not 0 < mass < math.inf:
            raise ConfigError(f"a ball of {mass} kg")
        self._engine.set_object_mass(0, mass)

    def set_ball_bounce(self, restitution: float) -> None:
        """From the next step on."""
        if not 0 < restitution < 1:
            raise ConfigError(f"restitution is {restitution}, it must lie between 0 and 1")
        self._engine.set_object_bounce(0, restitution)

    def start_recording(self) -> None:
        """Keep every step from here on."""
        self.recording = Recording()

    def stop_recording(self) -> Recording:
        """Hand out what was kept."""
        kept, self.recording = self.recording or Recording(), None
        return kept

    def pose(self) -> State:
        """Positions of the scene.  [Q]"""
        return self._engine.state.qpos[0].numpy().copy()

    @torch.no_grad()
    def ghost(self) -> State | None:
        """Positions of the reference, in the character's world; None once the clip is over, or if it is off.  [Q]"""
        if self.over or self.ghost_place == "off":
            return None
        return self._following.pose(self.clip, self.frame).numpy()

    @property
    def ghost_shift(self) -> NDArray[np.float64]:
        """How far from there it is shown.  [3]"""
        return np.array(_BESIDE if self.ghost_place == "beside" else (0.0, 0.0, 0.0))

    def root_position(self) -> NDArray[np.float64]:
        """World frame.  [3]"""
        return self._engine.state.body_pos_w[0, self._root].double().numpy()

    @torch.no_grad()
    def readings(self) -> Readings:
        """Compare the present state with the reference."""
        state, config = self._engine.state, self._env.config
        row = self.motion.row(self._env.clip, self._env.frame + self._env.progress)
        reference = self._following.kinematics(row)
        terms = {
            term: math.exp(-weight * float(tracking_error(term, self._kinematics(), reference, self._following.layout)))
            for term, weight in vars(config.weights).items()
            if weight
        }
        touching, wanted = state.contact_pairs[0] > 0, self.motion.contact_pairs[row][0] > 0
        contacts = {
            pair: (bool(now), bool(then)) for pair, now, then in zip(CONTACT_PAIRS, touching, wanted, strict=True)
        }
        for (pair, (now, then)), weight in zip(contacts.items(), config.contact_weights, strict=True):
            terms[pair] = math.exp(-weight * (now != then))
        return Readings(
            skill=self.skill,
            clip=self.motion.names[self.clip],
            frame=self.frame,
            length=int(self.motion.length[self.clip]),
            seconds=self._since / POLICY_HZ,
            over=self.over,
            reward=math.prod(terms.values()),
            terms=terms,
            contacts=contacts,
            embedding=self._embedding,
            fallen=self._down > 0,
        )

    def _follow(self, skill: int) -> None:
        state = self._engine.state
        clip, frame = self._following.nearest(state.qpos, state.qvel, skill)
        self._following.bring(clip, frame, state.qpos)
        self._env.clip[:], self._env.frame[:], self._env.progress[:] = clip, frame, 0

    def _mind_the_clip(self) -> None:
        """A clip that returns to itself is taken up again when it ends; any other one is over."""
        if self.over and bool(self._returns[self.clip]):
            self._follow(int(self._env.skill))

    def _mind_the_character(self) -> None:
        self._since += 1
        lies = bool(self._env.down())
        self.num_falls += int(lies and not self._down)
        self._down = self._down + 1 if lies else 0
        if bool(self._engine.state.diverged):
            self.num_diverged += 1
            self._set_up_again()
        elif self.stands_up and self._down > _LIE_SECONDS * POLICY_HZ:
            self._set_up_again()

    def _set_up_again(self) -> None:
        """The skill that was asked for, from its beginning."""
        home, skill = self._home, int(self._env.skill)
        if int(self.motion.skill[home[0]]) != skill:
            home = (int(torch.nonzero(self.motion.skill == skill)[0]), 0)
        self.reset(*home)

    def _kinematics(self) -> Kinematics:
        return kinematics_of(self._engine.state, self._key, self._following.layout)

    def _target(self, what: str) -> int:
        bodies = self.character.body_ids
        targets = {"body": movable_body(self.character.model, bodies) if self._is_fixed else bodies[self._root]}
        if self.character.object_ids:
            targets["ball"] = self.character.object_ids[0]
        if what not in targets:
            raise ConfigError(unknown_name("target", what, tuple(targets)))
        return targets[what]

    @property
    def _is_fixed(self) -> bool:
        """Whether the character stands on something that cannot be pushed away."""
        return root_kind(self.character.model, self.character.body_ids[self._root]) == "fixed"

    def _shifted_ghost(self) -> State | None:
        """The ghost where it is shown.  [Q]"""
        ghost = self.ghost()
        if ghost is None:
            return None
        layout, target = self._following.layout, torch.from_numpy(self.ghost_shift[None, :2]).float()
        velocity, ahead = torch.zeros(1, layout.num_dofs), torch.tensor([[1.0, 0.0]])
        moved, _ = layout.move_in_plane(torch.from_numpy(ghost[None]), velocity, ahead, torch.zeros(1, 2), target)
        return moved[0].numpy()

    def _vector(self, direction: str) -> NDArray[np.float64]:
        chosen = DIRECTIONS[direction]
        if chosen is None:
            angle = self._random.uniform(0.0, 2.0 * math.pi)
            return np.array([math.cos(angle), math.sin(angle), 0.0])
        _, ahead = self._following.layout.plane_frame(self._engine.state.qpos)
        c, s = ahead[0].tolist()
        rest_c, rest_s = self._rest_ahead
        c, s = c * rest_c + s * rest_s, s * rest_c - c * rest_s  # as far as it has turned since it was built
        return np.array([c * chosen[0] - s * chosen[1], s * chosen[0] + c * chosen[1], chosen[2]])
