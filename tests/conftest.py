"""Small scenes that every test may ask for: the starter's hand, a two-link walker, a short clip, an environment."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dancing import NAME, MakeTable, dance
from skillfield.characters import Character, hand, humanoid
from skillfield.clips import Clip
from skillfield.clips.ballplay import read_recording
from skillfield.errors import DeviceError
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.termination import Termination
from skillfield.reference import Augmentation, AugmentedSampler, ReferenceMotion, Starts, TrackingWeights
from skillfield.reference.importing import Imported, import_recording
from skillfield.simulation import CpuEngine, SimulationState, choose_device
from strolling import elsewhere, lifted, motion_of, walker_clip

torch.set_num_threads(1)

WALKER_XML = """
<mujoco model="walker">
  <compiler angle="radian"/>
  <option timestep="0.008333333333333333" cone="elliptic"/>
  <default><geom density="1000"/><joint armature="0.02" damping="0.2"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="torso" pos="0 0 1">
      <freejoint name="torso"/>
      <geom type="sphere" size="0.1"/>
      <body name="arm" pos="0.15 0 0">
        <joint name="shoulder" type="ball"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.25 0 0"/>
        <body name="palm" pos="0.25 0 0">
          <joint name="elbow" axis="0 1 0"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        </body>
      </body>
    </body>
    <body name="box" pos="1 1 1">
      <freejoint name="box"/>
      <geom type="box" size="0.05 0.05 0.05" density="300"/>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder_x" joint="shoulder" gear="1 0 0" kp="5"/>
    <position name="shoulder_y" joint="shoulder" gear="0 1 0" kp="5"/>
    <position name="shoulder_z" joint="shoulder" gear="0 0 1" kp="5"/>
    <position name="elbow" joint="elbow" kp="5"/>
  </actuator>
</mujoco>
"""


class PuppetEngine(CpuEngine):
    """An engine without physics: after each step the worlds are where `pose` puts them, and drives do nothing."""

    pose: Callable[[], tuple[torch.Tensor, torch.Tensor]]

    def step(self, targets: torch.Tensor) -> None:
        """Go where `pose` says."""
        self.reset(torch.arange(self.num_envs), *self.pose())


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test draws the same random numbers in every run."""
    torch.manual_seed(0)


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """Tests in the background of a shell would not hear an interruption."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def hears_a_hang_up() -> Iterator[None]:
    """Nor would tests under nohup hear that the terminal was closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def demonstrations() -> Path:
    """The public demonstrations, where they are at hand: SKILLFIELD_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("SKILLFIELD_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not (folder / "ballplay").is_dir():
        pytest.skip(f"no demonstrations in {folder} (set SKILLFIELD_DATA)")
    return folder


@pytest.fixture(scope="session")
def hand_character() -> Character:
    """The floating hand and its ball."""
    return hand()


@pytest.fixture(scope="session")
def walker_xml() -> str:
    """MJCF with every kind of joint: a free root, a ball joint, a hinge, and a free object."""
    return WALKER_XML


@pytest.fixture(scope="session")
def walker() -> Character:
    """The MJCF as a character whose arm below the elbow is its hand."""
    return Character.from_mjcf(WALKER_XML, objects=("box",), hands=("palm",), force_bodies=("palm",))


@pytest.fixture(scope="session")
def make_clip() -> Callable[..., Clip]:
    """Makes a clip: the hand sways smoothly while the ball hovers and spins half a metre below it, untouched."""

    def make(frames: int = 40, fps: float = 60.0, **changes: Any) -> Clip:
        time = np.arange(frames) / fps
        roll, pitch = 0.4 * np.sin(3.0 * time), 0.3 * np.sin(2.0 * time + 0.5)
        x, y, z = 0.2 * np.sin(2.0 * time), 0.1 * np.cos(3.0 * time), 1.2 + 0.1 * np.sin(4.0 * time)
        root_pos = np.stack((x, y, z), axis=1)
        cos, sin = np.cos(roll / 2), np.sin(roll / 2)
        root_quat = np.stack(  # roll about x, then pitch about the turned y
            (
                cos * np.cos(pitch / 2),
                sin * np.cos(pitch / 2),
                cos * np.sin(pitch / 2),
                sin * np.sin(pitch / 2),
            ),
            axis=1,
        )
        half_spin = 0.5 * 2.0 * time  # two radians per second about z
        object_quat = np.stack((np.cos(half_spin), 0 * time, 0 * time, np.sin(half_spin)), axis=1)[:, None]
        clip = Clip(
            name="sway",
            skill="sway",
            character="hand",
            fps=fps,
            root_pos=root_pos.astype(np.float32),
            root_quat=root_quat.astype(np.float32),
            joint_pos=np.stack((0.3 + 0.1 * np.sin(time), 0.3 - 0.1 * np.sin(time)), axis=1).astype(np.float32),
            object_pos=(root_pos - [0.0, 0.0, 0.5])[:, None].astype(np.float32),
            object_quat=object_quat.astype(np.float32),
            contacts=np.zeros((frames, 1), dtype=np.float32),
            joint_names=("finger_left", "finger_right"),
            object_names=("ball",),
        )
        return replace(clip, **changes)

    return make


@pytest.fixture(scope="session")
def make_engine(hand_character: Character) -> Callable[..., CpuEngine]:
    """Makes an engine of a few worlds, the hand's unless another character is given."""

    def make(num_envs: int = 4, character: Character | None = None, threads: int = 1) -> CpuEngine:
        return CpuEngine(character or hand_character, num_envs, threads)

    return make


