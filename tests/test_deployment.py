"""Policies outside of training: plain MuJoCo and ONNX do what the environment does."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import skillfield as sf
from skillfield.api import env_factory
from skillfield.characters.drives import DrivePositions
from skillfield.characters.humanoid import humanoid
from skillfield.cli.main import main
from skillfield.clips import Clip
from skillfield.deployment import Policy, export_policy
from skillfield.deployment.controller import MJDATA, Controller
from skillfield.deployment.export import OPSET, load_onnx, model_xml, write_onnx
from skillfield.errors import CharacterError, ClipError, ConfigError, ExportError, SkillfieldNote
from skillfield.experiments.loading import TrainedRun, load_run
from skillfield.experiments.run import load_config, save_config
from skillfield.experiments.shipped import run_folder
from skillfield.experiments.starter.authoring import CLIP_FOLDER
from skillfield.imitation import EnvConfig, ImitationEnv
from skillfield.imitation.history import HistoryKind
from skillfield.imitation.perception import Perception
from skillfield.learning.history_encoder import HistoryEncoder
from skillfield.learning.networks import ActorCritic
from skillfield.simulation import CpuEngine

EXAMPLE = Path(__file__).parents[1] / "examples" / "drive_with_onnx.py"
STEPS = 120
EXTRA = ("onnx", "onnxscript", "onnxruntime")


def need_extra() -> None:
    """Skip where the `export` extra is not installed."""
    for package in EXTRA:
        pytest.importorskip(package)


@pytest.fixture(scope="module")
def trained() -> TrainedRun:
    return load_run("starter")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped starter as ONNX."""
    need_extra()
    out = tmp_path_factory.mktemp("export") / "starter.onnx"
    assert main(["export", "starter", "--out", str(out)]) == 0
    return out


class PlainWorlds:
    """Some worlds in MuJoCo alone."""

    def __init__(self, model: mujoco.MjModel, substeps: int, worlds: list[mujoco.MjData]) -> None:
        self.model, self.substeps, self.worlds = model, substeps, worlds

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.stack([getattr(data, name) for data in self.worlds]).astype(np.float32) for name in MJDATA}

    def step(self, targets: Tensor) -> None:
        for data, row in zip(self.worlds, targets.numpy(), strict=True):
            data.ctrl[:] = row
            mujoco.mj_step(self.model, data, self.substeps)
            mujoco.mj_step1(self.model, data)


def greatest(*pairs: tuple[np.ndarray, Tensor]) -> float:
    return max(float(np.abs(found - wanted.numpy()).max()) for found, wanted in pairs)


@torch.no_grad()
def test_every_skill_acts_as_in_the_environment(
    exported: Path, trained: TrainedRun, begin: Callable[..., None]
) -> None:
    """Two seconds of each: plain MuJoCo goes through the same states, ONNX gives the same targets and a memory from
    which the encoder makes the same embedding."""
    skills, session = trained.task.skills, load_onnx(exported)
    env = env_factory(trained.task, trained.config, trained.networks)(len(skills))
    clip_of_skill = [env.motion.skill.tolist().index(number) for number in range(len(skills))]
    begin(env, clip_of_skill, [0] * len(skills))
    policy = sf.load_policy("starter")
    plain = PlainWorlds(policy.model, policy.substeps, [policy.start(skill) for skill in skills])
    assert env.history is not None
    assert isinstance(trained.networks.encoder, HistoryEncoder)
    past = np.zeros((len(skills), env.history.length, env.history.features), dtype=np.float32)
    memory = {"history": past, "first": np.ones(len(skills), dtype=bool)}
    condition = np.eye(len(skills), dtype=np.float32)
    worst = 0.0
    for _ in range(STEPS):
        found, memory["history"] = session.run(None, plain.arrays() | memory | {"skill": condition})
        memory["first"] = np.zeros(len(skills), dtype=bool)
        action = trained.networks.act(env.observe())
        targets = env._actions.targets(action, env.engine.state.qpos)
        env.advance(action)
        plain.step(targets)
        embedding = trained.networks.encoder(torch.from_numpy(memory["history"]))
        worst = max(worst, greatest((found, targets), (embedding.numpy(), env.history.recall())))
        assert np.array_equal(plain.arrays()["qpos"], env.engine.state.qpos.numpy())
    assert worst < 1e-5


