"""The viewer without a browser: keys, real time, what a session does, clips and their graph, and mistakes."""

import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from skillfield.characters import Character
from skillfield.characters.physics import bounce_restitution, bounce_solref
from skillfield.cli.main import main
from skillfield.clips import Clip
from skillfield.errors import ConfigError, ViewerError
from skillfield.imitation import ImitationEnv
from skillfield.reference import ReferenceMotion
from skillfield.viewer.clip_session import ClipSession
from skillfield.viewer.keys import PAGE_KEYS, skill_keys
from skillfield.viewer.loop import Loop
from skillfield.viewer.opening import policy_session
from skillfield.viewer.pacing import Pacer
from skillfield.viewer.recording import film
from skillfield.viewer.scenery import top_of
from skillfield.viewer.serving import close_server, open_server
from skillfield.viewer.session import Session
from skillfield.viewer.stage import instances_of


@pytest.fixture(scope="module")
def shared_session() -> Session:
    return policy_session("starter")[0]


@pytest.fixture
def session(shared_session: Session) -> Session:
    """The shipped starter policy, as it is before the first step."""
    shared_session.reset(0, 0)
    shared_session.paused, shared_session.speed, shared_session.stands_up = False, 1.0, True
    return shared_session


def place(session: Session, qpos: np.ndarray) -> np.ndarray:
    """Where the root stands in the plane."""
    return session.character.layout().plane_frame(torch.from_numpy(qpos))[0].numpy()


def ball_velocity(session: Session) -> np.ndarray:
    return session._engine.state.object_lin_vel_w[0, 0].numpy().copy()


def test_every_skill_has_a_key_of_its_own() -> None:
    """Arrows where people expect them, letters of the name elsewhere, and none that the page uses itself."""
    keys = skill_keys(("dribble_forward", "dribble_left", "dribble_right", "layup", "shot", "pass", "get", "p"))
    assert (keys["dribble_forward"], keys["dribble_left"]) == ("arrowup", "arrowleft")
    assert (keys["dribble_right"], keys["layup"], keys["shot"]) == ("arrowright", "L", "S")
    assert len(set(keys.values()) | set(PAGE_KEYS.values())) == len(keys) + len(PAGE_KEYS)
    assert keys["p"] == "1"


def test_steps_keep_up_with_the_clock_without_drift() -> None:
    """Whenever one looks, as many steps have been made as the clock says, give or take the one that is due."""
    pacer, made, now = Pacer(60), 0, 5.0
    for wait in np.random.default_rng(0).uniform(0.001, 0.05, 2000):
        made += pacer.due(now)
        assert abs(made - ((now - 5.0) * 60 + 1)) <= 1.0
        now += wait


def test_a_stall_is_not_caught_up_with_and_slow_motion_is_slow() -> None:
    """After a second of nothing there is one step, not sixty; at half speed there are half as many."""
    pacer = Pacer(60)
    assert pacer.due(0.0) == 1
    assert pacer.due(1.0) == 1
    slow = Pacer(60)
    assert sum(slow.due(step / 240, 0.5) for step in range(240)) == pytest.approx(30, abs=1)
    slow.hold()
    assert slow.wait(10.0) == 0.0


def test_a_session_in_a_reference_frame_scores_one_in_every_term(session: Session) -> None:
    """Reset to any clip and frame: the state is the reference, wherever the clip was recorded."""
    for clip in range(session.motion.num_clips):
        session.reset(clip, 17)
        readings = session.readings()
        assert (readings.clip, readings.frame) == (session.motion.names[clip], 17)
        tracked = [value for term, value in readings.terms.items() if term not in readings.contacts]
        assert min(tracked) > 0.999
        ghost = session.ghost()
        assert ghost is not None
        assert np.allclose(ghost, session.pose(), atol=1e-5)


def test_a_switch_changes_the_skill_at_once_and_brings_its_clip_here(session: Session) -> None:
    """The condition is the new skill's, and the reference stands where the character does."""
    for _ in range(90):
        session.step()
    before = session.pose()
    session.switch("dribble_left")
    assert session.skill == "dribble_left"
    assert np.array_equal(session.pose(), before)
    ghost = session.ghost()
    assert ghost is not None
    assert np.allclose(place(session, ghost), place(session, before), atol=1e-4)
    assert place(session, before)[0] > 0.3  # far from where the clip was recorded
    assert session.readings().terms["relative"] > 0.3
    with pytest.raises(ConfigError, match="unknown skill 'fly'; known: dribble_forward"):
        session.switch("fly")


def test_a_dribble_goes_on_and_a_toss_is_over(session: Session) -> None:
    """A clip that returns to itself is followed again; after a throw there is nothing to compare with."""
    toss = session.motion.names.index("toss")
    for clip, over in ((0, False), (toss, True)):
        session.reset(clip, int(session.motion.length[clip]) - 4)
        for _ in range(8):
            session.step()
        assert session.over is over
        assert (session.ghost() is None) is over