@pytest.fixture(params=["cpu", "cuda"])
def warp_device(request: pytest.FixtureRequest) -> str:
    """Warp's CPU device, always; then a GPU, where PyTorch and Warp both see one."""
    if request.param == "cuda":
        try:
            choose_device("cuda")
        except DeviceError as missing:
            pytest.skip(str(missing))
    return request.param


@pytest.fixture(scope="session")
def make_env(hand_character: Character) -> Callable[..., ImitationEnv]:
    """Makes an environment that follows clips and never fails unless the configuration says so."""

    def make(
        clips: Sequence[Clip],
        num_envs: int = 2,
        config: EnvConfig | None = None,
        puppet: bool = False,
    ) -> ImitationEnv:
        skills = tuple(dict.fromkeys(clip.skill for clip in clips))
        motion = ReferenceMotion(clips, hand_character, skills)
        engine = (PuppetEngine if puppet else CpuEngine)(hand_character, num_envs, 1)
        config = config or EnvConfig(termination=Termination(min_root_height=None))
        sampler = AugmentedSampler(motion, engine.character, TrackingWeights(), Augmentation())
        return ImitationEnv(engine, sampler, config)

    return make


@pytest.fixture(scope="session")
def begin() -> Callable[..., None]:
    """Starts every environment at chosen clips and frames, with chosen numbers of masked states, or objects away."""

    def start(
        env: ImitationEnv,
        clip: Sequence[int],
        frame: Sequence[int],
        masked: Sequence[int] | None = None,
        away: Sequence[bool] | None = None,
    ) -> None:
        clips, frames = torch.tensor(clip), torch.tensor(frame)
        row = env.motion.row(clips, frames)
        waits = torch.tensor(masked) if masked is not None else torch.zeros_like(row)
        starts = Starts(
            env.motion.qpos[row],
            env.motion.qvel[row],
            clips,
            frames,
            waits,
            row,
            torch.tensor(away) if away is not None else torch.zeros_like(row, dtype=torch.bool),
        )
        env.start(torch.arange(env.num_envs), starts)

    return start


@pytest.fixture(scope="session")
def differing() -> Callable[[SimulationState, SimulationState], list[str]]:
    """Names the tensors in which two states differ by even one bit."""

    def names(a: SimulationState, b: SimulationState) -> list[str]:
        return [name for name, value in vars(a).items() if not torch.equal(value, getattr(b, name))]

    return names


@pytest.fixture(params=["hand", "walker"])
def character(request: pytest.FixtureRequest) -> Character:
    """A gantry with hinges; then a free root with a ball joint."""
    return request.getfixturevalue({"hand": "hand_character", "walker": "walker"}[request.param])


@pytest.fixture(scope="module")
def strolls(walker: Character) -> ReferenceMotion:
    """Three skills of the walker, one of them in two clips, recorded at different places and headings."""
    return motion_of(
        [
            walker_clip(12),
            elsewhere(walker_clip(10, phase=0.4, skill="run"), 1.9, (4.0, -3.0)),
            elsewhere(walker_clip(9, phase=0.9, skill="run"), -2.2, (-6.0, 1.0)),
            elsewhere(walker_clip(11, phase=0.2, skill="creep"), 0.7, (2.0, 8.0)),
        ],
        walker,
    )


@pytest.fixture
def sways(make_clip: Callable[..., Clip], hand_character: Character) -> ReferenceMotion:
    """Three skills of the hand: two alike in other places, and one too high up to be reached from either."""
    swing = elsewhere(make_clip(24, skill="swing"), 0.0, (3.0, -2.0))
    return motion_of([make_clip(30), swing, lifted(make_clip(20, skill="soar"), 5.0)], hand_character)


@pytest.fixture(scope="module")
def full() -> Character:
    """The humanoid whose every finger moves, as public recordings know it."""
    return humanoid()


@pytest.fixture(scope="module")
def make_table(full: Character) -> MakeTable:
    """Makes a recording of the public format: a slow dance on the spot, of as many frames as asked."""
    return partial(dance, full)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a table, or anything else, as a recording."""

    def save(content: Any, name: str = NAME) -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, path)
        return path

    return save


@pytest.fixture
def imported(make_table: MakeTable, write: Callable[..., Path], full: Character) -> Imported:
    """The synthetic recording as a clip."""
    return import_recording(read_recording(write(make_table())), full)
