"""Models that exports and imports are tried on: trained ones of every kind, and random ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove.data.encoder import Encoder
from bitgrove.data.levels import Levels
from bitgrove.model.exchange.outgoing import cells_of
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from cases import CASES
from model_cases import random_tree

# One of each kind: links, outputs, averages, categories of few and many levels, missing values.
TRAINED = (
    "dart", "forest", "forest of classes", "early stopping", "regression weighted", "multiclass",
    "ranking", "quantiles", "poisson", "tweedie", "several targets", "several labels", "function",
    "categories", "categories multiclass", "categories of slopes multiclass", "text", "slope",
)  # fmt: skip


class Trained(NamedTuple):
    model: Model
    X: Any

    @property
    def table(self) -> NDArray[np.float64]:
        """What exported models read, with missing values and levels that nobody has seen."""
        table = np.array(self.model.exported_table(self.X), dtype=np.float64)
        rng = np.random.default_rng(1)
        known = [] if self.model.encoder is None else sorted(self.model.encoder.levels)
        table[:, known] = np.where(rng.random((len(table), len(known))) < 0.1, -1, table[:, known])
        table[:, known] = np.where(
            rng.random((len(table), len(known))) < 0.1, 64_000, table[:, known]
        )
        table[rng.random(table.shape) < 0.1] = np.nan
        return table

    def expected(self, table: NDArray[np.float64], **how: Any) -> NDArray[np.float64]:
        """What our model says of the rows of such a table."""
        return predicted(self.model, table, **how)


def predicted(model: Model, table: NDArray[np.float64], **how: Any) -> NDArray[np.float64]:
    """Our predictions for cells: they become the levels that they stand for."""
    frame = pd.DataFrame(table, columns=model.feature_names)
    for f, levels in (model.encoder.levels if model.encoder else {}).items():
        value = dict(zip(cells_of(levels).tolist(), levels.values.tolist(), strict=True))
        unseen = "?" if levels.kind == "text" else 1e15
        found = [None if np.isnan(c) else value.get(int(c), unseen) for c in table[:, f].tolist()]
        dtype = object if levels.kind == "text" else np.float64
        frame[model.feature_names[f]] = pd.Series(found, dtype=dtype)
    return model.predict(frame, **how)


@cache
def trained(name: str) -> Trained:
    if name == "text":
        return _text()
    case = CASES["binary full precision" if name == "slope" else name]()
    if name == "slope":
        case.params["sigmoid"] = 2.5
    case.X = case.X[:300] if case.group is None else case.X
    if case.group is None:
        case.y, case.valid = case.y[:300], None
        case.weight = None if case.weight is None else case.weight[:300]
        case.params = {k: v for k, v in case.params.items() if k != "early_stopping_rounds"}
        case.params["n_estimators"] = 5
    if name == "early stopping":
        case = CASES[name]()
    return Trained(case.train(), case.X)


def _text() -> Trained:
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame({
        "a b": rng.normal(size=n),
        "city": rng.choice(["", "bern", "é", "x=y", '"q"'], n),
        "whole": pd.Categorical(rng.integers(-3, 4, n) * 2**40),
        "real": pd.Categorical(rng.integers(0, 5, n) / 4),
        "small": pd.Categorical(rng.integers(3, 9, n)),
    })  # fmt: skip
    y = X["city"].str.len() + X["real"].astype(float) + X["whole"].cat.codes % 3 + X["a b"]
    y = np.digitize(y + X["small"].cat.codes % 2, [1.0, 3.0])
    rules = {"min_data_per_group": 5, "cat_smooth": 0.0, "cat_l2": 0.0, "max_cat_to_onehot": 1}
    fitted = bg.BitGroveClassifier(n_estimators=4, num_leaves=8, min_child_samples=5, **rules)
    names = np.array(["no", "yes", "é\n=maybe"])
    return Trained(fitted.fit(X, names[y]).model_, X)


# Thresholds that float32 has and has not, the ends of both types, and those that all rows pass.
_ODD = np.array([0.0, -0.0, 0.1, np.float32(0.1), 1.0 + 2**-30, 3.4e38, 3.5e38, -3.5e38, 1e-46,
                 1e300, np.inf, -np.inf, 2.0**-149, -(2.0**-150)])  # fmt: skip


def random_model(seed: int, objective: str = "regression", n_outputs: int = 1) -> Model:
    """Trees of any shape over numbers and categories; leaf values that float32 adds exactly."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 6))
    levels = {}
    for f in np.flatnonzero(rng.random(n_features) < 0.4).tolist():
        n = int(rng.integers(1, 255 if rng.random() < 0.2 else 12))
        text = np.array(sorted({f"level {i}" for i in range(n)}), dtype=object)
        whole = np.sort(rng.choice(1000, n, replace=False)).astype(np.int64)
        levels[f] = Levels("text", text) if rng.random() < 0.5 else Levels("integer", whole)
    encoder = Encoder(n_features, levels) if levels else None
    n_trees = int(rng.integers(0, 4)) * n_outputs
    return Model(
        objective=objective,
        trees=[_random_tree(rng, n_features, levels) for _ in range(n_trees)],
        base_score=rng.integers(-20, 20, n_outputs) / 8,
        feature_names=[f"x{i}" for i in range(n_features)],
        params={"num_class": n_outputs} if objective == "multiclass" else {},
        encoder=encoder,
    )


def _random_tree(rng: np.random.Generator, n_features: int, levels: dict[int, Levels]) -> Tree:
    n = int(rng.integers(0, 12))
    tree = random_tree(rng, n, n_features)
    usual = np.round(rng.normal(size=n), 2)
    threshold = np.where(rng.random(n) < 0.5, rng.choice(_ODD, n), usual)
    bits = np.zeros((n, 256), dtype=np.bool_)
    for i, f in enumerate(tree.feature.tolist()):
        if f in levels:
            n_levels = len(levels[f])
            bits[i, :n_levels] = rng.random(n_levels) < 0.5
            bits[i, n_levels] = tree.default_left[i]
            bits[i, 0] |= not bits[i].any()
    by_set = bits.any(axis=1)
    words = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return replace(
        tree,
        threshold=np.where(by_set, 0.0, threshold),
        split_bin=np.where(by_set, 0, tree.split_bin).astype(np.uint8),
        leaf_value=rng.integers(-100, 100, n + 1) / 16,
        left_bins=words if by_set.any() else tree.left_bins,
    )


def random_rows(model: Model, seed: int, n_rows: int = 60) -> NDArray[np.float64]:
    """Cells of the model's table: numbers near thresholds, levels, unseen and missing ones."""
    rng = np.random.default_rng(seed)
    table = np.round(rng.normal(size=(n_rows, model.n_features)), 2)
    odd = rng.random(table.shape) < 0.5
    with np.errstate(over="ignore"):
        near = _ODD.astype(np.float32)
        near = np.concatenate([near, np.nextafter(near, np.float32(9)), np.float32([3e38, -3e38])])
    near = near[np.isfinite(near)]
    table[odd] = rng.choice(near, int(odd.sum()))
    for f, levels in (model.encoder.levels if model.encoder else {}).items():
        cells = levels.values if levels.kind == "integer" else np.arange(len(levels))
        table[:, f] = rng.choice(np.append(cells, 2000), n_rows)
    table[rng.random(table.shape) < 0.2] = np.nan
    with np.errstate(over="ignore"):
        return table.astype(np.float32).astype(np.float64)
