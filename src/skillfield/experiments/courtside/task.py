"""BallPlay-M's five skills, learned from clips that a policy of ours played in simulation: nothing to download."""

from dataclasses import replace
from pathlib import Path

from skillfield.clips import load_clips
from skillfield.evaluation.court import ShotRule
from skillfield.experiments.ballplay import ballplay
from skillfield.experiments.stages import Stage, merged
from skillfield.experiments.task import Task

__all__ = ["CLIP_FOLDER", "courtside", "courtside_laptop"]

CLIP_FOLDER = Path(__file__).parent / "clips"


_PACE = 2.0
"""Clips of a simulation can be followed exactly, and are learned in half of the samples."""

_ALONE = Stage(8_000_000, {"ppo.guided": False, "ppo.learning_rate": 1e-4})
"""Who has learned what the guide would do goes on without it."""

_LARGE_BATCHES = {"ppo.horizon": 64, "ppo.minibatch": 4096, "ppo.epochs": 3}
"""Noise makes small batches stand still at the steps that `target_kl` asks for."""


def courtside() -> Task:
    """The same skills and rules as `ballplay`, a guide's lesson first; a shot must go as high as the shipped one."""
    task = ballplay().paced(_PACE)
    rules = {**task.trials.rules, "shot": ShotRule(apex=_shot_apex())}
    return replace(
        task,
        name="courtside",
        summary="a humanoid and a basketball: three dribbles, layup, shot, from clips of our own (GPU, 20 minutes)",
        clips=CLIP_FOLDER,
        data="",
        stand_in="",
        trials=replace(task.trials, rules=rules),
        ppo=replace(task.ppo, guided=True, learning_rate=5e-4, critic_learning_rate=3e-4),
        stages=merged(task.stages, (_ALONE,)),
        minutes=20.0,
        table_samples=375_000_000,
    )


def courtside_laptop() -> Task:
    """The same for two CPU cores: small networks and batches, and a shorter lesson."""
    task = courtside()
    return replace(
        task,
        name="courtside-laptop",
        summary="the same with small networks (two CPU cores: follows its clips, does not go on yet)",
        device="cpu",
        env=replace(task.env, insight=True),
        ppo=replace(task.ppo, fused=False, hidden=(512, 256, 256), minibatch=2048, sigma=0.03, learning_rate=1e-3),
        stages=(
            Stage(1_000_000, {"ppo.learning_rate": 3e-4}),
            Stage(2_000_000, {"ppo.guided": False, "ppo.learning_rate": 1e-4, "ppo.target_kl": 0.02}),
            Stage(6_000_000, {"env.clip_end": "loop", "ppo.gae_lambda": 0.98, "ppo.sigma": 0.055} | _LARGE_BATCHES),
            Stage(12_000_000, {"env.episode_length": 120}),
        ),
        own_stages=(),
        num_envs=512,
        minutes=60.0,
    )


def _shot_apex() -> float:
    """Metres: the ball's greatest height in the shipped shots."""
    return max(float(clip.object_pos[..., 2].max()) for clip in load_clips(CLIP_FOLDER) if clip.skill == "shot")
