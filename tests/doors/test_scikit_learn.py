"""scikit-learn beyond check_estimator: what its other tools do with the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import Parallel, delayed
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from bitgrove import BitGroveClassifier, BitGroveRanker, BitGroveRegressor
from bitgrove.errors import DataError, ParameterError
from bitgrove.machine.threads import available_cores, resolve_threads

FRAME, Y = load_breast_cancer(return_X_y=True, as_frame=True)
LABELS = np.array(["benign", "malignant"])[Y]
SMALL = {"n_estimators": 8, "n_jobs": 1, "num_leaves": 7}


def classifier(**params: Any) -> BitGroveClassifier:
    return BitGroveClassifier(**{**SMALL, **params})


def test_search_over_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), classifier())
    search = GridSearchCV(pipeline, {"bitgroveclassifier__num_leaves": [2, 15]}, cv=2)
    assert search.fit(FRAME, LABELS).score(FRAME, LABELS) > 0.9


def test_pandas_output_of_the_step_before() -> None:
    pipeline = make_pipeline(StandardScaler(), classifier()).set_output(transform="pandas")
    fitted = pipeline.fit(FRAME, LABELS)[-1]
    assert fitted.feature_names_in_.tolist() == list(FRAME.columns)
    assert fitted.model_.feature_names == list(FRAME.columns)
    assert set(pipeline.predict(FRAME)) == {"benign", "malignant"}


def test_selection_by_importance() -> None:
    selector = SelectFromModel(classifier(), max_features=4, threshold=-np.inf)
    chosen = selector.set_output(transform="pandas").fit_transform(FRAME, LABELS)
    best = np.argsort(-selector.estimator_.feature_importances_)[:4]
    assert set(chosen.columns) == set(FRAME.columns[best])


def test_partial_dependence_and_permutations() -> None:
    X, y = load_diabetes(return_X_y=True)
    fitted = BitGroveRegressor(**SMALL).fit(X, y)
    found = partial_dependence(fitted, X, [2], kind="average", grid_resolution=10)
    assert found["average"].shape == (1, 10) and np.ptp(found["average"]) > 0
    result = permutation_importance(fitted, X, y, n_repeats=2, random_state=0)
    assert result.importances_mean.argmax() in (2, 8)
    both = partial_dependence(classifier().fit(FRAME, LABELS), FRAME, ["mean area"])
    assert np.isfinite(both["average"]).all()


def test_calibration() -> None:
    calibrated = CalibratedClassifierCV(classifier(), cv=3).fit(FRAME, LABELS)
    assert calibrated.predict_proba(FRAME).shape == (len(Y), 2)
    assert calibrated.score(FRAME, LABELS) > 0.9


def test_searches_with_processes() -> None:
    grid = {"num_leaves": [3, 7], "eta": [0.1, 0.3]}
    alone, many = (
        GridSearchCV(BitGroveClassifier(n_estimators=5), grid, cv=3, n_jobs=n).fit(FRAME, LABELS)
        for n in (1, 2)
    )
    assert alone.best_params_ == many.best_params_
    np.testing.assert_array_equal(
        alone.cv_results_["mean_test_score"], many.cv_results_["mean_test_score"]
    )
    assert alone.best_estimator_.model_ == many.best_estimator_.model_


def test_processes_of_a_search_share_the_cores() -> None:
    seen = Parallel(n_jobs=2, backend="loky")(delayed(resolve_threads)(None) for _ in range(2))
    assert max(seen) <= max(1, available_cores() // 2)


def test_metadata_is_routed() -> None:
    weight = np.where(Y == 1, 1.0, 3.0)
    with sklearn.config_context(enable_metadata_routing=True):
        plain = classifier()
        asking = classifier().set_fit_request(sample_weight=True)
        asking.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, asking)
        pipeline.fit(FRAME, LABELS, sample_weight=weight)
        expected = plain.fit(StandardScaler().fit_transform(FRAME), LABELS, sample_weight=weight)
        assert pipeline[-1].model_ == expected.model_
        found = cross_validate(asking, FRAME, LABELS, cv=3, params={"sample_weight": weight})
        assert len(found["test_score"]) == 3
    assert {"group", "qid"} <= set(BitGroveRanker().get_metadata_routing().fit.requests)


def test_weights_in_scoring() -> None:
    fitted = classifier().fit(FRAME, LABELS)
    weight = np.arange(len(Y), dtype=float)
    expected = accuracy_score(LABELS, fitted.predict(FRAME), sample_weight=weight)
    assert fitted.score(FRAME, LABELS, sample_weight=weight) == expected


def test_fitted_or_not() -> None:
    estimator = classifier()
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    assert "Not fitted" in estimator._repr_html_()
    assert estimator.fit(FRAME, LABELS).__sklearn_is_fitted__()
    html = estimator._repr_html_()
    assert "Fitted" in html and "num_leaves" in html


def test_repr_names_what_is_not_the_default() -> None:
    assert repr(BitGroveClassifier(num_leaves=7)) == "BitGroveClassifier(num_leaves=7)"


def test_a_validation_fraction_of_its_own() -> None:
    params = {"n_estimators": 300, "learning_rate": 0.3, "n_jobs": 1, "early_stopping_rounds": 4}
    fitted = BitGroveClassifier(**params, validation_fraction=0.2).fit(FRAME, LABELS)
    assert fitted.best_iteration_ is not None and fitted.best_iteration_ < 300
    assert list(fitted.evals_result_) == ["valid_0"]
    again = BitGroveClassifier(**params, validation_fraction=0.2).fit(FRAME, LABELS)
    other = BitGroveClassifier(**params, validation_fraction=0.2, random_state=1)
    assert fitted.model_ == again.model_ != other.fit(FRAME, LABELS).model_
    with_sets = BitGroveClassifier(**params, validation_fraction=0.2)
    with_sets.fit(FRAME, LABELS, eval_set=(FRAME[:100], LABELS[:100]))
    assert len(with_sets.model_.trees[0].leaf_rows) and int(
        with_sets.model_.trees[0].leaf_rows.sum()
    ) == len(Y)
    assert int(fitted.model_.trees[0].leaf_rows.sum()) == len(Y) - round(0.2 * len(Y))
    for wrong in (0.0, 1.5, "half"):
        with pytest.raises(ParameterError, match="validation_fraction="):
            BitGroveClassifier(**params, validation_fraction=wrong).fit(FRAME, LABELS)
    rare = LABELS.astype(object)
    rare[0] = "rare"
    with pytest.raises(DataError, match=r"validation_fraction=0.2: .* only 1"):
        BitGroveClassifier(**params, validation_fraction=0.2).fit(FRAME, rare)
    with pytest.raises(ParameterError, match="or set validation_fraction"):
        BitGroveClassifier(**params).fit(FRAME, LABELS)


def test_a_validation_fraction_of_whole_queries() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 3)))
    y = np.clip(np.round(X[0] + 1), 0, 3)
    ranker = BitGroveRanker(n_estimators=30, early_stopping_rounds=3, validation_fraction=0.25)
    ranker.fit(X.rename(columns=str), y, qid=np.repeat(np.arange(40), 15))
    assert int(ranker.model_.trees[0].leaf_rows.sum()) == 30 * 15


def test_a_fit_draws_one_number_of_a_random_state() -> None:
    once, twice = np.random.RandomState(5), np.random.RandomState(5)
    BitGroveRegressor(n_estimators=2, random_state=once).fit(*load_diabetes(return_X_y=True))
    twice.randint(2**31 - 1)
    assert once.randint(1000) == twice.randint(1000)


def test_few_rows_of_many_classes_are_warned_of() -> None:
    y = np.arange(40) / 1.5
    with pytest.warns(UserWarning, match="number of unique classes"):
        classifier().fit(np.arange(40.0)[:, None], y.astype(int))
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(np.arange(40.0)[:, None], y)
