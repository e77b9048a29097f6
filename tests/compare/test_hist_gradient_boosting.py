"""Full precision grows the trees of scikit-learn's HistGradientBoosting, an independent trainer.

Few bits, and other losses, are as good on rows that neither has seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_regression
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    roc_auc_score,
)
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from bitgrove import BitGroveClassifier, BitGroveRegressor

SHARED = {"learning_rate": 0.1, "max_bins": 255}
PEER = {"early_stopping": False, "max_leaf_nodes": 31, "min_samples_leaf": 20, **SHARED}


@pytest.fixture(autouse=True)
def one_thread_for_the_peer() -> Iterator[None]:
    """Its threads spin while they wait, which on a busy machine takes minutes."""
    with threadpool_limits(1, user_api="openmp"):
        yield


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_squared_error_gives_the_same_trees(seed: int) -> None:
    """Hessians are counts, so min_child_samples is exact and the trees must agree."""
    X, y = make_regression(n_samples=3000, n_features=6, noise=20.0, random_state=seed)
    X = np.round(X, 1)  # few values: both libraries cut between the same neighbours
    ours = BitGroveRegressor(n_estimators=20, gradient_bits=None).fit(X, y)
    peer = HistGradientBoostingRegressor(max_iter=20, **PEER).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-4, atol=1e-3 * y.std())


def test_missing_values_take_the_same_way() -> None:
    X, y = make_regression(n_samples=2000, n_features=4, noise=5.0, random_state=3)
    X = np.round(X, 1)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    ours = BitGroveRegressor(n_estimators=5, gradient_bits=None).fit(X, y)
    peer = HistGradientBoostingRegressor(max_iter=5, **PEER).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-4, atol=1e-3 * y.std())


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8, None])
def test_quantized_classifier_is_as_good(bits: int | None) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    peer = HistGradientBoostingClassifier(**PEER).fit(X_train, y_train)
    ours = BitGroveClassifier(gradient_bits=bits).fit(X_train, y_train)
    expected = roc_auc_score(y_test, peer.predict_proba(X_test)[:, 1])
    assert roc_auc_score(y_test, ours.predict_proba(X_test)[:, 1]) > expected - 0.015


def test_quantized_regressor_is_as_good() -> None:
    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    peer = HistGradientBoostingRegressor(max_iter=50, **PEER).fit(X_train, y_train)
    ours = BitGroveRegressor(n_estimators=50).fit(X_train, y_train)
    assert ours.score(X_test, y_test) > peer.score(X_test, y_test) - 0.08


def test_quantized_multiclass_is_as_good() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    peer = HistGradientBoostingClassifier(max_iter=20, **PEER).fit(X_train, y_train)
    ours = BitGroveClassifier(n_estimators=20).fit(X_train, y_train)
    assert ours.score(X_test, y_test) > peer.score(X_test, y_test) - 0.02
    peer_loss = log_loss(y_test, peer.predict_proba(X_test))
    assert log_loss(y_test, ours.predict_proba(X_test)) < 1.2 * peer_loss


JUDGES: dict[str, Any] = {
    "poisson": mean_poisson_deviance,
    "gamma": mean_gamma_deviance,
    "quantile": lambda y, predicted: mean_pinball_loss(y, predicted, alpha=0.8),
    "absolute_error": mean_absolute_error,
}


@pytest.mark.parametrize("bits", [4, None])
@pytest.mark.parametrize("loss", JUDGES)
def test_other_losses_are_as_good(loss: str, bits: int | None) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    log_mean = 0.5 * X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * X[:, 2] * X[:, 3]
    drawn = {"poisson": rng.poisson(np.exp(log_mean)), "gamma": rng.gamma(2.0, np.exp(log_mean))}
    y = drawn.get(loss, log_mean + rng.normal(size=4000)).astype(np.float64)
    ours = BitGroveRegressor(objective=loss, n_estimators=60, gradient_bits=bits)
    peer = HistGradientBoostingRegressor(loss=loss, max_iter=60, **PEER)
    if loss == "quantile":
        ours.set_params(quantile_alpha=0.8)
        peer.set_params(quantile=0.8)
    ours, peer = ours.fit(X[:3000], y[:3000]), peer.fit(X[:3000], y[:3000])
    found, expected, constant = (
        JUDGES[loss](y[3000:], predicted)
        for predicted in (
            ours.predict(X[3000:]),
            peer.predict(X[3000:]),
            np.full(1000, y[:3000].mean()),
        )
    )
    assert found < 1.02 * expected and expected < 0.9 * constant
