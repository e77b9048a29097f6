"""Leaves comments out of sources, for wheels: they are for who reads the repository.

`without_comments(name, content)` returns the bytes of a file of Python, C++, CUDA or JavaScript
without them; name: its path in the wheel. Every line stays where it is, so tracebacks and compilers
name the right ones. Docstrings of what users call stay (docs/api); those of private functions and
classes, and of files that no page leads into, are comments; so are types of arguments in those
files, which nobody asks for while they run. Other files are returned as they are.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

# Files and rooms that pages of docs/api lead into; so do all __init__. Docstrings of others are for
# who reads the repository.
SHOWN = (
    "callbacks.py", "dask.py", "data/binned/dataset.py", "data/dataset.py", "data/given_values.py",
    "distributed/comm.py", "distributed/counting.py", "distributed/mpi/comm.py",
    "distributed/nccl/comm.py", "distributed/threads.py", "errors.py", "estimators/",
    "model/explain/", "model/exporting.py", "model/model.py", "model/spellings.py",
    "model/tree.py", "plotting.py", "theory/", "training/booster.py",
    "training/cross_validation.py", "training/train.py", "verification.py",
)  # fmt: skip

# A comment of a line of its own, or two spaces after code (ruff and clang-format write it so).
_SLASHES = re.compile(r"(?m)(^ *|  )//( .*)?$")
_INDENT = re.compile(r"(?m)^ +")


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _private_docstrings(node: ast.AST, private: bool) -> Iterator[ast.AST]:
    """Nodes below this one with a docstring that help() does not show: in a private function or
    class, or in a function's own."""
    for child in ast.iter_child_nodes(node):
        hidden = private
        if isinstance(child, _WITH_DOCSTRING[1:]):
            hidden |= _is_private(child.name)
            if hidden and ast.get_docstring(child) is not None:
                yield child
            hidden |= not isinstance(child, ast.ClassDef)
        yield from _private_docstrings(child, hidden)


def is_inner(name: str) -> bool:
    ours, _, path = name.partition("bitgrove/")
    return (
        bool(path) and not ours and not path.startswith(SHOWN) and not path.endswith("__init__.py")
    )


def _comments_as_docstrings(tree: ast.Module, inner: bool) -> Iterator[ast.AST]:
    if inner and ast.get_docstring(tree) is not None:
        yield tree
    yield from _private_docstrings(tree, inner)


def _typed(tree: ast.Module) -> Iterator[tuple[ast.AST, str, bytes]]:
    """Nodes with a type: the field that it is, and what stands before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation:
            yield node, "annotation", b":"
        elif isinstance(node, _WITH_DOCSTRING[2:]) and node.returns:
            yield node, "returns", b"->"


def _without_types(text: str) -> str:
    """Without types of arguments and of what functions return, if they are on one line."""
    tree, code = ast.parse(text), text.encode()
    starts = [0, *(found.end() for found in re.finditer(b"\n", code))]
    spans = []
    for node, field, mark in _typed(tree):
        kind = getattr(node, field)
        if kind.lineno < kind.end_lineno:
            continue
        end = starts[kind.end_lineno - 1] + kind.end_col_offset
        begin = code.rindex(mark, 0, starts[kind.lineno - 1] + kind.col_offset)
        spans.append((len(code[:begin].rstrip(b" ")), end))
        setattr(node, field, None)
    for begin, end in sorted(spans, reverse=True):
        code = code[:begin] + code[end:]
    assert ast.dump(tree) == ast.dump(ast.parse(code))
    return code.decode()


def _python(text: str, inner: bool) -> str:
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    tree = ast.parse(text)
    for node in [*_comments_as_docstrings(tree, inner)]:
        first = node.body[0]
        indent = " " * first.col_offset
        lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
        del node.body[0]
        if not node.body:
            lines[first.lineno - 1] = f"{indent}pass"
            node.body = [ast.Pass()]
    bare = "\n".join(lines)
    assert ast.dump(tree) == ast.dump(ast.parse(bare))
    return _without_types(bare) if inner else bare


def _slashes(text: str) -> str:
    return _INDENT.sub("", _SLASHES.sub("", text))


def without_comments(name: str, content: bytes) -> bytes:
    match name.rpartition(".")[2]:
        case "py":
            return _python(content.decode(), is_inner(name)).encode()
        case "h" | "cu" | "js":
            return _slashes(content.decode()).encode()
    return content
