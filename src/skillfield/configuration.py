"""Frozen dataclasses to JSON and back, so that a run folder holds its resolved configuration."""

import dataclasses
import types
import typing
from typing import Any, TypeVar

from skillfield.errors import ConfigError

__all__ = ["from_dict", "to_dict"]

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values."""
    return dataclasses.asdict(config)


def from_dict(cls: type[T], values: Any, where: str) -> T:
    """Rebuild a dataclass; unknown or missing fields raise with the place and both names. where: for messages."""
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: expected an object for {cls.__name__}, found {type(values).__name__}")
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ConfigError(f"{where}: unknown fields {unknown} of {cls.__name__}; known: {sorted(fields)}")
    hints = typing.get_type_hints(cls)
    try:
        return cls(**{name: _convert(hints[name], value, f"{where}.{name}") for name, value in values.items()})
    except TypeError as problem:
        raise ConfigError(f"{where}: {problem}") from None


def _convert(hint: Any, value: Any, where: str) -> Any:
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if value is None:
        return None
    for option in options:
        if dataclasses.is_dataclass(option):
            return from_dict(typing.cast(type, option), value, where)
        if typing.get_origin(option) is tuple:
            return tuple(value)
    return value
