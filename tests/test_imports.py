"""Imports go one way. Which room may use which is written here once, and every import of the package is held to it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "gtrxl"

ANYONE = {"names", "machine"}
"""Modules of the package's root that know nobody."""
MAY_USE = {
    "names": set(),
    "machine": set(),
    "cores": set(),
    "algorithms": set(),
    "tasks": set(),
    "networks": {"cores", "algorithms", "tasks"},
    "gym": {"tasks"},
    "runs": {"cores", "algorithms", "tasks", "networks", "gym"},
    "training": {"cores", "algorithms", "tasks", "networks", "gym", "runs"},
    "zoo": {"runs"},
    "evaluation": {"cores", "tasks", "networks", "gym", "runs", "training", "zoo"},
    "play": {"tasks", "runs"},
    "experiments": {"cores", "tasks", "gym", "runs", "training"},
    "report": {"tasks", "runs", "experiments"},
    "testing": {"cores", "tasks", "networks"},
    "torch": {"cores", "tasks", "networks", "gym", "runs", "training", "evaluation", "testing"},
    "trainers": {"cores", "torch"},
    "cli": {
        "cores", "algorithms", "tasks", "networks", "gym", "runs", "training", "evaluation", "play", "experiments", "report",
        "testing", "zoo",
    },
}  # fmt: skip
"""Room -> the rooms it may import from, besides itself and `ANYONE`."""
LIGHT = {
    "tasks": {"scale", "defaults", "errors", "catalogue"},
    "runs": {"scores", "metrics", "sealed", "errors", "curves", "terminal"},
}
"""Of these rooms, the modules that need no JAX: all that `report` may use of them."""


def imports(path: Path):
    """(line, dotted name) of everything of the package that a file imports, also inside functions; not for the type checker."""
    tree = ast.parse(path.read_text())
    checking = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in checking:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.partition(".")[0] == "gtrxl")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gtrxl":
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / f"{room}.py"]


def test_every_room_is_known():
    there = {path.stem for path in ROOT.iterdir() if path.name != "__pycache__" and path.suffix in ("", ".py")}
    assert there - {"__init__", "__main__", "py"} == set(MAY_USE)


@pytest.mark.parametrize("room", MAY_USE)
def test_a_room_imports_only_from_rooms_it_may_use(room):
    allowed = MAY_USE[room] | ANYONE | {room, "__version__"}
    wrong = []
    for path in files(room):
        for line, name in imports(path):
            parts = name.split(".")
            if len(parts) > 1 and parts[1] not in allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {name}")
    assert not wrong, wrong


def test_the_order_has_no_circle():
    left = {room: set(others) for room, others in MAY_USE.items()}
    while left:
        free = [room for room, others in left.items() if not others & set(left)]
        assert free, f"these use each other: {sorted(left)}"
        for room in free:
            del left[room]


def test_reports_use_of_other_rooms_only_what_needs_no_jax():
    wrong = []
    for path in files("report"):
        for line, name in imports(path):
            room, module = (*name.split("."), "", "")[1:3]
            if room in LIGHT and module not in LIGHT[room]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {name}")
    assert not wrong, wrong


def modules_of(path: Path) -> str:
    return ".".join(("gtrxl", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def test_modules_do_not_import_each_other_in_a_circle():
    """Within a room too. Imports inside functions count: they are how circles are hidden."""
    known = {modules_of(path): path for path in ROOT.rglob("*.py")}
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        found = set()
        for _, imported in imports(path):
            target = imported if imported in known else imported.rpartition(".")[0]
            if target in known and target != name and target not in packages:
                found.add(target)
        graph[name] = found
    state: dict[str, int] = {}
    trail: list[str] = []

    def visit(name: str) -> None:
        state[name] = 1
        trail.append(name)
        for other in sorted(graph[name]):
            if state.get(other) == 1:
                raise AssertionError(" -> ".join([*trail[trail.index(other) :], other]))
            if other not in state:
                visit(other)
        trail.pop()
        state[name] = 2

    for name in graph:
        if name not in state:
            visit(name)


def test_rooms_are_small():
    """No folder of more than about a dozen modules: a reader must be able to hold it in the head."""
    crowded = {}
    for folder in [ROOT, *(path for path in ROOT.rglob("*") if path.is_dir() and path.name != "__pycache__")]:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        if len(modules) > 14:
            crowded[str(folder.relative_to(ROOT))] = len(modules)
    assert not crowded, crowded
