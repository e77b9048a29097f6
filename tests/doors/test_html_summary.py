"""What a notebook shows: HTML of models and estimators, and the progress bar."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bitgrove as bg
from bitgrove.report.summary import sparkline

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = X[:, 0] + 0.1 * X[:, 1]
PARAMS = {"objective": "regression", "n_estimators": 6, "num_leaves": 7, "n_jobs": 1}
HOSTILE = "<script>alert('x')</script>"


def parsed(html: str) -> Any:
    """All of it must be well-formed."""
    return ElementTree.fromstring(f"<div>{html.replace('<br>', '<br/>')}</div>")


def trained(**more: Any) -> bg.Model:
    data = bg.Dataset(X[:300], Y[:300], feature_names=[HOSTILE, "b&b", "c"])
    valid = bg.Dataset(X[300:], Y[300:], reference=data)
    return bg.train({**PARAMS, **more}, data, valid_sets=[data, valid])


def test_the_summary_of_a_model() -> None:
    model = trained()
    html = model._repr_html_()
    tree = parsed(html)
    words = " ".join(tree.itertext())
    assert HOSTILE in words and "<script" not in html  # a name is text
    assert model.digest()[:16] in words and "6 with" in words and "valid_1 rmse" in words
    points = tree.find(".//{*}polyline").get("points").split()
    assert len(points) == 6
    loaded = bg.Model.from_bytes(model.to_bytes())._repr_html_()
    assert "polyline" not in loaded and model.record is not None
    assert model.record.rows[:16] in loaded
    empty = bg.train({**PARAMS, "min_child_samples": 400, "verbosity": -1}, bg.Dataset(X, Y))
    assert parsed(empty._repr_html_()) is not None


def test_classes_are_text() -> None:
    label = np.where(Y > 0, HOSTILE, "no")
    fitted = bg.BitGroveClassifier(n_estimators=2).fit(X, label)
    html = fitted.model_._repr_html_()
    assert "<script" not in html and HOSTILE in " ".join(parsed(html).itertext())


def test_sparklines() -> None:
    curve = sparkline(list(np.linspace(5, 1, 1000)), 999)
    points = [tuple(map(float, p.split(","))) for p in
              parsed(curve).find(".//{*}polyline").get("points").split()]  # fmt: skip
    assert len(points) == 240 and points[0] == (3.0, 3.0) and points[-1] == (237.0, 45.0)
    for values in ([1.0, 1.0], [np.nan, np.nan], [1.0, np.inf, 2.0]):
        assert "nan" not in sparkline(values, 0) and "inf" not in sparkline(values, 1)


def test_estimators_keep_scikit_learns_diagram() -> None:
    bare = bg.BitGroveRegressor(n_estimators=3)
    fitted = bg.BitGroveRegressor(n_estimators=3, n_jobs=1).fit(X, Y)
    for estimator, has_model in ((bare, False), (fitted, True)):
        bundle = estimator._repr_mimebundle_()
        for html in (bundle["text/html"], estimator._repr_html_()):
            assert "sk-top-container" in html
            assert ("iterations</th>" in html) == has_model
    with config_context(display="text"):
        assert "text/html" not in fitted._repr_mimebundle_()
        assert not hasattr(fitted, "_repr_html_")
    pipeline = make_pipeline(StandardScaler(), fitted).fit(X, Y)
    assert "BitGroveRegressor" in pipeline._repr_html_()


def test_the_bar_shows_metrics_and_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    trained(progress=True, eval_metric=["rmse", "mae", "r2"], n_estimators=40, learning_rate=0.9,
            early_stopping_rounds=3)  # fmt: skip
    err = capsys.readouterr().err
    assert "valid_1 rmse" in err and "valid_1 mae" in err and ", best " in err and "/40" in err
    bg.cv({**PARAMS, "progress": True}, bg.Dataset(X, Y), nfold=2)
    assert "6/6" in capsys.readouterr().err
    with pytest.raises(bg.ParameterError, match="most must be an integer"):
        bg.progress_bar(0)


def test_verbosity_below_zero_keeps_warnings_back(recwarn: pytest.WarningsRecorder) -> None:
    few = bg.Dataset(X[:10], Y[:10])
    bg.train({**PARAMS, "verbosity": -1}, few)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="no tree has a split"):
        bg.train(PARAMS, few)
