"""Random parameters on random tables: reference, CPU and ranks give equal digests or one error."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import BitgroveError
from bitgrove.objectives import OBJECTIVES
from cases import Case
from objective_cases import make_group, make_labels, make_objective, settings_of

_TYPES = ["<f4", "<f8", ">f4", ">f8", "<i2", "<i8", ">i4", "|u1", "|b1", "<f2", "O"]
_CHOICES: dict[str, list[Any]] = {
    "num_leaves": [2, 3, 7, 31],
    "max_depth": [1, 2, 3],
    "min_child_samples": [1, 2, 5, 50],
    "min_child_weight": [0.0, 1e-3, 1.0, 100.0],
    "min_split_gain": [0.1, 5.0],
    "reg_lambda": [1e-308, 0.5, 10.0, 1e30],
    "reg_alpha": [0.1, 1e10],
    "learning_rate": [1e-9, 0.5, 1.0, 1000.0],
    "subsample": [1e-9, 0.3, 0.9],
    "colsample_bytree": [0.01, 0.5],
    "colsample_bynode": [0.5],
    "max_bin": [2, 3, 16, 255],
    "gradient_bits": [2, 3, 5, 8, None],
    "rounding": ["nearest"],
    "refit_leaves": [False],
    "gradient_scale": ["max"],
    "max_delta_step": [0.0, 0.1],
    "boosting_type": ["dart", "rf"],
    "data_sample_strategy": ["goss"],
    "path_smooth": [1.0],
    "extra_trees": [True],
    "random_state": [1, 2**62],
    "bin_sample_rows": [5, 40],
}


def _table(rng: np.random.Generator, n_rows: int) -> NDArray[Any]:
    n_features = int(rng.integers(1, 5))
    X = np.round(rng.normal(size=(n_rows, n_features)) * rng.choice([1.0, 3.0, 100.0]), 1)
    dtype = np.dtype(str(rng.choice(_TYPES)))
    if dtype.kind in "fO":
        if rng.random() < 0.5:
            X[rng.random(X.shape) < rng.choice([0.1, 0.9])] = np.nan
        if rng.random() < 0.2:
            X[rng.random(X.shape) < 0.1] = rng.choice([np.inf, -np.inf, 3e38, 1e-45])
        if rng.random() < 0.1:
            X[:, 0] = np.nan
    else:
        X = np.clip(np.abs(X), 0, 100)
    if rng.random() < 0.2:
        X[:, -1] = 1
    with np.errstate(all="ignore"):
        X = X.astype(dtype)
    shape = int(rng.integers(4))  # strides
    if shape == 0:
        return np.asfortranarray(X)
    if shape == 1:
        return np.repeat(X, 2, axis=0)[::2]
    if shape == 2:
        return X[::-1][::-1]
    return X


def random_case(rng: np.random.Generator) -> Case:
    n_rows = int(rng.choice([1, 2, 3, 10, 40, 90]))
    name = str(rng.choice([name for name in OBJECTIVES if name != "custom"]))
    objective = make_objective(name)
    X = _table(rng, n_rows)
    y = make_labels(objective, rng.normal(size=n_rows) * rng.choice([1.0, 1e3]))
    if rng.random() < 0.1:
        y = np.full(n_rows, y[0])
    weight = None
    if rng.random() < 0.4:
        weight = rng.choice([0.0, 1e-40, 0.25, 0.25, 1.0, 1.0, 1.0, 7.0, 1e30], n_rows)
    names = rng.choice([*_CHOICES], int(rng.integers(0, 6)), replace=False)
    chosen = {str(n): _CHOICES[n][int(rng.integers(len(_CHOICES[n])))] for n in names}
    params = {**settings_of(name), "objective": name, "n_estimators": 3, "num_leaves": 7,
              "min_child_samples": 2, **chosen}  # fmt: skip
    group = make_group(n_rows, int(rng.integers(1000))) if objective.needs_queries else None
    return Case(params, X, y, weight, group)


def _outcome(train: Any) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "model", train()
    except BitgroveError as error:
        return type(error).__name__, str(error)


def one(rng: np.random.Generator) -> bool:
    """Whether a model came of it; AssertionError where two places disagree."""
    case = random_case(rng)
    n_ranks, n_jobs = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    simd = str(rng.choice(["scalar", "avx2", "avx512"]))
    expected = _outcome(lambda: case.train(device="reference").digest())
    before = os.environ.get("BITGROVE_SIMD")
    os.environ["BITGROVE_SIMD"] = simd
    try:
        found = _outcome(lambda: case.train(n_jobs=n_jobs).digest())
    finally:
        del os.environ["BITGROVE_SIMD"]
        if before is not None:
            os.environ["BITGROVE_SIMD"] = before
    assert found == expected, (case.params, simd, n_jobs, expected, found)

    def shards() -> str:
        return " ".join({model.digest() for model in case.train_on_shards(n_ranks, n_jobs=1)})

    digests = _outcome(shards)
    same = digests == expected if expected[0] == "model" else digests[0] != "model"
    assert same, (case.params, n_ranks, expected, digests)
    return expected[0] == "model"
