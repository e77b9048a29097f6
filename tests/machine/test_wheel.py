"""What `make wheel` leaves out of a wheel: comments, and nothing that runs."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import importlib
import inspect
import re
import zipfile
from pathlib import Path

import pytest

import bitgrove

ROOT = Path(__file__).parents[2]
SOURCES = Path(bitgrove.__file__).parent
FILES = sorted(p for p in SOURCES.rglob("*") if p.suffix in (".py", ".h", ".cu", ".js"))
# Strings first: what looks like a comment in one is none.
_PIECES = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`)|//[^\n]*|(\S)""")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))

    return importlib.import_module


class _PlainVariables(ast.NodeTransformer):
    """Those of functions; fields of classes keep their types."""

    in_function = False

    def visit(self, node: ast.AST) -> ast.AST:
        outer = self.in_function
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            self.in_function = isinstance(node, ast.FunctionDef)
        self.generic_visit(node)
        self.in_function = outer
        if outer and isinstance(node, ast.AnnAssign) and node.value is not None:
            return ast.Assign([node.target], node.value, lineno=node.lineno)
        return node


def _names_types(node: ast.AST) -> bool:
    modules = ("typing", "collections.abc", "numpy.typing")
    return isinstance(node, ast.ImportFrom) and node.module in modules


def _types_without_import(text: str, imports: str) -> set[str]:
    """What the text says of what the other imports, and does not import itself."""
    known, own = (
        {one.name for node in ast.parse(code).body if _names_types(node) for one in node.names}
        for code in (imports, text)
    )
    return known & {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} - own


