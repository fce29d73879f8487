"""A trained policy as one ONNX file, with its model and a card beside it."""

import importlib
import logging
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import mujoco
import numpy as np
import torch

from skillfield.deployment.card import make_card
from skillfield.deployment.controller import MJDATA, Controller
from skillfield.deployment.starts import spec_with_starts
from skillfield.errors import CharacterError, ConfigError, ExportError
from skillfield.experiments.loading import load_run
from skillfield.experiments.task import Task
from skillfield.files import atomic_file, json_text, write_errors, write_json

__all__ = ["OPSET", "Exported", "export_policy", "load_onnx", "model_xml", "write_onnx"]

OPSET = 20
"""Of the standard operators; onnxruntime reads it since 1.17."""

_MAX_ERROR = 1e-4  # metres or radians between onnxruntime and PyTorch
_CHECKED_STEPS = 120


@dataclass(frozen=True)
class Exported:
    """What was written, and how well it agrees with PyTorch."""

    onnx: Path
    card: Path
    model: Path
    max_error: float
    """Greatest difference of a target from PyTorch's in the check, metres or radians."""
    checked_steps: int


def export_policy(
    run: Path | str,
    out: Path | str,
    *,
    task: Task | None = None,
    data: Path | str | None = None,
    licence: str | None = None,
) -> Exported:
    """Write a run's newest checkpoint as OUT.onnx, with OUT.json and OUT.xml beside it.

    run: its folder, or the name of a shipped policy.
    task: the `Task` that it was trained on, if it was one of your own.
    data: folder of imported recordings, if they lie elsewhere than in training; without any the model file has no
        start states.
    licence: what the card says; the package's for a shipped policy.
    """
    out = Path(out)
    if out.suffix != ".onnx" or os.path.isdir(out):
        raise ConfigError(f"--out is {out}: it must be a file whose name ends in .onnx")
    paths = (out, out.with_suffix(".json"), out.with_suffix(".xml"))
    if folder := next((path for path in paths if os.path.isdir(path)), None):
        raise ConfigError(f"--out is {out}: {folder}, which belongs beside it, is a folder")
    loaded = load_run(run, task=task, data=data)
    for package in ("onnx", "onnxscript", "onnxruntime"):
        _package(package)
    character = loaded.task.character()
    controller = Controller.of(loaded, character)
    spec = spec_with_starts(loaded, character)
    model = spec.compile()
    xml = model_xml(spec, model)
    card = make_card(loaded, controller, model, licence) | {"opset": OPSET}
    with write_errors(ExportError), atomic_file(out) as temporary:
        write_onnx(controller, temporary, {"skillfield": json_text(card)})
        error = _disagreement(temporary, controller, model)
        if not error <= _MAX_ERROR:
            differs = f"onnxruntime differs from PyTorch by {error:.2g}"
            raise ExportError(f"{out}: not written: {'its targets are not numbers' if math.isnan(error) else differs}")
        with atomic_file(paths[2]) as model_file:
            model_file.write_text(xml)
            write_json(paths[1], card | {"agreement": {"max_error": error, "steps": _CHECKED_STEPS}})
    return Exported(*paths, max_error=error, checked_steps=_CHECKED_STEPS)


def write_onnx(controller: Controller, path: Path, metadata: dict[str, str] | None = None) -> None:
    """The controller as ONNX, for any number of worlds."""
    arguments = _blank(controller, worlds=2)  # one would be taken for a constant
    outputs = ["ctrl", "next_history"] if controller.window is not None else ["ctrl"]
    with _quiet():
        program = torch.onnx.export(
            controller.eval(),
            tuple(arguments.values()),
            input_names=list(arguments),
            output_names=outputs,
            dynamic_shapes=tuple({0: torch.export.Dim("worlds")} for _ in arguments),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.model.metadata_props.update(metadata or {})
    program.save(path, external_data=False)


def load_onnx(path: Path) -> Any:
    """An onnxruntime session on one thread of the CPU."""
    runtime = _package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _blank(controller: Controller, worlds: int) -> dict[str, torch.Tensor]:
    arguments = {name: torch.zeros(worlds, *shape) for name, shape in controller.shapes.items()}
    return arguments | ({"first": torch.zeros(worlds, dtype=torch.bool)} if "first" in arguments else {})


@torch.no_grad()
def _disagreement(path: Path, controller: Controller, model: mujoco.MjModel) -> float:
    """Run the file in plain MuJoCo, from the first start state there is, and compare every step with PyTorch.

    Gives the greatest difference; not a number as soon as a target is none.
    """
    session = load_onnx(path)
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    inputs = {name: value.numpy() for name, value in _blank(controller, worlds=1).items()}
    if controller.window is not None:
        inputs["first"][:] = True
    worst = 0.0
    for step in range(_CHECKED_STEPS):
        inputs["skill"] = np.eye(len(controller.skills), dtype=np.float32)[
            [step * len(controller.skills) // _CHECKED_STEPS]
        ]
        for name in MJDATA:
            inputs[name] = np.asarray(getattr(data, name), dtype=np.float32)[None]
        found = session.run(None, inputs)
        wanted = controller(*(torch.from_numpy(value) for value in inputs.values()))
        differences = [float(np.abs(a - b.numpy()).max()) for a, b in zip(found, wanted, strict=True)]
        worst = float(np.max([worst, *differences]))  # Python's max would pass over what is not a number
        if math.isnan(worst):
            return worst
        if controller.window is not None:
            inputs["history"], inputs["first"] = found[1], np.zeros(1, dtype=bool)
        data.ctrl[:] = found[0][0]
        mujoco.mj_step(model, data, controller.character.substeps)
        mujoco.mj_step1(model, data)
    return worst


def model_xml(spec: mujoco.MjSpec, model: mujoco.MjModel) -> str:
    """MJCF that gives the same model wherever it is read."""
    assets = (*spec.meshes, *spec.hfields, *spec.skins, *spec.textures)
    if files := [asset.file for asset in assets if asset.file]:
        raise CharacterError(f"model '{spec.modelname}' cannot be written as one file: it needs {files}")
    text = spec.to_xml()
    again = mujoco.MjModel.from_xml_string(text)
    sizes = ("nq", "nv", "nu", "nbody", "nsensordata", "nkey")
    assert [getattr(again, size) for size in sizes] == [getattr(model, size) for size in sizes]
    return text


def _package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ExportError(f"package '{name}' is missing: pip install 'skillfield[export]'") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PyTorch's notes on packages that nobody needs here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
