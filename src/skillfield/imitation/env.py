"""The vector environment: E characters that follow reference trajectories, all in tensors.

Shape letters: E environments, A actions.
"""

import time
from dataclasses import fields

import torch
from torch import Tensor

from skillfield.characters.physics import POLICY_HZ
from skillfield.errors import ConfigError
from skillfield.imitation.carrying import onward
from skillfield.imitation.comparison import Comparison
from skillfield.imitation.config import EnvConfig
from skillfield.imitation.history import Embedding, History
from skillfield.imitation.outcome import Finals, Outcome, StepResult
from skillfield.imitation.perception import Perception
from skillfield.imitation.statistics import SkillStatistics
from skillfield.imitation.termination import floor_of_falls, lost_objects
from skillfield.recorded import Recorded
from skillfield.reference.endings import returns
from skillfield.reference.sampling import Starts, StartSampler
from skillfield.reference.states import StateKinematics
from skillfield.simulation import Engine

__all__ = ["ImitationEnv"]

_CARRY_STEPS = 30
"""An episode with fewer steps ahead of it is not worth beginning where another one ended."""

_INSIGHT = 4  # numbers that the critic is told, beside offsets

_CLOCKS = ("clip", "frame", "masked", "progress", "away", "_lived", "_return", "_silent", "_risen")


