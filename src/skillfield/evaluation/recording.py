"""Demonstrations made by a policy: physically valid, free of the noise of motion capture, and ours to give away.

Shape letters: T frames, N attempts, Q as in MuJoCo, K contact pairs.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.kinematics import ForwardKinematics
from skillfield.characters.physics import POLICY_HZ
from skillfield.clips import CONTACT_PAIRS, Clip
from skillfield.errors import ConfigError
from skillfield.evaluation.metrics import MakeEnv, TrialPlan, starts_at
from skillfield.evaluation.rollout import run_trials
from skillfield.learning.networks import ActorCritic
from skillfield.simulation import SimulationState

__all__ = ["clip_of_states", "record_clip"]

_FIRST_STARTS = 12
"""Attempts start in the first so many frames of a demonstration, again and again."""


def record_clip(
    make_env: MakeEnv, model: ActorCritic, plan: TrialPlan, like: Clip, after: float = 0.25, attempts: int = 24
) -> Clip:
    """What the policy makes of a demonstration: as long as that one, from an attempt that the skill's rule calls good.

    after: seconds at the start that are left out, in which the state is still nearly the demonstrated one.
    Of several good attempts the one that follows the demonstration best is taken.
    """
    env = make_env(attempts)
    motion, rule = env.motion, plan.rules[like.skill]
    number = motion.names.index(like.name)
    clip = torch.full((attempts,), number, device=motion.device)
    frame = torch.arange(attempts, device=motion.device) % min(_FIRST_STARTS, int(motion.length[number]) - 1)
    skipped, frames = round(after * POLICY_HZ), int(motion.length[number])
    qpos, pairs, reward = [], [], []

    def watch(state: SimulationState) -> None:
        qpos.append(state.qpos.clone())
        pairs.append(state.contact_pairs.clone())
        reward.append(env.score()[0])

    starts = starts_at(motion, clip, frame)
    trials = run_trials(env, model, starts, max(round(plan.seconds * POLICY_HZ), skipped + frames), watch)
    good = rule.judge(trials)
    if not good.any():
        raise ConfigError(f"skill '{like.skill}': none of {attempts} attempts from clip '{like.name}' succeeds")
    followed = torch.stack(reward)[:frames].mean(dim=0).masked_fill(~good, -1.0)
    best, kept = int(followed.argmax()), slice(skipped, skipped + frames)
    states, touching = (torch.stack(column)[kept, best].cpu() for column in (qpos, pairs))
    recorded = clip_of_states(env.engine.character, states, touching, like)
    first = f"frame {int(frame[best])} of '{like.name}'"
    return replace(recorded, source=f"recorded from a policy, {after:g} s after {first}")


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
        joint_pos=column(torch.stack([columns[name] for name in like.joint_names], dim=-1)),
        object_pos=column(object_pos),
        object_quat=column(object_quat),
        contacts=column(pairs),
        contact_names=CONTACT_PAIRS,
        valid=np.ones(len(qpos), dtype=bool),
        corrections=(),
    )
