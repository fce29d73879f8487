"""Frozen dataclasses to JSON and back, so that a run folder holds its resolved configuration."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from skillfield.errors import ConfigError

__all__ = ["changed", "from_dict", "to_dict"]

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


def changed(config: T, changes: Mapping[str, Any], where: str) -> T:
    """The same with some settings replaced, each by its dotted name, like `env.clip_end`. where: for messages."""
    for name, value in changes.items():
        config = _replaced(config, name.split("."), value, f"{where}: '{name}'")
    return config


def _replaced(config: Any, path: list[str], value: Any, where: str) -> Any:
    known = {field.name: field for field in dataclasses.fields(config)} if dataclasses.is_dataclass(config) else {}
    name, *rest = path
    if name not in known:
        raise ConfigError(f"{where}: no setting '{name}' of {type(config).__name__}; known: {sorted(known)}")
    if rest:
        value = _replaced(getattr(config, name), rest, value, where)
    else:
        value = _convert(typing.get_type_hints(type(config))[name], value, where)
    return dataclasses.replace(config, **{name: value})


def _convert(hint: Any, value: Any, where: str) -> Any:
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if value is None:
        return None
    for option in options:
        if dataclasses.is_dataclass(option):
            return from_dict(typing.cast(type, option), value, where)
        if typing.get_origin(option) is tuple:
            (kind, *_) = typing.get_args(option)
            return tuple(_convert(kind, each, f"{where}[{number}]") for number, each in enumerate(value))
    return value
