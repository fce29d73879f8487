"""After a seam a character is compared from where it stands."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.anchoring import Anchor
from skillfield.reference import Kinematics, ReferenceMotion, tracking_exponent
from strolling import EVERYTHING, NEVER, elsewhere, walker_clip

MakeClip = Callable[..., Clip]
MakeEnv = Callable[..., ImitationEnv]
SEAM = 8


def with_seam(motion: ReferenceMotion) -> ReferenceMotion:
    """The same motion, as if it were over one frame before SEAM and began again there."""
    motion.demonstrated[SEAM - 1 :], motion.valid[SEAM - 1] = False, False
    motion.origin[SEAM - 1], motion.origin[SEAM:] = SEAM - 2, motion.origin[SEAM:] - SEAM
    return motion


def rows_of(motion: ReferenceMotion, row: int) -> Kinematics:
    return motion.kinematics(torch.tensor([row, row]))


def test_from_the_seam_on_it_is_compared_as_if_it_stood_there(walker: Character) -> None:
    """A walker that does the same elsewhere, turned by 1.3 rad, is far off before the seam and exact after it."""
    clip = walker_clip()
    here = with_seam(ReferenceMotion([clip], walker, ("stroll",)))
    there = ReferenceMotion([elsewhere(clip, 1.3, (0.7, -0.4))], walker, ("stroll",))
    layout = walker.layout()
    anchor = Anchor(here, layout, 2)
    assert anchor.needed
    for row in range(len(clip)):
        # the second environment is where the reference is all the time
        state = Kinematics(
            *(
                torch.stack((there_, here_))
                for there_, here_ in zip(
                    (field[0] for field in rows_of(there, row)), (field[1] for field in rows_of(here, row)), strict=True
                )
            )
        )
        anchor.drop(torch.tensor([row, row]), state.qpos)
        off = tracking_exponent(anchor.moved(state), rows_of(here, row), EVERYTHING, layout)
        assert off[1] < 1e-6
        assert (off[0] < 1e-4) == (row >= SEAM), row


def test_a_new_episode_stands_where_its_reference_does(walker: Character) -> None:
    """Whether it is started by number or by mask."""
    motion = with_seam(ReferenceMotion([walker_clip()], walker, ("stroll",)))
    anchor = Anchor(motion, walker.layout(), 3)
    fresh = anchor.place.clone()
    anchor.drop(torch.full((3,), SEAM), motion.qpos[:3])
    assert (anchor.place != fresh).any(dim=(1, 2)).all()
    anchor.clear(torch.tensor([0]))
    anchor.clear_where(torch.tensor([False, True, False]))
    assert (anchor.place == fresh).all(dim=(1, 2)).tolist() == [True, True, False]


def test_a_motion_without_seams_needs_none(walker: Character) -> None:
    """Nothing is moved, and nothing is computed."""
    assert not Anchor(ReferenceMotion([walker_clip()], walker, ("stroll",)), walker.layout(), 1).needed


def test_drift_is_forgiven_at_the_seam(make_clip: MakeClip, make_env: MakeEnv, begin: Callable[..., None]) -> None:
    """A puppet 30 cm beside its clip earns half until the seam, and everything from there on."""
    env = make_env([make_clip(20)], num_envs=1, config=EnvConfig(termination=NEVER), puppet=True)
    with_seam(env.motion)
    engine: Any = env.engine
    layout = engine.character.layout()
    env.anchor = env._comparison.anchor = Anchor(env.motion, layout, 1)

    def pose() -> tuple[Tensor, Tensor]:
        row = env.motion.row(env.clip, env.frame + env.progress + 1)
        qpos = env.motion.qpos[row].clone()
        moved = layout.move_in_plane(
            qpos, env.motion.qvel[row], torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2), torch.tensor([[0.3, 0.0]])
        )
        return moved[0], moved[1]

    engine.pose = pose
    begin(env, [0], [1])
    rewards = [float(env.step(torch.zeros(1, env.num_actions)).reward) for _ in range(12)]
    beside = math.exp(-(20 + 1) * 0.3**2 / 3)  # body and object, by their weights
    assert rewards[: SEAM - 3] == pytest.approx([beside] * (SEAM - 3), abs=1e-3)
    assert rewards[SEAM - 3] == 0.0  # masked
    assert rewards[SEAM - 2 :] == pytest.approx([1.0] * (12 - SEAM + 2), abs=1e-3)
    snapshot = env.snapshot()
    env.anchor.clear(torch.tensor([0]))
    env.restore(snapshot)
    assert torch.equal(env.anchor.place, snapshot["place"])