def _python_meaning(text: str) -> str:
    """What runs: without docstrings, which are looked at below, and what is for types."""
    tree = _PlainVariables().visit(ast.parse(text))
    tree.body = [node for node in tree.body if not _names_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            del node.body[: ast.get_docstring(node) is not None]
            node.body = node.body or [ast.Pass()]
    return ast.dump(tree)


def _meaning(path: Path, text: str) -> str | list[str]:
    if path.suffix == ".py":
        return _python_meaning(text)
    return [
        "".join(found.groups(default="")) for found in _PIECES.finditer(text) if any(found.groups())
    ]


def test_comments_leave_and_the_rest_stays_on_its_lines(module) -> None:
    comments = module("comments")
    saved = 0
    for path in FILES:
        text = path.read_text()
        name = path.relative_to(SOURCES.parent).as_posix()
        bare = comments.without_comments(name, text.encode()).decode()
        assert len(bare.splitlines()) == len(text.splitlines()), path
        assert _meaning(path, bare) == _meaning(path, text), path
        if path.suffix == ".py":
            assert not _types_without_import(bare, text), path
        saved += len(text) - len(bare)
    assert saved > 50_000


def test_a_hash_in_a_string_is_no_comment(module) -> None:
    text = b'a = "# not one"  # one\n# another\nurl = "http://x"\n'
    assert (
        module("comments").without_comments("a.py", text)
        == b'a = "# not one"\n\nurl = "http://x"\n'
    )
    assert module("comments").without_comments("a.css", text) == text


def test_what_help_shows_stays(module) -> None:
    text = b'''"""Module."""


class A:
    """Class."""

    def f(self):
        """Method."""

        def inner():
            """Inner."""
            return "a string"

        return inner

    def __len__(self):
        """Length."""
        return 1

    def _g(self):
        """Two
        lines."""
        return 2


class _B(Exception):
    """Private."""
'''
    bare = module("comments").without_comments("a.py", text)
    shown: dict = {}
    exec(compile(bare, "a.py", "exec"), shown)
    a = shown["A"]
    docs = (shown["__doc__"], a.__doc__, a.f.__doc__, a.__len__.__doc__)
    assert docs == ("Module.", "Class.", "Method.", "Length.")
    assert a._g.__doc__ is a().f().__doc__ is shown["_B"].__doc__ is None
    assert (a().f()(), a()._g()) == ("a string", 2)
    assert len(bare.splitlines()) == len(text.splitlines())


def test_files_that_users_do_not_meet_have_no_docstrings(module) -> None:
    text = b'"""Module."""\n\n\ndef f():\n    """Function."""\n'
    without_comments = module("comments").without_comments
    for name in ("bitgrove/backends/__init__.py", "bitgrove/training/grower.py"):
        assert without_comments(name, text) == b"\n\n\ndef f():\n pass\n"
    for name in ("bitgrove/report/__init__.py", "bitgrove/model/model.py"):
        assert without_comments(name, text) == text.replace(b"    ", b" ")


def test_imports_of_types_that_nothing_says_any_more_are_left_out(module) -> None:
    text = b"""from collections.abc import (
    Callable,
    Sequence,
)
from typing import Any, NamedTuple

from numpy.typing import NDArray


class A(NamedTuple):
    x: Sequence[int]


def f(a: Any) -> NDArray[Any]:
    return a
"""
    bare = b"""from collections.abc import Sequence



from typing import NamedTuple




class A(NamedTuple):
 x: Sequence[int]


def f(a):
 return a
"""
    without_comments = module("comments").without_comments
    assert without_comments("bitgrove/training/grower.py", text) == bare
    assert b"import Any, NamedTuple" in without_comments("bitgrove/model/model.py", text)


def test_strings_keep_their_spaces(module) -> None:
    text = b"""def f(x):
    if x:
        return f'''{
            x}
        two
    ''' + '''
    lines''' + \\
            "."
"""
    bare = module("comments").without_comments("a.py", text)
    assert bare.splitlines()[4:7] == text.splitlines()[4:7] and b'\n"."' in bare
    results = []
    for code in (text, bare):
        exec(code, made := {})
        results.append(made["f"](1))
    assert results[0] == results[1]


def test_what_users_do_not_meet_has_no_types(module) -> None:
    text = b"""class A:
    x: int = 1

    def f(self, a: int = 2, *b: "str", c: dict[str, int] | None = None) -> None:
        return {":": lambda x: x}

    def g() -> dict[
        str, int
    ]: ...
"""
    whole = re.sub(rb"(?m)^(?:    )+", lambda found: b" " * (len(found[0]) // 4), text)
    whole = whole.replace(b"  str", b"str").replace(b" ]", b"]")  # they continue a line
    bare = whole.replace(b"a: int = 2", b"a = 2").replace(b'*b: "str"', b"*b")
    bare = bare.replace(b"c: dict[str, int] | None = ", b"c = ").replace(b" -> None", b"")
    without_comments = module("comments").without_comments
    assert without_comments("bitgrove/training/grower.py", text) == bare
    assert without_comments("bitgrove/model/model.py", text) == whole
    private = text.replace(b"class A", b"class _A")
    assert without_comments("bitgrove/model/model.py", private) == bare.replace(
        b"class A", b"class _A"
    )


def test_what_is_left_out_is_there_and_nothing_else_needs_it(module) -> None:
    left_out = [one.removeprefix("/params/") for one in module("smaller").PAGE]
    for name in left_out:
        assert (SOURCES / "params" / name).is_file()
    modules = [name.removesuffix(".py") for name in left_out if not name.startswith("__")]
    for path in SOURCES.rglob("*.py"):
        if path.parent.name != "params" or path.name not in left_out:
            assert not any(f"params.{name}" in path.read_text() for name in modules), path


def test_what_is_shown_is_there(module) -> None:
    for one in module("comments").SHOWN:
        path = SOURCES / one
        assert path.is_dir() if one.endswith("/") else path.is_file(), one


def _documented() -> list[str]:
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    return re.findall(r"auto(?:function|class):: (bitgrove[\w.]+)", pages)


def test_what_docs_api_names_keeps_its_docstrings(module) -> None:
    is_inner = module("comments").is_inner
    names = _documented()
    assert len(names) > 50
    for name in names:
        room, _, last = name.rpartition(".")
        found = getattr(importlib.import_module(room), last)
        members = [one for _, one in inspect.getmembers(found)] if inspect.isclass(found) else []
        for one in (found, *getattr(found, "__mro__", ()), *members):
            place = getattr(getattr(one, "fget", one), "__module__", None) or ""
            path = place.replace(".", "/")
            assert not is_inner(f"{path}.py") or (SOURCES.parent / path).is_dir(), (name, one)


def test_a_smaller_wheel_lists_what_it_holds(module, tmp_path: Path) -> None:
    pytest.importorskip("zopfli", reason="zopfli is not installed: pip install zopfli")
    wheel = tmp_path / "a.whl"
    files = {
        "a/": b"",
        "a/__init__.py": b"x = 1  # one\n",
        "a/_core.pyi": b"",
        "a/params/reasons.py": b"",
        "a-1.dist-info/RECORD": b"",
    }
    with zipfile.ZipFile(wheel, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    module("smaller").main(str(tmp_path))
    with zipfile.ZipFile(wheel) as made:
        assert made.namelist() == ["a/__init__.py", "a-1.dist-info/RECORD"]
        assert made.read("a/__init__.py") == b"x = 1\n"
        lines = list(csv.reader(made.read("a-1.dist-info/RECORD").decode().splitlines()))
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    assert lines == [["a/__init__.py", f"sha256={digest}", "6"], ["a-1.dist-info/RECORD", "", ""]]