def with_random_weights(networks: ActorCritic) -> ActorCritic:
    """Outputs as lively as a trained policy's."""
    with torch.no_grad():
        networks.normaliser.mean.normal_(0.0, 0.2)
        networks.normaliser.variance.uniform_(0.5, 2.0)
        ActorCritic._last(networks.policy).weight.mul_(10.0)
    return networks.eval()


@pytest.mark.slow
@torch.no_grad()
def test_a_humanoid_with_random_weights_acts_the_same(tmp_path: Path) -> None:
    """Ball joints, a stacked past and a learned σ: ONNX gives what the parts of the environment give."""
    need_extra()
    character, skills, length = humanoid("fused"), ("run", "rest"), 12
    perception, actions = Perception(character), character.action_map()
    engine = CpuEngine(character, 2, 1)
    features = perception.features(engine.state).shape[1]
    size = perception.size(len(skills)) + length * features
    networks = with_random_weights(ActorCritic(size, actions.num_actions, (16,), learned_spread=0.1))
    controller = Controller(character, networks, skills, "stacked", length)
    assert controller.window == (length, features)
    write_onnx(controller, tmp_path / "humanoid.onnx")
    session = load_onnx(tmp_path / "humanoid.onnx")

    plain = PlainWorlds(character.model, character.substeps, [mujoco.MjData(character.model) for _ in skills])
    engine.reset(torch.arange(2), engine.state.qpos.clone(), torch.zeros_like(engine.state.qvel))
    for data in plain.worlds:
        data.qpos[:] = engine.state.qpos[0]  # rounded as the engine's, whose ball lies just on the floor
        mujoco.mj_forward(character.model, data)
    window = perception.features(engine.state).unsqueeze(1).repeat(1, length, 1)
    memory = {"history": np.zeros(window.shape, dtype=np.float32), "first": np.ones(2, dtype=bool)}
    condition, worst, seen_contact = torch.eye(2), 0.0, False
    for _ in range(STEPS):
        found, memory["history"] = session.run(None, plain.arrays() | memory | {"skill": condition.numpy()})
        memory["first"] = np.zeros(2, dtype=bool)
        observation = torch.cat((perception.observation(engine.state, condition), window.flatten(1)), dim=1)
        targets = actions.targets(networks.act(observation), engine.state.qpos)
        window = torch.cat((window[:, 1:], perception.features(engine.state).unsqueeze(1)), dim=1)
        worst = max(worst, greatest((found, targets), (memory["history"], window)))
        engine.step(targets)
        plain.step(targets)
        seen_contact |= bool(engine.state.contact_force_w.any())
        assert np.array_equal(plain.arrays()["qpos"], engine.state.qpos.numpy())
    assert seen_contact
    assert worst < 1e-4


@pytest.mark.parametrize("learned", [None, 0.1])
@pytest.mark.parametrize("history", ["none", "stacked"])
def test_every_kind_of_memory_runs_in_plain_mujoco(
    history: HistoryKind,
    learned: float | None,
    make_env: Callable[..., ImitationEnv],
    make_clip: Callable[..., Clip],
    begin: Callable[..., None],
) -> None:
    """A policy asked with MjData gives the targets that the environment gives."""
    env = make_env([make_clip()], 1, EnvConfig(history=history, history_length=5))
    character = env.engine.character
    networks = with_random_weights(ActorCritic(env.observation_size, env.num_actions, (8,), learned_spread=learned))
    policy = Policy(Controller(character, networks, env.motion.skills, history, 5), character.model)
    begin(env, [0], [0])
    data = mujoco.MjData(policy.model)
    data.qpos[:], data.qvel[:] = env.motion.qpos[0], env.motion.qvel[0]
    data.ctrl[:] = DrivePositions(policy.model)(env.motion.qpos[0])
    mujoco.mj_forward(policy.model, data)
    for _ in range(10):
        with torch.no_grad():
            action = networks.act(env.observe())
        wanted = env._actions.targets(action, env.engine.state.qpos)[0].numpy()
        assert np.abs(policy.act(data) - wanted).max() < 1e-5
        env.advance(action)
        data.ctrl[:] = wanted
        mujoco.mj_step(policy.model, data, policy.substeps)
        mujoco.mj_step1(policy.model, data)


