"""Links between the files of the repository, made to hold on the site.

Receives the Markdown of a file before Sphinx reads it; returns it with other links: to the page
that shows a file such as CHANGELOG.md, to the file itself where no page does. Blocks of code
lose the empty line at their end.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Files outside of docs/ that a page shows whole.
SHOWN = {
    ROOT / "README.md": DOCS / "index.md",
    ROOT / "CHANGELOG.md": DOCS / "changelog.md",
    ROOT / "CONTRIBUTING.md": DOCS / "contributing.md",
    ROOT / "lab" / "README.md": DOCS / "lab.md",
}
_BLANK_END = re.compile(r"\n\n```$", flags=re.MULTILINE)  # doctest wants the line, nobody else does
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def rewritten(markdown: str, file: Path, page: Path) -> str:
    """The text of a file as a page shows it."""

    def link(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(file.parent / found[1]))
        if not target.exists():
            raise FileNotFoundError(f"{file.relative_to(ROOT)} links to {found[1]}: not there")
        target = SHOWN.get(target, target)
        # A plain file has no anchors: that of a test, its name, is for people.
        anchor = (found[2] or "") if target.suffix == ".md" else ""
        return f"]({os.path.relpath(target, page.parent)}{anchor})"

    return _BLANK_END.sub("\n```", _LINK.sub(link, markdown))


def _read_page(app: Any, name: str, source: list[str]) -> None:
    page = DOCS / f"{name}.md"
    if page.is_file():
        source[0] = rewritten(source[0], page, page)


def _read_included(app: Any, path: Path, name: str, source: list[str]) -> None:
    file = Path(os.path.normpath(DOCS / path))
    source[0] = rewritten(source[0], file, DOCS / f"{name}.md")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _read_page)
    app.connect("include-read", _read_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
