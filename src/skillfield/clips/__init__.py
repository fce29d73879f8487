"""Demonstrations: the `Clip`, its file format, and its checks. Knows nothing of simulation or learning."""

from skillfield.clips.clip import CONTACT_PAIRS, Clip
from skillfield.clips.storage import check_vacant, clip_files, load_clip, load_clips, save_clip, save_clips

__all__ = ["CONTACT_PAIRS", "Clip", "check_vacant", "clip_files", "load_clip", "load_clips", "save_clip", "save_clips"]
