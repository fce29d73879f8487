"""A task of your own: a character from MJCF, two clips, a rule, and the whole command line for them.

python own_task.py clips                       # makes the demonstrations, in ./ring_clips
python own_task.py data show ring_clips        # every command knows the character ...
python own_task.py train ring --method full --minutes 2
python own_task.py evaluate runs/ring-full-0   # ... and the task
python own_task.py play runs/ring-full-0 --open
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import skillfield as sf
from skillfield.characters import Action
from skillfield.evaluation import Trials

CLIPS = Path("ring_clips")

WALLS = "".join(
    f'<geom type="box" size=".01 .045 .04" mass=".05" rgba=".16 .27 .45 1" euler="0 0 {angle}" '
    f'pos="{0.1 * np.cos(angle):.4f} {0.1 * np.sin(angle):.4f} 0"/>'
    for angle in np.linspace(0, 2 * np.pi, 8, endpoint=False)
)
RING = f"""
<mujoco model="ring">
  <compiler angle="radian"/>
  <option timestep="0.0083333333" integrator="implicitfast"/>
  <asset><texture type="skybox" builtin="flat" rgb1=".85 .9 .95" width="8" height="8"/></asset>
  <worldbody>
    <light pos="0 0 3"/>
    <geom name="floor" type="plane" size="0 0 1" rgba=".8 .75 .65 1"/>
    <body name="ring">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      {WALLS}
    </body>
    <body name="puck" pos="0 0 .03">
      <freejoint/>
      <geom type="cylinder" size=".06 .03" mass=".3" rgba=".9 .4 .1 1"/>
    </body>
  </worldbody>
  <actuator>
    <position name="x" joint="x" kp="400" kv="40"/>
    <position name="y" joint="y" kp="400" kv="40"/>
    <position name="z" joint="z" kp="400" kv="40"/>
  </actuator>
</mujoco>
"""


def ring() -> sf.Character:
    """A ring that moves a puck about the floor. Its root is the ring itself, on three slides.

    A policy does not know where in the world it is, so it asks for steps over the floor, not for places.
    """
    return sf.Character.from_mjcf(
        RING,
        objects=("puck",),
        hands=("ring",),
        force_bodies=("ring",),
        actions=(
            Action("x", ("x",), scale=0.25, relative=True),
            Action("y", ("y",), scale=0.25, relative=True),
            Action("z", ("z",), scale=0.1, neutral=0.05),
        ),
    )


def make_clips() -> list[sf.Clip]:
    """Two seconds each of a circle to the left and to the right, as somebody might have drawn them."""
    turn = np.pi * np.arange(120) / 60
    circle = 0.3 * np.column_stack((np.cos(turn), np.sin(turn)))
    return [_clip("circle_left", circle), _clip("circle_right", circle * [1, -1])]


def _clip(skill: str, path: np.ndarray) -> sf.Clip:
    frames = len(path)
    way = np.gradient(path, axis=0)
    behind = path - 0.03 * way / np.linalg.norm(way, axis=1, keepdims=True)  # the ring pushes the puck
    upright = np.tile(np.float32([1, 0, 0, 0]), (frames, 1))
    return sf.Clip(
        name=skill,
        skill=skill,
        character="ring",
        fps=60.0,
        root_pos=np.column_stack((path, np.full(frames, 0.05))).astype(np.float32),
        root_quat=upright,
        joint_pos=np.zeros((frames, 0), np.float32),
        object_pos=np.column_stack((behind, np.full(frames, 0.03))).astype(np.float32)[:, None],
        object_quat=upright[:, None],
        contacts=np.ones((frames, 1), np.float32),
        joint_names=(),
        object_names=("puck",),
        source="examples/own_task.py",
    )


@dataclass(frozen=True)
class CircleRule(sf.SuccessRule):
    """The puck is never out of the ring, and goes round in circles of the right size, the right way round."""

    rounds: float
    """Demonstrated rounds per second; negative to the right."""

    def judge(self, trials: Trials) -> Tensor:
        puck = trials.object_pos_w[..., :2]  # [T, N, 2]
        kept = ((puck - trials.root_pos_w[..., :2]).norm(dim=-1) < 0.1).all(dim=0)
        way = puck.diff(dim=0)
        turn = way[:-1, :, 0] * way[1:, :, 1] - way[:-1, :, 1] * way[1:, :, 0]
        turned = torch.atan2(turn, (way[:-1] * way[1:]).sum(dim=-1)).sum(dim=0) / (2 * torch.pi)
        asked = self.rounds * trials.num_steps / trials.fps
        radius = way.norm(dim=-1).sum(dim=0) / (2 * torch.pi * turned.abs())
        return kept & (turned / asked > 0.5) & (turned / asked < 2.0) & (radius > 0.15) & (radius < 0.6)


def task() -> sf.Task:
    """The skills of the clips, learned with the starter's settings."""
    rules = {"circle_left": CircleRule(0.5), "circle_right": CircleRule(-0.5)}
    return sf.tasks.from_clips("ring", CLIPS, like=sf.tasks.starter(), character=ring, rules=rules)


if __name__ == "__main__":
    if sys.argv[1:] == ["clips"]:
        try:
            sf.save_clips(make_clips(), CLIPS)
        except sf.SkillfieldError as problem:
            print(f"error: {problem}", file=sys.stderr)
            sys.exit(2)
        print(f"{CLIPS}: {', '.join(clip.skill for clip in make_clips())}")
    else:
        sf.command_line(task)
