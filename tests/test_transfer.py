"""A run may begin with the networks of another policy, of other skills too: what that one knew is kept."""

import importlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from skillfield.api import resume, train, train_run
from skillfield.characters import hand
from skillfield.cli.main import main
from skillfield.cli.train import parse
from skillfield.clips import save_clips
from skillfield.errors import CheckpointError, SkillfieldNote
from skillfield.experiments.loading import origin_of
from skillfield.experiments.run import Origin, RunConfig, build_ppo, load_config, preset
from skillfield.experiments.shipped import pack_policy, run_folder
from skillfield.experiments.stages import Stage
from skillfield.experiments.starter import starter
from skillfield.experiments.task import Task
from skillfield.learning.checkpoint import latest_checkpoint, load_model, saved_counters
from skillfield.learning.history_encoder import HistoryEncoder
from skillfield.learning.networks import ActorCritic
from skillfield.learning.training import Budget
from skillfield.learning.transfer import begin_with, with_skills
from skillfield.reference.checking import check_against_character

pytestmark = pytest.mark.filterwarnings("ignore::skillfield.errors.SkillfieldNote")

SEEN, KNOWN = 7, ("walk", "run", "jump")


def only(*skills: str) -> Task:
    """The starter with some of its skills, in this order."""
    task = starter()
    rules = {skill: task.trials.rules[skill] for skill in skills}
    return replace(task, name="some", clips=None, data="some", trials=replace(task.trials, rules=rules))


def tiny(task: Task, method: str = "sm", samples: int = 64) -> RunConfig:
    config = preset(task, method)
    ppo = replace(config.ppo, hidden=(16,), horizon=4, minibatch=32, epochs=1)
    encoder = replace(config.encoder, steps=2, hidden=(8,), channels=(4, 4, 2))
    settings = replace(config, num_envs=8, threads=1, ppo=ppo, encoder=encoder, budget=Budget(samples=samples))
    return replace(settings, data=str(starter().clips))


def skilled(shares: Sequence[float] = (0.5, 0.3, 0.2)) -> ActorCritic:
    """Networks that have seen three skills, so often each, between other things before and after them."""
    torch.manual_seed(0)
    model = ActorCritic(SEEN + len(KNOWN) + 2, 4, (8, 6), insight=3)
    often = torch.tensor([round(1000 * share) for share in shares])
    code = torch.eye(len(KNOWN)).repeat_interleave(often, dim=0)
    model.normaliser.update(torch.cat((torch.randn(len(code), SEEN) * 3 + 1, code, torch.randn(len(code), 2)), dim=1))
    return model


def asked(model: ActorCritic, number: int, of: int) -> tuple[Tensor, Tensor]:
    """What networks do and expect in twenty situations when asked for a skill."""
    generator = torch.Generator().manual_seed(1)
    before, after, insight = (torch.randn(20, size, generator=generator) for size in (SEEN, 2, 3))
    seen = torch.cat((before, torch.eye(of)[number].expand(20, of), after), dim=1)
    with torch.no_grad():
        return model.act(seen), model.value(model.normaliser(seen), insight)


@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (0.99, 0.005, 0.005), (1.0, 0.0, 0.0)])
@pytest.mark.parametrize(
    "wanted", [("jump", "walk"), ("walk", "crawl", "run", "jump"), ("run",), (*"abcdefgh", "walk")]
)
def test_known_skills_are_done_as_before(wanted: tuple[str, ...], shares: tuple[float, ...]) -> None:
    """Wherever they stand in the new order, whatever was left out or added, however rarely they had been seen."""
    model = skilled(shares)
    other = ActorCritic(SEEN + len(wanted) + 2, 4, (8, 6), insight=3)
    other.load_state_dict(with_skills(model.state_dict(), SEEN, KNOWN, wanted))
    for number, skill in enumerate(wanted):
        if skill in KNOWN:
            for found, before in zip(
                asked(other, number, len(wanted)), asked(model, KNOWN.index(skill), len(KNOWN)), strict=True
            ):
                torch.testing.assert_close(found, before, rtol=1e-4, atol=1e-5)


def test_a_new_skill_begins_with_the_mean_of_the_known() -> None:
    """In the first layer of both networks, where alone a skill is told."""
    model = skilled()
    tensors = with_skills(model.state_dict(), SEEN, KNOWN, (*KNOWN, "crawl"))
    other = ActorCritic(SEEN + 4 + 2, 4, (8, 6), insight=3)
    other.load_state_dict(tensors)
    code = torch.cat((torch.zeros(4, SEEN), torch.eye(4), torch.zeros(4, 2)), dim=1)
    torch.testing.assert_close(other.normaliser.mean[SEEN : SEEN + 4], torch.full((4,), 0.25))
    torch.testing.assert_close(other.normaliser.variance[SEEN : SEEN + 4], torch.full((4,), 0.25 * 0.75))
    for network, more in ((other.policy, 0), (other.critic, 3)):
        first = network[0](torch.cat((other.normaliser(code), torch.zeros(4, more)), dim=1))
        torch.testing.assert_close(first[3], first[:3].mean(dim=0), rtol=1e-4, atol=1e-5)


