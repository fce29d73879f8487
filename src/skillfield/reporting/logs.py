"""What a run measured, kept as it happens: one JSON object per line, and the same for TensorBoard."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from skillfield.errors import SkillfieldError
from skillfield.files import atomic_file, write_errors

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["METRICS_FILE", "TENSORBOARD_FOLDER", "MetricsLog", "read_metrics"]

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


class MetricsLog:
    """Appends to the logs of a run folder. A line is in the file when `write` returns, so a killed run keeps it."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder)
        self._path = self._folder / METRICS_FILE
        self._file: IO[str] | None = None
        self._writer: SummaryWriter | None = None
        self._wanted = True
        self._forget_from: int | None = None

    def write(self, samples: int, values: Mapping[str, float]) -> None:
        """What was measured after so many samples. A slash in a name groups it in TensorBoard: 'reward/hold'.

        A number that is not finite is null in the file and absent in TensorBoard, which stumbles over it.
        """
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(_line({"samples": samples, **values}))
            self._file.flush()
        except OSError as problem:
            raise SkillfieldError(f"{self._path}: cannot be written: {problem.strerror or problem}") from None
        if self._writer is None and self._wanted:
            self._open_writer()
        for name, value in values.items():
            if self._writer is not None and math.isfinite(value):
                self._writer.add_scalar(name, value, samples)

    def _open_writer(self) -> None:
        """TensorBoard, where it is installed; its import takes longer than everything else in this file."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._wanted = False  # metrics.jsonl has it all
            return
        self._writer = SummaryWriter(str(self._folder / TENSORBOARD_FOLDER), purge_step=self._forget_from)

    def rewind(self, samples: int) -> None:
        """Forget what was measured after so many samples: a resumed run measures it again."""
        self.close()
        self._forget_from = samples + 1
        if self._path.exists():
            kept = [entry for entry in read_metrics(self._path) if entry["samples"] <= samples]
            with write_errors(SkillfieldError), atomic_file(self._path) as temporary:
                temporary.write_text("".join(_line(entry) for entry in kept))

    def close(self) -> None:
        """Finish both logs."""
        if self._file is not None:
            self._file.close()
        if self._writer is not None:
            self._writer.close()
        self._file = self._writer = None

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> IO[str]:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            text = self._path.read_bytes()
            with open(self._path, "rb+") as file:  # what a killed run left of its last line must not spoil the next
                file.truncate(text.rfind(b"\n") + 1)
        return open(self._path, "a")


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Every line of a metrics file, oldest first; the unfinished last line of a killed run is left out."""
    try:
        lines = Path(path).read_text().split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as problem:
        raise SkillfieldError(f"{path}: cannot be read: {problem}") from None
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            entries.append({name: math.nan if value is None else value for name, value in entry.items()})
        except (json.JSONDecodeError, AttributeError):
            raise SkillfieldError(f"{path}: line {number} is no JSON object: {line[:60]!r}") from None
        if "samples" not in entry:
            raise SkillfieldError(f"{path}: line {number} does not say after how many samples")
    return entries


def _line(entry: Mapping[str, float]) -> str:
    numbers = {name: value if math.isfinite(value) else None for name, value in entry.items()}
    return json.dumps(numbers) + "\n"
