"""Tasks of the user's own: made of a folder of clips, found by name, and driven by the whole command line."""

import importlib
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

import skillfield as sf
from skillfield.characters import CHARACTERS, character
from skillfield.deployment.export import model_xml
from skillfield.deployment.starts import spec_with_starts
from skillfield.errors import CharacterError, ClipError, ConfigError, SkillfieldNote
from skillfield.evaluation import KeepRule, Trials
from skillfield.evaluation.recording import clip_of_states
from skillfield.evaluation.success import HoldRule
from skillfield.experiments.recordings import task_clips
from skillfield.experiments.run import build_env, build_motion, preset
from skillfield.experiments.starter.authoring import CLIP_FOLDER as STARTER_CLIPS
from skillfield.experiments.tasks import add, from_clips, starter, task
from skillfield.reference.motion import clip_positions

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_task.py"


def test_the_skills_of_a_folder_of_clips() -> None:
    """In the order of its files, each with the rule that it was given or one that fits what was demonstrated."""
    rule = HoldRule(min_height=1.0)
    own = from_clips("mine", STARTER_CLIPS, like=starter(), rules={"hold": rule})
    assert (own.name, own.clips, own.data, own.stand_in) == ("mine", STARTER_CLIPS.resolve(), "", "")
    assert own.skills == tuple(dict.fromkeys(clip.skill for clip in sf.load_clips(STARTER_CLIPS)))
    assert own.trials.rules["hold"] is rule
    kept = own.trials.rules["toss"]
    assert isinstance(kept, KeepRule)
    (toss,) = (clip for clip in sf.load_clips(STARTER_CLIPS) if clip.skill == "toss")
    farthest = np.linalg.norm(toss.object_pos[:, 0] - toss.root_pos, axis=1).max()
    assert kept.max_distance == pytest.approx(farthest + 0.5)
    assert (own.env, own.ppo, own.augmentation, own.trials.box) == (
        starter().env,
        starter().ppo,
        starter().augmentation,
        starter().trials.box,
    )


def test_rules_without_clips_and_folders_without_clips_are_refused(tmp_path: Path) -> None:
    """One line each, that names what there is."""
    with pytest.raises(ConfigError, match=r"task 'mine': rules for \['juggle'\], but the skills of .* to learn are \["):
        from_clips("mine", STARTER_CLIPS, like=starter(), rules={"juggle": HoldRule(min_height=1.0)})
    with pytest.raises(ClipError, match=str(tmp_path)):
        from_clips("mine", tmp_path, like=starter())


def test_a_rule_that_judges_from_the_beginning_of_its_clip_still_does() -> None:
    """The toss's cannot judge what starts after the rest; a rule that was not given needs nothing of it."""
    given = from_clips("mine", STARTER_CLIPS, like=starter(), rules={"toss": starter().trials.rules["toss"]})
    assert given.trials.start_before == starter().trials.start_before == {"toss": 0.4}
    assert from_clips("mine", STARTER_CLIPS, like=starter()).trials.start_before == {}


def test_some_of_the_skills_of_a_folder() -> None:
    """In the folder's order, whatever the order they are asked for; the other clips are neither judged nor learned."""
    own = from_clips("mine", STARTER_CLIPS, like=starter(), skills=("toss", "hold"))
    assert own.skills == ("hold", "toss")
    assert {clip.skill for clip in task_clips(own)} == {"hold", "toss"}
    env = build_env(preset(own), build_motion(own, own.character()), own.character(), 2, None)
    assert env.num_skills == 2
    with pytest.raises(ConfigError, match=r"has no clip of \['juggle'\]; it has \['dribble_forward'"):
        from_clips("mine", STARTER_CLIPS, like=starter(), skills=("hold", "juggle"))
    with pytest.raises(ConfigError, match="no skill to learn"):
        from_clips("mine", STARTER_CLIPS, like=starter(), skills=())
    with pytest.raises(ConfigError, match=r"rules for \['hold'\], but the skills of .* to learn are \['toss'\]"):
        from_clips("mine", STARTER_CLIPS, like=starter(), skills=("toss",), rules={"hold": HoldRule(1.0)})


