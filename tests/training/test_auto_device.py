"""device="auto": a GPU if there is one and it pays, the CPU otherwise; the model never tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import bitgrove as bg
from bitgrove import backends
from bitgrove.backends import choose_device
from bitgrove.model import predict
from bitgrove.model.predict import choose_gpu

MANY = 50_000
ROWS = SimpleNamespace(n_rows=MANY, n_features=20, device="cpu", columns=[np.zeros(1)])
LOSS = SimpleNamespace(family="rows", n_outputs=1)


def data(**changed: Any) -> Any:
    return SimpleNamespace(**{**vars(ROWS), **changed})


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "usable_gpu", lambda: "cuda:0")
    monkeypatch.setattr(backends, "free_bytes", lambda name: 2**30)
    monkeypatch.setattr(predict, "usable_gpu", lambda: "cuda:0")


def test_many_rows_go_to_a_gpu(gpu: None) -> None:
    loss: Any = LOSS
    assert choose_device("auto", ROWS, loss) == "cuda:0"  # type: ignore[arg-type]
    assert choose_device("auto", data(n_rows=MANY - 1), loss) == "cpu"
    assert choose_device("auto", data(device="cuda:3", n_rows=5), loss) == "cuda:3"
    for asked in ("cpu", "cuda:1", "reference"):
        assert choose_device(asked, data(), loss) == asked


def test_what_a_gpu_cannot_take_stays_on_the_cpu(gpu: None) -> None:
    own: Any = SimpleNamespace(family="given", n_outputs=1)
    many: Any = SimpleNamespace(family="rows", n_outputs=200)
    assert choose_device("auto", data(), own) == "cpu"
    assert choose_device("auto", data(n_rows=10**8), LOSS) == "cpu"  # type: ignore[arg-type]
    assert choose_device("auto", data(n_rows=10**5), many) == "cpu"
    assert choose_device("auto", bg.Dataset(csr_matrix((MANY, 20))), LOSS) == "cpu"  # type: ignore[arg-type]


def test_without_a_gpu_the_model_is_the_cpus(rng: np.random.Generator) -> None:
    X = rng.normal(size=(MANY, 2))
    y = (X[:, 0] > 0).astype(float)
    params = {"objective": "binary", "n_estimators": 2, "num_leaves": 4, "n_jobs": 1}
    models = [bg.train({**params, "device": d}, bg.Dataset(X, y)) for d in ("auto", "cpu")]
    assert models[0].to_bytes() == models[1].to_bytes()
    assert "device" not in models[0].params


def test_where_rows_are_predicted(gpu: None) -> None:
    few, many = np.zeros((10, 2)), np.zeros((40_000, 2))
    assert choose_gpu(many, None, "cpu", 100) is None
    assert choose_gpu(many, None, "cuda:1", 100) == "cuda:1"
    assert choose_gpu(many, "auto", "cpu", 100) == "cuda:0"
    assert choose_gpu(many, "cpu", "cuda:1", 100) is None
    for device in (None, "auto"):
        assert choose_gpu(few, device, "cuda:1", 100) is None
        assert choose_gpu(many, device, "cuda:1", 1) is None


def test_predictions_without_a_gpu(rng: np.random.Generator) -> None:
    X = rng.normal(size=(300, 3))
    model = bg.train({"objective": "regression", "n_estimators": 3}, bg.Dataset(X, X[:, 0]))
    np.testing.assert_array_equal(model.predict(X, device="auto"), model.predict(X))
    np.testing.assert_array_equal(model.predict_leaf(X, device="auto"), model.predict_leaf(X))
    with pytest.raises(bg.errors.ParameterError, match="'auto'"):
        model.predict(X, device="gpu")
