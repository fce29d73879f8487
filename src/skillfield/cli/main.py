"""The `skillfield` command: one file per subcommand, imported only when it is called."""

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tyro

from skillfield.errors import SkillfieldError, SkillfieldNote
from skillfield.program import program

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("demo", "Demo", "the whole story on a laptop: train, evaluate, film"),
    "train": ("train", "Train", "teach a policy a task's skills from its demonstrations"),
    "evaluate": ("evaluate", "Evaluate", "measure a trained policy with the paper's metrics"),
    "render": ("render", "Render", "film trained policies, alone or side by side (MP4, GIF, PNG)"),
    "play": ("play", "Play", "play with a policy in the browser, in real time; or look at clips"),
    "experiment": ("experiment", "RunExperiment", "run a table of the paper, row by row and seed by seed"),
    "report": ("report", "Report", "put runs side by side on one HTML page"),
    "export": ("export", "Export", "write a trained policy as one ONNX file for plain MuJoCo"),
    "tasks": ("tasks", "Tasks", "list tasks, their skills, and methods"),
    "data check": ("data", "DataCheck", "say what is wrong with clips, where, and how bad"),
    "data show": ("data", "DataShow", "summarise clips and draw a filmstrip of each"),
    "data import": ("imports", "DataImport", "turn recordings of other projects into clips"),
    "data degrade": ("degrade", "DataDegrade", "make noisy and incomplete variants of clips"),
    "data record": ("record", "DataRecord", "record a trained policy as new clips, as it was simulated"),
    "bench": ("bench", "Bench", "samples per second here, split by where the time goes"),
}
"""Command → (module, class, summary). The class is a dataclass whose `run()` returns the exit code."""

_HELP = ("-h", "--help", "help")


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Mistakes of the user end in one line and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = _command(arguments)
    if name is None:
        return _help(arguments)
    module_name, class_name, _ = COMMANDS[name]
    module = importlib.import_module(f"skillfield.cli.{module_name}")
    rest = arguments[len(name.split()) :]
    try:
        command = (
            module.parse(rest)
            if hasattr(module, "parse")
            else tyro.cli(getattr(module, class_name), args=rest, prog=f"{program()} {name}")
        )
        import torch  # not for those who only ask for help

        from skillfield.simulation import memory_errors

        torch.set_num_threads(1)  # physics uses the cores
        with _plain_notes(), memory_errors():
            return command.run()
    except SkillfieldError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(f"interrupted {stopped}".rstrip(), file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0


@contextmanager
def _plain_notes() -> Iterator[None]:
    """Notes are one line each, said once, without the place in the code that warnings name."""
    said: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", SkillfieldNote)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, SkillfieldNote):
                others(message, category, *place, **more)
            elif str(message) not in said:
                said.add(str(message))
                print(f"note: {message}", file=sys.stderr)

        warnings.showwarning = show
        yield


def _command(arguments: list[str]) -> str | None:
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if name in COMMANDS:
            return name
    return None


def _help(arguments: list[str]) -> int:
    first = arguments[0] if arguments else "--help"
    if first in ("-V", "--version"):
        from importlib.metadata import version

        print(f"skillfield {version('skillfield')}")
        return 0
    group = [name for name in COMMANDS if name.startswith(f"{first} ")]
    asked = first in _HELP or (bool(group) and any(word in _HELP for word in arguments[1:2]))
    stream = sys.stdout if asked else sys.stderr
    if not asked:
        wanted = " ".join(arguments[:2]) if group else first
        print(f"error: unknown command '{wanted}'; known: {', '.join(group or COMMANDS)}\n", file=stream)
    print(
        "skillfield: teach simulated characters interaction skills from a few short, noisy demonstrations.\n",
        file=stream,
    )
    width = max(map(len, COMMANDS))
    for name in group or COMMANDS:
        print(f"  {program()} {name:<{width}}  {COMMANDS[name][2]}", file=stream)
    print(f"\nEach command explains itself: {program()} COMMAND --help", file=stream)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main())
