"""Demonstrations made by a policy: made by forces, free of the noise of motion capture, and ours to give away.

Shape letters: T frames or steps, N attempts, Q as in MuJoCo, K contact pairs.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.characters.physics import POLICY_HZ
from skillfield.clips import CONTACT_PAIRS, Clip
from skillfield.errors import ConfigError
from skillfield.evaluation.metrics import MakeEnv
from skillfield.evaluation.plan import TrialPlan, starts_at
from skillfield.evaluation.rollout import Trials, run_trials
from skillfield.evaluation.success import longest_run
from skillfield.imitation import ImitationEnv
from skillfield.learning.networks import ActorCritic
from skillfield.reference import ReferenceMotion
from skillfield.simulation import SimulationState

__all__ = ["Attempts", "clip_of_states", "closeness", "follows", "last_followed", "record_clips", "stands"]

_NOTHING = 0.01
"""A step that earns less does not follow: with the basketball's weights one wrong contact costs so much."""
_LOST_SECONDS = 0.25
"""So long in a row without following, and the demonstration is lost, as in the basketball's training."""
_WHOLE = "the whole trial of {seconds:g} s is a success"
_PART = "it stands {stand:g} s beyond that clip's end, but the whole trial of {seconds:g} s is no success"


@dataclass(frozen=True)
class Attempts:
    """What happened in N attempts at one demonstration, after each of T steps."""

    frame: Tensor  # [N] of the demonstration that each started in
    trials: Trials
    qpos: Tensor  # [T, N, Q]
    pairs: Tensor  # [T, N, K]
    reward: Tensor  # [T, N]
    scored: Tensor  # [T, N] bool: there is a reference to be near


