"""The history encoder: what is learned of the past before the policy is trained."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from skillfield.characters import Character
from skillfield.clips import Clip
from skillfield.experiments.run import RunConfig, build_motion, build_ppo, preset
from skillfield.experiments.tasks import starter
from skillfield.imitation.history import History
from skillfield.learning import history_encoder
from skillfield.learning.checkpoint import Counters, latest_checkpoint, load_model, save_checkpoint
from skillfield.learning.history_encoder import EncoderConfig, HistoryEncoder, pretrain, pretrained_encoder
from skillfield.learning.training import Budget
from skillfield.reference import ReferenceMotion

MakeClip = Callable[..., Clip]
Begin = Callable[..., None]

SMALL = EncoderConfig(channels=(8, 8, 4), stride=2, steps=30, batch=32, hidden=(16,))
LENGTH = 12


@pytest.fixture(scope="module")
def swaying(make_clip: MakeClip, hand_character: Character) -> tuple[History, ReferenceMotion]:
    """A short clip and its history."""
    motion = ReferenceMotion([make_clip(40), make_clip(30, skill="swing")], hand_character, ["sway", "swing"])
    return History(motion, hand_character, 1, LENGTH), motion


@pytest.mark.parametrize(("length", "stride"), [(60, 1), (60, 2), (12, 3), (1, 1)])
def test_an_embedding_is_three_numbers(length: int, stride: int) -> None:
    """Whatever the window and the stride."""
    encoder = HistoryEncoder(7, length, replace(SMALL, stride=stride))
    assert encoder(torch.randn(5, length, 7)).shape == (5, 3)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_encoder_is_three_convolutions_and_a_linear_layer(stride: int) -> None:
    """Recomputed with torch's own convolution, three frames wide and zero beyond the ends."""
    encoder = HistoryEncoder(7, 60, replace(SMALL, stride=stride))
    x = torch.randn(4, 60, 7)
    expected = x.clamp(-5.0, 5.0).transpose(1, 2)
    for number, step in enumerate((stride, stride, 1)):
        layer = encoder.convolutions[number]
        assert isinstance(layer, torch.nn.Linear)
        kernel = layer.weight.unflatten(1, (3, -1)).transpose(1, 2)
        expected = torch.relu(torch.nn.functional.conv1d(expected, kernel, layer.bias, step, padding=1))
    torch.testing.assert_close(encoder(x), encoder.head(expected.transpose(1, 2).flatten(1)))


def test_half_of_the_windows_have_come_from_elsewhere() -> None:
    """What was before their clip began is then the end of some other window, up to the frame at which they switched."""
    count, length = 2000, 12
    windows = 100.0 * torch.arange(50).view(-1, 1, 1) + torch.arange(length).view(1, -1, 1)  # window and frame
    age = torch.randint(0, 15, (count,))
    torch.manual_seed(0)
    changed = history_encoder._with_other_past(windows[:1].expand(count, -1, -1), age, windows)[..., 0]
    frame = torch.arange(length)
    before = frame < (length - age).unsqueeze(1)
    own = windows[0, :, 0].expand(count, -1)
    assert torch.equal(changed[~before], own[~before])
    moved = (changed - own >= 100).any(dim=1)  # who came from its own window cannot be told
    assert float(moved[age < length].float().mean()) == pytest.approx(0.5 * 49 / 50, abs=0.04)
    assert not moved[age >= length].any()
    expected = (frame + age.unsqueeze(1)).expand(count, -1).float()
    seen = before & moved.unsqueeze(1)
    assert torch.equal(changed[seen] % 100, expected[seen])
    other = torch.where(seen, changed // 100, torch.nan)
    one = other.nan_to_num(-1).amax(dim=1) == other.nan_to_num(99).amin(dim=1)
    assert bool(one[moved].all())  # of a single window


def test_pre_training_learns_to_predict(swaying: tuple[History, ReferenceMotion]) -> None:
    """The error after some steps is a fraction of that of the first, and random numbers outside stay as they are."""
    history, motion = swaying
    errors = []
    for steps in (1, 150):
        config = replace(SMALL, steps=steps, horizons=(1, 8), learning_rate=1e-2)
        encoder = HistoryEncoder(history.reference.shape[1], LENGTH, config)
        before = torch.get_rng_state()
        errors.append(pretrain(encoder, history, motion, config))
        assert torch.equal(torch.get_rng_state(), before)
    assert errors[1] < 0.2 * errors[0]


def same(first: HistoryEncoder, second: HistoryEncoder) -> bool:
    """Equal to the last bit."""
    theirs = second.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in first.state_dict().items())


