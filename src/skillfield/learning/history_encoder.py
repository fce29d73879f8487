"""The history encoder: a second of past states in three numbers, learned from the demonstrations, then frozen.

Pre-training is behavioural cloning of states (paper, appendix): from the embedding of the past, the present state and
the skill, a predictor must tell the states that follow. What the embedding has to hold is what the present hides.
Shape letters: n windows, k frames, F features of a frame, S skills.
"""

import hashlib
import os
import warnings
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from skillfield.configuration import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, check
from skillfield.errors import ConfigError, SkillfieldNote
from skillfield.files import atomic_file
from skillfield.imitation.history import History
from skillfield.learning.networks import mlp
from skillfield.reference import ReferenceMotion

__all__ = ["EncoderConfig", "HistoryEncoder", "pretrain", "pretrained_encoder"]


_RECIPE = 1
"""Of the pre-training below; raise it with every change, so that no cache hands out what was trained otherwise."""


_ONCE = "pre-training the history encoder, once for these demonstrations (a humanoid's: some minutes on a CPU)"


@dataclass(frozen=True)
class EncoderConfig:
    """Architecture and pre-training. Defaults follow the paper and the released configuration."""

    size: int = 3
    """Numbers of the embedding (paper, μ)."""
    channels: tuple[int, int, int] = (128, 64, 32)
    """Of the three convolutions, each three frames wide."""
    stride: int = 1
    """Of the first two convolutions; 2 makes running four times cheaper."""
    horizons: tuple[int, ...] = (1,)
    """Which future states to predict, in frames ahead. The paper predicts the next one; later ones make the embedding
    tell apart moments at which nothing moves yet."""
    noise: float = 0.0
    """Spread of noise on the features of a window (metres, radians): running states are never exactly demonstrated."""
    drift: float = 0.0
    """The same for an offset of the whole window."""
    penalty: float = 1e-5
    """λ_b: weight of |h|² (paper)."""
    steps: int = 4000
    """Of the pre-training."""
    batch: int = 256
    """Windows per step."""
    learning_rate: float = 1e-3
    """At the beginning; it falls to nothing."""
    hidden: tuple[int, ...] = (512, 256)
    """Of the predictor."""

    def __post_init__(self) -> None:
        check("encoder", self, AT_LEAST_ONE, "size", "channels", "stride", "horizons", "steps", "batch", "hidden")
        check("encoder", self, NOT_NEGATIVE, "noise", "drift", "penalty")
        check("encoder", self, POSITIVE, "learning_rate")
        if not self.horizons:
            raise ConfigError("encoder: horizons is (), there must be a state to predict")


class HistoryEncoder(nn.Module):
    """Three convolutions over time and a linear layer."""

    mean: Tensor
    spread: Tensor
    frames: Tensor
    pieces: Tensor
    num_pieces = 3

    def __init__(self, features: int, length: int, config: EncoderConfig) -> None:
        super().__init__()
        self.size, self.config = config.size, config
        widths = [features, *config.channels]
        # a convolution three frames wide is a linear map of three frames; as such it is faster on small batches
        self.convolutions = nn.ModuleList(nn.Linear(3 * before, after) for before, after in pairwise(widths))
        self.strides = (config.stride, config.stride, 1)
        frames = length
        for stride in self.strides:
            frames = (frames - 1) // stride + 1
        self.head = nn.Linear(frames * widths[-1], config.size)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))
        # what the first convolution reads: each of its positions has a frame before it, one on it, and one after it
        before, on, after = (torch.arange(0, length, config.stride) + shift for shift in (-1, 0, 1))
        self.register_buffer("frames", torch.cat((before, on, after)), persistent=False)
        self.register_buffer("pieces", torch.arange(self.num_pieces).repeat_interleave(len(on)), persistent=False)

    def forward(self, window: Tensor) -> Tensor:
        """[n, k, F] → [n, size]"""
        return self._rest(self.convolutions[0](_threes(self._scaled(window), self.strides[0])))

    def project(self, features: Tensor) -> Tensor:
        """What the first convolution makes of a frame that stands before, on and after its position: three pieces."""
        first = self.convolutions[0]
        assert isinstance(first, nn.Linear)
        pieces = first.weight.unflatten(1, (self.num_pieces, -1)).transpose(0, 1).flatten(0, 1)  # [3·C, F]
        return nn.functional.linear(self._scaled(features), pieces)

    def embed(self, read: Tensor) -> Tensor:
        """The same as `forward`, from such pieces.  [n, 3·positions, C] → [n, size]"""
        return self._rest(read.unflatten(1, (self.num_pieces, -1)).sum(dim=1) + self.convolutions[0].bias)

    def _scaled(self, features: Tensor) -> Tensor:
        scale = self.spread.reciprocal()
        return torch.addcmul(-self.mean * scale, features, scale).clamp(-5.0, 5.0)

    def _rest(self, x: Tensor) -> Tensor:
        """From the first convolution on.  [n, positions, C] → [n, size]"""
        for convolution, stride in zip(self.convolutions[1:], self.strides[1:], strict=True):
            x = convolution(_threes(torch.relu(x), stride))
        return self.head(torch.relu(x).flatten(1))


