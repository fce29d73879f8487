"""`skillfield export`: a trained policy for use elsewhere."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from skillfield.deployment import export_policy

__all__ = ["Export"]


@dataclass(frozen=True)
class Export:
    """Write a trained policy as one ONNX file: from what plain MuJoCo shows to joint targets, memory included.

    Beside FILE.onnx appear FILE.json, a card that explains every number, and FILE.xml, the MuJoCo model with a start
    state per skill. Before the file appears it is run in MuJoCo and compared with PyTorch.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder with a checkpoint, or the name of a shipped policy, such as starter."""
    out: Path
    """File to write, .onnx."""
    data: Path | None = None
    """Folder of imported recordings, if they lie elsewhere than in training; only start states come from there."""
    licence: str | None = None
    """What the card says of it."""

    def run(self) -> int:
        """Export."""
        written = export_policy(self.run_folder, self.out, data=self.data, licence=self.licence)
        for path in (written.onnx, written.card, written.model):
            print(path)
        print(f"agrees with PyTorch to {written.max_error:.1g} over {written.checked_steps} steps")
        return 0
