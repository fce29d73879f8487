"""How deep things sink into one another in a clip: what soft contacts, or a bad recording, leave."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.reference.clearance import floor_geoms, nearest, solid_geoms
from skillfield.reference.motion import clip_positions

__all__ = ["Depths", "clip_depths"]


@dataclass(frozen=True)
class Depths:
    """The deepest of all frames, in metres; 0 where nothing touches."""

    character_in_floor: float
    object_in_floor: float
    object_in_character: float


def clip_depths(clip: Clip, character: Character) -> Depths:
    """Measure a clip whose frames are all present."""
    model, qpos = character.model, clip_positions(clip, character).numpy()
    floor = floor_geoms(model)
    own, things = solid_geoms(model, character.body_ids), solid_geoms(model, character.object_ids)

    def deepest(first: Sequence[int], second: Sequence[int]) -> float:
        return max(0.0, -float(nearest(model, qpos, list(product(first, second))).distance.min()))

    return Depths(deepest(floor, own), deepest(floor, things), deepest(things, own))
