"""Trials and executions of one policy: where they begin, and what comes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from skillfield.characters.physics import POLICY_HZ
from skillfield.errors import ConfigError
from skillfield.evaluation.crew import Crew
from skillfield.evaluation.plan import TrialPlan, check_trials, shuffled_frames, starts_at
from skillfield.evaluation.rollout import Trials, run_trials
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reference import ReferenceMotion, Starts
from skillfield.reference.neighbourhood import neighbour

__all__ = ["Closeness", "Judge", "Round"]


@dataclass(frozen=True)
class Round:
    """Trials to come. Those that would be the same are run once."""

    pairs: tuple[tuple[str, str], ...]
    """Skill that a trial begins in, and skill that is asked for; each pair has as many trials."""
    skill: Tensor  # [m] number of the skill whose rule judges
    starts: Starts  # [m]
    like: Tensor  # [n] which of the m is each of all trials, pair by pair


class Judge:
    """Runs trials of one policy and lets each skill's rule judge them."""

    def __init__(self, crew: Crew, model: ActorCritic, plan: TrialPlan, seed: int) -> None:
        self._crew, self._model, self._plan = crew, model, plan
        env = crew.env
        self._character, self._motion = env.engine.character, env.motion
        self._layout = self._character.layout(env.device)
        self._generator = torch.Generator(env.device).manual_seed(seed)
        self._steps = round(plan.seconds * POLICY_HZ)

    def check_memory(self, trials: int, transition_trials: int | None) -> None:
        """Refuse more trials than there is memory for."""
        check_trials(self._plan, self._character, self._motion.device, trials, transition_trials)

    def own_states(self, trials: int) -> Round:
        """SR: from reference states of the skill itself."""
        return self._round([(skill, skill) for skill in self._plan.skills], trials)

    def neighbours(self, trials: int) -> Round:
        """εNSR: from the neighbourhood of those."""
        return self._round([(skill, skill) for skill in self._plan.skills], trials, near=True)

    def other_states(self, trials: int) -> Round:
        """TSR: from reference states of every other skill, so many each."""
        skills = self._plan.skills
        return self._round([(source, target) for source in skills for target in skills if source != target], trials)

    def run(self, trials: Round) -> dict[tuple[str, str], Tensor]:
        """Outcomes, pair by pair.  [trials] bool each"""
        if not trials.pairs:
            return {}

        def batch(env: ImitationEnv, chosen: Tensor) -> Tensor:
            starts = trials.starts.rows(chosen)
            seen = run_trials(env, self._model, starts, self._steps, lambda _: self._crew.step(len(chosen)))
            return _verdict(seen, self._plan, trials.skill[chosen])

        won = torch.cat(self._crew.run(batch, len(trials.skill)))[trials.like]
        return dict(zip(trials.pairs, won.split(len(trials.like) // len(trials.pairs)), strict=True))

    def _round(self, pairs: Sequence[tuple[str, str]], trials: int, near: bool = False) -> Round:
        """Draw so many trials of each pair. On a CPU those of one skill that begin in one reference frame are one."""
        device, skills = self._motion.device, self._plan.skills
        nothing = torch.zeros(0, dtype=torch.long, device=device)
        parts = [starts_at(self._motion, nothing, nothing)]
        parts += [self._starts(source, target, trials, near) for source, target in pairs]
        starts = Starts(*(torch.cat(columns) for columns in zip(*(part.columns() for part in parts), strict=True)))
        asked = [skills.index(target) for _, target in pairs]
        skill = torch.tensor(asked, dtype=torch.long, device=device).repeat_interleave(trials)
        like = torch.arange(len(skill), device=device)
        if not near and device.type == "cpu":
            once, like = _one_of_each(skill * len(self._motion.qpos) + starts.past_row)
            skill, starts = skill[once], starts.rows(once)
        self._crew.expect(self._steps * sum(map(len, self._crew.batches(len(skill)))))
        return Round(tuple(pairs), skill, starts, like)

    def _starts(self, source: str, target: str, count: int, near: bool) -> Starts:
        """Frames of the source skill, to be continued as the target skill."""
        clip, frame = shuffled_frames(self._motion, self._plan, source, count, self._generator)
        starts = starts_at(self._motion, clip, frame)
        if source != target:
            goal = int(torch.nonzero(self._motion.skill == self._plan.skills.index(target))[0])
            starts = replace(starts, clip=torch.full_like(clip, goal))
        if not near:
            return starts
        qpos, qvel = neighbour(starts.qpos, starts.qvel, self._plan.box, self._layout, self._generator)
        return replace(starts, qpos=qpos, qvel=qvel)


class Closeness:
    """NR of each skill: every frame of its clips that an episode may start from is a start once."""

    def __init__(self, crew: Crew, model: ActorCritic) -> None:
        self._crew, self._model = crew, model
        self._motion: ReferenceMotion = crew.env.motion
        rows = torch.nonzero(self._motion.start_mask()).squeeze(1)
        self._clip = self._motion.clip_of_row[rows]
        self._frame = rows - self._motion.start[self._clip]
        self._left = self._motion.length[self._clip] - 1 - self._frame  # steps to the clip's end
        crew.expect(sum(len(batch) * int(self._left[batch].max()) for batch in crew.batches(len(rows))))

    def by_skill(self) -> dict[str, float]:
        """Execute, and take the means."""
        parts = self._crew.run(self._mean_rewards, len(self._clip))
        mean, skill = torch.cat(parts)[: len(self._clip)], self._motion.skill[self._clip]
        return {name: float(mean[skill == number].mean()) for number, name in enumerate(self._motion.skills)}

    @torch.no_grad()
    def _mean_rewards(self, env: ImitationEnv, chosen: Tensor) -> Tensor:
        """Mean reward of the executions from some of the frames to the end of their clips.  [n]"""
        everyone = torch.arange(len(chosen), device=chosen.device)
        env.start(everyone, starts_at(self._motion, self._clip[chosen], self._frame[chosen]))
        left = self._left[chosen]
        total, counted = torch.zeros_like(left, dtype=torch.float), torch.zeros_like(left)
        for step in range(1, int(left.max()) + 1):
            env.advance(self._model.act(env.observe()))
            reward, scored, _ = env.score()
            running = step <= left
            total += reward * running
            counted += scored & running
            self._crew.step(len(chosen))
        return total / counted  # a clip's last frame is there, so a step at least is scored


def _one_of_each(key: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of every key, and for each row the number of the one that has its key.  [n] → [m], [n]"""
    keys, like = torch.unique(key, return_inverse=True)
    first = torch.full_like(keys, len(key)).scatter_reduce(0, like, torch.arange(len(key)), "amin")
    return first, like


def _verdict(trials: Trials, plan: TrialPlan, skill: Tensor) -> Tensor:
    won = torch.zeros_like(skill, dtype=torch.bool)
    for number, name in enumerate(plan.skills):
        mine = skill == number
        if mine.any():
            rule = plan.rules[name]
            judged: Any = rule.judge(trials.only(mine))
            found = f"{judged.dtype} {tuple(judged.shape)}" if isinstance(judged, Tensor) else type(judged).__name__
            if found != (wanted := f"{torch.bool} {(int(mine.sum()),)}"):
                raise ConfigError(f"skill '{name}': {type(rule).__name__}.judge gave {found}, it must give {wanted}")
            won[mine] = judged
    return won
