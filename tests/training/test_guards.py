"""Leaves that would run away are bounded or warned of; loud rounding is warned of; once each."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove.distributed import run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.objectives import OBJECTIVES
from bitgrove.objectives.links import USUAL_STEP
from bitgrove.params import resolve
from bitgrove.training.guards import Guards

F64 = NDArray[np.float64]
DANGEROUS = {"max_delta_step": 0, "reg_lambda": 0.0, "min_child_weight": 1e-3}


def rare_class(n_rows: int = 20_000) -> tuple[F64, F64]:
    """40 rows of one class among others, told by the features but for a few wrong labels."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n_rows, 6))
    y = np.zeros(n_rows)
    y[:40] = 1.0
    X[:40, :2] += 4.0
    y[40:44] = 1.0
    return X, y


def heavy_tail(n_rows: int = 4000) -> tuple[F64, F64]:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(n_rows, 4))
    y = X[:, 0] + rng.normal(size=n_rows)
    y[::1000] += 60.0
    return X, y


def warned(params: dict[str, Any], X: F64, y: F64) -> tuple[bg.Model, list[str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = bg.train({"n_estimators": 30, **params}, bg.Dataset(X, y))
    assert all(issubclass(one.category, bg.BitgroveWarning) for one in found)
    return model, [str(one.message) for one in found]


def farthest(model: bg.Model) -> float:
    return max(float(np.abs(tree.leaf_value).max()) for tree in model.trees)


@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_leaves_that_run_away_are_warned_of_once(objective: str, bits: int | None) -> None:
    model, texts = warned(
        {"objective": objective, "gradient_bits": bits, **DANGEROUS}, *rare_class()
    )
    assert farthest(model) > 17.0
    assert len(texts) == 1
    for word in ("max_delta_step=0.0", "reg_lambda=0.0", "min_child_weight=0.001", "raise"):
        assert word in texts[0]


@pytest.mark.parametrize(
    "change", [{}, {"max_delta_step": 3.0}, {"reg_lambda": 1.0}, {"min_child_weight": 1.0}]
)
def test_each_remedy_keeps_them_from_running(change: dict[str, float]) -> None:
    params = {"objective": "binary", "gradient_bits": None, **DANGEROUS, **change}
    if not change:
        del params["max_delta_step"]
    model, texts = warned(params, *rare_class())
    assert texts == []
    assert farthest(model) < 17.0


def test_the_bound_keeps_the_loss_small() -> None:
    X, y = rare_class()
    test = bg.Dataset(X[::2], y[::2])
    losses = {}
    for step in (0, None):
        params = {"objective": "binary", "n_estimators": 60, **DANGEROUS, "max_delta_step": step}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bg.BitgroveWarning)
            model = bg.train(params, bg.Dataset(X[1::2], y[1::2]), valid_sets=test)
        assert model.info is not None
        losses[step] = model.info.evals_result["valid_0"]["logloss"][-1]
    assert losses[None] < 0.5 * losses[0]


def test_how_far_a_leaf_may_step() -> None:
    """Before the learning rate; in the units of the score; only where a score is a logarithm."""
    values = np.array([-1e6, -0.5, 0.0, 1e6])

    def ends(objective: str, **params: Any) -> list[float]:
        checked = resolve({"objective": objective, "learning_rate": 0.5, **params})
        guards = Guards(checked, OBJECTIVES[objective].from_settings(vars(checked)), rank=1)
        return guards.bounded(values, checked.learning_rate).tolist()

    usual = 0.5 * USUAL_STEP
    assert ends("binary") == ends("multiclass") == [-usual, -0.5, 0.0, usual]
    assert ends("binary", sigmoid=2.0) == [-usual / 2, -0.5, 0.0, usual / 2]
    assert ends("regression") == ends("lambdarank") == values.tolist()
    assert ends("binary", max_delta_step=0) == values.tolist()
    assert ends("regression", max_delta_step=3.0) == [-1.5, -0.5, 0.0, 1.5]


def test_loud_rounding_is_warned_of_once_with_its_remedies() -> None:
    X, y = heavy_tail()
    params = {"objective": "regression", "gradient_scale": "max", "gradient_bits": 3}
    model, texts = warned(params, X, y)
    assert model.info is not None and np.mean(model.info.rounding_noise) > 0.6
    assert len(texts) == 1
    assert 'gradient_scale="robust"' in texts[0] and "gradient_bits than 3" in texts[0]
    for remedy in ({"gradient_scale": "robust"}, {"gradient_bits": None}):
        quiet, texts = warned({**params, **remedy}, X, y)
        assert texts == [] and quiet.info is not None
        assert np.mean(quiet.info.rounding_noise) < 0.6


def test_the_noise_of_every_tree_is_told() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 5))
    y = (X[:, 0] + rng.normal(size=3000) > 0).astype(float)
    shares = {}
    for bits in (2, 3, 4, 8, None):
        model, texts = warned({"objective": "binary", "gradient_bits": bits}, X, y)
        assert texts == [] and model.info is not None
        assert len(model.info.rounding_noise) == 30
        shares[bits] = float(np.mean(model.info.rounding_noise))
    assert 1.0 > shares[2] > shares[3] > shares[4] > shares[8] > shares[None] == 0.0


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_find_the_same_noise_and_one_of_them_warns(n_ranks: int) -> None:
    X, y = heavy_tail()
    params = {"objective": "regression", "gradient_scale": "max", "gradient_bits": 2,
              "n_estimators": 3, "n_jobs": 1}  # fmt: skip

    def work(comm: Comm) -> list[float]:
        rows = slice(len(X) * comm.rank // comm.size, len(X) * (comm.rank + 1) // comm.size)
        model = bg.train(params, bg.Dataset(X[rows], y[rows]), comm=comm)
        assert model.info is not None
        return model.info.rounding_noise

    with pytest.warns(bg.BitgroveWarning, match="rounding made") as found:
        shares = run_threads(n_ranks, work)
        alone = bg.train(params, bg.Dataset(X, y))
    assert len(found) == 2  # of the ranks together, and of the one alone
    assert alone.info is not None
    assert all(share == alone.info.rounding_noise for share in shares)


ORDER = {"objective": "binary", "eval_metric": ["auc", "average_precision", "logloss"]}
RANKS = {"objective": "lambdarank", "eval_metric": ["ndcg@10", "map@10", "mrr@10", "precision@5"]}


@pytest.mark.parametrize("params", [ORDER, RANKS], ids=["rows", "queries"])
def test_metrics_that_nothing_could_change_are_warned_of_once(params: dict[str, Any]) -> None:
    """On sets with labels of one kind; whichever rank has the other one is enough."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    both, ones = (X[:, 0] > 0).astype(float), np.ones(300)
    halves = np.repeat([0.0, 1.0], 150)  # of queries, too: none of them has both
    group = [10] * 30 if params is RANKS else None

    def told(label: F64, weight: F64 | None = None, **more: Any) -> list[str]:
        train_set = bg.Dataset(X, both, group=group)
        valid_set = bg.Dataset(X, label, weight=weight, group=group)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            bg.train({**params, "n_estimators": 3, **more}, train_set, valid_sets=valid_set)
        return [str(one.message) for one in found]

    named = [name for name in params["eval_metric"] if name != "logloss"]
    texts = told(ones)
    assert [f"validation set 'valid_0': {name} says" in text
            for name, text in zip(named, texts, strict=True)] == [True] * len(named)  # fmt: skip
    assert told(ones, verbosity=-1) == [] and told(both) == []
    assert len(told(halves)) == (len(named) if params is RANKS else 0)
    if params is ORDER:
        assert len(told(both, weight=both)) == len(named)


def test_folds_are_warned_of_once() -> None:
    X, y = rare_class()
    whole = np.arange(len(y))
    folds = [(whole, whole[begin : begin + 20]) for begin in (0, 30, 100, 200)]  # the last: zeros
    params = {"objective": "binary", "eval_metric": "auc", "gradient_bits": None, **DANGEROUS}
    with pytest.warns(bg.BitgroveWarning) as found:
        bg.cv(params, bg.Dataset(X, y), 30, folds=folds)
    texts = sorted(str(one.message) for one in found)
    assert len(texts) == 2
    assert texts[0].startswith("a leaf changes scores by")
    assert texts[1].startswith("validation set 'valid': auc says nothing")


def test_ranks_have_the_classes_of_a_validation_set_together() -> None:
    X = np.arange(400.0).reshape(100, 4) % 37
    y = np.repeat([0.0, 1.0], 50)

    def train(comm: Comm) -> bg.Model:
        mine = slice(50 * comm.rank, 50 * comm.rank + 50)
        shard = bg.Dataset(X[mine], y[mine])
        return bg.train(
            {**ORDER, "n_estimators": 2}, shard, valid_sets=bg.Dataset(X[mine], y[mine]), comm=comm
        )

    with warnings.catch_warnings():
        warnings.simplefilter("error", bg.BitgroveWarning)
        run_threads(2, train)
