"""What no model file could hold is refused before the first tree grows, not after the last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.errors import DataError, TrainingError

X = np.arange(60.0)[:, None]
Y = np.arange(60) % 2
FEW = {"n_estimators": 2, "min_child_samples": 1}


def grown_trees(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled by trainings that get as far as a tree."""
    from bitgrove.training.booster import Booster

    seen: list[int] = []
    boost = Booster.boost

    def spy(self: Booster, iteration: int) -> Any:
        seen.append(iteration)
        return boost(self, iteration)

    monkeypatch.setattr(Booster, "boost", spy)
    return seen


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a\ud800"], "feature_names: 'a\\\\ud800' is not Unicode text"),
        (["n" * 2**25], "a model of this training could not be saved: names and .* 3355[0-9]* b"),
        (["é" * 2**22 + "n" * 1000], "names and parameters take 2516[0-9]* bytes as JSON"),
    ],
    ids=["surrogate", "32 MiB", "24 MiB"],
)
def test_names(names: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = grown_trees(monkeypatch)
    with pytest.raises(DataError, match=message):
        bg.train({"objective": "binary", **FEW}, bg.Dataset(X, Y, feature_names=names))
    assert not seen


def test_names_as_long_as_allowed() -> None:
    names = ["n" * (24 * 2**20 - 5000)]
    model = bg.train({"objective": "binary", **FEW}, bg.Dataset(X, Y, feature_names=names))
    labels = ["a", "b" * (2**23 - 10)]
    assert bg.Model.from_bytes(model.with_classes(labels).to_bytes()).classes == labels


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y.astype(np.longdouble) + np.longdouble(0.1), "Unknown label type|classes of type float"),
        (Y.astype(np.longdouble), "y: classes of type float(128|96) cannot be kept"),
        (np.array(["a\ud800", "b"] * 30, dtype=object), "y: a class label is not Unicode text"),
        (np.array(["a", "b" * 2**23] * 30, dtype=object), "y: the class labels take more than"),
    ],
    ids=["thirds", "longdouble", "surrogate", "8 MiB"],
)
def test_labels(y: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if y.dtype == np.float64:
        pytest.skip("a long double is a double here")
    seen = grown_trees(monkeypatch)
    with pytest.raises(ValueError, match=message):
        bg.BitGroveClassifier(**FEW).fit(X, y)
    assert not seen


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("objective", ["mae", "regression", "poisson"])
def test_leaves_that_overflow_are_an_error_that_names_the_parameters(
    objective: str, device: str
) -> None:
    params = {"objective": objective, "learning_rate": 1000, "reg_lambda": 1e-308,
              "device": device, "n_estimators": 40, "min_child_samples": 1}  # fmt: skip
    with pytest.raises(TrainingError, match="lower learning_rate"):
        bg.train(params, bg.Dataset(X, Y + 0.5))
