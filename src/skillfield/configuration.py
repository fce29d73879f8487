"""Frozen dataclasses to JSON and back, so that a run folder holds its resolved configuration.

What comes from outside is checked twice: each value against the type of its setting when it is read, and its range by
the dataclass itself, whoever makes one.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from skillfield.errors import ConfigError

__all__ = [
    "AT_LEAST_ONE",
    "CHANCE",
    "FINITE",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "Range",
    "changed",
    "check",
    "from_dict",
    "to_dict",
]

T = TypeVar("T")


class Range(NamedTuple):
    """Which values a setting can have."""

    holds: Callable[[Any], bool]
    words: str


FINITE = Range(math.isfinite, "it must be finite")
POSITIVE = Range(lambda value: 0 < value < math.inf, "it must be positive and finite")
NOT_NEGATIVE = Range(lambda value: 0 <= value < math.inf, "it must be finite, and 0 or more")
AT_LEAST_ONE = Range(lambda value: 1 <= value < math.inf, "it must be 1 or more")
CHANCE = Range(lambda value: 0 <= value <= 1, "a probability is between 0 and 1")
SHARE = Range(lambda value: 0 <= value <= 1, "it must lie between 0 and 1")


def check(where: str, config: Any, wanted: Range, *names: str) -> None:
    """Refuse settings outside their range; of a tuple each number is meant, and None is left alone."""
    for name in names:
        value = getattr(config, name)
        each = value if isinstance(value, (tuple, list)) else (value,)
        if not all(number is None or wanted.holds(number) for number in each):
            raise ConfigError(f"{where}: {name} is {value}, {wanted.words}")


def to_dict(config: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values."""
    return dataclasses.asdict(config)


def from_dict(cls: type[T], values: Any, where: str) -> T:
    """Rebuild a dataclass; what does not fit raises with its place, what was expected and what was found.

    where: for messages.
    """
    try:
        return _built(cls, values, "")
    except ConfigError as problem:
        raise ConfigError(f"{where}: {problem}") from None


def changed(config: T, changes: Mapping[str, Any], where: str) -> T:
    """The same with some settings replaced, each by its dotted name, like `env.clip_end`. where: for messages.

    All are replaced before any is looked at: the order in which they are named means nothing.
    """
    values = to_dict(config)
    for name, value in changes.items():
        *groups, last = _parts(config, name, where)
        group = values
        for part in groups:
            group = group[part]
        group[last] = value
    return from_dict(type(config), values, where)


def _parts(config: Any, name: str, where: str) -> list[str]:
    """A dotted name taken apart, if it is that of a single setting."""
    parts = name.split(".")
    for part in parts:
        known = _names(config)
        if part not in known:
            kind = type(config).__name__
            raise ConfigError(f"{where}: '{name}': no setting '{part}' of {kind}; known: {known}")
        config = getattr(config, part)
    if within := _names(config):
        raise ConfigError(f"{where}: '{name}': a group of settings; name one of them: {within}")
    return parts


def _names(config: Any) -> list[str]:
    """The settings of a group by their names; a single setting has none."""
    return sorted(field.name for field in dataclasses.fields(config)) if dataclasses.is_dataclass(config) else []


def _built(cls: type[T], values: Any, path: str) -> T:
    """A dataclass of JSON values. path: of this one below the outermost, for messages."""
    if not isinstance(values, dict):
        raise ConfigError(_at(path, f"expected an object for {cls.__name__}, found {_shown(values)}"))
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - set(fields)):
        raise ConfigError(_at(path, f"unknown fields {unknown} of {cls.__name__}; known: {sorted(fields)}"))
    if missing := [name for name, field in fields.items() if name not in values and _required(field)]:
        raise ConfigError(_at(path, f"missing fields {missing} of {cls.__name__}"))
    hints = typing.get_type_hints(cls)
    below = f"{path}." if path else ""
    return cls(**{name: _converted(hints[name], value, below + name) for name, value in values.items()})


def _converted(hint: Any, value: Any, path: str) -> Any:
    """A JSON value as a setting of this type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):  # with None: no setting is of two other types
        (kind,) = (part for part in parts if part is not types.NoneType)
        return None if value is None else _converted(kind, value, path)
    if dataclasses.is_dataclass(hint):
        return _built(typing.cast(type, hint), value, path)
    if origin is tuple:
        return _tuple(parts, value, path)
    if hint is Any or origin is Mapping:  # whoever holds these knows what they may be
        return value
    if hint is int and isinstance(value, float) and value.is_integer():  # 5e6 in a JSON file
        return int(value)
    if not _fits(hint, value):
        raise ConfigError(_at(path, f"expected {_expected(hint)}, found {_shown(value)}"))
    return value


def _tuple(parts: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    """A JSON list as a tuple, of any length or of a fixed one."""
    several = isinstance(value, (list, tuple))
    kinds = (parts[0],) * len(value) if several and parts[-1] is Ellipsis else parts
    if not several or len(value) != len(kinds):
        wanted = "a list" if parts[-1] is Ellipsis else f"a list of {len(parts)}"
        raise ConfigError(_at(path, f"expected {wanted}, found {_shown(value)}"))
    return tuple(_converted(kinds[number], each, f"{path}[{number}]") for number, each in enumerate(value))


def _fits(hint: Any, value: Any) -> bool:
    """Whether a plain value is of this type; True and False are no numbers."""
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    kinds = (int, float) if hint is float else hint
    return isinstance(value, kinds) and (hint is bool or not isinstance(value, bool))


def _expected(hint: Any) -> str:
    """A type in words."""
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(map(json.dumps, typing.get_args(hint)))
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[hint]


def _shown(value: Any) -> str:
    """A value as a JSON file has it; of what may be long only the kind."""
    if isinstance(value, dict):
        return "an object"
    return f"a list of {len(value)}" if isinstance(value, (list, tuple)) else json.dumps(value, default=repr)


def _at(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