def test_the_same_skills_change_nothing() -> None:
    """Not even a rounding error."""
    tensors = skilled().state_dict()
    assert with_skills(tensors, SEEN, KNOWN, KNOWN) is tensors


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two skills, with a history encoder."""
    folder = tmp_path_factory.mktemp("policy")
    task = only("hold", "toss")
    train_run(tiny(task, "full"), folder, task=task, progress=False)
    return folder


def test_a_learner_begins_with_the_networks_of_a_policy(policy: Path) -> None:
    """Encoder and normaliser included; it acts in a known skill as that policy does, and remembers as it does."""
    task = only("dribble_left", "toss", "hold")
    learner = build_ppo(tiny(task, "full"), task, begun=True)
    assert begin_with(latest_checkpoint(policy), learner) == ("hold", "toss")
    model, _ = load_model(latest_checkpoint(policy))
    for name, value in learner.model.state_dict().items():
        if not name.startswith(("normaliser", "policy.0", "critic.0")):
            assert torch.equal(value, model.state_dict()[name]), name
    seen, history = learner.env.reset(), learner.env.history
    assert torch.equal(seen[:, learner.env.condition], torch.eye(3)[learner.env.skill])
    assert history is not None
    history.reset(torch.arange(8), torch.full((8,), 30))
    assert isinstance(model.encoder, HistoryEncoder)
    expected = model.encoder(history.past_of(torch.full((8,), 30)))
    torch.testing.assert_close(history.recall(), expected, rtol=1e-4, atol=1e-5)
    seen[:, learner.env.condition] = torch.tensor([0.0, 1.0, 0.0])
    first, last = learner.env.condition.start, learner.env.condition.stop
    other = torch.cat((seen[:, :first], torch.tensor([[0.0, 1.0]]).expand(len(seen), 2), seen[:, last:]), dim=1)
    torch.testing.assert_close(learner.model.act(seen), model.act(other), rtol=1e-4, atol=1e-5)


def test_a_run_says_what_it_began_with(policy: Path, tmp_path: Path) -> None:
    """Its own samples count from nothing, and it goes on from its own checkpoints."""
    task = only("hold", "toss", "dribble_left")
    config = tiny(task, "full").after(origin_of(policy))
    assert config.origin == Origin(str(policy.resolve()), 64)
    train_run(config, tmp_path / "run", task=task, progress=False)
    assert load_config(tmp_path / "run") == config
    assert saved_counters(latest_checkpoint(tmp_path / "run")).samples == 64
    resume(tmp_path / "run", samples=128, task=task, progress=False)
    assert saved_counters(latest_checkpoint(tmp_path / "run")).samples == 128


def test_samples_add_up_from_policy_to_policy(policy: Path, tmp_path: Path) -> None:
    """So that stages go by all that the networks have had, however often they were handed on."""
    task = only("hold", "toss")
    train_run(tiny(task, "full").after(origin_of(policy)), tmp_path / "run", task=task, progress=False)
    assert origin_of(tmp_path / "run") == Origin(str((tmp_path / "run").resolve()), 64 + 64)


def test_it_is_said_which_skills_are_known(policy: Path, tmp_path: Path) -> None:
    """A misspelt one would be new."""
    task = only("toss", "dribble_left")
    with pytest.warns(SkillfieldNote, match=r"64 samples; knows: toss; new: dribble_left; left out: hold$"):
        train_run(tiny(task, "full").after(origin_of(policy)), tmp_path, task=task, progress=False)


def test_the_encoder_is_not_trained_again(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with the policy, which relies on it."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("skillfield.experiments.run.pretrained_encoder", never)
    task = only("hold", "toss")
    train_run(tiny(task, "full").after(origin_of(policy)), tmp_path, task=task, progress=False)
    began, ended = (load_model(latest_checkpoint(run))[0].encoder for run in (policy, tmp_path))
    assert began is not None
    assert ended is not None
    for name, value in began.state_dict().items():
        assert torch.equal(value, ended.state_dict()[name])


def test_stages_are_those_that_the_policy_has_come_to() -> None:
    """What has begun holds from the first sample on, and the rest begins that much sooner."""
    stages = (
        Stage(100, {"ppo.gamma": 0.5}),
        Stage(200, {"ppo.gamma": 0.6, "env.clip_end": "loop"}),
        Stage(300, {"ppo.gamma": 0.7}),
    )
    config = replace(preset("starter"), stages=stages)
    later = config.after(Origin("some", 200))
    assert (later.ppo.gamma, later.env.clip_end) == (0.6, "loop")
    assert later.stages == (Stage(100, {"ppo.gamma": 0.7}),)
    assert config.after(Origin("some", 50)).stages[0].after == 50
    assert config.after(Origin("some", 300)).stages == ()
    assert config.after(Origin("some", 0)) == replace(config, origin=Origin("some", 0))


def test_the_humanoid_goes_on_in_its_last_stage() -> None:
    """Where the shipped policy is, worlds go on, and nothing more is to come."""
    config = preset("courtside", "full").after(origin_of("ballplay"))
    assert config.origin == Origin("ballplay", 751_173_632)
    assert config == replace(preset("courtside", "full").in_the_end(), stages=(), origin=config.origin)


@pytest.mark.parametrize(("target", "largest", "factor"), [(None, None, 1.0), (0.02, None, 4.0), (0.02, 1e-3, 2.0)])
def test_an_adaptive_step_size_begins_where_it_was(
    target: float | None, largest: float | None, factor: float, policy: Path, tmp_path: Path
) -> None:
    """Where it adapts, and within its limit; a fixed one is what the new run says."""
    copy = edited(policy, tmp_path / "copy", {"kl_factor": 4.0})
    task = only("hold", "toss")
    config = tiny(task, "full")
    ppo = replace(config.ppo, learning_rate=5e-4, target_kl=target, max_learning_rate=largest)
    learner = build_ppo(replace(config, ppo=ppo), task, begun=True)
    begin_with(copy, learner)
    assert learner.kl_factor == factor


def test_a_lesson_has_the_step_size_that_is_set(policy: Path, tmp_path: Path) -> None:
    """Whatever the other policy's had become; what follows the lesson begins with its own."""
    copy = edited(policy, tmp_path / "copy", {"kl_factor": 4.0})
    task = only("hold", "toss")
    config = tiny(task, "full")
    ppo = replace(config.ppo, learning_rate=1e-3, learning_rate_final=None, target_kl=0.02, max_learning_rate=3e-4)
    learner = build_ppo(replace(config, ppo=replace(ppo, guided=True)), task, begun=True)
    begin_with(copy, learner)
    assert learner.update(0.0)["learning_rate"] == pytest.approx(1e-3)
    assert learner.kl_factor == 1.0


