"""Random parameters on random tables: reference, CPU, ranks, batches and files give equal digests.

Or an error from all of them.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stream_cases import train as batched

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
    "uniform_drop": [True],
    "xgboost_dart_mode": [True],
    "skip_drop": [0.0, 1.0],
    "data_sample_strategy": ["goss", "mvs"],
    "pos_bagging_fraction": [0.5],
    "bagging_by_query": [True],
    "scale_pos_weight": [1e-3, 7.0],
    "boost_from_average": [False],
    "packed": [False],
    "frontier_alpha": [0.25, 1.0],
    "max_cat_levels": [1, 3],
    "max_cat_to_onehot": [1, 20],
    "max_cat_threshold": [1, 2],
    "cat_smooth": [0.0, 1.0],
    "cat_l2": [0.0],
    "min_data_per_group": [1, 5],
    "monotone_constraints_method": ["intermediate"],
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


def _with_levels(rng: np.random.Generator, X: NDArray[Any]) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Some columns become categories: few or many levels, as numbers or as text."""
    chosen = tuple(f for f in range(X.shape[1]) if rng.random() < 0.5)
    for f in chosen:
        X[:, f] = rng.integers(0, int(rng.choice([1, 2, 5, 30])), len(X))
        if X.dtype == object and rng.random() < 0.5:
            X[:, f] = rng.choice(["a", "bb", "ü", ""], len(X))
    return X, chosen


def _rules(rng: np.random.Generator, n_features: int, levels: tuple[int, ...]) -> dict[str, Any]:
    """Rules of features, which need to know how many there are."""
    rules: dict[str, Any] = {}
    if rng.random() < 0.15:
        signs = rng.integers(-1, 2, n_features)
        signs[[*levels]] = 0
        rules["monotone_constraints"] = signs.tolist()
    if rng.random() < 0.1:
        groups = [sorted({*rng.integers(0, n_features, 2).tolist()}) for _ in range(2)]
        rules["interaction_constraints"] = groups if rng.random() < 0.8 else "no_interactions"
    if rng.random() < 0.1:
        rules["feature_contri"] = rng.choice([0.0, 0.5, 1.0, 2.0], n_features).tolist()
    return rules


def random_case(rng: np.random.Generator) -> Case:
    n_rows = int(rng.choice([1, 2, 3, 10, 40, 90]))
    name = str(rng.choice([*OBJECTIVES]))
    objective = make_objective(name)
    X, categories = _table(rng, n_rows), ()
    if rng.random() < 0.3:
        X, categories = _with_levels(rng, X)
    y = make_labels(objective, rng.normal(size=n_rows) * rng.choice([1.0, 1e3]))
    if rng.random() < 0.1:
        y = np.full(n_rows, y[0])
    weight = None
    if rng.random() < 0.4:
        weight = rng.choice([0.0, 1e-40, 0.25, 0.25, 1.0, 1.0, 1.0, 7.0, 1e30], n_rows)
    names = rng.choice([*_CHOICES], int(rng.integers(0, 6)), replace=False)
    chosen = {str(n): _CHOICES[n][int(rng.integers(len(_CHOICES[n])))] for n in names}
    params = {**settings_of(name), "objective": name, "n_estimators": 3, "num_leaves": 7,
              "min_child_samples": 2, **chosen, **_rules(rng, X.shape[1], categories)}  # fmt: skip
    group = make_group(n_rows, int(rng.integers(1000))) if objective.needs_queries else None
    return Case(params, X, y, weight, group, categories=categories)


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

    places = {"ranks": shards, "batches": lambda: batched(case).digest()}
    for place in ["ranks", *(["batches"] if rng.random() < 0.3 else [])]:
        digests = _outcome(places[place])
        same = digests == expected if expected[0] == "model" else digests[0] != "model"
        assert same, (case.params, place, n_ranks, expected, digests)
    return expected[0] == "model"
