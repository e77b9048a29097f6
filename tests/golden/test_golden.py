"""Committed digests: an accidental change of any result is noticed.

When a result changes on purpose, say why in CHANGELOG.md and run
`python tests/golden/test_golden.py` to write the new digests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from cases import CASES

DIGESTS = Path(__file__).with_name("digests.json")


@pytest.mark.parametrize("name", sorted(CASES))
def test_digest_is_the_committed_one(name: str) -> None:
    expected = json.loads(DIGESTS.read_text())
    assert CASES[name]().train().digest() == expected[name]


def test_digests_cover_exactly_the_cases() -> None:
    assert sorted(json.loads(DIGESTS.read_text())) == sorted(CASES)


if __name__ == "__main__":
    digests = {name: CASES[name]().train().digest() for name in sorted(CASES)}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n")
