"""Where the viewer's pushes go: as the character sees it, whichever way its model was built, and on a fixed base."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.reference import Augmentation, AugmentedSampler, TrackingWeights
from skillfield.reference.importing import Imported
from skillfield.rotations import quat_rotate
from skillfield.simulation import CpuEngine
from skillfield.viewer.session import Session
from strolling import NEVER, elsewhere, motion_of, walker_clip

ROBOT = """
<mujoco model="robot">
  <option timestep="0.008333333333333333"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="base" pos="0 0 2">
      <geom type="sphere" size="0.05" mass="50"/>
      <body name="disc">
        {turn}
        <geom type="cylinder" size="0.1 0.02" pos="0.001 0 0" mass="4"/>
        <body name="fore">
          <joint name="elbow" axis="0 1 0" damping="1"/>
          <geom type="sphere" size="0.05" pos="0.3 0 0" mass="1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><position name="elbow" joint="elbow" kp="40"/></actuator>
</mujoco>
"""


def session_of(character: Character, clips: Sequence[Clip]) -> Session:
    """A character that does nothing."""
    motion, engine = motion_of(clips, character), CpuEngine(character, 1, 1)
    sampler = AugmentedSampler(motion, character, TrackingWeights(), Augmentation())
    idle: Any = SimpleNamespace(encoder=None, act=lambda seen: seen.new_zeros(1, len(character.actions)))
    return Session(ImitationEnv(engine, sampler, EnvConfig(termination=NEVER)), idle)


def robot(turns: bool) -> Session:
    """A heavy stand that is bolted down, a disc on it that turns or does not, and a forearm."""
    xml = ROBOT.format(turn='<joint name="turn" axis="0 0 1" damping="1"/>' if turns else "")
    character, frames = Character.from_mjcf(xml), 10
    clip = Clip(
        name="still",
        skill="still",
        character="robot",
        fps=60.0,
        root_pos=np.tile(np.array([0.0, 0.0, 2.0], dtype=np.float32), (frames, 1)),
        root_quat=np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (frames, 1)),
        joint_pos=np.zeros((frames, len(character.joint_names)), dtype=np.float32),
        object_pos=np.zeros((frames, 0, 3), dtype=np.float32),
        object_quat=np.zeros((frames, 0, 4), dtype=np.float32),
        contacts=np.zeros((frames, 1), dtype=np.float32),
        joint_names=character.joint_names,
        object_names=(),
    )
    return session_of(character, [clip])


def moved_by(session: Session, direction: str, speed: float = 1.0) -> np.ndarray:
    """What a push of the body changes within one step.  Velocities of all bodies' centres of mass, [B, 3]"""
    model, velocities = session.character.model, []
    for strength in (0.0, speed):
        session.reset(0, 4)
        session.push("body", direction, strength)
        session.step()
        state = session._engine.state
        spin, quat = state.body_ang_vel_w[0].double(), state.body_quat_w[0].double()
        arm = quat_rotate(quat, torch.from_numpy(model.body_ipos[session.character.body_ids]))
        velocities.append((state.body_lin_vel_w[0].double() + torch.linalg.cross(spin, arm)).numpy())
    return velocities[1] - velocities[0]


@pytest.mark.parametrize("angle", [0.0, 1.3, -2.5])
def test_forward_is_where_the_toes_of_the_humanoid_point(imported: Imported, full: Character, angle: float) -> None:
    """Whichever way it stands; its pelvis rests turned by a quarter, and left is where its left hip is."""
    session = session_of(full, [elsewhere(imported.clip, angle, (2.0, -1.0))])
    body_pos, names = session._engine.state.body_pos_w[0].double().numpy(), full.body_names

    def place(name: str) -> np.ndarray:
        return body_pos[names.index(name)] * [1.0, 1.0, 0.0]

    left = place("left_hip") - place("right_hip")
    toes = place("left_toe") - place("left_ankle") + place("right_toe") - place("right_ankle")
    for direction, seen in (("forward", toes), ("back", -toes), ("left", left), ("right", -left)):
        moved = moved_by(session, direction, 2.0)[0]
        assert moved @ seen > 0.95 * np.linalg.norm(moved) * np.linalg.norm(seen)
        assert np.linalg.norm(moved) > 0.5


@pytest.mark.parametrize("angle", [0.0, 1.9])
def test_forward_turns_with_a_character_that_is_built_facing_x(walker: Character, angle: float) -> None:
    """Its own x axis is ahead, wherever it points."""
    session = session_of(walker, [elsewhere(walker_clip(), angle, (0.0, 0.0))])
    _, ahead = walker.layout().plane_frame(torch.from_numpy(session.pose()))
    c, s = ahead.tolist()
    assert session._vector("forward") == pytest.approx([c, s, 0.0], abs=1e-6)
    assert session._vector("left") == pytest.approx([-s, c, 0.0], abs=1e-6)
    assert session._vector("up") == pytest.approx([0.0, 0.0, 1.0])


@pytest.mark.parametrize("turns", [False, True])
def test_a_push_reaches_past_a_fixed_base(turns: bool) -> None:
    """What is bolted down, or only turns in its place, is passed over, and what is bolted down does not count."""
    session = robot(turns)
    moved = dict(zip(session.character.body_names, moved_by(session, "up"), strict=True))
    moving = 5.0 if turns else 1.0  # kilograms; the forearm is one of them, and its joint's damping is felt
    assert 0.5 * moving < moved["fore"][2] < moving
    assert np.linalg.norm(moved["base"]) < 1e-6
    assert session.num_diverged == 0
