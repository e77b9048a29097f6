"""Leaves comments out of sources, for wheels: they are for who reads the repository.

`without_comments(name, content)` returns the bytes of a file of Python, C++, CUDA or JavaScript
without them. Every line stays where it is, so tracebacks and compilers name the right ones;
docstrings stay too. Other files are returned as they are.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

# A comment of a line of its own, or two spaces after code (ruff and clang-format write it so).
_SLASHES = re.compile(r"(?m)(^ *|  )//( .*)?$")


def _python(text: str) -> str:
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    bare = "\n".join(lines)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(bare))
    return bare


def _slashes(text: str) -> str:
    return _SLASHES.sub("", text)


_LANGUAGES = {"py": _python, "h": _slashes, "cu": _slashes, "js": _slashes}


def without_comments(name: str, content: bytes) -> bytes:
    bare = _LANGUAGES.get(name.rpartition(".")[2])
    return bare(content.decode()).encode() if bare else content