def edited(policy: Path, folder: Path, changes: dict[str, Any]) -> Path:
    """A copy of a checkpoint whose state.json says something else."""
    copy = Path(shutil.copytree(latest_checkpoint(policy), folder))
    state = json.loads((copy / "state.json").read_text()) | changes
    (copy / "state.json").write_text(json.dumps(state))
    return copy


@pytest.mark.parametrize(
    ("task", "method", "hidden", "complaint"),
    [
        (only("hold", "toss"), "sm", (16,), r"memory: encoder of 60 frames; this run's: none .*'full'"),
        (only("hold", "toss"), "full", (16, 16), r"are \(.*\(16,\)\), this run has \(.*\(16, 16\)\).*'some'"),
    ],
)
def test_networks_that_do_not_fit_are_refused(
    task: Task, method: str, hidden: tuple[int, ...], complaint: str, policy: Path, tmp_path: Path
) -> None:
    """One without memory cannot begin with one that has some; nothing is written."""
    config = tiny(task, method).after(origin_of(policy))
    config = replace(config, ppo=replace(config.ppo, hidden=hidden))
    with pytest.raises(CheckpointError, match=complaint):
        train_run(config, tmp_path / "run", task=task, progress=False)
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"env": {"history_length": 58}}, "its memory: length 60; this run's: length 58"),
        ({"encoder": {"horizons": (1,)}}, r"its memory: horizons \(1, 8, 16, 32\); this run's: horizons \(1,\)"),
        ({"ppo": {"exploration": "learned"}}, "its learned σ: None; this run's: 0.08"),
        ({"env": {"insight": True}}, None),
    ],
)
def test_networks_that_would_fit_are_refused_if_they_mean_something_else(
    change: dict[str, dict[str, Any]], complaint: str | None, policy: Path
) -> None:
    """A memory of another length or another training, a spread that was never learned; a critic may be told more."""
    task = only("hold", "toss")
    config = tiny(task, "full")
    for group, values in change.items():
        config = replace(config, **{group: replace(getattr(config, group), **values)})
    learner = build_ppo(config, task, begun=True)
    if complaint is None:
        begin_with(latest_checkpoint(policy), learner)
        return
    with pytest.raises(CheckpointError, match=complaint):
        begin_with(latest_checkpoint(policy), learner)


