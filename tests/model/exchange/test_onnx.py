"""ONNX: onnxruntime says what our model says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.model.exchange import FORMATS, Outgoing
from exchange_cases import TRAINED, predicted, random_model, random_rows, trained

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime (the extra `dev`) runs ONNX")


def run(model: bg.Model, table: np.ndarray[Any, Any], n_threads: int = 1, **how: Any) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    content = FORMATS["onnx"].write(Outgoing(model, **how))
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, {"X": table})
    return found


@pytest.mark.parametrize("name", TRAINED)
def test_onnxruntime_says_the_same(name: str) -> None:
    case = trained(name)
    table = case.table
    (raw,) = run(case.model, table, raw_score=True)
    np.testing.assert_array_equal(raw, case.expected(table, raw_score=True))
    *label, found = run(case.model, table)
    expected = case.expected(table)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    if case.model.classes is not None:
        labels = np.array(case.model.classes)[expected.argmax(axis=1)]
        assert label[0].tolist() == labels.tolist()


@pytest.mark.parametrize("seed", range(15))
def test_random_models(seed: int) -> None:
    model = random_model(seed)
    rows = random_rows(model, seed)
    np.testing.assert_array_equal(run(model, rows)[0], predicted(model, rows))


def test_several_threads_differ_by_rounding_alone() -> None:
    case = trained("dart")
    (raw,) = run(case.model, case.table, 2, raw_score=True)
    np.testing.assert_allclose(raw, case.expected(case.table, raw_score=True), rtol=0, atol=1e-14)


def test_two_classes_have_two_probabilities() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    fitted = bg.BitGroveClassifier(n_estimators=3).fit(X, np.where(X[:, 0] > 0, 7, 3))
    label, found = run(fitted.model_, X)
    np.testing.assert_allclose(found, fitted.predict_proba(X), rtol=1e-13)
    assert label.tolist() == fitted.predict(X).tolist()


def test_every_link() -> None:
    case = trained("quantiles")
    crossing = bg.Model("quantile", case.model.trees, case.model.base_score,
                        case.model.feature_names, {"non_crossing": True})  # fmt: skip
    np.testing.assert_array_equal(run(crossing, case.X)[0], crossing.predict(case.X))
    several = trained("multiclass")
    ova = bg.Model("multiclassova", several.model.trees, several.model.base_score,
                   several.model.feature_names, {"num_class": several.model.n_outputs})  # fmt: skip
    np.testing.assert_allclose(run(ova, several.X)[0], ova.predict(several.X), rtol=1e-14)


def test_the_checker_of_onnx_accepts_it() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx (the extra `dev`) checks files")
    for name in ("text", "categories multiclass"):
        content = FORMATS["onnx"].write(Outgoing(trained(name).model))
        onnx.checker.check_model(onnx.load_from_string(content))
