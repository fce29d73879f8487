"""How many episodes begin where another one ended, and which of them may."""

import math
from typing import Any

import pytest

from puppets import BY, Begin, MakeClip, MakeEnv, carrying, has_lived, idle, pose_beside
from skillfield.errors import ConfigError
from skillfield.imitation import EnvConfig
from skillfield.imitation.termination import Termination
from strolling import NEVER


@BY
def test_as_many_go_on_as_the_chance_says(make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool) -> None:
    """A third of 600, within four standard deviations of a coin; with a chance of nothing, nobody does."""
    for chance in (1 / 3, 0.0):
        env = carrying(make_env, make_clip(100), 600, by_mask, p_carry=chance, episode_length=1)
        begin(env, [0] * 600, [5] * 600)
        kept = int((~env.step(idle(env)).truncated).sum())
        assert abs(kept - 600 * chance) <= 4 * math.sqrt(600 * chance * (1 - chance))


@BY
def test_who_has_lost_something_goes_on_by_another_chance(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """Lost its demonstration, went without its object, or is out of time and earns nothing: none with `p_carry` alone,
    and all with `p_lost` alone; who follows its demonstration, the other way round."""
    lost = Termination(None, lost_after=4)
    for carry, other in ((1.0, 0.0), (0.0, 1.0)):
        for rule, away, beside, steps in (
            (lost, 0, 5.0, 4),
            (lost, 1, 5.0, 10),
            (NEVER, 0, 5.0, 10),
            (lost, 0, 0.0, 10),
        ):
            env = carrying(make_env, make_clip(100), 1, by_mask, p_carry=carry, p_lost=other, termination=rule)
            pose_beside(env, ball=[(beside, 0.0, 0.0)])
            begin(env, [0], [5], away=[bool(away)])
            has_lived(env)
            for _ in range(steps):
                env.step(idle(env))
            assert bool(env._carried) == ((carry if beside == 0.0 else other) == 1.0)


@BY
def test_only_who_has_gone_on_before_goes_on_without_its_object(
    make_clip: MakeClip, make_env: MakeEnv, begin: Begin, by_mask: bool
) -> None:
    """Whoever loses it in the first episode after a start begins anew, and so does one that started without it; in a
    later episode it goes on. A new start is a first episode again."""
    env = carrying(make_env, make_clip(100), 3, by_mask, termination=Termination(None, lost_after=4))
    begin(env, [0, 0, 0], [5, 5, 5], away=[False, False, True])
    pose_beside(env, ball=[(5.0, 0.0, 0.0), (0.0, 0.0, 0.0), (5.0, 0.0, 0.0)])
    for _ in range(4):
        result = env.step(idle(env))
    assert result.terminated.tolist() == [True, False, False]
    assert not env._carried.any()
    for _ in range(6):
        result = env.step(idle(env))
    assert env._carried.tolist()[1:] == [True, False]
    assert result.truncated.tolist() == [False, False, True]
    pose_beside(env, ball=[(0.0, 0.0, 0.0), (5.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    for _ in range(4):
        result = env.step(idle(env))
    assert result.terminated.tolist() == [False, True, False]
    assert env._carried.tolist()[1]
    assert env.away.tolist() == [False, True, False]
    begin(env, [0, 0, 0], [5, 5, 5])
    pose_beside(env, ball=[(0.0, 0.0, 0.0), (5.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    for _ in range(4):
        result = env.step(idle(env))
    assert result.terminated.tolist() == [False, True, False]
    assert not env._carried.any()


@pytest.mark.parametrize("chance", [-0.1, 1.5, math.nan])
def test_a_chance_is_between_0_and_1(chance: float) -> None:
    """Anything else is told apart by its name."""
    for name in ("p_carry", "p_lost"):
        chances: dict[str, Any] = {name: chance}
        with pytest.raises(ConfigError, match=rf"{name} is .*, a probability is between 0 and 1"):
            EnvConfig(**chances)
