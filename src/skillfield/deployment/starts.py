"""A character's model with a keyframe per skill: where its first demonstration begins."""

from pathlib import Path

import mujoco
import torch

from skillfield.characters import Character
from skillfield.characters.drives import DrivePositions
from skillfield.errors import ClipError
from skillfield.experiments.loading import TrainedRun
from skillfield.experiments.recordings import named_clips
from skillfield.experiments.run import build_motion

__all__ = ["spec_with_starts"]


def spec_with_starts(run: TrainedRun, character: Character) -> mujoco.MjSpec:
    """The character's spec; it has no keyframes of ours where the demonstrations are not at hand."""
    spec = character.spec.copy()
    try:
        motion = build_motion(run.task, character, "cpu", run.config.data if _is_there(run.config.data) else None)
    except ClipError:
        return spec
    drives, may_start = DrivePositions(character.model), motion.start_mask()
    for number, skill in enumerate(motion.skills):
        rows = torch.nonzero(may_start & (motion.skill[motion.clip_of_row] == number)).squeeze(1)
        if len(rows):
            row = rows[0]
            qpos, qvel = motion.qpos[row], motion.qvel[row]
            # the drives hold the character as it is, as at the start of an episode
            spec.add_key(
                name=skill,
                qpos=qpos.double().tolist(),
                qvel=qvel.double().tolist(),
                act=drives.memory(qpos).tolist(),
                ctrl=drives(qpos).tolist(),
            )
    return spec


def _is_there(folder: str | None) -> bool:
    """A run may come from another machine, where its recordings lay elsewhere."""
    return folder is not None and named_clips(Path(folder)).is_dir()