def record_clips(
    make_env: MakeEnv,
    model: ActorCritic,
    plan: TrialPlan,
    like: Clip,
    takes: int = 1,
    after: float = 0.25,
    attempts: int = 12,
    stand: float = 1.0,
) -> list[Clip]:
    """What the policy makes of a demonstration: the best of several attempts, best first.

    An attempt counts if it never loses the demonstration and stands until `stand` seconds after its end. Those whose
    whole trial the skill's rule calls good come first, then those that follow closer. The former are recorded for as
    long as the demonstration, the others only while they follow it: what they did later was no success.

    takes: clips to record.
    after: seconds at the start that are left out, in which the state is still nearly the demonstrated one.
    attempts: one from each of the first frames that are not missing, at most a third of the demonstration's frames.
    """
    motion = make_env(1).motion
    frames = int(motion.length[motion.names.index(like.name)])
    possible = len(_start_frames(motion, like.name))
    skipped, longer = round(after * POLICY_HZ), round(stand * POLICY_HZ)
    steps = max(round(plan.seconds * POLICY_HZ), frames + max(skipped, longer))
    env = make_env(max(1, min(attempts, frames // 3, possible)))
    tried = _attempt(env, model, like.name, steps)
    left = frames - 1 - tried.frame  # steps to the demonstration's end
    last = last_followed(tried, left)
    good = follows(tried, left) & stands(tried.trials, left + longer) & (last > skipped)
    if int(good.sum()) < takes:
        raise ConfigError(
            f"skill '{like.skill}': {int(good.sum())} of {len(good)} attempts follow clip '{like.name}' and stand"
            f" {stand:g} s longer; {takes} needed"
        )
    whole = plan.rules[like.skill].judge(tried.trials)
    merit = (closeness(tried, skipped, left) + whole).masked_fill(~good, -1.0)  # closeness is below 1
    clips = []
    for best in merit.argsort(descending=True, stable=True)[:takes].tolist():
        kept = slice(skipped, skipped + frames if whole[best] else int(last[best]) + 1)
        clip = clip_of_states(env.engine.character, tried.qpos[kept, best].cpu(), tried.pairs[kept, best].cpu(), like)
        begin = f"{after:g} s after a start in frame {int(tried.frame[best])} of '{like.name}'"
        verdict = _WHOLE if whole[best] else _PART
        source = f"recorded from a policy, {begin}; {verdict.format(stand=stand, seconds=plan.seconds)}"
        clips.append(replace(clip, source=source))
    return clips


def _start_frames(motion: ReferenceMotion, name: str) -> Tensor:
    """Frames of a demonstration that an attempt may start in, in order.  [n]"""
    number = motion.names.index(name)
    rows = torch.nonzero(motion.start_mask() & (motion.clip_of_row == number)).squeeze(1)
    return rows - motion.start[number]


def _attempt(env: ImitationEnv, model: ActorCritic, name: str, steps: int) -> Attempts:
    """Start once in each of the first possible frames of a demonstration, as many as there are environments."""
    motion = env.motion
    clip = torch.full((env.num_envs,), motion.names.index(name), device=motion.device)
    frame = _start_frames(motion, name)[: env.num_envs]
    seen: list[tuple[Tensor, ...]] = []

    def watch(state: SimulationState) -> None:
        reward, scored, _ = env.score()
        seen.append((state.qpos.clone(), state.contact_pairs.clone(), reward, scored))

    trials = run_trials(env, model, starts_at(motion, clip, frame), steps, watch)
    return Attempts(frame, trials, *(torch.stack(column) for column in zip(*seen, strict=True)))


def _before(steps: int, end: Tensor) -> Tensor:
    """Which of so many steps come before each attempt's end.  [N] → [T, N] bool"""
    return torch.arange(steps, device=end.device).unsqueeze(1) < end


def follows(tried: Attempts, end: Tensor) -> Tensor:
    """Which attempts never lose the demonstration before its end.  [N] bool"""
    nothing = tried.scored & (tried.reward < _NOTHING) & _before(len(tried.reward), end)
    return longest_run(nothing) < _LOST_SECONDS * POLICY_HZ


def last_followed(tried: Attempts, end: Tensor) -> Tensor:
    """The last step of each attempt that follows the demonstration before its end; 0 if there is none.  [N]"""
    followed = tried.scored & (tried.reward >= _NOTHING) & _before(len(tried.reward), end)
    step = torch.arange(len(followed), device=end.device).unsqueeze(1)
    return (step * followed).amax(dim=0)


def stands(trials: Trials, end: Tensor) -> Tensor:
    """Which attempts have not fallen before their end.  [N] bool"""
    return (trials.alive | ~_before(trials.num_steps, end)).all(dim=0)


def closeness(tried: Attempts, first: int, end: Tensor) -> Tensor:
    """Mean reward of each attempt from its first recorded step to the demonstration's end.  [N]"""
    counted = tried.scored & _before(len(tried.reward), end)
    counted[:first] = False
    return (tried.reward * counted).sum(dim=0) / counted.sum(dim=0).clamp_min(1)


def clip_of_states(character: Character, qpos: Tensor, pairs: Tensor, like: Clip) -> Clip:
    """States of a character as a clip with the columns of another.  [T, Q], [T, K]"""
    layout = character.layout()
    joints, object_pos, object_quat = layout.unpack(qpos.double())
    root = character.body_ids[character.body_names.index(character.root)]
    position, turn = ForwardKinematics(character.model, [root])(qpos.double())
    columns = dict(zip(character.joint_names, joints.unbind(-1), strict=True))
    columns |= {name: joints.new_full((len(qpos),), angle) for name, angle in character.fixed_columns.items()}

    def column(values: Tensor) -> np.ndarray:
        return values.float().numpy()

    return replace(
        like,
        fps=float(POLICY_HZ),
        root_pos=column(position[:, 0]),
        root_quat=column(turn[:, 0]),
        joint_pos=column(torch.stack([columns[name] for name in like.joint_names], dim=-1) if columns else joints),
        object_pos=column(object_pos),
        object_quat=column(object_quat),
        contacts=column(pairs),
        contact_names=CONTACT_PAIRS,
        valid=np.ones(len(qpos), dtype=bool),
        corrections=(),
    )
