"""The paper's sets at full size, here at a tiny one: rows, judges, runs and their report."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import bitgrove as bg
from lab.datasets.entry import Wanted
from lab.datasets.table import PAPER, known
from lab.datasets.task import Task
from lab.experiments import EXPERIMENTS
from lab.full_size.draws import Draws
from lab.full_size.judge import JUDGES, Auc, Ndcg, Rmse
from lab.full_size.report import best_of, paired_percent
from lab.full_size.rows import Part, make
from lab.full_size.training import FullBench, Size
from lab.full_size.training import run as run_one
from lab.internals import evaluate, scores_along
from lab.running.runs import run
from lab.running.study import Study
from lab.scoring import METRICS
from lab.systems import lineup
from lab.systems.base import Settings

TINY = Size(max_rows=600, trees=4, leaves=7, device="cpu", threads=1)


def test_draws_look_random_and_never_repeat() -> None:
    draws = Draws(np, 3)
    normal, uniform = draws.normal(200, 500), draws.uniform(100_000)
    assert normal.dtype == uniform.dtype == np.float32
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1.0) < 0.02
    assert uniform.min() >= 0.0 and uniform.max() < 1.0 and abs(uniform.mean() - 0.5) < 0.01
    assert len(np.unique(draws._hashes((100_000,)))) == 100_000
    assert (Draws(np, 3).normal(10) == normal.ravel()[:10]).all()
    assert (Draws(np, 4).normal(10) != normal.ravel()[:10]).any()


@pytest.mark.parametrize("name", PAPER)
def test_rows_have_the_papers_shape(name: str) -> None:
    sizes = (900, 300, 400)
    task = make(name, sizes, np)
    for part, n in zip((task.train, task.valid, task.test), sizes, strict=True):
        assert part.X.shape == (n, known(name).n_features) and part.X.dtype == np.float32
        assert part.y.shape == (n,) and len(np.unique(part.y)) > 1
        assert not np.isinf(part.X).any()
        assert (part.group is None) == (known(name).objective != "lambdarank")
        if part.group is not None:
            assert part.group.sum() == n
    again = make(name, sizes, np)
    np.testing.assert_array_equal(task.test.X, again.test.X)


@pytest.mark.parametrize("objective", list(JUDGES))
def test_judges_agree_with_the_library(objective: str) -> None:
    rng = np.random.default_rng(1)
    group = np.array([3, 40, 17, 1, 60, 79]) if objective == "lambdarank" else None
    label = rng.integers(0, 2 if objective == "binary" else 5, 200).astype(float)
    if group is not None:
        label[:3] = 0.0  # a query without relevant rows
    scores = np.round(rng.normal(size=200), 1 if objective == "binary" else 9)
    judge = JUDGES[objective](np, Part(np.zeros((200, 1)), label, group))
    expected = evaluate(METRICS[objective][0], scores, label, group)
    assert judge.value(scores) == pytest.approx(expected, rel=1e-12)
    drawn = judge.drawn_again(scores)
    assert len(drawn) == 200 and np.std(drawn) > 0.0
    assert np.mean(drawn) == pytest.approx(expected, abs=4 * np.std(drawn))


def test_weights_count_rows_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    label, scores = rng.integers(0, 2, 50).astype(float), np.round(rng.normal(size=50), 1)
    weights = rng.integers(0, 4, (3, 50)).astype(float)
    part = Part(np.zeros((50, 1)), label)
    found = Auc(np, part).weighted(scores, weights)
    for k in range(3):
        assert found[k] == pytest.approx(roc_auc_score(label, scores, sample_weight=weights[k]))
    twice = np.repeat(np.arange(50), weights[0].astype(int))
    rmse = np.sqrt(((scores - label)[twice] ** 2).mean())
    assert Rmse(np, part).weighted(scores, weights)[0] == pytest.approx(rmse)
    queries = Ndcg(np, Part(np.zeros((50, 1)), label, np.full(5, 10)))
    only = np.eye(5)
    np.testing.assert_allclose(queries.weighted(scores, only), queries.by_query(scores))


def test_scores_along_are_those_of_the_cut_models() -> None:
    X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    model = bg.train({"objective": "regression", "n_estimators": 7}, bg.Dataset(X, X[:, 0]))
    found = dict(scores_along(model, X, 3))
    assert list(found) == [3, 6, 7]
    for iteration, scores in found.items():
        np.testing.assert_allclose(scores, model.predict_raw(X, num_iteration=iteration))


def test_seeds_share_bins_and_differ_by_rounding_alone() -> None:
    bench = FullBench(TINY)
    few = {"gradient_bits": 2}
    one, other = (run_one(bench, "year", few, seed) for seed in (0, 1))
    assert one["test curve"] != other["test curve"]
    full = [run_one(bench, "year", {"gradient_bits": None}, seed)["drawn"] for seed in (0, 1)]
    assert full[0] == full[1]
    assert one["iterations"] == [1, 2, 3, 4] and one["chosen"] in one["iterations"]
    assert one["test"] == one["test curve"][one["iterations"].index(one["chosen"])]


def test_paired_differences_shrink_when_models_agree() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.02, 200)  # of the test rows, which both models share
    full = {"metric": "auc", "test": 0.8, "drawn": (0.8 + noise).tolist()}
    mine = {"metric": "auc", "test": 0.808, "drawn": (0.808 + 1.01 * noise).tolist()}
    mean, low, high = paired_percent([mine], full)
    assert mean == pytest.approx(1.0) and 0.9 < low <= mean <= high < 1.1
    rmse = {"metric": "rmse", "test": 2.0, "drawn": [2.0] * 200}
    assert paired_percent([{**rmse, "test": 1.0, "drawn": [1.0] * 200}], rmse)[0] == 50.0


def test_the_study_goes_on_and_reports_what_it_has(tmp_path: Path, capsys: Any) -> None:
    study = Study(tmp_path, Wanted(None, None, 3000), ("higgs", "letor"), bits=(2,), trees=3,
                  leaves=7, seeds=2)  # fmt: skip
    cells = EXPERIMENTS["full_size"].plan(study)
    assert len(set(cells)) == len(cells)
    assert [c.dataset for c in cells[:6]] == ["higgs"] * 3 + ["letor"] * 3
    written = run(EXPERIMENTS["full_size"], study)
    page = written[1].read_text()
    assert "2-bit RN no refit" in page and "default" in page and "up to 2 seeds" in page
    assert "failed" not in page, page
    n_runs = capsys.readouterr().out.count("ms per tree")
    assert n_runs == len(cells)
    run(EXPERIMENTS["full_size"], study)
    assert "ms per tree" not in capsys.readouterr().out


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_other_libraries_are_judged_by_slices_of_their_trees(package: str) -> None:
    pytest.importorskip(package)
    task = make("year", (400, 50, 50), np)
    system = lineup.labelled(lineup.PEERS[package])
    rows = Task("year", "regression", task.train.X, task.train.y, task.test.X, task.test.y)
    settings = Settings(n_trees=7, num_leaves=7)
    model = system.train(system.prepare(rows, settings), settings).model
    along = dict(system.scores_along(model, task.test.X, 1, 3))
    assert list(along) == [3, 6, 7]
    np.testing.assert_allclose(along[7], system.predictor(model, rows, 1)(task.test.X), rtol=1e-5)


def test_the_command_judges_other_libraries_on_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    study = Study(tmp_path, Wanted(None, None, 3000), ("higgs",), bits=(2,), trees=3, leaves=7,
                  peers=("lightgbm",))  # fmt: skip
    written = run(EXPERIMENTS["full_size_peers"], study)
    with written[0].open() as file:
        found = list(csv.DictReader(file))
    assert {row["system"] for row in found} >= {"LightGBM"}
    assert all(float(row["test"]) > 0 and float(row["ms"]) > 0 for row in found)


def test_the_page_has_the_best_values_of_all_runs() -> None:
    root = Path(__file__).parents[2]
    runs: dict[tuple[str, str], list[Any]] = {}
    with (root / "lab" / "results" / "full_size.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            result = {**row, "best": float(row["best"])}
            runs.setdefault((row["dataset"], row["system"]), []).append(result)
    page = (root / "docs" / "paper.md").read_text(encoding="utf-8")
    table = page.split("The same at the best iteration")[1].split("\n- ")[0]
    head, _, *lines = (line.strip("| ").split("|") for line in table.splitlines() if "|" in line)
    assert len(lines) == 11
    systems = {"full precision": lineup.FULL, "the default": "default"}
    for name, *cells in lines:
        system = systems.get(name.strip(), name.strip())
        for title, cell in zip(head, cells, strict=True):
            dataset = title.split()[0]
            expected = best_of(runs[dataset, system], runs[dataset, lineup.FULL][0])
            assert cell.strip() == expected, (dataset, system)
