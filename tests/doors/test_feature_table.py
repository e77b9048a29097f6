"""Every feature that docs/features.md claims is one that a test holds."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")


def test_every_claim_has_its_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 30
    for row in rows:
        claim = row.rstrip(" |").rpartition("|")[2]
        links = re.findall(r"\]\((.*?)\)", claim)
        assert links, f"no test is linked: {row}"
        for link in links:
            found = re.fullmatch(r"\.\./(tests/\S+\.py)#(test_\w+)", link)
            assert found, f"{link} is no test: {row}"
            assert f"def {found[2]}(" in (ROOT / found[1]).read_text(encoding="utf-8"), link
