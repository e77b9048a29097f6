"""The site leads to every page, once, and no link between files is broken.

`make site` builds it, with warnings as errors; that takes half a minute and is no test.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import DOCS, PAGES, ROOT, pieces

SOURCES = sorted(
    path
    for pattern in ("*.md", "*/*.md", "*/*.ipynb")
    for path in DOCS.glob(pattern)
    if "_site" not in path.parts
)
READ = [*SOURCES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md",
        ROOT / "lab" / "README.md"]  # fmt: skip
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")


def children(page: Path) -> list[Path]:
    """What the tables of contents of a page name."""
    if page.suffix != ".md":
        return []
    found = []
    for piece in pieces(page.read_text(encoding="utf-8")):
        if piece.language == "{toctree}":
            entries = [line for line in piece.text.split("\n") if line and line[0] != ":"]
            names = [re.sub(r"^.*<(.*)>$", r"\1", entry) for entry in entries]
            found += [page.parent / name for name in names]
    ways = [[p for p in (f"{name}.md", f"{name}.ipynb") if Path(p).is_file()] for name in found]
    assert all(len(way) == 1 for way in ways), f"{page.name} names a page that is not there"
    return [Path(way[0]) for way in ways]


def test_every_page_is_in_the_table_of_contents_once() -> None:
    met, ahead = [DOCS / "index.md"], [DOCS / "index.md"]
    while ahead:
        met += (found := children(ahead.pop()))
        ahead += found
    assert sorted(met) == SOURCES


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub and Sphinx make them, and those that are written out."""
    text = "\n".join(p.text for p in pieces(page.read_text("utf-8")) if p.language is None)
    names = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return names


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page: Path) -> None:
    for name, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {name}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name} links to {name}#{anchor}"


def test_all_pages_are_run() -> None:
    assert {page.name for page in PAGES} >= {"README.md", "start.md", "faq.md", "losses.md"}
