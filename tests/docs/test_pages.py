"""Whatever Python a page shows runs, in the order of the page and in one namespace.

Blocks with prompts are doctests: what they print is compared. Other blocks are executed.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
from pages import PAGES, ROOT, Piece, pieces

FLAGS = doctest.ELLIPSIS


def run_examples(piece: Piece, names: dict[str, Any], page: Path) -> None:
    """Doctests, wherever they stand."""
    test = doctest.DocTestParser().get_doctest(piece.text, names, page.name, str(page), piece.line)
    test.globs = names  # what it defines is there for the next piece
    heard: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=heard.append, clear_globs=False)
    assert not heard, "".join(heard)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # files that an example writes
    names: dict[str, Any] = {"__name__": "__page__"}
    text = page.read_text(encoding="utf-8")
    if needed := re.match(r"<!-- needs: (.+) -->", text):
        for library in needed[1].split():
            pytest.importorskip(library, reason="the page is about this library")
    for piece in pieces(text):
        if piece.not_run:
            continue
        if piece.language == "python" and ">>>" not in piece.text:
            source = "\n" * piece.line + piece.text
            exec(compile(source, str(page), "exec"), names)
        elif ">>>" in piece.text:
            run_examples(piece, names, page)


def test_reasons_belong_to_python() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        used = [piece for piece in pieces(text) if piece.not_run]
        assert len(used) == text.count("<!-- not run:"), page.name
        assert all(piece.language == "python" for piece in used), page.name


def test_a_failing_example_is_seen() -> None:
    page = ROOT / "README.md"
    with pytest.raises(AssertionError, match=r"Expected:\s+3"):
        run_examples(Piece(0, ">>> 1 + 1\n3\n"), {}, page)
    (text, block, rest) = pieces("a\n<!-- not run: needs a GPU -->\n```python\nx\n```\nb")
    assert (block.text, block.not_run) == ("x\n", "needs a GPU")
    assert re.search(r"^b$", rest.text) and text.language is None