def test_a_fallen_character_is_set_up_again(session: Session) -> None:
    """After a second on the ground, in the skill that was asked for last."""
    floor = session._env._floor
    session.switch("hold")
    try:
        session._env._floor = torch.full_like(floor, 99.0)
        falls = session.num_falls
        for _ in range(60):
            session.step()
        assert session.num_falls == falls + 1
        assert session.readings().fallen
        session.step()
        assert session.skill == "hold"
        assert session.readings().seconds == 0.0
    finally:
        session._env._floor = floor


def test_a_push_moves_the_ball_as_told(session: Session) -> None:
    """One metre per second, whatever the ball weighs by then."""
    toss = session.motion.names.index("toss")
    in_flight = int(session.motion.length[toss]) - 5
    try:
        for mass in (0.6, 1.2, 0.1):
            session.set_ball_mass(mass)
            session.reset(toss, in_flight)
            before = ball_velocity(session)
            session.push("ball", "left", 1.0)
            session.step()
            assert (ball_velocity(session) - before)[1] == pytest.approx(1.0, rel=0.02)
            before = ball_velocity(session)
            session.step()  # a push is over after one step
            assert (ball_velocity(session) - before)[1] == pytest.approx(0.0, abs=0.01)
    finally:
        session.set_ball_mass(0.6)


def test_a_dragged_ball_hangs_on_a_spring_until_it_is_let_go(session: Session) -> None:
    """It is drawn along as long as it is held."""
    ball, toss = session.character.object_ids[0], session.motion.names.index("toss")
    session.reset(toss, int(session.motion.length[toss]) - 5)
    session.pull(ball, np.array([0.0, 0.5, 0.0]))
    for _ in range(5):
        session.step()
    held = ball_velocity(session)[1]
    assert held > 1.0
    session.pull(ball, None)
    session.step()
    assert ball_velocity(session)[1] == pytest.approx(held, abs=0.1)


def test_a_livelier_ball_bounces_higher(session: Session) -> None:
    """The floor gives back what the slider says."""
    toss = session.motion.names.index("toss")
    heights = []
    try:
        for bounce in (0.4, 0.9):
            session.set_ball_bounce(bounce)
            session.reset(toss, int(session.motion.length[toss]) - 5)
            height = []
            for _ in range(150):
                session.step()
                height.append(float(session._engine.state.object_pos_w[0, 0, 2]))
            lowest = int(np.argmin(height[:100]))
            heights.append(max(height[lowest : lowest + 45]))
    finally:
        session.set_ball_bounce(0.8)
    assert heights[1] > 1.5 * heights[0]


@pytest.mark.parametrize("restitution", [0.1, 0.5, 0.8, 0.95])
def test_bounce_can_be_read_back(restitution: float) -> None:
    """The slider starts where the ball was built."""
    assert bounce_restitution(bounce_solref(restitution, 1 / 120)) == pytest.approx(restitution)


def test_a_recording_is_filmed(session: Session, tmp_path: Path) -> None:
    """What was seen while it ran, and nothing else, as a film."""
    session.start_recording()
    for _ in range(6):
        session.step()
    kept = session.stop_recording()
    session.step()
    assert (len(kept.qpos), kept.seconds) == (6, 0.1)
    assert session.recording is None
    film(kept, session.character, tmp_path / "a.mp4")
    assert (tmp_path / "a.mp4").stat().st_size > 1000


def test_the_loop_does_what_is_asked_and_survives_mistakes(session: Session) -> None:
    """Between two steps, in order; a mistake is told and the rest goes on."""
    told: list[str] = []
    loop = Loop(session, lambda: None, told.append)
    session.paused = True
    steps = session.num_steps
    loop.ask(lambda: session.switch("fly"))
    loop.ask(session.step)
    loop.run(seconds=0.1)
    assert session.num_steps == steps + 1
    assert told == ["unknown skill 'fly'; known: dribble_forward, dribble_left, dribble_right, hold, toss"]


def test_a_capsule_is_a_tube_and_two_caps(hand_character: Character) -> None:
    """Which lie at its ends, and turn with it."""
    import mujoco

    data = mujoco.MjData(hand_character.model)
    mujoco.mj_kinematics(hand_character.model, data)
    parts = {part.shape: part for part in instances_of(hand_character.model, hand_character.body_ids)}
    tubes, caps = parts["tube"], parts["cap"]
    assert len(caps.geom) == 2 * len(tubes.geom)
    ends = caps.positions(data).reshape(-1, 2, 3)
    assert np.allclose(ends.mean(axis=1), tubes.positions(data))
    assert np.allclose(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), tubes.scale[:, 2])
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, tubes.quaternions(data)[0])
    assert np.allclose(matrix, data.geom_xmat[tubes.geom[0]])