def test_the_card_names_everything_in_order(exported: Path) -> None:
    """Inputs, outputs, skills, bodies and actuators, as the file and its model have them."""
    card = json.loads(exported.with_suffix(".json").read_text())
    session, model = load_onnx(exported), mujoco.MjModel.from_xml_path(str(exported.with_suffix(".xml")))
    assert [thing.name for thing in session.get_inputs()] == list(card["inputs"])
    assert [thing.name for thing in session.get_outputs()] == list(card["outputs"])
    for thing in (*session.get_inputs(), *session.get_outputs()):
        assert thing.shape == (card["inputs"] | card["outputs"])[thing.name]["shape"]
    assert card["skills"] == list(sf.tasks.starter().skills) == card["model"]["keyframes"]
    assert card["model"]["bodies"] == [model.body(i).name for i in range(model.nbody)]
    assert list(card["model"]["actuators"]) == [model.actuator(i).name for i in range(model.nu)]
    assert card["substeps"] * model.opt.timestep * card["policy_hz"] == pytest.approx(1.0, abs=1e-5)
    assert (card["opset"], card["samples"]) == (OPSET, 5005312)
    assert card["agreement"]["max_error"] < 1e-5
    inside = json.loads(session.get_modelmeta().custom_metadata_map["skillfield"])
    assert inside == {key: value for key, value in card.items() if key != "agreement"}


@pytest.mark.parametrize("skill", ["dribble_forward", "hold"])
def test_the_example_needs_nothing_of_ours(exported: Path, skill: str) -> None:
    """mujoco, numpy and onnxruntime keep the ball for five seconds."""
    tree = ast.parse(EXAMPLE.read_text())
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imports |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imports == {"json", "sys", "pathlib", "mujoco", "numpy", "onnxruntime"}
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(exported), skill, "5"], capture_output=True, text=True, check=True
    )
    assert "kept: True" in ran.stdout
    low, high = map(float, re.findall(r"([\d.]+) to ([\d.]+) m high", ran.stdout)[0])
    assert (low < 0.2 and 0.4 < high < 1.2) if skill == "dribble_forward" else low > 1.0


def test_a_policy_can_be_asked_for_another_skill(trained: TrainedRun) -> None:
    """From dribbling to holding, in one world, without forgetting."""
    policy = sf.load_policy("starter")
    data = policy.start("dribble_forward")
    for step in range(300):
        if step == 120:
            policy.skill = "hold"
        data.ctrl[:] = policy.act(data)
        mujoco.mj_step(policy.model, data, policy.substeps)
        mujoco.mj_step1(policy.model, data)
    assert np.linalg.norm(data.body("ball").xpos - data.body("palm").xpos) < 0.3
    remembering = policy.act(data)
    policy.reset()
    forgotten = policy.act(data)
    assert not np.array_equal(forgotten, remembering)
    policy.reset()
    np.testing.assert_array_equal(policy.act(data), forgotten)


def test_what_a_policy_cannot_do_is_said(trained: TrainedRun, walker_xml: str) -> None:
    """A skill that it lacks, a world of another model, a start without a demonstration, a clock that nobody has."""
    policy = sf.load_policy("starter")
    with pytest.raises(ConfigError, match="unknown skill 'juggle'; known: dribble_forward"):
        policy.skill = "juggle"
    with pytest.raises(ConfigError, match=r"qpos has shape \(19,\), the policy's model \(14,\)"):
        policy.act(mujoco.MjData(mujoco.MjModel.from_xml_string(walker_xml)))
    character = trained.task.character()
    bare = Policy(Controller(character, trained.networks, trained.task.skills, "encoder"), character.model)
    with pytest.raises(ConfigError, match="no demonstration of 'hold' at hand"):
        bare.start("hold")
    with pytest.raises(ConfigError, match="told the reference time"):
        Controller(character, trained.networks, trained.task.skills, "time")
    with pytest.raises(ConfigError, match="there is no encoder"):
        Controller(character, ActorCritic(72, 6, (8,)), trained.task.skills, "encoder")