@pytest.mark.parametrize("skills", [None, [], ["hold", "hold"], [["hold"], ["toss"]], "hold", ["a"] * 9999])
def test_a_policy_that_does_not_name_its_skills_is_refused(skills: Any, policy: Path, tmp_path: Path) -> None:
    """Its code would mean nothing."""
    copy = edited(policy, tmp_path / "copy", {"identity": {"task": "some", "method": "full", "skills": skills}})
    task = only("hold", "toss")
    with pytest.raises(CheckpointError, match="does not say which skills"):
        begin_with(copy, build_ppo(tiny(task, "full"), task, begun=True))


def test_networks_that_are_not_finite_are_refused(policy: Path, tmp_path: Path) -> None:
    """Nothing can be learned from them."""
    copy = edited(policy, tmp_path / "copy", {})
    tensors = load_file(copy / "model.safetensors")
    tensors["critic.0.bias"][0] = torch.nan
    save_file(tensors, copy / "model.safetensors")
    task = only("hold", "toss")
    with pytest.raises(CheckpointError, match=r"not finite: critic\.0\.bias"):
        begin_with(copy, build_ppo(tiny(task, "full"), task, begun=True))


def test_a_packed_policy_does_not_say_where_its_origin_lay(policy: Path, tmp_path: Path) -> None:
    """Only what it is called, and how many samples are behind it in all."""
    task = only("hold", "toss")
    train_run(tiny(task, "full").after(origin_of(policy)), tmp_path / "run", task=task, progress=False)
    pack_policy(tmp_path / "run", tmp_path / "packed")
    assert load_config(tmp_path / "packed").origin == Origin(policy.name, 64)
    assert origin_of(tmp_path / "packed").samples == 128
    assert origin_of(latest_checkpoint(policy)).samples == 64


def test_train_takes_a_shipped_policy_or_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the command line and from Python; what is neither is refused by its name."""
    small = ["--num-envs", "8", "--ppo.horizon", "4", "--ppo.minibatch", "32"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["train", "starter", "--start-from", "starter", "--samples", "32", "--out", str(first), *small]) == 0
    origin = load_config(first).origin
    assert origin is not None
    assert origin.policy == "starter"
    train("starter", samples=1, start_from=first, run=second, progress=False)
    assert load_config(second).origin == Origin(str(first.resolve()), 5_005_312 + 32)
    assert main(["train", "starter", "--start-from", "nobody", "--out", str(tmp_path / "third"), *small]) == 2
    assert "nobody: no such run folder" in capsys.readouterr().err
    assert main(["train", "--resume", "starter", "--samples", "10000000"]) == 2
    assert (
        "starter: comes with the package and cannot go on; train TASK --start-from starter" in capsys.readouterr().err
    )
    assert main(["train", "--resume", str(first), "--start-from", "starter"]) == 2
    assert "only a new budget and --data may be given, not ['--start-from']" in capsys.readouterr().err


def test_the_example_adds_a_skill_to_the_shipped_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clips are sound, there is a skill more, and after one update the networks are nearly what they were."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples"))
    monkeypatch.chdir(tmp_path)
    example: Any = importlib.import_module("one_more_skill")
    clips = example.make_clips()
    *_, back = clips
    assert (back.skill, float(back.object_pos[-1, 0, 0])) == ("dribble_back", pytest.approx(-1.4, abs=0.15))
    worst = {finding.severity for finding in check_against_character(back, hand())}
    assert worst == {finding.severity for finding in check_against_character(clips[0], hand())}
    save_clips(clips, example.CLIPS)
    run = train(example.six(), samples=1, start_from="starter", run=tmp_path / "run", progress=False)
    trained, shipped = (load_model(latest_checkpoint(each))[0].state_dict() for each in (run, run_folder("starter")))
    assert len(trained["normaliser.mean"]) == len(shipped["normaliser.mean"]) + 1
    change = max(float((trained[name] - shipped[name]).abs().max()) for name in ("policy.2.weight", "policy.4.weight"))
    assert 0.0 < change < 0.05  # one update


def test_the_name_of_a_policy_is_no_task() -> None:
    """Nor is a folder called like a method: what is to be learned, and how, is what stands in its place."""
    assert parse(["--start-from", "ballplay"]).task == "starter"
    named = parse(["courtside", "--start-from", "ballplay", "--out", "sm"])
    assert (named.task, named.method) == ("courtside", "full")
    assert named.num_envs == preset("courtside").num_envs
