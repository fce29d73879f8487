"""BallPlay-M's five skills, learned from clips that a policy of ours played in simulation: nothing to download."""

from dataclasses import replace
from pathlib import Path

from skillfield.clips import load_clips
from skillfield.evaluation.court import ShotRule
from skillfield.experiments.ballplay import ballplay
from skillfield.experiments.task import Task

__all__ = ["CLIP_FOLDER", "courtside"]

CLIP_FOLDER = Path(__file__).parent / "clips"


def courtside() -> Task:
    """The same skills, rules and settings as `ballplay`; a shot must go as high as the shipped one."""
    task = ballplay()
    rules = {**task.trials.rules, "shot": ShotRule(apex=_shot_apex())}
    return replace(
        task,
        name="courtside",
        summary="a humanoid and a basketball: three dribbles, layup, shot, from clips of our own (GPU, an hour)",
        clips=CLIP_FOLDER,
        data="",
        stand_in="",
        trials=replace(task.trials, rules=rules),
    )


def _shot_apex() -> float:
    """Metres: the ball's greatest height in the shipped shots."""
    return max(float(clip.object_pos[..., 2].max()) for clip in load_clips(CLIP_FOLDER) if clip.skill == "shot")
