"""What a report says is true: its figures against scikit-learn and plain formulas."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import (
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    ndcg_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

import bitgrove as bg
from bitgrove.errors import DataError
from bitgrove.objectives import OBJECTIVES
from bitgrove.report.figures import equal_parts, histogram, short, thinned
from bitgrove.report.sections import SECTIONS, gather
from bitgrove.report.subject import GivenRows, Subject

RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 4))
NUMBERS = 2.0 * X[:, 0] + np.abs(X[:, 1]) * RNG.normal(size=600)
SIDES = (NUMBERS > 0.3).astype(float)
WEIGHT = RNG.integers(1, 4, 600).astype(float)
SMALL: dict[str, Any] = {"n_estimators": 8, "num_leaves": 6, "min_child_samples": 5}


def model_of(objective: str, label: Any, **more: Any) -> bg.Model:
    group = more.pop("group", None)
    return bg.train({"objective": objective, **SMALL, **more}, bg.Dataset(X, label, group=group))


def sections(model: bg.Model, *given: Any, **more: Any) -> dict[str, Any]:
    content = gather(Subject.of(model, GivenRows(*given, **more)))
    return {section["kind"]: section for section in content["sections"]}


def test_rows_start_at_their_own_scores() -> None:
    offset = 3.0 * X[:, 2]
    for label in (NUMBERS, np.column_stack([NUMBERS, -NUMBERS])):
        start = np.broadcast_to(offset[:, None], (600, label.size // 600))
        data = bg.Dataset(X, label + start.reshape(label.shape), init_score=start)
        model = bg.train({"objective": "regression", **SMALL}, data)
        found = Subject.of(model, GivenRows(data)).prediction
        np.testing.assert_allclose(found, model.predict(X) + start.reshape(label.shape))
        assert found.shape == label.shape


def test_thresholds_count_rows_and_have_scikit_learns_area() -> None:
    model = model_of("binary", SIDES)
    found = sections(model, X, SIDES, weight=WEIGHT)["thresholds"]["outputs"][0]
    prediction = model.predict(X)
    expected = roc_auc_score(SIDES, prediction, sample_weight=WEIGHT)
    assert found["auc"] == pytest.approx(expected, rel=1e-4)
    assert found["positive"] == WEIGHT[SIDES > 0].sum()
    for step, (true, false) in enumerate(zip(*found["steps"], strict=True)):
        above = prediction >= step / 200
        assert true == WEIGHT[above & (SIDES > 0)].sum()
        assert false == WEIGHT[above & (SIDES == 0)].sum()
    for threshold, true, false in zip(
        found["threshold"], found["true"], found["false"], strict=True
    ):
        above = prediction >= threshold * (1 - 1e-4)  # as rounded
        assert true == pytest.approx(WEIGHT[above & (SIDES > 0)].sum(), abs=8)
        assert false == pytest.approx(WEIGHT[above & (SIDES == 0)].sum(), abs=8)


def test_scores_are_those_of_scikit_learn() -> None:
    model = model_of("binary", SIDES)
    scores = {s["name"]: s["value"] for s in sections(model, X, SIDES)["summary"]["scores"]}
    assert scores["logloss"] == pytest.approx(log_loss(SIDES, model.predict(X)), rel=1e-4)
    values = model_of("mae", NUMBERS)
    scores = {s["name"]: s["value"] for s in sections(values, X, NUMBERS)["summary"]["scores"]}
    error = mean_absolute_error(NUMBERS, values.predict(X))
    assert scores["mae"] == pytest.approx(error, rel=1e-4)


def test_calibration_is_the_mean_of_its_groups() -> None:
    model = model_of("binary", SIDES)
    found = sections(model, X, SIDES, weight=WEIGHT)["calibration"]["outputs"][0]
    prediction = model.predict(X)
    assert sum(point[4] for point in found["points"]) == 600
    assert sum(found["positives"]) == WEIGHT[SIDES > 0].sum()
    assert sum(found["others"]) == WEIGHT[SIDES == 0].sum()
    start = 0
    order = np.argsort(prediction, kind="stable")
    gap = 0.0
    for p, y, low, high, n in found["points"]:
        rows = order[start : start + n]
        start += n
        mean = np.average(prediction[rows], weights=WEIGHT[rows])
        share = np.average(SIDES[rows], weights=WEIGHT[rows])
        assert (p, y) == pytest.approx((mean, share), rel=1e-3, abs=1e-4)
        assert low <= p <= high
        gap += abs(mean - share) * WEIGHT[rows].sum() / WEIGHT.sum()
    assert found["error"] == pytest.approx(gap, rel=0.01)


def test_confusion_is_scikit_learns() -> None:
    table, target = load_iris(return_X_y=True)
    model = bg.BitGroveClassifier(**SMALL).fit(table, target)
    found = sections(model.model_, table, target)
    said = model.predict(table)
    assert found["confusion"]["counts"] == confusion_matrix(target, said).tolist()
    each = found["confusion"]["each"]
    precision = precision_score(target, said, average=None)
    recall = recall_score(target, said, average=None)
    assert [one["precision"] for one in each] == pytest.approx(precision, rel=1e-3)
    assert [one["recall"] for one in each] == pytest.approx(recall, rel=1e-3)
    assert len(found["calibration"]["outputs"]) == 3


def test_residuals() -> None:
    model = model_of("regression", NUMBERS)
    found = sections(model, X, NUMBERS)["residuals"]["outputs"][0]
    residual = NUMBERS - model.predict(X)
    assert sum(found["histogram"]["counts"]) == 600
    assert found["mean"] == pytest.approx(residual.mean(), abs=1e-4)
    assert found["middle"] == pytest.approx(np.median(np.abs(residual)), rel=1e-3)
    assert sum(band[4] for band in found["bands"]) == 600


def test_coverage_counts_what_lies_below() -> None:
    model = model_of("quantile", NUMBERS, quantile_alpha=[0.1, 0.9])
    found = sections(bg.Model.from_bytes(model.to_bytes()), X, NUMBERS)
    low, high = model.predict(X).T
    assert found["coverage"]["levels"] == [0.1, 0.9]
    below = [(low >= NUMBERS).mean(), (high >= NUMBERS).mean()]
    assert found["coverage"]["observed"] == pytest.approx(below, rel=1e-4)
    inside = ((low <= NUMBERS) & (high >= NUMBERS)).mean()
    assert found["coverage"]["intervals"][0]["observed"] == pytest.approx(inside, rel=1e-3)
    assert "residuals" not in found


def test_queries() -> None:
    grades = np.clip(np.floor(NUMBERS + 1), 0, 3)
    sizes = np.full(30, 20)
    model = model_of("lambdarank", grades, group=sizes)
    found = sections(model, X, grades, group=sizes)["queries"]
    said = model.predict(X) - 1e-9 * np.arange(600)  # of equal ones, the first row counts first
    each = [
        ndcg_score([2.0 ** grades[q : q + 20] - 1.0], [said[q : q + 20]], k=10)
        for q in range(0, 600, 20)
    ]
    assert found["mean"] == pytest.approx(np.mean(each), rel=1e-3)
    assert sum(found["counts"]) == 30
    worst = found["worst"][0]
    assert (worst[0] - 1, worst[2]) == (int(np.argmin(each)), pytest.approx(min(each), rel=1e-3))


def test_contributions_add_up_to_the_score() -> None:
    model = model_of("binary", SIDES)
    found = sections(model, X, SIDES)["contributions"]
    output = found["outputs"][0]
    total = np.sum(output["values"], axis=0) + output["rest"] + output["base"]
    np.testing.assert_allclose(total, model.predict_raw(X[found["rows"]]), atol=2e-3)
    for feature in found["features"]:
        column = X[found["rows"], int(feature["name"][1:])]
        np.testing.assert_allclose(feature["values"], column, rtol=1e-4)
        assert np.all(np.diff(np.array(feature["shade"])[np.argsort(column)]) >= 0)


def test_trees_are_the_models() -> None:
    model = model_of("binary", SIDES)
    found = sections(model, X, SIDES)["trees"]
    rows = found["rows"]["numbers"]
    np.testing.assert_array_equal(found["rows"]["leaves"], model.predict_leaf(X[rows]))
    raw = np.full(len(rows), model.base_score[0])
    for number, compact in enumerate(found["trees"]):
        for i, row in enumerate(rows):
            node = 0
            while node >= 0:  # as a reader of the page would walk
                left = X[row, compact[0][node]] <= compact[1][node]
                node = compact[2 if left else 3][node]
            assert ~node == found["rows"]["leaves"][i][number]
            raw[i] += compact[7][~node]
    np.testing.assert_allclose(raw, model.predict_raw(X[rows]), rtol=1e-3, atol=1e-3)


KINDS = ["binary", "cross_entropy", "multiclass", "quantile", "regression", "poisson", "lambdarank"]


@pytest.mark.parametrize("objective", KINDS)
def test_sections_follow_the_task(objective: str) -> None:
    """With rows and truth, with rows alone, and of the model alone."""
    label = {
        "binary": SIDES, "cross_entropy": 0.5 * SIDES + 0.2, "quantile": NUMBERS,
        "regression": NUMBERS, "poisson": np.exp(NUMBERS / 3),
    }.get(objective, np.clip(np.floor(NUMBERS + 1), 0, 2))  # fmt: skip
    more = {"num_class": 3} if objective == "multiclass" else {}
    group = np.full(30, 20) if objective == "lambdarank" else None
    model = model_of(objective, label, group=group, **more)
    judged = {
        "binary": {"thresholds", "calibration"}, "cross_entropy": {"calibration"},
        "multiclass": {"confusion", "calibration"}, "quantile": {"residuals", "coverage"},
        "regression": {"residuals"}, "poisson": {"residuals"}, "lambdarank": {"queries"},
    }[objective]  # fmt: skip
    alone = {"summary", "importance", "trees", "training"}
    assert set(sections(model, X, label, group=group)) == alone | {"contributions"} | judged
    assert set(sections(model, X)) == alone | {"contributions"}
    assert set(sections(model)) == alone
    assert "training" not in sections(bg.Model.from_bytes(model.to_bytes()))


def test_every_prediction_has_metrics() -> None:
    from bitgrove.report.sections.summary import _METRICS

    assert {objective.predicts for objective in OBJECTIVES.values()} == set(_METRICS)
    assert len({section.kind for section in SECTIONS}) == len(SECTIONS)


def test_several_labels_and_targets() -> None:
    two = np.stack([SIDES, 1.0 - SIDES], axis=1)
    labels = bg.BitGroveClassifier(**SMALL).fit(X, two)
    found = sections(labels.model_, X, two)
    assert [len(found[kind]["outputs"]) for kind in ("thresholds", "calibration")] == [2, 2]
    targets = bg.BitGroveRegressor(**SMALL).fit(X, np.stack([NUMBERS, -NUMBERS], axis=1))
    found = sections(targets.model_, X, np.stack([NUMBERS, -NUMBERS], axis=1))
    assert len(found["residuals"]["outputs"]) == 2


def test_samples_depend_on_row_numbers_alone() -> None:
    subject = Subject.of(model_of("binary", SIDES), GivenRows(X, SIDES))
    few, many = subject.sampled(40), subject.sampled(300)
    assert len(few) == 40 and set(few) < set(many)
    again = Subject.of(model_of("binary", 1.0 - SIDES), GivenRows(2.0 * X))
    np.testing.assert_array_equal(again.sampled(40), few)
    assert len(subject.sampled(10_000)) == 600


def test_curves_survive_a_pickle(tmp_path: Any) -> None:
    model = bg.BitGroveClassifier(**SMALL).fit(X, SIDES, eval_set=[(X, SIDES)])
    again = pickle.loads(pickle.dumps(model))
    again.report(tmp_path / "page.html", X, SIDES)
    assert b'"kind":"curves"' in (tmp_path / "page.html").read_bytes()
    again.model_.report(tmp_path / "page.html", X, SIDES)
    assert b'"kind":"curves"' not in (tmp_path / "page.html").read_bytes()


def test_time_per_stage() -> None:
    model = bg.BitGroveClassifier(**SMALL).fit(X, SIDES, eval_set=[(X[:50], SIDES[:50])])
    assert model.model_.info is not None
    assert {"bin", "train", "evaluate"} <= set(model.model_.info.seconds)
    assert all(took > 0 for took in model.model_.info.seconds.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (GivenRows(None, SIDES), "need the rows of X"),
        (GivenRows(bg.Dataset(X), SIDES), "its own label"),
        (GivenRows(X[:, :3], SIDES), "3 features"),
        (GivenRows(X, SIDES[:10]), "10"),
        (GivenRows(X, SIDES + 1), "label"),
        (GivenRows(X, np.stack([SIDES, SIDES], axis=1)), "2 columns"),
        (GivenRows(X, SIDES, weight=np.zeros(600)), "no rows"),
    ],
)
def test_rows_that_do_not_fit(given: GivenRows, words: str) -> None:
    model = model_of("binary", SIDES)
    with pytest.raises(DataError, match=words):
        gather(Subject.of(model, given))


def test_a_ranking_needs_its_queries() -> None:
    grades = np.clip(np.floor(NUMBERS + 1), 0, 3)
    model = model_of("lambdarank", grades, group=np.full(30, 20))
    with pytest.raises(DataError, match="group or qid"):
        sections(model, X, grades)
    assert "queries" in sections(model, X, grades, qid=np.repeat(np.arange(30), 20))


def test_figures() -> None:
    assert short(np.nan) is None and short(np.inf) is None
    assert short(3.0) == 3 and isinstance(short(3.0), int)
    assert short(1234567.891) == 1234600
    assert thinned(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert thinned(1000, 3).tolist() == [0, 500, 999]
    assert sum(histogram(np.ones(7), np.ones(7))["counts"]) == 7
    parts = equal_parts(np.array([1.0, 1.0, 1.0, 1.0, 2.0, 3.0]), 3)
    assert [sorted(part.tolist()) for part in parts] == [[0, 1, 2, 3], [4, 5]]
    assert [part.tolist() for part in equal_parts(np.ones(1), 12)] == [[0]]
    assert [len(part) for part in equal_parts(np.arange(100.0), 10)] == [10] * 10
