"""A character's model with a keyframe per skill: where its first demonstration begins."""

import warnings
from pathlib import Path

import mujoco
import torch

from skillfield.characters import Character
from skillfield.characters.drives import DrivePositions
from skillfield.errors import ClipError, SkillfieldNote
from skillfield.experiments.loading import TrainedRun
from skillfield.experiments.recordings import clip_folder
from skillfield.experiments.run import build_motion

__all__ = ["spec_with_starts"]


def spec_with_starts(run: TrainedRun, character: Character) -> mujoco.MjSpec:
    """The character's spec; without keyframes of ours, and with a note, where the demonstrations are not at hand."""
    spec, data = character.spec.copy(), run.config.data
    try:
        clip_folder(run.task, Path(data) if data else None)
    except ClipError:
        note = f"the demonstrations of {run.folder} are not {f'in {data}' if data else 'here'}: its model has no start "
        warnings.warn(f"{note}states; data says where they are", SkillfieldNote, stacklevel=2)
        return spec
    motion = build_motion(run.task, character, "cpu", data)
    drives, may_start = DrivePositions(character.model), motion.start_mask()
    for number, skill in enumerate(motion.skills):
        rows = torch.nonzero(may_start & (motion.skill[motion.clip_of_row] == number)).squeeze(1)
        if len(rows):
            row = rows[0]
            qpos, qvel = motion.qpos[row], motion.qvel[row]
            if (own := spec.key(skill)) is not None:  # a keyframe of the user's model
                spec.delete(own)
            # the drives hold the character as it is, as at the start of an episode
            spec.add_key(
                name=skill,
                qpos=qpos.double().tolist(),
                qvel=qvel.double().tolist(),
                act=drives.memory(qpos).tolist(),
                ctrl=drives(qpos).tolist(),
            )
    return spec
