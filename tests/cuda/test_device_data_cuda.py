"""Tables that lie on the GPU already: the same model as from the host, and clear errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.errors import DataError, DataTypeError
from cases import signal, table

BINARY = {"objective": "binary", "n_estimators": 3, "num_leaves": 15, "random_state": 3}


@pytest.fixture
def cupy(backend: Any) -> Any:
    return pytest.importorskip("cupy")


def labels(X: Any) -> Any:
    return (signal(np.asarray(X, dtype=np.float64), 1) > 0.75).astype(float)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
def test_types_and_orders(cupy: Any, backend: Any, dtype: str, order: Any) -> None:
    X = np.asarray(np.abs(table(900, 6, 1)) * 9, dtype=dtype, order=order)
    y = labels(X)
    model = bg.train(
        {**BINARY, "device": backend.name}, bg.Dataset(cupy.asarray(X, order=order), y)
    )
    assert model.to_bytes() == bg.train(BINARY, bg.Dataset(X, y)).to_bytes()  # fingerprints, too


def test_missing_values_views_and_samples(cupy: Any, backend: Any) -> None:
    X = table(2000, 9, 2, missing=0.2)
    y, params = labels(X), {**BINARY, "bin_sample_rows": 500}
    device = cupy.asarray(X)
    for rows, columns in ((slice(None), slice(None)), (slice(None, None, 2), slice(1, 8, 3))):
        here = bg.train(params, bg.Dataset(X[rows, columns], y[rows]))
        there = {**params, "device": backend.name}
        assert bg.train(there, bg.Dataset(device[rows, columns], y[rows])).digest() == here.digest()


class Interface:
    """Nothing but __cuda_array_interface__."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self.keep = array


def test_other_libraries(cupy: Any, backend: Any) -> None:
    X = table(700, 4, 3).astype(np.float32)
    y = labels(X)
    digest = bg.train(BINARY, bg.Dataset(X, y)).digest()
    given = [Interface(cupy.asarray(X))]
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        given.append(torch.from_numpy(X).to(backend.name))
    for array in given:
        assert bg.train({**BINARY, "device": backend.name}, bg.Dataset(array, y)).digest() == digest


def test_labels_weights_and_validation_set(cupy: Any, backend: Any) -> None:
    X = table(1500, 5, 4, missing=0.1)
    y, weight = labels(X), np.random.default_rng(0).integers(0, 4, 1500).astype(float)
    params = {**BINARY, "n_estimators": 40, "early_stopping_rounds": 3, "learning_rate": 0.5}
    models = []
    for to, device in ((np.asarray, "cpu"), (cupy.asarray, backend.name)):
        data = bg.Dataset(to(X[:1000]), to(y[:1000]), weight=to(weight[:1000]))
        valid = bg.Dataset(to(X[1000:]), to(y[1000:]), weight=to(weight[1000:]))
        models.append(bg.train({**params, "device": device}, data, valid_sets=valid))
    assert models[0].digest() == models[1].digest()
    assert models[0].best_iteration == models[1].best_iteration
    results = [m.info.evals_result for m in models if m.info is not None]
    assert results[0] == results[1]


def test_estimators(cupy: Any, backend: Any) -> None:
    X = table(600, 5, 5)
    y = labels(X)
    host = bg.BitGroveClassifier(n_estimators=4).fit(X, y)
    device = bg.BitGroveClassifier(n_estimators=4, device=backend.name)
    device.fit(cupy.asarray(X), cupy.asarray(y))
    assert device.n_features_in_ == 5
    for name in ("predict", "predict_proba"):
        found = getattr(device, name)(cupy.asarray(X))
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, getattr(host, name)(X))


def test_wrong_device(cupy: Any, backend: Any) -> None:
    X = cupy.zeros((10, 2))
    with pytest.raises(DataError, match=r"X lies on cuda:0, but this runs on cpu.*device='cuda:0'"):
        bg.train(BINARY, bg.Dataset(X, np.arange(10) % 2))
    data, valid = bg.Dataset(np.zeros((10, 2)), np.arange(10) % 2), bg.Dataset(X, np.zeros(10))
    with pytest.raises(DataError, match="X lies on"):
        bg.train(BINARY, data, valid_sets=valid)


def test_bad_tables(cupy: Any, backend: Any) -> None:
    for bad, error in (
        (cupy.zeros(5), DataError),
        (cupy.zeros((5, 0)), DataError),
        (cupy.zeros((5, 2), dtype=complex), DataTypeError),
    ):
        with pytest.raises(error):
            bg.Dataset(bad)