def test_the_same_encoder_is_trained_once(
    swaying: tuple[History, ReferenceMotion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time it comes from the cache, frozen; other settings are another encoder."""
    first = pretrained_encoder(*swaying, SMALL, tmp_path)

    def again(*_: object) -> float:
        raise AssertionError("trained again")

    monkeypatch.setattr(history_encoder, "pretrain", again)
    second = pretrained_encoder(*swaying, SMALL, tmp_path)
    assert same(first, second)
    assert not any(parameter.requires_grad for encoder in (first, second) for parameter in encoder.parameters())
    for other in (replace(SMALL, steps=31), replace(SMALL, horizons=(2,))):
        with pytest.raises(AssertionError, match="trained again"):
            pretrained_encoder(*swaying, other, tmp_path)


def test_what_was_random_before_does_not_matter(swaying: tuple[History, ReferenceMotion], tmp_path: Path) -> None:
    """The cache holds what anyone would have trained: the result depends on clips and settings alone."""
    encoders = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        encoders.append(pretrained_encoder(*swaying, SMALL, tmp_path / str(seed)))
    assert same(*encoders)


def lose_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def overwrite(path: Path) -> None:
    path.write_bytes(b"not an encoder")


def lose_a_layer(path: Path) -> None:
    tensors = load_file(path)
    del tensors["head.weight"]
    save_file({name: value + 1.0 for name, value in tensors.items()}, path)


@pytest.mark.parametrize("damage", [lose_the_end, overwrite, lose_a_layer])
def test_a_damaged_cache_is_trained_anew(
    swaying: tuple[History, ReferenceMotion], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """The same encoder as before comes out, and the file is whole again."""
    first = pretrained_encoder(*swaying, SMALL, tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    damage(path)
    assert same(pretrained_encoder(*swaying, SMALL, tmp_path), first)
    assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_only_costs_time(
    swaying: tuple[History, ReferenceMotion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder should be, or a full disk, for which safetensors has an error of its own."""

    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    (tmp_path / "blocked").write_text("")
    monkeypatch.setattr(history_encoder, "save_file", full)
    for folder in ("blocked", "full"):
        encoder = pretrained_encoder(*swaying, SMALL, tmp_path / folder)
        assert encoder(torch.zeros(1, LENGTH, swaying[0].reference.shape[1])).isfinite().all()


def test_the_embedding_tells_the_time_while_nothing_moves() -> None:
    """In the half second in which the toss holds still, a line through the embedding recovers the frame number."""
    task = starter()
    character = task.character()
    motion = build_motion(task, character)
    history = History(motion, character, 1, 60)
    config = replace(task.encoder, steps=300, batch=64)
    torch.manual_seed(0)
    encoder = HistoryEncoder(history.reference.shape[1], 60, config)
    pretrain(encoder, history, motion, config)
    still = int(motion.start[motion.names.index("toss")]) + torch.arange(17, 48)
    palm = motion.kinematics(still).key_pos_w[:, 0]
    assert float((palm - palm.mean(0)).norm(dim=1).max()) < 0.03
    with torch.no_grad():
        embedding = encoder(history.past_of(still)).double()
    line = torch.cat((embedding, torch.ones(len(still), 1)), dim=1)
    time = still.double()
    fitted = line @ torch.linalg.lstsq(line, time.unsqueeze(1)).solution
    unexplained = (time - fitted.squeeze(1)).square().sum() / (time - time.mean()).square().sum()
    assert float(1 - unexplained) > 0.9


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RunConfig]]:
    """A run of the full method, two updates old."""
    folder = tmp_path_factory.mktemp("run")
    config = preset("starter", "full")
    ppo = replace(config.ppo, hidden=(16,), horizon=4, minibatch=64, epochs=1)
    config = replace(config, num_envs=16, ppo=ppo, encoder=SMALL, budget=Budget(samples=512))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        learner = build_ppo(config)
        learner.update(0.0)
        learner.update(0.5)
        save_checkpoint(folder, learner, Counters(128, 2), config.identity(starter().skills))
        yield folder, replace(config, seed=1)


def test_a_checkpoint_holds_the_encoder(run: tuple[Path, RunConfig]) -> None:
    """Loaded without clips or cache it gives the same embedding, it is frozen, and training has not touched it."""
    folder, config = run
    model, state = load_model(latest_checkpoint(folder))
    assert isinstance(model.encoder, HistoryEncoder)
    learner = build_ppo(config)
    trained = learner.model.encoder
    assert isinstance(trained, HistoryEncoder)
    assert state.history is not None
    window = torch.randn(6, 60, state.history.features)
    assert torch.equal(model.encoder(window), trained(window))
    assert not model.encoder(window).requires_grad
    assert model.encoder.config == SMALL
