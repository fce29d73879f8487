"""Trained policies that come with the package, each under the name of its task; baselines as TASK-METHOD.

One is a folder like a run's: config.json, and a checkpoint of the networks alone in half precision.
"""

from dataclasses import replace
from pathlib import Path

from safetensors.torch import load_file, save_file

from skillfield.errors import CheckpointError
from skillfield.experiments.run import load_config, save_config
from skillfield.files import atomic_directory, read_json, shown_files, write_json
from skillfield.learning.checkpoint import latest_checkpoint

__all__ = ["is_shipped", "pack_policy", "resumable", "run_folder", "shipped_policies"]

_FOLDER = Path(__file__).with_name("policies")


def shipped_policies() -> dict[str, Path]:
    """Name → folder."""
    return {path.parent.name: path.parent for path in shown_files(_FOLDER, "*/config.json")}


def run_folder(run: Path | str) -> Path:
    """A run folder, or the shipped policy of that name where there is no such folder."""
    shipped, path = shipped_policies(), _path(run)
    if path.is_dir():
        return path
    if str(run) in shipped:
        return shipped[str(run)]
    raise CheckpointError(f"{run}: no such run folder, and no policy of that name is shipped; shipped: {list(shipped)}")


def resumable(run: Path | str) -> Path:
    """A run folder that a training can go on in; a shipped policy is none."""
    path = _path(run)
    if str(run) in shipped_policies() and not path.is_dir():
        raise CheckpointError(f"{run}: comes with the package and cannot go on; train TASK --start-from {run} can")
    return path


def is_shipped(folder: Path) -> bool:
    """Whether a folder belongs to the package, where nothing is written."""
    return folder in shipped_policies().values()


def pack_policy(run: Path, folder: Path) -> None:
    """Make such a folder of a run's newest checkpoint."""
    checkpoint, config = latest_checkpoint(run), replace(load_config(run), data=None, device="auto")
    if config.origin is not None:  # where it lay is nobody's business
        config = replace(config, origin=replace(config.origin, policy=Path(config.origin.policy).name))
    tensors = load_file(checkpoint / "model.safetensors")
    # the normalisers stay as they are: their spreads reach from millimetres to thousands of newtons
    halved = {
        name: value.half() if name.startswith(("policy.", "critic.", "encoder.")) else value
        for name, value in tensors.items()
    }
    with atomic_directory(folder) as temporary:
        save_file(halved, temporary / "model.safetensors")
        write_json(temporary / "state.json", read_json(checkpoint / "state.json", CheckpointError))
        save_config(config, temporary)


def _path(run: Path | str) -> Path:
    """Of what names a run; anything else is a mistake, such as the policy itself."""
    if isinstance(run, str | Path):
        return Path(run)
    kind, names = type(run).__name__, list(shipped_policies())
    raise CheckpointError(f"a run is its folder, or the name of a policy that is shipped {names}, not a {kind}")