@pytest.mark.parametrize("package", EXTRA)
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the command that installs it, and nothing is written."""
    need_extra()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ExportError, match=rf"'{package}' is missing: pip install 'skillfield\[export\]'"):
        export_policy("starter", tmp_path / "out" / "starter.onnx")
    assert not list(tmp_path.iterdir())


def test_a_wrong_name_or_run_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["export", "starter", "--out", "starter.pt"]) == 2
    assert "whose name ends in .onnx" in capsys.readouterr().err
    assert main(["export", "nowhere", "--out", "nowhere.onnx"]) == 2
    assert "no such run folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_model_of_many_files_is_refused(tmp_path: Path) -> None:
    """What it needs is named."""
    corners = [(x, y, z) for x in (0, 0.1) for y in (0, 0.1) for z in (0, 0.1)]
    (tmp_path / "box.obj").write_text(
        "\n".join(f"v {x} {y} {z}" for x, y, z in corners) + "\nf 1 2 3\nf 5 6 7\nf 2 4 8\n"
    )
    spec = mujoco.MjSpec()
    spec.meshdir = str(tmp_path)
    spec.add_mesh(name="box", file="box.obj")
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="box")
    with pytest.raises(CharacterError, match=r"cannot be written as one file: it needs \['box.obj'\]"):
        model_xml(spec, spec.compile())


def test_the_page_shows_the_example() -> None:
    """All of it, but for its first lines."""
    code = EXAMPLE.read_text().split('"""\n\n', 1)[1]
    assert f"```python\n{code}```" in (EXAMPLE.parents[1] / "docs" / "export.md").read_text()


def test_a_policy_whose_targets_are_not_numbers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch and onnxruntime agree on it; nothing is written, MuJoCo's log neither."""
    need_extra()
    run = tmp_path / "run"
    shutil.copytree(run_folder("starter"), run)
    weights = load_file(run / "model.safetensors")
    broken = {name: value.fill_(torch.nan) if name.startswith("policy.") else value for name, value in weights.items()}
    save_file(broken, run / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExportError, match=r"broken\.onnx: not written: its targets are not numbers"):
        export_policy(run, tmp_path / "broken.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_file_that_disagrees_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every export is run before it appears; the earlier file stays."""
    need_extra()
    out = tmp_path / "starter.onnx"
    out.write_text("earlier")
    monkeypatch.setattr("skillfield.deployment.export.write_onnx", lambda *_: None)
    monkeypatch.setattr("skillfield.deployment.export._disagreement", lambda *_: 0.1)
    with pytest.raises(ExportError, match=r"onnxruntime differs from PyTorch by 0\.1"):
        export_policy("starter", out)
    assert [path.name for path in tmp_path.iterdir()] == ["starter.onnx"]
    assert out.read_text() == "earlier"


def test_a_failed_export_leaves_all_three_files_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is the last of them that cannot be written."""
    need_extra()
    out = tmp_path / "starter.onnx"
    files = [out, out.with_suffix(".json"), out.with_suffix(".xml")]
    for file in files:
        file.write_text("earlier")

    def full(path: Path, _: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("skillfield.deployment.export.write_onnx", lambda *_: None)
    monkeypatch.setattr("skillfield.deployment.export._disagreement", lambda *_: 0.0)
    monkeypatch.setattr("skillfield.deployment.export.write_json", full)
    with pytest.raises(ExportError, match=r"starter\.json: cannot be written: No space left on device"):
        export_policy("starter", out)
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert {file.read_text() for file in files} == {"earlier"}


def own_run(folder: Path, data: Path) -> Path:
    """The starter as a run of one's own that was trained on clips in a folder."""
    shutil.copytree(run_folder("starter"), folder)
    save_config(replace(load_config(folder), data=str(data)), folder)
    return folder


def test_a_run_whose_clips_are_gone_has_no_starts_and_says_so(tmp_path: Path) -> None:
    """Those of the package are not what it was trained on; named, they are taken."""
    run = own_run(tmp_path / "run", tmp_path / "gone")
    note = rf"^the demonstrations of {run} are not in {tmp_path / 'gone'}: its model has no start states"
    with pytest.warns(SkillfieldNote, match=note):
        assert sf.load_policy(run).model.nkey == 0
    assert sf.load_policy(run, data="starter").model.nkey == 5


@pytest.mark.parametrize("harm", ["damaged", "incomplete"])
def test_clips_that_cannot_be_used_are_no_policy_without_starts(harm: str, tmp_path: Path) -> None:
    """Only those that are not there at all."""
    clips = tmp_path / "clips"
    shutil.copytree(CLIP_FOLDER, clips)
    if harm == "damaged":
        (clips / "hold.npz").write_bytes(b"no clip")
    else:
        (clips / "hold.npz").unlink()
    run = own_run(tmp_path / "run", clips)
    with pytest.raises(ClipError, match="hold"):
        sf.load_policy(run)


def test_a_loaded_policy_leaves_threads_alone() -> None:
    """They are the program's that loads it."""
    torch.set_num_threads(2)
    try:
        sf.load_policy("starter")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
