"""The pages on moving from other libraries: every parameter they name means what they say."""

from __future__ import annotations

import re

import pytest
from pages import DOCS

from bitgrove.errors import ParameterError
from bitgrove.params import resolve
from bitgrove.params.peers import check_switch, unknown_name
from bitgrove.params.table import CANONICAL

PAGES = ["from_lightgbm", "from_xgboost", "from_catboost"]
_CODE = re.compile(r"`(\w+)`")


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> str:
    return (DOCS / f"{request.param}.md").read_text(encoding="utf-8")


def names_after(page: str, words: str) -> list[str]:
    return _CODE.findall(page.split(f"**{words}**: ")[1].split("\n\n")[0])


def test_parameters_are_understood(page: str) -> None:
    table = page.split("## Parameters")[1].split("**Accepted")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", table, flags=re.MULTILINE)
    assert len(rows) == table.count("\n|") - 2 >= 15
    for theirs, ours in rows:
        assert CANONICAL[theirs] == ours


def test_switches_are_accepted(page: str) -> None:
    text = page.split("**Accepted, and nothing changes**: ")[1].split("\n\n")[0]
    for name, value in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", text):
        words = {"NaN": float("nan"), "1": 1, "-1": -1, "": True, "True": True, "False": False}
        given = words.get(value, value.split(",")[0].strip('"'))
        assert check_switch(name, given), name
        resolve({"objective": "binary", name: given})


def test_what_is_not_here_is_called_so(page: str) -> None:
    for name in names_after(page, "Not here"):
        assert "is known from" in unknown_name(name), name
        with pytest.raises(ParameterError, match=name):
            resolve({"objective": "binary", name: 1})
