"""Extreme but valid data: trains, to the same finite model on the reference and on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from cases import signal, table

FAST: dict[str, Any] = {"n_estimators": 3, "num_leaves": 7, "min_child_samples": 2, "n_jobs": 1}
N = 60
X = table(N, 3, 20)
Y = signal(X, 20)
BINARY = (Y > 0).astype(float)


def train(X: Any, y: Any, weight: Any = None, **params: Any) -> bg.Model:
    return bg.train({**FAST, "objective": "regression", **params}, bg.Dataset(X, y, weight=weight))


def changed(values: Any, value: float) -> Any:
    """A copy whose fifth row is `value`."""
    copy = np.array(values, dtype=float)
    copy[5] = value
    return copy


def spread(values: Any, top: float) -> Any:
    """Values scaled so that the largest magnitude is `top`."""
    return np.asarray(values) / np.abs(values).max() * top


HEAVY = np.where(np.arange(N) % 2 == 0, 1e30, 1e-30)
# y, weights, X, whether the first tree must have found a split
EXTREMES: dict[str, tuple[Any, Any, Any, bool]] = {
    "y 1e38": (spread(Y, 1e38), None, X, True),
    "y plus and minus 1e38": (np.where(Y > 0, 1e38, -1e38), None, X, True),
    "y 1e-37": (spread(Y, 1e-37), None, X, True),
    "y denormal as float32": (spread(Y, 1e-42), None, X, False),
    "y denormal": (spread(Y, 1e-315), None, X, False),
    "y constant": (np.full(N, 7.5), None, X, False),
    "one outlier": (changed(Y, 1e38), None, X, False),
    "weights 1e38": (spread(Y, 1.0), np.full(N, 1e38), X, True),
    "weights from 1e-37 to 1e37": (Y, np.logspace(-37, 37, N), X, False),
    "weights 1e30 and 1e-30": (Y, HEAVY, X, False),
    "weights 1e-37": (Y, np.full(N, 1e-37), X, False),
    "one weight above float32's denormals": (Y, changed(np.full(N, 1e-40), 1.0), X, False),
    "weights 1e-38 times y 1e38": (spread(Y, 1e38), np.full(N, 2e-38), X, False),
    "X 1e38": (Y, None, spread(X, 1e38), True),
    "X 1.7e308": (Y, None, spread(X, 1.7e308), True),
    "X float32 3e38": (Y, None, spread(X, 3e38).astype(np.float32), True),
    "X denormal": (Y, None, spread(X, 1e-318), True),
    "X float32 denormal": (Y, None, spread(X, 1e-43).astype(np.float32), True),
    "X infinite": (Y, None, np.where(np.abs(X) > 1, np.copysign(np.inf, X), X), True),
    "X constant": (Y, None, np.ones_like(X), False),
    "X all missing": (Y, None, np.full_like(X, np.nan), False),
    "X one column all missing": (Y, None, np.column_stack([X[:, 0], np.full(N, np.nan)]), True),
    "one row": (Y[:1], None, X[:1], False),
    "two rows": (Y[:2], None, X[:2], False),
}  # fmt: skip


@pytest.mark.parametrize("bits", [2, 8, None])
@pytest.mark.parametrize("kind", EXTREMES)
def test_extreme_data_trains_to_the_same_finite_model(kind: str, bits: int | None) -> None:
    y, weight, X, learns = EXTREMES[kind]
    model = train(X, y, weight=weight, gradient_bits=bits)
    oracle = train(X, y, weight=weight, gradient_bits=bits, device="reference")
    assert model.digest() == oracle.digest()
    prediction = model.predict(X)
    assert np.isfinite(prediction).all()
    # Steps of 0.1 towards means of targets cannot leave their range by more than rounding.
    room = 1e-6 * np.abs(y).max()
    assert (prediction >= y.min() - room).all() and (prediction <= y.max() + room).all()
    assert not learns or model.trees[0].n_splits > 0


@pytest.mark.parametrize("labels", ["one class", "all but one of a class", "heavy classes"])
def test_extreme_classes(labels: str) -> None:
    targets = {"one class": np.ones(N), "all but one of a class": changed(np.ones(N), 0.0)}
    y = targets.get(labels, BINARY)
    weight = np.where(BINARY > 0, 1e30, 1e-30) if labels == "heavy classes" else None
    places = [
        train(X, y, objective="binary", weight=weight, device=d) for d in ("cpu", "reference")
    ]
    assert places[0].digest() == places[1].digest()
    chance = places[0].predict(X)
    assert ((chance > 0.5) & (chance <= 1.0)).all()


@pytest.mark.parametrize("bits", [2, 8, None])
@pytest.mark.parametrize("top", [1.0, 1e38])
def test_many_equal_rows_with_extreme_gradients_do_not_overflow(
    bits: int | None, top: float
) -> None:
    """Two heaps of equal rows: every gradient is the largest integer, every sum the largest sum."""
    side = np.arange(140_000) % 2 == 0
    params = {"gradient_bits": bits, "learning_rate": 1.0, "n_estimators": 1}
    y = np.where(side, top, -top)
    model = train(side[:, None].astype(np.float32), y, **params)
    tree = model.trees[0]
    assert tree.split_rows.tolist() == [140_000] and sorted(tree.leaf_rows) == [70_000, 70_000]
    np.testing.assert_allclose(model.predict([[0.0], [1.0]]), [-top, top], rtol=1e-6)
    reference = train(side[:, None].astype(np.float32), y, device="reference", **params)
    assert model.digest() == reference.digest()


@pytest.mark.parametrize("sigmoid", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("gains", [None, [0, 1e-30, 1, 1e30], [0, 0, 0, 0]])
def test_extreme_ranking(sigmoid: float, gains: Any) -> None:
    grade, weight = np.clip(np.floor(Y + 2), 0, 3), np.logspace(-9, 9, N)
    params = {**FAST, "objective": "lambdarank", "sigmoid": sigmoid, "label_gain": gains}
    params["min_child_weight"] = 0.0
    data = bg.Dataset(X, grade, weight=weight, group=[1, 39, 20])
    cpu, oracle = (bg.train({**params, "device": d}, data) for d in ("cpu", "reference"))
    assert cpu.digest() == oracle.digest()
    assert np.isfinite(cpu.predict(X)).all()
    assert (cpu.trees[0].n_splits > 0) == (gains != [0, 0, 0, 0])


def test_gradients_beyond_float32_are_an_error() -> None:
    for device in ("cpu", "reference"):
        with pytest.raises(
            bg.TrainingError, match="gradients overflowed float32; scale the target"
        ):
            train(X, spread(Y, 1e38), weight=np.full(N, 1e38), device=device)
        with pytest.raises(bg.TrainingError, match="lower learning_rate"):
            train(X, Y, learning_rate=1000.0, n_estimators=50, device=device)
