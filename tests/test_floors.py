"""The house keeps its floors: no import goes up, and no room, file or function grows too large.

The lists of exceptions name what is wrong today. A test fails also when an entry is no longer
needed, so that they can only shrink.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "bitgrove"
CORE = ROOT / "cpp"

# From the ground up: a module may import its own floor and those below it. The longest name counts.
FLOORS: list[tuple[str, ...]] = [
    ("_core", "errors", "version", "kernels"),
    ("machine",),
    ("distributed.comm", "distributed.messages"),  # what ranks say: sums are made of it
    ("arithmetic", "objectives", "callbacks"),
    ("params",),
    ("data", "provenance.fingerprint"),  # rows that come in batches are hashed as they come
    ("provenance",),  # fingerprints of data, and the record that a model keeps of them
    ("model.tree",),
    ("constraints",),  # rules of features: for backends, models and trainings
    ("backends",),
    ("model", "report"),
    ("distributed",),  # exchanges, agreement, ranks as threads, processes and GPUs
    ("training",),
    ("distributed.dask.training",),  # runs train() on the workers of a cluster
    ("theory", "estimators", "dask", "plotting"),
    ("verification",),  # trains again
    ("cli", "__main__", "__init__"),
]
# Which import goes up, and why it is still there.
UPWARD: dict[tuple[str, str], str] = {}

MAX_FILES, MAX_LINES, MAX_FUNCTION = 14, 400, 60
LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()


def python_files() -> list[Path]:
    """Of the package: those that have a floor."""
    return sorted(PACKAGE.rglob("*.py"))


def all_python_files() -> list[Path]:
    around = [path for folder in ("tests", "lab") for path in (ROOT / folder).rglob("*.py")]
    return python_files() + sorted(around)


def source_files() -> list[Path]:
    kernels = PACKAGE / "kernels"
    compiled = [p for folder in (CORE, kernels) for p in folder.rglob("*") if p.is_file()]
    return all_python_files() + sorted(p for p in compiled if p.suffix in (".cpp", ".h", ".cu"))


def module_name(path: Path) -> str:
    """Without the package's own name; a package is called as its folder, the roof __init__."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        del parts[-1]
    return ".".join(parts)


def floor_of(module: str) -> int:
    """The number of a module's floor, by the longest of the names that it begins with."""
    places = {
        name: floor
        for floor, names in enumerate(FLOORS)
        for name in names
        if module == name or module.startswith(f"{name}.")
    }
    assert places, f"{module}: give it a floor"
    return places[max(places, key=len)]


def imports_of(path: Path) -> set[str]:
    """Modules of this package that are imported at run time, at the top or in a function."""
    return {name for node in _running(ast.parse(path.read_text())) for name in _imported(node)}


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield from (other, *_running(other))
        else:
            yield from (child, *_running(child))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            package, _, name = alias.name.partition(".")
            if package == "bitgrove":
                yield name or "__init__"
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports name the whole path"
        package, _, name = (node.module or "").partition(".")
        for alias in node.names if package == "bitgrove" else ():
            full = f"{name}.{alias.name}".lstrip(".")
            yield full if _is_module(full) else name or "__init__"


def _is_module(name: str) -> bool:
    path = PACKAGE.joinpath(*name.split("."))
    return any(path.with_suffix(suffix).exists() for suffix in ("", ".py", ".pyi"))


def test_the_walk_sees_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import bitgrove\n"
        "import numpy, bitgrove.data.dataset as d\n"
        "from bitgrove import _core, train\n"
        "from bitgrove.model import file\n"
        "from bitgrove.model.tree import Tree\n"
        "if TYPE_CHECKING:\n    from bitgrove.cli import main\n"
        "def f():\n    from bitgrove.errors import DataError\n"
    )
    assert imports_of(path) == {
        "__init__", "data.dataset", "_core", "model.file", "model.tree", "errors",
    }  # fmt: skip
    assert floor_of("distributed.comm") < floor_of("data") < floor_of("distributed.mpi.comm")
    assert floor_of("model.tree") < floor_of("backends.cpu") < floor_of("model.model")


def test_no_import_goes_up() -> None:
    upward = {
        (module_name(path), target)
        for path in python_files()
        for target in imports_of(path)
        if floor_of(target) > floor_of(module_name(path))
    }
    assert upward == UPWARD.keys()


@pytest.mark.parametrize("root", [PACKAGE, CORE], ids=["package", "core"])
def test_no_folder_is_a_corridor(root: Path) -> None:
    kinds = (".py", ".pyi", ".cpp", ".h", ".cu")
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    sizes = {
        folder.relative_to(ROOT).as_posix(): sum(p.suffix in kinds for p in folder.iterdir())
        for folder in folders
    }
    assert {folder: n for folder, n in sizes.items() if n > MAX_FILES} == {}


def test_the_library_its_tests_and_the_lab_are_watched() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in source_files()}
    assert folders == {"src", "cpp", "tests", "lab"}


def test_files_are_short() -> None:
    lines = {p.relative_to(ROOT).as_posix(): p.read_text().count("\n") for p in source_files()}
    assert {name for name, n in lines.items() if n > MAX_LINES} == LONG_FILES


def length_without_words(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of code: a reference with examples does not make a function long."""
    first = node.body[0]
    words = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0  # type: ignore[operator]
    return node.end_lineno - node.lineno + 1 - words  # type: ignore[operator]


def test_functions_are_short() -> None:
    long = {
        f"{path.relative_to(ROOT).as_posix()}: {node.name}"
        for path in all_python_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and length_without_words(node) > MAX_FUNCTION
    }
    assert long == LONG_FUNCTIONS
