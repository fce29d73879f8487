"""Courtside: the humanoid's basketball skills from clips of our own, which come with the package."""

from skillfield.experiments.courtside.task import CLIP_FOLDER, courtside, courtside_laptop

__all__ = ["CLIP_FOLDER", "courtside", "courtside_laptop"]
