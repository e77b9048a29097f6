"""The report in a real browser: it opens, draws, answers, and runs nothing of what it shows."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser
from report_cases import HOSTILE, LEVELS

import bitgrove as bg
from bitgrove.model.model import Model
from bitgrove.report.page import html_page
from bitgrove.report.sections import gather
from bitgrove.report.subject import GivenRows, Subject


@pytest.fixture(scope="module")
def page(hostile: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, table, target = hostile
    path = tmp_path_factory.mktemp("report") / "page.html"
    model.report(path, table, target, title="<script>window.hacked=4</script>")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def test_the_page_is_one_file_with_a_strict_policy(page: Path, hostile: Any) -> None:
    model, table, target = hostile
    text = page.read_text(encoding="utf-8")
    assert text.lower().count("<script") == 2  # the data and our own
    data = re.search(r'id="data">(.*?)</script>', text, re.S)[1]  # type: ignore[index]
    ours = text.replace(data, "")
    assert set(re.findall(r"(?:src|href)=[\"']?([\w/.#:,]+)", ours)) == {"data:,", "#content", "#"}
    assert ours.count("://") == ours.count("http://www.w3.org/2000/svg") == 1
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1])  # type: ignore[index]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.S)[1]  # type: ignore[index]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not set(data) & set("<>&")
    subject = Subject.of(model.model_, GivenRows(table, target), "<script>window.hacked=4</script>")
    assert json.loads(data) == gather(subject)
    assert html_page(json.loads(data)) == page.read_bytes()  # the same bytes, again


def test_hostile_names_stay_text(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.complaints == []
    assert browser.requests == [page.absolute().as_uri()]
    assert browser.ask("window.hacked") is None
    assert browser.ask("document.querySelectorAll('img, iframe, b b, u, i, s').length") == 0
    assert browser.ask("document.querySelector('h1').textContent").startswith("<script>")
    text = browser.ask("document.body.textContent")
    for name in ("<img src=x onerror", "</script><script>window.hacked=2", "<u>yes</u>"):
        assert name in text


def test_every_picture_is_there(browser: Browser, page: Path) -> None:
    browser.open(page)
    kinds = browser.ask("[...document.querySelectorAll('main > section')].map((s) => s.id)")
    assert kinds == ["summary", "curves", "thresholds", "calibration", "importance",
                     "contributions", "trees", "training"]  # fmt: skip
    drawn = browser.ask("""[...document.querySelectorAll('.plot')].map((plot) =>
        [plot.closest('figure').querySelector('figcaption').textContent,
         plot.querySelectorAll('svg > g:not(.axes) :is(path, rect, circle)').length,
         !!plot.querySelector('svg').getAttribute('aria-label')])""")
    assert len(drawn) >= 10
    for title, n_marks, is_labelled in drawn:
        assert n_marks > 0 and is_labelled, title
    assert "NaN" not in browser.ask("document.querySelector('main').outerHTML")


@pytest.mark.parametrize("width", [390, 820, 1400])
def test_it_fits_every_width_in_light_and_dark(browser: Browser, page: Path, width: int) -> None:
    colors = []
    for scheme in ("light", "dark"):
        browser.open(page, width, 900, scheme)
        assert browser.ask("document.documentElement.scrollWidth") <= width
        colors.append(browser.ask("getComputedStyle(document.body).backgroundColor"))
    assert colors[0] != colors[1]
    for _ in range(2):  # auto, light, dark
        browser.ask("document.querySelector('.theme').click()")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == colors[1]
    assert browser.complaints == []


def test_the_threshold_moves_the_confusion_matrix(
    browser: Browser, page: Path, hostile: Any
) -> None:
    model, table, target = hostile
    browser.open(page)
    browser.ask("""(() => { const slider = document.querySelector('#thresholds input[type=range]');
        slider.value = 50; slider.dispatchEvent(new Event('input')); })()""")
    shown = browser.ask("[...document.querySelectorAll('.confusion b')].map((b) => b.textContent)")
    above = model.predict_proba(table)[:, 1] >= 0.25
    positive = target == model.classes_[1]
    counts = [above & positive, ~above & positive, above & ~positive, ~above & ~positive]
    expected = [int(rows.sum()) for rows in counts]
    assert [int(n) for n in shown] == expected
    assert browser.ask("document.querySelector('#thresholds output').textContent") == "0.250"


def test_the_tree_responds(browser: Browser, page: Path, hostile: Any) -> None:
    model, table, _ = hostile
    browser.open(page)
    tree = model.model_.trees[0]
    count = "document.querySelectorAll('.tree .leaf').length"
    assert browser.ask(count) == tree.n_leaves
    browser.ask("document.querySelector('[aria-label=\"Next tree\"]').click()")
    assert browser.ask("document.querySelector('.controls input[type=number]').value") == "2"
    assert browser.ask(count) == model.model_.trees[1].n_leaves
    browser.ask("document.querySelector('[aria-label=\"Previous tree\"]').click()")
    # The way of a row ends in its leaf.
    choose = """(() => { const list = document.querySelector('#trees select');
        list.value = 3; list.dispatchEvent(new Event('change'));
        return list.selectedOptions[0].textContent; })()"""
    row = int(browser.ask(choose).partition(":")[0])
    leaf = int(model.model_.predict_leaf(table.iloc[[row]])[0, 0])
    assert browser.ask("document.querySelector('.details h3').textContent") == f"Leaf {leaf + 1}"
    said = float(browser.ask("document.querySelector('.details dd').textContent").replace("−", "-"))
    assert said == pytest.approx(tree.leaf_value[leaf], rel=1e-2)
    assert browser.ask("document.querySelectorAll('.tree .on.leaf').length") == 1
    # Zoom, search, and the keyboard.
    view = "document.querySelector('.tree > g').getAttribute('transform')"
    before = browser.ask(view)
    browser.ask("document.querySelector('[aria-label=\"Zoom in\"]').click()")
    assert browser.ask(view) != before
    browser.ask("""(() => { const box = document.querySelector('#trees input[type=search]');
        box.value = 'PLAIN'; box.dispatchEvent(new Event('input')); })()""")
    feature = model.model_.feature_names.index("plain")
    assert browser.ask("document.querySelectorAll('.tree .hit').length") == np.sum(
        tree.feature == feature
    )
    browser.ask("document.querySelector('.tree').focus()")
    browser.press("ArrowRight")
    assert browser.ask("document.querySelectorAll('.tree .chosen').length") == 1
    browser.press("PageDown")
    assert browser.ask("document.querySelector('.controls input[type=number]').value") == "2"
    assert browser.complaints == []


def test_levels_that_go_left_are_named(browser: Browser, page: Path, hostile: Any) -> None:
    model = hostile[0].model_
    browser.open(page)
    number, split = next(
        (t, int(np.flatnonzero(tree.by_subset)[0]))
        for t, tree in enumerate(model.trees)
        if tree.by_subset.any()
    )
    levels = sorted(LEVELS)
    word = int(model.trees[number].left_bins[split][0])
    left = [level for code, level in enumerate(levels) if word >> code & 1]
    right = [level for level in levels if level not in left]
    expected = f"is {left[0]}" if len(left) == 1 else f"is not {right[0]}"
    browser.ask(f"""(() => {{ const box = document.querySelector('.controls input[type=number]');
        box.value = {number + 1}; box.dispatchEvent(new Event('change'));
        document.querySelector('.tree').focus(); }})()""")
    rules = browser.ask("""(() => { const said = [];
        for (const node of document.querySelectorAll('.tree .split')) {
          node.dispatchEvent(new MouseEvent('click'));
          said.push(document.querySelector('.details h3').textContent);
        } return said; })()""")
    assert f"{HOSTILE[-1]} {expected}?" in rules


def test_values_are_said_to_the_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.ask("document.getElementById('tip').hidden")
    browser.ask("document.querySelector('#curves .plot svg').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert not browser.ask("document.getElementById('tip').hidden")
    assert "iteration 2" in browser.ask("document.getElementById('tip').textContent")
    browser.press("Escape")
    assert browser.ask("document.getElementById('tip').hidden")


def test_many_features_and_trees_stay_usable(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 300))
    y = (X[:, :9].sum(axis=1) > 0).astype(float)
    names = [f"a feature with a name of some length {f}" for f in range(300)]
    params = {"objective": "binary", "n_estimators": 20, "min_child_samples": 5}
    small = bg.train(params, bg.Dataset(X, y, feature_names=names))
    large = Model("binary", small.trees * 50, small.base_score, names, small.params)
    assert len(large.trees) == 1000 and np.mean([t.n_leaves for t in large.trees]) > 20
    large.report(tmp_path / "large.html", X, y)
    assert (tmp_path / "large.html").stat().st_size < 5_000_000
    browser.open(tmp_path / "large.html")
    assert browser.complaints == []
    assert browser.ask("document.querySelectorAll('*').length") < 5000
    browser.ask("document.querySelector('.more').click()")
    browser.settle()
    bars = "document.querySelectorAll('#importance .bar').length"
    assert browser.ask(bars) == np.sum(small.feature_importance("split") > 0)


@pytest.mark.parametrize("rows", ["one row", "one class", "no values", "no splits"])
def test_poor_rows_are_shown_too(browser: Browser, tmp_path: Path, rows: str) -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(float)
    least = 300 if rows == "no splits" else 5
    params = {"objective": "binary", "n_estimators": 2, "min_child_samples": least}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no tree has a split
        model = bg.train(params, bg.Dataset(X, y))
    given = {"one row": (X[:1], y[:1]), "one class": (X[y > 0], y[y > 0]),
             "no values": (X[:9] * np.nan, y[:9]), "no splits": (X, y)}[rows]  # fmt: skip
    model.report(tmp_path / "page.html", *given)
    browser.open(tmp_path / "page.html")
    assert browser.complaints == []
    drawn = browser.ask("document.querySelector('main').outerHTML")
    assert not [word for word in ("NaN", "undefined", "Infinity") if word in drawn]


def test_huge_forests_show_some_trees(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(4000, 3))
    params = {"objective": "regression", "n_estimators": 2, "num_leaves": 500,
              "min_child_samples": 2}  # fmt: skip
    small = bg.train(params, bg.Dataset(X, X[:, 0] * X[:, 1]))
    large = Model("regression", small.trees * 300, small.base_score, ["a", "b", "c"], small.params)
    large.report(tmp_path / "huge.html", X[:50], X[:50, 0])
    assert (tmp_path / "huge.html").stat().st_size < 5_000_000
    data = gather(Subject.of(large, GivenRows()))["sections"]
    trees = next(section for section in data if section["kind"] == "trees")
    assert trees["shown"][0] == 0 and trees["shown"][-1] == 599 and len(trees["shown"]) < 600


def test_a_failed_report_leaves_the_old_one(tmp_path: Path, hostile: Any) -> None:
    model, table, _ = hostile
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(bg.DataError):
        model.report(path, table, np.full(len(table), "other"))
    assert path.read_text() == "old"
    with pytest.raises(FileNotFoundError, match="nowhere"):
        model.report(tmp_path / "nowhere" / "page.html")