@pytest.fixture(scope="module")
def reader(hand_character: Character, make_clip: Callable[..., Clip]) -> ClipSession:
    """Two clips of two skills, the second half a metre to the side of the first."""
    here = make_clip()
    aside = np.array([0.0, 0.5, 0.0], dtype=np.float32)
    there = replace(
        here, name="there", skill="other", root_pos=here.root_pos + aside, object_pos=here.object_pos + aside
    )
    return ClipSession([here, there], hand_character)


def test_clips_play_and_begin_again(reader: ClipSession) -> None:
    """After the last frame comes the first; a scrubber cannot leave the clip."""
    reader.go(0, 10_000)
    assert reader.frame == 39
    reader.step()
    assert (reader.clip, reader.frame) == (0, 0)
    assert np.array_equal(reader.pose(), reader.motion.qpos[0].numpy())
    with pytest.raises(ConfigError, match="clip 2 of 2"):
        reader.go(2, 0)


def test_an_edge_shows_both_of_its_ends_in_one_place(reader: ClipSession) -> None:
    """The source is moved to where the target stands; a jump runs up to it and goes on along the target."""
    assert reader.edges_into("other") == 40
    edge = reader.look("other", 20)
    assert reader.paused
    assert (edge.source_clip, edge.source_frame, edge.target_clip, edge.target_frame) == (0, 20, 1, 20)
    assert edge.similarity == pytest.approx(1.0, abs=1e-3)
    ghost = reader.ghost()
    assert ghost is not None
    assert np.allclose(ghost, reader.pose(), atol=1e-4)
    reader.jump()
    assert reader.before_the_jump
    before = reader.pose()
    for frame in range(20):
        assert (reader.clip, reader.frame) == (0, frame)
        reader.step()
    assert (reader.clip, reader.frame) == (1, 20)
    assert not reader.before_the_jump
    assert np.allclose(reader.pose(), reader.motion.qpos[60].numpy())
    assert np.linalg.norm(before - reader.pose()) > 0.01
    with pytest.raises(ConfigError, match="edge 40 of 40"):
        reader.look("other", 40)


def test_a_session_needs_one_world(session: Session, make_env: Callable[..., ImitationEnv], make_clip: Any) -> None:
    """An environment for training is refused before anything is built."""
    with pytest.raises(ViewerError, match="one world"):
        Session(make_env([make_clip()], num_envs=2), session._model)


def test_a_taken_port_and_missing_software_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each, with what to do."""
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ViewerError, match=r"pip install 'skillfield\[viewer\]'"):
        open_server("127.0.0.1", 0, "")
    monkeypatch.undo()
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ViewerError, match=f"port {port} of 127.0.0.1 is taken.*--port"):
            open_server("127.0.0.1", port, "")
    both = [open_server("127.0.0.1", 0, "") for _ in range(2)]
    assert len({server.get_port() for server in both}) == 2
    for server in both:
        close_server(server)
    with pytest.raises(ViewerError, match="up to 65535"):
        open_server("127.0.0.1", 70000, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to play"),
        (["starter", "--clips", "x"], "say what to play"),
        (["nowhere"], "nowhere: no such run folder, and no policy of that name is shipped"),
        (["--clips", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_on_the_command_line(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line and exit code 2."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    monkeypatch.chdir(tmp_path)
    assert main(["play", *arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[0]


def test_a_run_without_checkpoint_and_a_task_without_policy_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what there is and what would make one."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    monkeypatch.chdir(tmp_path)
    assert main(["play", "ballplay-paper"]) == 2
    assert "no policy of task 'ballplay-paper' is shipped" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["play", "empty"]) == 2
    assert "config.json" in capsys.readouterr().err


def test_play_serves_and_says_where_and_how_fast(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this machine only; two at once; anyone else only with a warning."""
    pytest.importorskip("viser", reason="the viewer extra is not installed")
    monkeypatch.chdir(tmp_path)
    assert main(["play", "starter", "--port", "0", "--seconds", "0.5"]) == 0
    printed = capsys.readouterr()
    assert "http://127.0.0.1:" in printed.out
    assert "steps/s over 0.5 s" in printed.out
    assert printed.err == ""
    assert main(["play", "starter", "--port", "0", "--host", "0.0.0.0", "--seconds", "0.1"]) == 0
    assert "warning: everyone" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_camera_makes_room_for_what_is_thrown(make_clip: Callable[..., Clip], hand_character: Character) -> None:
    """A ball that is thrown higher than the hand ever is decides, in one frame of one clip."""
    low, high = make_clip(20), make_clip(20, name="swing", skill="swing")
    ball = high.object_pos.copy()
    ball[7, 0, 2] = 4.5
    motion = ReferenceMotion([low, replace(high, object_pos=ball)], hand_character, ("sway", "swing"))
    assert top_of(motion) == pytest.approx(4.5)
    assert top_of(ReferenceMotion([low], hand_character, ("sway",))) < 3.0