def _threes(x: Tensor, stride: int) -> Tensor:
    """Every `stride`-th frame with its two neighbours, zeros beyond the ends.  [n, k, F] → [n, ⌈k/stride⌉, 3F]"""
    padded = nn.functional.pad(x, (0, 0, 1, 1))
    count, frames = x.shape[:2]
    if stride == 3:  # threes that do not overlap lie in memory as they are wanted
        threes = (frames - 1) // 3 + 1
        return padded[:, : 3 * threes].reshape(count, threes, -1)
    return torch.cat([padded[:, shift : shift + frames : stride] for shift in range(3)], dim=2)


def pretrained_encoder(
    history: History, motion: ReferenceMotion, config: EncoderConfig, cache: Path | None = None
) -> HistoryEncoder:
    """An encoder for these demonstrations, from the cache if the same one was trained before."""
    path = (cache or _cache_folder()) / f"{_content(history, motion, config)}.safetensors"
    try:
        encoder = _fresh(history, motion, config)
        encoder.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError):
        warnings.warn(_ONCE, SkillfieldNote, stacklevel=2)
        encoder = _fresh(history, motion, config)  # a damaged file may have filled some of the layers
        pretrain(encoder, history, motion, config)
        try:
            with atomic_file(path) as temporary:
                save_file({name: value.cpu().contiguous() for name, value in encoder.state_dict().items()}, temporary)
        except (OSError, SafetensorError):
            pass  # a cache that cannot be written only costs time
    return encoder.requires_grad_(False).eval()


def _fresh(history: History, motion: ReferenceMotion, config: EncoderConfig) -> HistoryEncoder:
    """An untrained encoder, the same in every run: the cache knows nothing of what was random before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HistoryEncoder(history.features, history.length, config).to(motion.device)


def pretrain(encoder: HistoryEncoder, history: History, motion: ReferenceMotion, config: EncoderConfig) -> float:
    """Train encoder and predictor on every frame of the demonstrations; returns the last prediction error."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _pretrain(encoder, history, motion, config)


def _pretrain(encoder: HistoryEncoder, history: History, motion: ReferenceMotion, config: EncoderConfig) -> float:
    reference = history.reference
    encoder.mean.copy_(reference.mean(0))
    encoder.spread.copy_(reference.std(0).clamp_min(0.02))
    scaled = (reference - encoder.mean) / encoder.spread
    clip = motion.clip_of_row
    rows = torch.nonzero(motion.start_mask()).squeeze(1)
    last = motion.start[clip] + motion.length[clip] - 1
    condition = torch.eye(len(motion.skills), device=motion.device)[motion.skill[clip]]
    future = torch.stack([scaled[torch.minimum(rows + ahead, last[rows])] for ahead in config.horizons], dim=1)
    windows, present = history.past_of(rows), scaled[rows]
    age = rows - motion.start[clip[rows]]  # frames since the clip began
    inputs = config.size + scaled.shape[1] + len(motion.skills)
    predictor = mlp(inputs, config.hidden, future[0].numel()).to(motion.device)
    parameters = [*encoder.parameters(), *predictor.parameters()]
    optimiser = torch.optim.Adam(parameters, config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
    error = torch.zeros(())
    for _ in range(config.steps):
        pick = torch.randint(len(rows), (config.batch,), device=motion.device)
        window = _with_other_past(windows[pick], age[pick], windows)
        window = window + config.noise * torch.randn_like(window) + config.drift * torch.randn_like(window[:, :1])
        embedding = encoder(window)
        predicted = predictor(torch.cat((embedding, present[pick], condition[rows[pick]]), dim=1))
        error = (predicted - future[pick].flatten(1)).square().mean()
        optimiser.zero_grad(set_to_none=True)
        (error + config.penalty * embedding.square().sum(1).mean()).backward()
        optimiser.step()
        schedule.step()
    return float(error.detach())


def _with_other_past(window: Tensor, age: Tensor, windows: Tensor) -> Tensor:
    """Half of the windows with some other past before their clip began, as after a switch of skills.  [n, k, F]"""
    count, length = window.shape[:2]
    other = windows[torch.randint(len(windows), (count,), device=window.device)]
    frame = torch.arange(length, device=window.device)
    before = (frame < (length - age).unsqueeze(1)) & (torch.rand(count, 1, device=window.device) < 0.5)
    moved = other.gather(1, (frame + age.unsqueeze(1)).clamp_max(length - 1).unsqueeze(-1).expand_as(other))
    return torch.where(before.unsqueeze(-1), moved, window)


def _content(history: History, motion: ReferenceMotion, config: EncoderConfig) -> str:
    """A name that changes with anything that the result depends on."""
    digest = hashlib.sha256(repr((_RECIPE, config, motion.skills, (history.length, history.features))).encode())
    for tensor in (history.reference, motion.start, motion.skill, motion.valid):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "skillfield" / "encoders"
