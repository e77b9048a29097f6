"""Training cases that every place (backend, thread count, shard count) must agree on.

Each case is small enough for the NumPy reference and covers one way the bits could drift apart:
an objective, missing values, weights, sampling, early stopping, widths, odd shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import bitgrove as bg
from bitgrove.distributed import run_threads
from bitgrove.distributed.comm import Comm
from category_tables import table_of_levels


@dataclass
class Case:
    """One training problem; `valid` is (X, y, group) or None."""

    params: dict[str, Any]
    X: Any  # an array, or a sparse one
    y: NDArray[Any]
    weight: NDArray[Any] | None = None
    group: NDArray[np.int64] | None = None
    valid: tuple[NDArray[Any], NDArray[Any], NDArray[np.int64] | None] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    categories: tuple[int, ...] = ()  # columns of X that are

    @property
    def kinds(self) -> dict[str, Any]:
        """What a Dataset is told of the columns."""
        return {"categorical_feature": self.categories or "auto"}

    def train(self, **changes: Any) -> bg.Model:
        """The model of the whole data, with parameters that must not change it."""
        return self._train(slice(None), self.group, None, changes)

    def train_on_shards(self, n_ranks: int, **changes: Any) -> list[bg.Model]:
        """Every rank's model when the rows are dealt to n_ranks threads."""
        return run_threads(n_ranks, lambda comm: self.train_shard(comm, "uneven", changes))

    def train_shard(self, comm: Comm, dealing: str, changes: dict[str, Any]) -> bg.Model:
        """This rank's model; dealing is "uneven", "even" or "empty" (one rank has no rows)."""
        borders = self._borders(comm.size, dealing)
        rows = slice(borders[comm.rank], borders[comm.rank + 1])
        group = self.group
        if group is not None:
            ends = np.cumsum(group)
            group = group[(ends > rows.start) & (ends <= rows.stop)]
        return self._train(rows, group, comm, changes)

    def _borders(self, n_ranks: int, dealing: str = "uneven") -> list[int]:
        """Where shards start and end; ranking shards hold whole queries."""
        n = len(self.y)
        if dealing == "uneven":
            wanted = [n * r * (r + 1) // (n_ranks * (n_ranks + 1)) for r in range(n_ranks + 1)]
        else:
            wanted = [n * r // n_ranks for r in range(n_ranks + 1)]
        if dealing == "empty":
            wanted[1] = 0
        if self.group is not None:
            ends = np.concatenate([[0], np.cumsum(self.group)])
            wanted = [int(ends[np.searchsorted(ends, w)]) for w in wanted]
        return wanted

    def _train(
        self,
        rows: slice,
        group: NDArray[np.int64] | None,
        comm: Comm | None,
        changes: dict[str, Any],
    ) -> bg.Model:
        weight = None if self.weight is None else self.weight[rows]
        dataset = bg.Dataset(self.X[rows], self.y[rows], weight=weight, group=group, **self.kinds)
        valid = None
        if self.valid is not None:
            X, y, valid_group = self.valid
            if comm is not None and valid_group is None:  # ranks share the validation rows too
                part = np.array_split(np.arange(len(y)), comm.size)[comm.rank]
                X, y = X[part], y[part]
            elif comm is not None:
                return self._train_ranked(dataset, comm, changes)
            valid = bg.Dataset(X, y, group=valid_group)
        params = {"n_jobs": 2, **self.params, **changes}
        return bg.train(params, dataset, valid_sets=valid, comm=comm)

    def _train_ranked(self, dataset: bg.Dataset, comm: Comm, changes: dict[str, Any]) -> bg.Model:
        assert self.valid is not None and self.valid[2] is not None
        X, y, group = self.valid
        queries = np.array_split(np.arange(len(group)), comm.size)[comm.rank]
        starts = np.cumsum(group) - group
        rows = slice(int(starts[queries[0]]), int(starts[queries[-1]] + group[queries[-1]]))
        valid = bg.Dataset(X[rows], y[rows], group=group[queries])
        params = {"n_jobs": 2, **self.params, **changes}
        return bg.train(params, dataset, valid_sets=valid, comm=comm)


def table(n_rows: int, n_features: int, seed: int, missing: float = 0.0) -> NDArray[np.float64]:
    """Columns of many kinds: normal, skewed, few values, heavy zero, missing at random.

    Everything is a multiple of 2^-10 made by exact operations: the same on every processor.
    """
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_features)) * 1024) / 1024
    X[:, 1::4] = X[:, 1::4] ** 2
    X[:, 2::4] = np.floor(3 * X[:, 2::4])
    X[:, 3::4] = np.where(X[:, 3::4] < 0.5, 0.0, X[:, 3::4])
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


