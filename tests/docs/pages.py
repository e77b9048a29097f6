"""The Markdown pages of the repository, and the Python in them.

Receives a page; returns its pieces of code in order. A block that is not to be run says why, in a
comment in the line before it: `<!-- not run: the reason -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

_FENCE = re.compile(r"^( *)(```+|~~~+|:::+)(.*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (\S.*) -->$")


@dataclass(frozen=True)
class Piece:
    """Lines of a page from `line` (0 is the first): a fenced block, or the text between two."""

    line: int
    text: str
    language: str | None = None  # None: no block
    not_run: str | None = None  # the reason


def pieces(text: str) -> Iterator[Piece]:
    lines = text.splitlines()
    start = at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if not fence:
            at += 1
            continue
        yield Piece(start, "\n".join(lines[start:at]))
        end = next(
            (i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[2]), len(lines)
        )
        why = _NOT_RUN.match(lines[at - 1]) if at else None
        code = [line[len(fence[1]) :] for line in lines[at + 1 : end]]
        yield Piece(at + 1, "\n".join(code) + "\n", fence[3].strip(), why[1] if why else None)
        start = at = end + 1
    yield Piece(start, "\n".join(lines[start:]))
