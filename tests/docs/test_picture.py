"""The picture of the README is drawn from the recorded measurements."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from pages import DOCS


@pytest.fixture
def script() -> dict[str, Any]:
    pytest.importorskip("matplotlib")
    return runpy.run_path(str(DOCS / "pictures" / "overview.py"))


def test_bars_are_the_recorded_seconds(script: dict[str, Any]) -> None:
    figure_type = pytest.importorskip("matplotlib.figure").Figure
    ax = figure_type().subplots()
    script["draw_libraries"](ax)
    assert len(ax.patches) == 16
    pandas = pytest.importorskip("pandas")
    runs = pandas.read_csv(script["RESULTS"] / "categories.csv", dtype={"trees": str})
    ours = runs[(runs.library == "bitgrove") & (runs.trees == "default") & (runs.table == "adult")]
    assert ax.patches[0].get_width() == pytest.approx(ours.seconds.mean())
    picture = (DOCS / "pictures" / "overview.svg").read_text(encoding="utf-8")
    shown = [text.get_text() for text in ax.texts if text.get_text().count(" s, ") == 1]
    assert len(shown) == 16 and all(f"<!-- {text} -->" in picture for text in shown)


def test_every_set_has_a_dot_for_each_number_of_bits(script: dict[str, Any]) -> None:
    figure_type = pytest.importorskip("matplotlib.figure").Figure
    ax = figure_type().subplots()
    script["draw_bits"](ax)
    assert [len(dots.get_offsets()) for dots in ax.collections] == [8, 8, 8, 8]


def test_the_picture_is_there() -> None:
    assert (DOCS / "pictures" / "overview.svg").read_text(encoding="utf-8").count("<svg") == 1