def test_a_function_is_no_task_and_a_task_no_function() -> None:
    """Brackets are soon forgotten, or one pair too many is written."""
    with pytest.raises(ConfigError, match="a task is a name or a Task, not 'starter'; call it first"):
        from_clips("mine", STARTER_CLIPS, like=starter)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not 'starter'; call it first"):
        sf.train(starter, samples=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not 'starter'; call it first"):
        sf.evaluate("starter", 1, task=starter)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not 'starter'; call it first"):
        sf.load_policy("starter", task=starter)  # type: ignore[arg-type]
    assert from_clips("mine", STARTER_CLIPS, like="starter").ppo == starter().ppo
    with pytest.raises(ConfigError, match="a function without arguments that makes a task is added, not Task"):
        add(starter())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not None"):
        add(lambda: None)  # type: ignore[arg-type, return-value]


def test_an_object_is_kept_that_stays_near_after_a_while() -> None:
    """It may be anywhere at first; then it is never too far away, and nobody has fallen at the end."""
    steps = 200
    away = torch.zeros(steps, 4, 3)
    away[:60, 0, 0] = 5.0  # caught in time
    away[150, 1, 1] = 1.1  # lost for a moment
    alive = torch.ones(steps, 4, dtype=torch.bool)
    alive[-1, 2] = False
    trials = Trials(60.0, torch.zeros_like(away), away, torch.zeros(steps, 4, dtype=torch.bool), alive)
    assert KeepRule(max_distance=1.0).judge(trials).tolist() == [True, False, False, True]


def test_skills_without_a_rule_of_their_own_are_named(tmp_path: Path) -> None:
    """To stand and to keep the object is soon done; whoever reads SR 100 should know that it means no more."""
    mine = from_clips("mine", STARTER_CLIPS, like=replace(starter(), num_envs=8), rules={"hold": HoldRule(1.0)})
    run = sf.train(mine, "sm", samples=1, run=tmp_path / "run", progress=False)
    short = replace(mine, trials=replace(mine.trials, seconds=0.1))
    with pytest.warns(SkillfieldNote, match="^dribble_forward, .*, toss: no rule but to stand"):
        sf.evaluate(run, 1, task=short)


def test_a_task_that_was_added_is_found_with_its_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their names; a name that is taken is refused, and so is another character of a known name."""
    tasks, characters = dict[str, Callable[[], sf.Task]](), dict(CHARACTERS)
    monkeypatch.setattr("skillfield.experiments.tasks.TASKS", tasks)
    monkeypatch.setattr("skillfield.experiments.tasks.CHARACTERS", characters)
    monkeypatch.setattr("skillfield.characters.CHARACTERS", characters)

    def pole(joint: str = "hinge") -> sf.Character:
        return sf.Character.from_mjcf(
            '<mujoco model="pole"><option timestep="0.00833333333"/><worldbody><body name="a">'
            f'<joint name="{joint}"/><geom size=".1"/></body></worldbody>'
            f'<actuator><position name="a" joint="{joint}"/></actuator></mujoco>'
        )

    def mine() -> sf.Task:
        return replace(starter(), name="mine", character=pole)

    add(mine)
    assert task("mine").name == "mine"
    assert character("pole").joint_names == ("hinge",)
    with pytest.raises(ConfigError, match=r"there is a task 'mine' already; known: \['mine'\]"):
        add(mine)
    with pytest.raises(CharacterError, match="task 'other': another character is called 'pole' already"):
        add(lambda: replace(starter(), name="other", character=lambda: pole("slide")))
    with pytest.raises(ConfigError, match=r"unknown task 'golf'; known: mine; .* skillfield\.command_line"):
        task("golf")
    assert list(tasks) == ["mine"]


def run(*arguments: str, folder: Path) -> str:
    """The example as its page calls it; what it printed."""
    source = str(Path(sf.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_example_is_a_command_line_of_its_own(tmp_path: Path) -> None:
    """Clips are made and checked, a policy is trained and measured, and jobs of a table know the task as well."""
    assert run("clips", folder=tmp_path) == "ring_clips: circle_left, circle_right\n"
    assert "0 error(s), 0 warning(s)" in run("data", "check", "ring_clips", folder=tmp_path)
    short = ("--samples", "2048", "--num-envs", "64", "--encoder.steps", "5")
    said = run("train", "ring", "--method", "full", *short, folder=tmp_path)
    assert f"next: python {EXAMPLE} evaluate runs/ring-full-0" in said  # can be pasted, wherever the script lies
    assert "circle_left" in run("evaluate", "runs/ring-full-0", "--trials", "2", folder=tmp_path)
    table = ("experiment", "main", "--task", "ring", "--methods", "sm", "sm+nsi", "--seeds", "1", "--jobs", "2")
    said = run(*table, "--samples", "8192", "--trials", "2", "--out", "table", folder=tmp_path)
    assert "sm+nsi" in said


@pytest.fixture(name="own_task")
def imported_example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example as a module."""
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    return importlib.import_module("own_task")


def test_drives_that_remember_begin_as_in_an_episode(own_task: Any, tmp_path: Path) -> None:
    """A keyframe of the model has their memory, too, so that nothing pulls at the character at the start."""
    xml = own_task.RING.replace('kv="40"/>', 'kv="40" timeconst="0.1"/>')

    def ring() -> sf.Character:
        return sf.Character.from_mjcf(xml, objects=("puck",), hands=("ring",), force_bodies=("ring",))

    sf.save_clips(own_task.make_clips(), tmp_path / "clips")
    own = from_clips("ring", tmp_path / "clips", like=starter(), character=ring)
    run: Any = SimpleNamespace(task=own, config=SimpleNamespace(data=None))
    model = spec_with_starts(run, ring()).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    assert model.na == 3
    assert np.abs(data.qpos[:3]).max() > 0.1
    np.testing.assert_allclose(data.act, data.qpos[:3], atol=1e-6)


def test_a_model_may_have_keyframes_of_its_own(own_task: Any, tmp_path: Path) -> None:
    """One that is called like a skill gives way to the skill's; others stay."""
    keys = "".join(f'<key name="{name}" qpos="9 9 9 0 0 0 1 0 0 0"/>' for name in ("mine", "circle_right"))
    xml = own_task.RING.replace("</mujoco>", f"<keyframe>{keys}</keyframe></mujoco>")

    def ring() -> sf.Character:
        return sf.Character.from_mjcf(xml, objects=("puck",), hands=("ring",), force_bodies=("ring",))

    sf.save_clips(own_task.make_clips(), tmp_path / "clips")
    own = from_clips("ring", tmp_path / "clips", like=starter(), character=ring)
    run: Any = SimpleNamespace(task=own, config=SimpleNamespace(data=None))
    spec = spec_with_starts(run, ring())
    model = spec.compile()
    places = {model.key(number).name: float(model.key_qpos[number, 2]) for number in range(model.nkey)}
    assert places == pytest.approx({"mine": 9.0, "circle_left": 0.05, "circle_right": 0.05})
    assert mujoco.MjModel.from_xml_string(model_xml(spec, model)).nkey == 3


@pytest.mark.parametrize("name", ["own_task", "one_more_skill"])
def test_clips_of_an_example_that_are_there_already_are_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever types the command twice is told why, and keeps the clips."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "clips"])
    example = str(EXAMPLE.with_stem(name))
    runpy.run_path(example, run_name="__main__")
    folder = capsys.readouterr().out.split(":")[0]
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(example, run_name="__main__")
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"error: {folder}: already there and not empty; name a new folder\n")
    assert len(sf.load_clips(Path(folder))) > 1