class ImitationEnv:
    """Simulates, observes, rewards and resets E environments at once."""

    def __init__(
        self, engine: Engine, sampler: StartSampler, config: EnvConfig, embedding: Embedding | None = None
    ) -> None:
        """embedding: what `history="encoder"` shows the policy of its past."""
        self.engine, self.sampler, self.config = engine, sampler, config
        self.motion = sampler.motion
        character = engine.character
        self.num_envs, self.device = engine.num_envs, engine.device
        self._actions = character.action_map(self.device)
        self._root = character.body_names.index(character.root)
        self.num_actions = self._actions.num_actions
        self.num_skills = len(self.motion.skills)
        self._perception = Perception(character, self.device)
        self.observation_size = self._perception.size(self.num_skills)
        self.condition = slice(self.observation_size - self.num_skills, self.observation_size)  # names the skill in it
        self.history: History | None = None
        if config.history in ("encoder", "stacked"):
            if config.history == "encoder" and embedding is None:
                raise ConfigError("history is 'encoder', but there is no encoder")
            remembers = embedding if config.history == "encoder" else None
            self.history = History(self.motion, character, self.num_envs, config.history_length, remembers)
        self.observation_size += self.history.size if self.history is not None else int(config.history == "time")
        self._eye = torch.eye(self.num_skills, device=self.device)
        self._has_objects = bool(character.object_names)
        self._floor = floor_of_falls(config.termination, self.motion.lowest_root)  # [S]
        ends = self.motion.demonstrated_length()
        self._last = torch.where(ends > 0, ends, self.motion.length) - 1  # [C] a detour has nothing else
        self._goes_on = self._what_goes_on(StateKinematics(character, self.device))  # [C]
        self._present = torch.cumsum(self.motion.valid, 0)  # [N] frames up to and with this one that are not missing
        self.clip, self.frame, self.masked, self.progress = (self._longs() for _ in range(4))
        self.away = torch.zeros_like(self.clip, dtype=torch.bool)  # the objects are out of reach
        self._lived = torch.zeros_like(self.away)  # the episode began where another one ended
        self._return = torch.zeros(self.num_envs, device=self.device)
        self._silent = self._longs()  # scored steps in a row that earned nothing
        self._risen = torch.zeros_like(self.away)  # the root has been over the limit, so it can fall
        self._carried = torch.zeros_like(self.away)  # this step has ended an episode, and the next begins where it is
        self._comparison = Comparison(engine, self.motion, config)
        self.anchor = self._comparison.anchor  # from where each environment is compared with its reference
        self.insight_size = _INSIGHT + self._comparison.num_offsets if config.insight else 0
        self.insight = torch.zeros(self.num_envs, self.insight_size, device=self.device)  # what the critic is told
        self.statistics = SkillStatistics.nothing(self.num_skills, self.device)
        self.masked_resets = self.device.type != "cpu"  # never ask which episodes ended: that would stall a GPU
        self.sampling_seconds = 0.0  # spent on choosing starts: what augmentation costs
        self._aim = Recorded(self._aim_now, self.device)
        self._judge = Recorded(self._judge_now, self.device)
        self._renew = Recorded(self._renew_now, self.device)
        self._look = Recorded(self._look_now, self.device)

    def fuse(self) -> None:
        """On a GPU, run what surrounds the physics in few kernels. A training is worth the minute that it takes."""
        for work in (self._aim, self._judge, self._renew, self._look):
            work.fuse()

    @property
    def skill(self) -> Tensor:
        """Number of the skill that each environment is asked for.  [E]"""
        return self.motion.skill[self.clip]

    def reset(self) -> Tensor:
        """Start every environment anew.  [E, obs]"""
        everyone = torch.arange(self.num_envs, device=self.device)
        self.start(everyone, self.sampler.sample(self.num_envs))
        return self.observe()

    def start(self, envs: Tensor, starts: Starts) -> None:
        """Begin these episodes in these environments."""
        self.engine.reset(envs, starts.qpos, starts.qvel)
        self.clip[envs], self.frame[envs], self.masked[envs] = starts.clip, starts.frame, starts.masked
        self.progress[envs], self.away[envs], self._lived[envs] = 0, starts.away, False
        if self.history is not None:
            self.history.reset(envs, starts.past_row)
        self._return[envs], self._silent[envs], self._risen[envs] = 0.0, 0, False
        self.anchor.clear(envs)

    def advance(self, actions: Tensor) -> None:
        """Act and simulate, and nothing else: what a trial needs, which outlives its clip."""
        self.engine.step(self._aim(actions))
        self.progress += 1

    def score(self) -> tuple[Tensor, Tensor, Tensor]:
        """Compare the present state with the reference: reward, whether it counts, and whether it is a failure.  [E]"""
        state = self.engine.state
        row = self.motion.row(self.clip, self.now())
        scored = (self.progress > self.masked) & self.motion.valid[row]
        reference = self.motion.kinematics(row)
        if self.anchor.needed:
            self.anchor.drop(row, state.qpos)
        current = self._comparison.current()
        lost = lost_objects(self.config.termination, current.object_pos_w, reference.object_pos_w)
        failure = state.diverged | self.fallen() | (lost & scored & ~self.away)
        return torch.where(scored, self._comparison.reward(current, reference, row, self.away), 0.0), scored, failure

    def fallen(self) -> Tensor:
        """Whose root has come under what the skill that is asked for allows: who begins there has not fallen.  [E]"""
        return self.down() & self._risen

    def down(self) -> Tensor:
        """Whose root is lower than the skill that is asked for allows.  [E] bool"""
        return self.engine.state.body_pos_w[:, self._root, 2] < self._floor[self.skill]

    def _lost(self, earned: Tensor, scored: Tensor) -> Tensor:
        """Which environments have followed nothing for too long.  [E] bool"""
        rule = self.config.termination
        if rule.lost_after is None:
            return torch.zeros_like(scored)
        count = torch.where(earned < rule.lost_reward, self._silent + 1, 0)
        self._silent.copy_(torch.where(scored, count, self._silent))  # masked steps say nothing
        return self._silent >= rule.lost_after + self.masked

    def _fill_masked(self, reward: Tensor, scored: Tensor) -> Tensor:
        """Give masked steps the mean reward of the scored environments on their clip."""
        clips, compared = self.motion.num_clips, scored & ~self.away
        total = torch.zeros(clips, device=self.device).index_add_(0, self.clip, reward * compared)
        count = torch.zeros(clips, device=self.device).index_add_(0, self.clip, compared.float())
        return torch.where(scored, reward, (total / count.clamp_min(1))[self.clip])

    def step(self, actions: Tensor) -> StepResult:
        """Act, simulate, compare with the reference one frame on, and reset what has ended."""
        self.advance(actions)
        outcome = self._judge()
        ended = outcome.terminated | outcome.truncated
        if self.masked_resets:
            self.sampler.prepare(self.num_envs)
            self.engine.reset_where(*self._renew(ended))
            return StepResult(self.observe(), *outcome, finals=None)
        observation = self.observe()
        finished = torch.nonzero(ended).squeeze(1)
        finals = Finals(finished, observation[finished], self.insight[finished])
        self._restart(ended, observation)
        return StepResult(observation, *outcome, finals=finals)

    def _aim_now(self, actions: Tensor) -> Tensor:
        """Remember the present, and turn actions into targets of the drives.  [E, A] → [E, U]"""
        self._risen.logical_or_(~self.down())
        if self.history is not None:
            self.history.push(self._perception.features(self.engine.state))
        return self._actions.targets(actions, self.engine.state.qpos)

    def _judge_now(self) -> Outcome:
        """What the step was worth, and what it ended."""
        reward, scored, failure = self.score()
        earned = reward
        if self.config.reward == "dm":
            row = self.motion.row(self.clip, self.now())
            earned = torch.where(scored, self._comparison.earned(row, self.away), 0.0)
        lost = self._lost(earned, scored) & ~failure
        terminated = failure | lost
        truncated = (self.progress >= self._limit) & ~terminated
        self._return += reward
        compared = scored & ~self.away  # with all of the demonstration: what is reported
        self.statistics.count(self.skill, reward, compared, terminated, terminated | truncated)
        earning = earned >= self.config.termination.lost_reward
        if self.config.carries:
            able = truncated | (lost & ~self.away & self._has_objects)
            self._carried.copy_(able & self._carries((~scored | earning) & ~lost & ~self.away))
            truncated = truncated & ~self._carried  # to the learner nothing has ended
        if self.config.masked == "mean":
            reward = self._fill_masked(reward, scored)
        trained = scored if self.config.masked == "skip" else torch.ones_like(scored)
        at_end = self.frame + self.progress - self.masked >= self.motion.length[self.clip] - 1
        continues = truncated & (self._goes_on[self.clip] | ~at_end)
        return Outcome(reward, compared, compared & earning, trained, terminated, truncated, continues)

    def _carries(self, follows: Tensor) -> Tensor:
        """Which would begin the next episode where they are if theirs were over.  [E] bool

        follows: who has its demonstration, objects and all. Others go on only if they have done so before: a policy
        that cannot keep its object for an episode has nothing to learn from going without it.  [E] bool
        """
        clip, frame = self._onward()
        room = self.motion.length[clip] - 1 - frame
        chance = self.config.p_carry * follows + self.config.p_lost * (self._lived & ~follows)
        return (torch.rand(self.num_envs, device=self.device) < chance) & (room >= _CARRY_STEPS)

    def _onward(self) -> tuple[Tensor, Tensor]:
        """The clip and frame that the next episode of each environment would follow if it began here.  [E], [E]"""
        return onward(self.motion, self.clip, self.now())

    def _carry_on(self, ended: Tensor) -> None:
        """Set the clocks of the episodes that begin where others ended.  [E] bool"""
        if not self.config.carries:
            return
        clip, frame = self._onward()
        row = self.motion.row(clip, frame)
        self.anchor.drop_where(self._carried, row, self.engine.state.qpos)
        # Who has ended to the learner has lost its demonstration. If it earns something from where it stands, only its
        # place was lost; otherwise its objects were.
        lost = ended & (self._comparison.earned(row, self.away) < self.config.termination.lost_reward)
        self._set_clocks(self._carried, clip, frame, torch.zeros_like(frame), self.away | lost, self._carried)

    def _set_clocks(
        self, chosen: Tensor, clip: Tensor, frame: Tensor, masked: Tensor, away: Tensor, lived: Tensor
    ) -> None:
        """Begin episodes in the environments of a mask.  [E] each"""
        zero = torch.zeros_like(self.progress)
        nobody = torch.zeros_like(away)
        fresh = (clip, frame, masked, zero, away, lived, zero.float(), zero, nobody)
        for name, value in zip(_CLOCKS, fresh, strict=True):
            clock = getattr(self, name)
            torch.where(chosen, value, clock, out=clock)

    def _renew_now(self, ended: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tell the sampler of the episodes that ended, and set the clocks of new ones: which worlds are to be reset,
        and to what.  [E] bool → [E] bool, [E, Q], [E, D]"""
        self._report(ended | self._carried)
        reset = ended & ~self._carried
        starts = self.sampler.sample_where(reset)
        if self.history is not None:
            self.history.reset_where(reset, starts.past_row)
        self._carry_on(ended)
        self._set_clocks(reset, starts.clip, starts.frame, starts.masked, starts.away, torch.zeros_like(reset))
        self.anchor.clear_where(reset)
        return reset, starts.qpos, starts.qvel

    def _look_now(self) -> Tensor:
        self._tell()
        return self._observe(None)

    def _restart(self, ended: Tensor, observation: Tensor) -> None:
        """Begin new episodes where old ones are over, and show these environments what they see now."""
        over = torch.nonzero(ended | self._carried).squeeze(1)
        if not len(over):
            return
        clock = time.perf_counter()
        self._report(ended | self._carried)
        self._carry_on(ended)
        reset = torch.nonzero(ended & ~self._carried).squeeze(1)
        starts = self.sampler.sample(len(reset))
        self.sampling_seconds += time.perf_counter() - clock
        self.start(reset, starts)
        observation[over] = self._observe(over)
        self._tell()

    @torch.no_grad()
    def observe(self) -> Tensor:
        """What every environment sees now; and `insight`, what the critic is told.  [E, obs]"""
        return self._look()

    def take_statistics(self) -> SkillStatistics:
        """Sums per skill since the last call."""
        return self.statistics.taken()

    def snapshot(self) -> dict[str, Tensor]:
        """Everything needed to go on from here bit for bit."""
        own = {name: getattr(self, name).clone() for name in _CLOCKS}
        own |= {"place": self.anchor.place.clone(), "length": self.motion.length.clone()}
        if self.history is not None:
            own["history"] = self.history.window()
        return own | self.engine.snapshot()

    def can_restore(self, snapshot: dict[str, Tensor]) -> bool:
        """Whether a snapshot has as many worlds, and they follow the clips, tails and detours that there are."""
        length = snapshot.get("length", self.motion.length)  # a version that did not write it knew no detours
        return len(snapshot["clip"]) == self.num_envs and torch.equal(length.to(self.device), self.motion.length)

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        """Go on from a snapshot."""
        nobody = torch.zeros_like(self.away)
        older = {
            "away": nobody,
            "_lived": nobody,
            "_risen": nobody,
            "place": self.anchor.at_home(),
        }  # versions that knew of none
        snapshot = older | snapshot
        for name in _CLOCKS:
            getattr(self, name).copy_(snapshot[name])
        self.anchor.place.copy_(snapshot["place"])
        if self.history is not None:
            self.history.restore(snapshot["history"])
        self.engine.restore(snapshot)
        self._tell()

    def _what_goes_on(self, states: StateKinematics) -> Tensor:
        if self.config.clip_end in ("auto", "loop"):
            return returns(self.motion, states, self.config.weights)
        return torch.full_like(self.motion.length, self.config.clip_end == "continue", dtype=torch.bool)

    @property
    def _limit(self) -> Tensor:
        """Steps after which each episode is out of time.  [E]"""
        ahead = self.motion.length[self.clip] - 1 - self.frame
        return (ahead + self.masked).clamp_max(self.config.episode_length)

    def _report(self, over: Tensor) -> None:
        """Tell the sampler of episodes that had their objects, and more steps than are masked.  [E] bool"""
        told = over & ~self.away & (self._limit > self.masked)
        self.sampler.record(self.clip, self.frame, self._mean_return(), told)

    def _mean_return(self) -> Tensor:
        """Reward per step of each episode, as a share of the best possible, so that every reward asks for hard starts
        alike. An early failure counts the steps it never took as worth nothing; an episode of which no step could be
        compared, because a long gap follows its start, counts as followed: nothing can be learned there."""
        best = len(fields(self.config.deepmimic)) - (not self._has_objects) if self.config.reward == "dm" else 1
        first = self.motion.row(self.clip, self.frame)
        last = self.motion.row(self.clip, self.frame + (self._limit - self.masked).clamp_min(0))
        steps = self._present[last] - self._present[first]  # that have a frame to be compared with
        return torch.where(steps > 0, self._return / (best * steps.clamp_min(1)), 1.0)

    def _observe(self, envs: Tensor | None) -> Tensor:
        """What some environments see, or all of them."""
        state = self.engine.state if envs is None else self.engine.state.rows(envs)
        clip = self.clip if envs is None else self.clip[envs]
        seen = self._perception.observation(state, self._eye[self.motion.skill[clip]])
        if self.config.history == "none":
            return seen
        return torch.cat((seen, self._memory(envs)), dim=1)

    def _tell(self) -> None:
        """Tell the critic what cannot be seen."""
        if not self.config.insight:
            return
        now, patience = self.now(), self.config.termination.lost_after
        columns = (
            self.away.float(),
            (self.masked - self.progress).clamp_min(0) / POLICY_HZ,
            self._silent / patience if patience else torch.zeros_like(self._return),
            now / POLICY_HZ,
        )
        offsets = self._comparison.offsets(self.motion.row(self.clip, now)).clamp(-1.0, 1.0)
        self.insight.copy_(torch.cat((torch.stack(columns, dim=1), offsets), dim=1))

    def now(self) -> Tensor:
        """The frame of its reference that each environment is at.  [E]"""
        return self.frame + (self.progress - self.masked).clamp_min(0)

    def _memory(self, envs: Tensor | None) -> Tensor:
        """What the policy knows of the past, in the form that the configuration names."""
        if self.history is None:
            now = self.now()
            now = torch.minimum(now, self._last[self.clip])  # a trial outlives its clip, and so does one that loops
            return ((now if envs is None else now[envs]) / POLICY_HZ).unsqueeze(1)
        return self.history.recall(envs)

    def _longs(self) -> Tensor:
        return torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
