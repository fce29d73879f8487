"""A training in stages: what is asked of a policy when.

What a policy of some skill gains from would keep a new one from learning anything. So a run may have stages: settings
that hold from so many samples on. A stage begins with the networks, the optimisers and the record of hard starts of
the one before, as if the run had been interrupted, changed and resumed. Stages are counted in samples and not in shares
of the budget: a short run is the beginning of a long one.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillfield.errors import ConfigError

__all__ = ["Stage", "check_stages", "describe", "merged", "paced", "stage_at", "without"]


@dataclass(frozen=True)
class Stage:
    """Settings that hold from some moment of a training on, together with those of the stages before."""

    after: int
    """Samples that come before it."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """New values by the name of the setting, such as `env.clip_end`."""

    def __post_init__(self) -> None:
        if not isinstance(self.changes, Mapping):
            kind = type(self.changes).__name__
            raise ConfigError(f"stages: the changes of a stage are names and values, found {kind}")


def check_stages(stages: Sequence[Stage]) -> None:
    """Refuse stages that do not follow one another."""
    before = 0
    for number, stage in enumerate(stages):
        if stage.after <= before:
            raise ConfigError(f"stages: number {number + 1} begins after {stage.after:,} samples, not after {before:,}")
        before = stage.after


def merged(stages: Sequence[Stage], others: Sequence[Stage]) -> tuple[Stage, ...]:
    """All of them in their order; of those that begin at once, the others' settings hold."""
    changes: dict[int, Mapping[str, Any]] = {}
    for stage in (*stages, *others):
        changes[stage.after] = {**changes.get(stage.after, {}), **stage.changes}
    return tuple(Stage(after, changes[after]) for after in sorted(changes))


def stage_at(stages: Sequence[Stage], samples: int) -> tuple[Sequence[Stage], int | None]:
    """The stages that have begun after so many samples, and how many there are when the next one begins."""
    begun = [stage for stage in stages if stage.after <= samples]
    rest = stages[len(begun) :]
    return begun, rest[0].after if rest else None


def describe(begun: Sequence[Stage], stages: Sequence[Stage]) -> str:
    """Where a training is, for people; nothing to say of one without stages."""
    if not stages:
        return ""
    changes = begun[-1].changes.items() if begun else ()
    settings = ", ".join(f"{name} {value}" for name, value in changes)
    return f"stage {len(begun) + 1} of {len(stages) + 1}" + (f": {settings}" if settings else "")


def paced(stages: Sequence[Stage], pace: float) -> tuple[Stage, ...]:
    """The same stages, gone through so many times as fast."""
    if not 0.0 < pace < math.inf:
        raise ConfigError(f"stages: a pace of {pace} leads nowhere; it is positive, and 1 for the stages as they are")
    if pace != 1.0 and not stages:
        raise ConfigError("stages: there are none to go through at another pace")
    return tuple(replace(stage, after=round(stage.after / pace)) for stage in stages)


def without(stages: Sequence[Stage], names: Collection[str]) -> tuple[Stage, ...]:
    """The same stages, some settings left as they are; stages that change nothing are gone."""
    kept = (
        replace(stage, changes={name: value for name, value in stage.changes.items() if name not in names})
        for stage in stages
    )
    return tuple(stage for stage in kept if stage.changes)
