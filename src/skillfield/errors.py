"""Typed errors: one line that names the file, the thing and both shapes."""

__all__ = [
    "CharacterError",
    "CheckpointError",
    "ClipError",
    "ConfigError",
    "DeviceError",
    "ExportError",
    "NoRendererError",
    "RenderError",
    "SkillfieldError",
    "SkillfieldNote",
    "TrainingError",
    "ViewerError",
]


class SkillfieldError(Exception):
    """A mistake in what the user gave us; the command line prints it and exits with code 2."""


class ClipError(SkillfieldError):
    """A demonstration that cannot be read, or does not fit its character."""


class CharacterError(SkillfieldError):
    """A model that cannot become a character: a name is missing or has the wrong kind."""


class ConfigError(SkillfieldError):
    """An unknown task, skill or method, or settings that contradict each other."""


class CheckpointError(SkillfieldError):
    """A checkpoint that is missing, damaged, or belongs to another task or version."""


class DeviceError(SkillfieldError):
    """A device that was asked for is not there, lacks its software, or is too small; the message says what would do."""


class ExportError(SkillfieldError):
    """A policy cannot be written for use elsewhere; the message says what is missing."""


class RenderError(SkillfieldError):
    """A picture or a film that cannot be made; the message says why."""


class NoRendererError(RenderError):
    """No picture can be made here; the message says what to install."""


class TrainingError(SkillfieldError):
    """A training that cannot go on: its networks are no longer usable; the message says where to begin again."""


class ViewerError(SkillfieldError):
    """The viewer cannot open its page: its software is missing, or its port is taken."""


class SkillfieldNote(UserWarning):
    """Something was done otherwise than asked; the command line prints it in one line."""


def unknown_name(kind: str, name: str, known: "list[str] | tuple[str, ...]") -> str:
    """The sentence for a name that is not in a list, with the list."""
    return f"unknown {kind} '{name}'; known: {', '.join(known) or '(none)'}"