def test_states_of_a_character_without_joints_become_a_clip(own_task: Any) -> None:
    """The ring has a root and an object alone."""
    left, _ = own_task.make_clips()
    ring = own_task.ring()
    qpos = clip_positions(left, ring)
    again = clip_of_states(ring, qpos, torch.zeros(len(qpos), 3), left)
    assert again.joint_pos.shape == left.joint_pos.shape == (len(left), 0)
    np.testing.assert_allclose(again.object_pos, left.object_pos, atol=1e-6)


def test_its_demonstrations_pass_and_its_rule_can_fail(own_task: Any) -> None:
    """A puck that goes round as demonstrated succeeds; the other way round, or out of the ring, it does not."""
    left, right = own_task.make_clips()
    rounds = [torch.tensor(np.tile(clip.object_pos[:, 0], (5, 1))) for clip in (left, right)]
    puck = torch.stack((*rounds, rounds[0]), dim=1)
    root = puck.clone()
    root[300:, 2, 0] += 0.2
    flags = torch.ones(600, 3, dtype=torch.bool)
    trials = Trials(60.0, root, puck, flags, flags)
    assert own_task.CircleRule(0.5).judge(trials).tolist() == [True, False, False]
    assert own_task.CircleRule(-0.5).judge(trials).tolist() == [False, True, False]