def signal(X: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    Z = np.nan_to_num(X, nan=0.75)
    noise = np.random.default_rng(seed + 1).normal(size=len(X))
    wave = np.abs(Z[:, 2 % X.shape[1]] % 2 - 1)
    target = Z[:, 0] - 0.5 * Z[:, 1 % X.shape[1]] + 2 * wave + 0.5 * noise
    return np.round(target * 1024) / 1024


def base_params(objective: str, **more: Any) -> dict[str, Any]:
    return {
        "objective": objective,
        "n_estimators": 6,
        "num_leaves": 15,
        "min_child_samples": 5,
        "random_state": 7,
        **more,
    }


def _binary(bits: int | None, seed: int = 0, **more: Any) -> Case:
    X = table(900, 7, seed, missing=0.05)
    return Case(
        base_params("binary", gradient_bits=bits, **more), X, (signal(X, seed) > 0.75).astype(float)
    )


def _regression(weighted: bool, **more: Any) -> Case:
    X = table(800, 5, 3)
    weight = np.random.default_rng(3).integers(1, 1000, size=800) / 256 if weighted else None
    return Case(base_params("regression", **more), X, signal(X, 3), weight=weight)


def _heavy_tail() -> Case:
    X = table(800, 5, 4)
    y = signal(X, 4) + np.round(1024 / np.random.default_rng(5).normal(size=800)) / 1024
    return Case(base_params("regression", gradient_scale="robust", gradient_bits=3), X, y)


def _multiclass() -> Case:
    X = table(700, 6, 5, missing=0.1)
    y = np.digitize(signal(X, 5), [0.0, 1.0, 2.0]).astype(float)
    return Case(base_params("multiclass", n_estimators=3, gradient_bits=3), X, y)


def _several_classes(**more: Any) -> Case:
    """With a validation set, whose scores go through every change of older trees."""
    case = _multiclass()
    other = table(200, 6, 55, missing=0.1)
    case.valid = (other, np.digitize(signal(other, 55), [0.0, 1.0, 2.0]).astype(float), None)
    case.params |= {"n_estimators": 5, **more}
    return case


def _rare_class() -> Case:
    """One row in 300 is of the last class: its leaves would step by hundreds and are bounded."""
    case = _multiclass()
    case.X, case.y = table(1500, 6, 14), np.zeros(1500)
    case.y[case.X[:, 0] > 0.5] = 1.0
    case.y[np.argsort(case.X[:, 1])[:5]] = 2.0
    case.params |= {"n_estimators": 4, "min_child_samples": 2}
    return case


def _ranking(valid: bool = False, **more: Any) -> Case:
    rng = np.random.default_rng(6)
    group = rng.integers(1, 25, size=50)
    X = table(int(group.sum()), 6, 6)
    y = np.clip(np.floor(signal(X, 6)), 0, 4)
    case = Case(base_params("lambdarank", gradient_bits=5, **more), X, y, group=group)
    if valid:
        group = rng.integers(2, 20, size=20)
        X = table(int(group.sum()), 6, 60)
        case.valid = (X, np.clip(np.floor(signal(X, 60)), 0, 4), group)
        case.params |= {"early_stopping_rounds": 2, "n_estimators": 12}
    return case


def _early_stopping() -> Case:
    case = _binary(3, seed=8, early_stopping_rounds=3, n_estimators=40, learning_rate=0.4)
    X = table(300, 7, 9, missing=0.05)
    case.valid = (X, (signal(X, 9) > 0.75).astype(float), None)
    case.params["eval_metric"] = ["auc", "logloss"]
    return case


def _wide() -> Case:
    X = table(300, 70, 10)
    return Case(base_params("regression", gradient_bits=2, n_estimators=3), X, signal(X, 10))


def _tall_narrow() -> Case:
    X = table(9000, 1, 11)
    return Case(
        base_params("binary", gradient_bits=2, num_leaves=31), X, (X[:, 0] > 0.3).astype(float)
    )


def _few_values() -> Case:
    """One-hot and other columns of few values, which share tile columns; some of one value only.

    The validation rows miss values where the training rows have all.
    """
    rng = np.random.default_rng(12)

    def rows(n: int) -> NDArray[np.float64]:
        X = np.zeros((n, 60))
        X[:, 0] = np.round(rng.normal(size=n) * 1024) / 1024
        X[np.arange(n), 1 + rng.integers(0, 40, size=n)] = 1.0
        X[:, 41:50] = rng.integers(0, [2, 2, 3, 3, 4, 5, 7, 16, 60], size=(n, 9))
        X[:, 50:54] = np.where(rng.random((n, 4)) < 0.1, np.nan, X[:, 41:45])
        X[:, 55:] = rng.random((n, 5)) < 0.03
        return X

    X, other = rows(1200), rows(300)
    other[:, 5:45][rng.random((300, 40)) < 0.05] = np.nan
    target = [x[:, 0] + x[:, 1:9].sum(axis=1) + x[:, 46] / 4 for x in (X, other)]
    labels = [np.digitize(np.nan_to_num(t), [0.5, 1.5]).astype(float) for t in target]
    params = base_params("multiclass", n_estimators=8, gradient_bits=2, early_stopping_rounds=3)
    return Case(params, X, labels[0], valid=(other, labels[1], None))


def _slopes(objective: str, **more: Any) -> Case:
    """The first category is split by sets, and is a statistic too; the second is that alone."""
    X, _ = table_of_levels(1100, 17)
    X, slope = X[:, [1, 2, 4, 5]], np.round(4096.0 * np.sin(np.arange(13.0) ** 2)) / 1024
    X[:, 2] = np.sign(X[:, 2])
    y = slope[np.nan_to_num(X[:, 0], nan=12.0).astype(int)] * X[:, 2] + 0.25 * X[:, 3]
    if objective == "multiclass":
        y = np.digitize(y, [-1.0, 1.0]).astype(float)
    params = base_params(objective, min_data_per_group=10, max_cat_levels=10, **more)
    return Case(params, X, y, categories=(0, 1))


def _categories(objective: str, **more: Any) -> Case:
    """The validation rows have levels that the training rows have not, and miss others."""
    X, y = table_of_levels(1100, 15)
    other, target = table_of_levels(300, 16)
    other[::7, 2] = 77
    other[::11, 0] = np.nan
    cuts = {"binary": [0.0], "multiclass": [-1.0, 1.0]}.get(objective)
    labels = (
        [y, target] if cuts is None else [np.digitize(v, cuts).astype(float) for v in (y, target)]
    )
    params = base_params(objective, min_data_per_group=10, cat_smooth=2.0, **more)
    return Case(params, X, labels[0], valid=(other, labels[1], None), categories=(0, 1, 2, 3))


def _values(objective: Any, weighted: bool = False, valid: bool = False, **more: Any) -> Case:
    """Labels from 0 on, often exactly 0: any loss of values takes one more than them."""
    X = table(800, 5, 14, missing=0.05)
    y = np.maximum(signal(X, 14), 0.0)
    weight = np.random.default_rng(15).integers(1, 1000, size=800) / 256 if weighted else None
    case = Case(base_params(objective, **more), X, y, weight=weight)
    if valid:
        other = table(300, 5, 16, missing=0.05)
        case.valid = (other, np.maximum(signal(other, 16), 0.0), None)
        case.params |= {"early_stopping_rounds": 3, "n_estimators": 30}
        if "boosting_type" not in more:
            case.params["learning_rate"] = 0.4
    return case


def _ranking_by(objective: str) -> Case:
    case = _ranking()
    case.params["objective"] = objective
    return case


def _one_vs_all() -> Case:
    case = _multiclass()
    case.params["objective"] = "multiclassova"
    return case


def _several_targets() -> Case:
    case = _values("mae")
    case.y = np.column_stack([case.y, 2 - case.y, np.floor(case.y)])
    return case


def _several_labels() -> Case:
    case = _binary(3, n_estimators=4)
    case.y = np.column_stack([case.y, case.X[:, 0] > 0.5, np.isnan(case.X[:, 3])]).astype(float)
    return case


def asymmetric(label: Any, score: Any) -> tuple[Any, Any]:
    """A user's objective: scores below the label cost three times as much."""
    gap = score - label
    side = 1.0 + 2.0 * (gap < 0.0)
    return side * gap, side


def _sparse(form: str, valid: bool = False, **more: Any) -> Case:
    """Few values in most columns, some of them missing, and many in the first."""
    X = table(700, 40, 21, missing=0.02)
    X[np.random.default_rng(22).random(X.shape) < np.linspace(0.4, 1.0, 40)] = 0.0
    y, rows = (signal(X, 21) > 0.75).astype(float), sparse.csr_array(X).asformat(form)
    held_out = (rows[:200], y[:200], None) if valid else None
    return Case(base_params("binary", **more), rows, y, valid=held_out)


# fmt: off
CASES: dict[str, Callable[[], Case]] = {
    "binary 2 bits": lambda: _binary(2),
    "binary 3 bits nearest": lambda: _binary(3, rounding="nearest"),
    "binary 4 bits no refit": lambda: _binary(4, refit_leaves=False),
    "binary 5 bits regularised": lambda: _binary(
        5, reg_alpha=0.3, reg_lambda=2.0, min_split_gain=0.1, min_child_weight=3.0),
    "binary 8 bits depth": lambda: _binary(8, max_depth=3),
    "binary full precision": lambda: _binary(None),
    "binary sampled": lambda: _binary(3, subsample=0.6, subsample_freq=2, colsample_bytree=0.5),
    "binary mvs": lambda: _binary(4, data_sample_strategy="mvs", subsample=0.4),
    "binary goss full precision": lambda: _binary(
        None, data_sample_strategy="goss", top_rate=0.1, other_rate=0.2, colsample_bytree=0.5),
    "binary by class": lambda: _binary(3, pos_bagging_fraction=0.9, neg_bagging_fraction=0.4),
    "dart": lambda: _binary(4, boosting_type="dart", drop_rate=0.4, skip_drop=0.1, n_estimators=9),
    "dart as in XGBoost": lambda: _several_classes(
        booster="dart", rate_drop=0.5, uniform_drop=True, xgboost_dart_mode=True, skip_drop=0.0),
    "forest": lambda: _values("mae", boosting_type="rf", subsample=0.6, valid=True),
    "forest of classes": lambda: _several_classes(boosting_type="rf", colsample_bytree=0.5),
    "binary few bins": lambda: _binary(4, max_bin=9, bin_sample_rows=200),
    "binary imbalanced": lambda: _binary(4, scale_pos_weight=3.0),
    "early stopping": _early_stopping,
    "regression": lambda: _regression(False),
    "regression weighted": lambda: _regression(True),
    "regression full precision": lambda: _regression(False, gradient_bits=None),
    "regression heavy tail": _heavy_tail,
    "regression weighted mvs": lambda: _regression(
        True, data_sample_strategy="mvs", subsample=0.3, refit_leaves=False),
    "multiclass": _multiclass,
    "multiclass rare class": _rare_class,
    "ranking": _ranking,
    "ranking by query": lambda: _ranking(bagging_by_query=True, subsample=0.5),
    "ranking early stopping": lambda: _ranking(valid=True),
    "wide": _wide,
    "tall narrow": _tall_narrow,
    "few values": _few_values,
    "absolute error": lambda: _values("mae", valid=True),
    "absolute error mvs": lambda: _values("mae", data_sample_strategy="mvs", subsample=0.3),
    "absolute error relative": lambda: _values("mape", weighted=True, subsample=0.6),
    "quantiles": lambda: _values("quantile", quantile_alpha=[0.1, 0.5, 0.8], n_estimators=4),
    "quantile weighted": lambda: _values("quantile", weighted=True, gradient_bits=3),
    "huber": lambda: _values("huber", gradient_bits=3),
    "poisson": lambda: _values("poisson", valid=True),
    "tweedie": lambda: _values("tweedie", weighted=True, gradient_scale="robust"),
    "one against all": _one_vs_all,
    "ranking pairwise": lambda: _ranking_by("rank:pairwise"),
    "ranking map": lambda: _ranking_by("rank:map"),
    "ranking xendcg": lambda: _ranking_by("rank_xendcg"),
    "several targets": _several_targets,
    "several labels": _several_labels,
    "function": lambda: _values(asymmetric, weighted=True, base_score=0.5),
    "monotone": lambda: _binary(
        3, monotone_constraints=[1, -1, 0, 1, 0, 0, 0], refit_leaves=False, reg_alpha=0.1),
    "monotone intermediate": lambda: _values(
        "regression", monotone_constraints_method="intermediate", num_leaves=31, gradient_bits=3,
        monotone_constraints=[1, -1, 0, 1, 0]),
    "monotone quantile": lambda: _values(
        "quantile", monotone_constraints=[1, -1, 0, 1, 0], path_smooth=2.0, n_estimators=4),
    "interactions": lambda: _binary(
        4, interaction_constraints=[[0, 1], [1, 2, 3]], colsample_bynode=0.6, colsample_bytree=0.9),
    "rules together": lambda: _categories(
        "multiclass", n_estimators=3, monotone_constraints=[0, 0, 0, 0, 1, -1],
        path_smooth=5.0, extra_trees=True, monotone_constraints_method="intermediate",
        feature_contri=[1, 0.5, 1, 0.9, 1, 1],
        interaction_constraints=[[0, 1, 4], [2, 3, 4, 5]],
        colsample_bynode=0.8),
    "sparse rows": lambda: _sparse("csr", valid=True, subsample=0.7, subsample_freq=1),
    "sparse columns": lambda: _sparse("csc", gradient_bits=None, num_leaves=63),
    "categories": lambda: _categories("regression", early_stopping_rounds=3, n_estimators=12),
    "categories binary sampled": lambda: _categories("binary", subsample=0.6, gradient_bits=2),
    "categories of slopes": lambda: _slopes("regression"),
    "categories of slopes multiclass": lambda: _slopes(
        "multiclass", n_estimators=4, gradient_bits=None, feature_contri=[0.5, 1, 1, 1]),
    "categories multiclass": lambda: _categories("multiclass", n_estimators=3, max_bin=50),
    "categories full precision": lambda: _categories(
        "regression", gradient_bits=None, max_cat_threshold=5, max_cat_to_onehot=1, cat_l2=0.5),
}
