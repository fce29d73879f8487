"""The house: imports point one way, modules and tests stay small, and nothing on disk is ever executed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillfield.errors

SOURCE = Path(skillfield.errors.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))

LEAVES = frozenset({"configuration", "errors", "files", "interruption", "program", "recorded", "rotations"})
"""Modules without a room, which everyone may import."""

LEVELS = (
    ("clips", "characters"),
    ("simulation",),
    ("reference",),
    ("imitation",),
    ("learning",),
    ("evaluation",),
    ("reporting", "experiments"),
    ("deployment",),
    ("api",),
    ("viewer",),
    ("cli",),
)
"""A room may import rooms on levels before its own; rooms on one level know nothing of each other."""

LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

STRANGERS = {("simulation", "clips"), ("reference", "simulation")}
"""Rooms that know nothing of each other although the order would allow it."""

MAX_LINES = 400


def room_of(module: str) -> str:
    """The room of `skillfield.room.module`; the package's own front page has none."""
    return [*module.split("."), ""][1]


def module_name(path: Path) -> str:
    """Dotted name of a source file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> Iterator[str]:
    """Every module of the package that a file imports, wherever in the file it does."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "skillfield")


def is_allowed(importer: str, imported: str) -> bool:
    """Whether a room may import from another."""
    if importer == imported or imported in LEAVES:
        return True
    if importer in LEAVES or imported not in LEVEL or (importer, imported) in STRANGERS:
        return False
    return LEVEL[imported] < LEVEL[importer]


def identifier(path: Path) -> str:
    """A test's name for a source file, or for a file of tests."""
    return path.relative_to(SOURCE if path in MODULES else Path(__file__).parents[1]).as_posix()


def test_every_room_has_a_level() -> None:
    """A folder or module beside the known rooms must be given its place in the order."""
    found = {room_of(module_name(path)) for path in MODULES} - {"", "__main__"}
    assert found - set(LEVEL) - LEAVES == set()


@pytest.mark.parametrize("path", MODULES, ids=identifier)
def test_imports_point_one_way(path: Path) -> None:
    """A module imports leaves, its own room, and rooms below; never a neighbour, never a room above."""
    importer = room_of(module_name(path))
    if importer in ("", "__main__"):  # the front page shows everything
        return
    wrong = [name for name in imported_modules(path) if not is_allowed(importer, room_of(name))]
    if importer == "cli":
        wrong = [name for name in wrong if room_of(name) in LEVEL]  # commands may use the front page
    assert wrong == []


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("imitation", "reference", True),
        ("imitation", "errors", True),
        ("reference", "imitation", False),
        ("clips", "characters", False),
        ("characters", "clips", False),
        ("reporting", "experiments", False),
        ("experiments", "reporting", False),
        ("simulation", "clips", False),
        ("files", "clips", False),
        ("learning", "", False),
    ],
)
def test_the_order_is_the_one_that_was_drawn(importer: str, imported: str, allowed: bool) -> None:
    """The rule itself: down is allowed; up, sideways and through the front page are not."""
    assert is_allowed(importer, imported) is allowed


@pytest.mark.parametrize("path", [*MODULES, *TESTS], ids=identifier)
def test_modules_fit_on_a_few_screens(path: Path) -> None:
    """No module is longer than 400 lines, and no file of tests."""
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", MODULES, ids=identifier)
def test_nothing_that_is_read_can_execute(path: Path) -> None:
    """No pickle in any disguise: what a user downloads is data. Tensors of others are read as tensors and no more."""
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    modules = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert not {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"} & (names | modules)
    assert "eval" not in names
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    loads = [call for call in calls if ast.unparse(call.func) == "torch.load"]
    assert all("weights_only=True" in [ast.unparse(word) for word in call.keywords] for call in loads)
    allowed = [ast.unparse(word.value) for call in calls for word in call.keywords if word.arg == "allow_pickle"]
    assert set(allowed) <= {"False"}


@pytest.mark.parametrize("path", MODULES, ids=identifier)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    """Every module with anything in it opens with a sentence that a colleague would say aloud."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) or not tree.body


def test_nothing_in_a_rollout_sends_host_numbers_to_the_device() -> None:
    """`tensor.new_tensor([…])` copies from the host, and a GPU waits for it, at every step."""
    hot = [*sorted((SOURCE / "imitation").glob("*.py")), SOURCE / "rotations.py"]
    assert len(hot) > 4
    for path in hot:
        assert "new_tensor(" not in path.read_text(), path
