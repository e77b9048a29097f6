"""Leaves comments out of sources, for wheels: they are for who reads the repository.

`without_comments(name, content)` returns the bytes of a file of Python, C++, CUDA or JavaScript
without them, indented as little as will do; name: its path in the wheel. Every line stays where it
is, so tracebacks and compilers name the right ones. Docstrings of what users call stay (docs/api),
and types of its arguments. Those of private functions and classes, and of files that no page leads
into, are comments, as are imports for types: nobody asks for them while they run. Other files are
returned as they are.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import chain

# Files and rooms that pages of docs/api lead into. Docstrings of others are for who reads the
# repository.
SHOWN = (
    "__init__.py", "callbacks.py", "dask.py", "data/binned/dataset.py", "data/dataset.py",
    "data/given_values.py", "distributed/__init__.py", "distributed/comm.py",
    "distributed/counting.py", "distributed/mpi/comm.py", "distributed/nccl/comm.py",
    "distributed/threads.py", "errors.py", "estimators/", "model/exchange/__init__.py",
    "model/explain/", "model/exporting.py", "model/model.py", "model/spellings.py",
    "model/tree.py", "plotting.py", "report/__init__.py", "theory/", "training/booster.py",
    "training/cross_validation.py", "training/train.py", "verification.py",
)  # fmt: skip

# A comment of a line of its own, or two spaces after code (ruff and clang-format write it so).
_SLASHES = re.compile(r"(?m)(^ *|  )//( .*)?$")
_INDENT = re.compile(r"(?m)^ +")


_TYPES = ("typing", "collections.abc", "numpy.typing")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _hidden(node: ast.AST, private: bool) -> Iterator[ast.AST]:
    """Functions and classes below this node that help() does not show: private ones, and what is
    in them or in a function."""
    for child in ast.iter_child_nodes(node):
        hidden = private
        if isinstance(child, _WITH_DOCSTRING[1:]):
            hidden |= _is_private(child.name)
            if hidden:
                yield child
            hidden |= not isinstance(child, ast.ClassDef)
        yield from _hidden(child, hidden)


def is_inner(name: str) -> bool:
    ours, _, path = name.partition("bitgrove/")
    return bool(path) and not ours and not path.startswith(SHOWN)


def _comments_as_docstrings(tree: ast.Module, inner: bool) -> list[ast.AST]:
    hidden = [tree] if inner else []
    hidden += _hidden(tree, inner)
    return [node for node in hidden if ast.get_docstring(node) is not None]


def _typed(function: ast.AST) -> Iterator[tuple[ast.AST, str, bytes]]:
    """Nodes with a type: the field that it is, and what stands before it."""
    if isinstance(function, _WITH_DOCSTRING[2:]):
        for one in ast.walk(function.args):
            if isinstance(one, ast.arg) and one.annotation:
                yield one, "annotation", b":"
        if function.returns:
            yield function, "returns", b"->"
        for one in _own_statements(function):
            if isinstance(one, ast.AnnAssign) and one.value is not None:
                yield one, "annotation", b":"


def _own_statements(function: ast.AST) -> Iterator[ast.AST]:
    """Not those of functions and classes inside of it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _WITH_DOCSTRING):
            yield child
            yield from _own_statements(child)


class _Untyped(ast.NodeTransformer):
    """A variable whose type was left out is assigned to."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.annotation is not None:
            return node
        return ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno)


def _without_types(text: str, inner: bool) -> str:
    """Without types of functions and of their variables, if they are on one line."""
    tree, code = ast.parse(text), text.encode()
    starts = [0, *(found.end() for found in re.finditer(b"\n", code))]
    spans = []
    for node, field, mark in chain.from_iterable(map(_typed, [*_hidden(tree, inner)])):
        kind = getattr(node, field)
        if kind.lineno < kind.end_lineno:
            continue
        end = starts[kind.end_lineno - 1] + kind.end_col_offset
        begin = code.rindex(mark, 0, starts[kind.lineno - 1] + kind.col_offset)
        spans.append((len(code[:begin].rstrip(b" ")), end))
        setattr(node, field, None)
    for begin, end in sorted(spans, reverse=True):
        code = code[:begin] + code[end:]
    assert ast.dump(_Untyped().visit(tree)) == ast.dump(ast.parse(code))
    return code.decode()


def _without_unused(text: str) -> str:
    """Without what modules of types were asked for, where nothing that is left says it."""
    lines = text.split("\n")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module in _TYPES:
            names = [one.name for one in node.names]
            kept = [name for name in names if len(re.findall(rf"\b{name}\b", text)) > 1]
            line = f"from {node.module} import {', '.join(kept)}" if kept else ""
            rest = [""] * (node.end_lineno - node.lineno)
            lines[node.lineno - 1 : node.end_lineno] = [line, *rest]
    return "\n".join(lines)


def is_for_types(node: ast.AST) -> bool:
    """What only a checker of types imports."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _python(text: str, inner: bool) -> str:
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    tree = ast.parse(text)
    for node in _comments_as_docstrings(tree, inner):
        first = node.body[0]
        indent = " " * first.col_offset
        lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
        del node.body[0]
        if not node.body:
            lines[first.lineno - 1] = f"{indent}pass"
            node.body = [ast.Pass()]
    for node in ast.walk(tree):
        if is_for_types(node):
            first, last = node.body[0].lineno, node.body[-1].end_lineno
            indent = " " * node.body[0].col_offset
            lines[first - 1 : last] = [f"{indent}pass"] + [""] * (last - first)
            node.body = [ast.Pass()]
    bare = "\n".join(lines)
    assert ast.dump(tree) == ast.dump(ast.parse(bare))
    bare = _without_types(bare, inner)
    return _least_indented(_without_unused(bare) if inner else bare)


def _rows_in_strings(tokens: list[tokenize.TokenInfo]) -> set[int]:
    """Rows that begin inside of a string; of one with values in it, tokens tell the ends."""
    rows: set[int] = set()
    begins: list[int] = []
    for token in tokens:
        name = tokenize.tok_name[token.type]
        if name == "STRING":
            rows.update(range(token.start[0] + 1, token.end[0] + 1))
        elif name == "FSTRING_START":
            begins.append(token.start[0] + 1)
        elif name == "FSTRING_END":
            rows.update(range(begins.pop(), token.end[0] + 1))
    return rows


def _least_indented(text: str) -> str:
    """A space for each level; none for what continues a line."""
    lines = text.split("\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    levels, level, begins = [0] * (len(lines) + 1), 0, True
    for token in tokens:
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            level += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            begins = True
        elif begins and token.type not in (tokenize.NL, tokenize.COMMENT):
            levels[token.start[0]], begins = level, False
    rows = _rows_in_strings(tokens)
    for row, line in enumerate(lines, start=1):
        if row not in rows:
            lines[row - 1] = " " * levels[row] + line.lstrip(" ")
    narrow = "\n".join(lines)
    assert ast.dump(ast.parse(narrow)) == ast.dump(ast.parse(text))
    return narrow


def _slashes(text: str) -> str:
    return _INDENT.sub("", _SLASHES.sub("", text))


def without_comments(name: str, content: bytes) -> bytes:
    match name.rpartition(".")[2]:
        case "py":
            return _python(content.decode(), is_inner(name)).encode()
        case "h" | "cu" | "js":
            return _slashes(content.decode()).encode()
    return content
