"""Links that leave docs/: pages of the repository have a page of the site, or are copied beside it.

Receives the Markdown of a page before Sphinx reads it; returns it with links that hold on the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Files of the repository that a page of the site shows whole.
SHOWN = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "lab/README.md": "lab.md",
}
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")


def on_the_site(markdown: str) -> str:
    """A link to a shown file goes to its page; one to any other file fetches it."""

    def link(found: re.Match[str]) -> str:
        path, anchor = found[1], found[2] or ""
        if path in SHOWN:
            return f"]({SHOWN[path]}{anchor})"
        if not (ROOT / path).is_file():
            raise FileNotFoundError(f"a page links to {path}, which is not there")
        return f"](../{path})"  # the anchor of a test is its name: a plain file has none

    return _LINK.sub(link, markdown)


def _read(app: Any, name: str, source: list[str]) -> None:
    source[0] = on_the_site(source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _read)
    app.connect("include-read", lambda app, path, name, source: _read(app, name, source))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
