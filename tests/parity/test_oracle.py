"""The oracle is independent of the core, and grows the core's trees all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitgrove as bg
from bitgrove import _core
from cases import CASES, Case

DIGESTS = Path(__file__).parents[1] / "golden" / "digests.json"
# What every place shares: exp, log and the hash of rows, whose NumPy twins
# tests/arithmetic/test_exact_math.py compares bit for bit, the planner of widths, which the
# oracle is given and does not look at, and what fingerprints are made of, which no tree sees.
SHARED = {"best_simd", "exp", "log", "sigmoid", "select_rows", "WidthLimits", "CanonicalRows",
          "canonical_block", "canonical_room", "SparseTable"}  # fmt: skip


def forbid(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **named: Any) -> None:
        raise AssertionError("the oracle asked the core")

    for name in names:
        monkeypatch.setattr(_core, name, refuse)


def kernels() -> list[str]:
    """Everything of the core that can be called, but what is shared."""
    public = [name for name in dir(_core) if not name.startswith("_")]
    return [name for name in public if callable(getattr(_core, name)) and name not in SHARED]


def test_there_is_much_to_be_independent_of() -> None:
    asked = {
        "Frontier",
        "find_edges",
        "CpuTree",
        "quantize",
        "leaf_sums",
        "bin_columns",
        "add_tree",
    }
    assert asked <= set(kernels())
    assert set(dir(_core)) >= SHARED


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_oracle_does_without_the_core(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case: Case = CASES[name]()
    forbid(kernels(), monkeypatch)
    model = case.train(device="reference")
    assert model.digest() == json.loads(DIGESTS.read_text())[name]


@pytest.mark.parametrize("kernel", ["find_edges", "CpuTree", "quantize", "leaf_sums"])
def test_the_cpu_does_not(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: a backend that asks the core is noticed."""
    forbid([kernel], monkeypatch)
    with pytest.raises(AssertionError, match="asked the core"):
        CASES["binary 2 bits"]().train()


@st.composite
def small_tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Few rows of few values: many equal gains, empty sides, features without a split."""
    n_rows, n_features = draw(st.integers(1, 80)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0, draw(st.sampled_from([1, 2, 3, 10, 1000])), (n_rows, n_features)) / 4
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    y = np.round(np.nan_to_num(X, nan=2.0).sum(axis=1) + rng.normal(size=n_rows), 1)
    return X, y


rules = st.fixed_dictionaries(
    {
        "num_leaves": st.integers(2, 40),
        "max_depth": st.just(-1) | st.integers(1, 6),
        "min_child_samples": st.integers(1, 12),
        "gradient_bits": st.sampled_from([2, 4, None]),
    },
    optional={
        "objective": st.just("binary"),
        "min_child_weight": st.floats(0.0, 3.0),
        "min_split_gain": st.floats(0.0, 1.0),
        "reg_lambda": st.floats(0.0, 2.0),
        "subsample": st.floats(0.3, 0.9),
    },
)


@settings(max_examples=150, deadline=None)
@given(small_tables(), rules, st.floats(0.01, 1.0))
def test_one_leaf_at_a_time_grows_the_tree_of_the_frontier(
    table: tuple[np.ndarray, np.ndarray], rules: dict[str, Any], alpha: float
) -> None:
    X, y = table
    params = {"objective": "regression", "n_estimators": 3, "n_jobs": 1, **rules}
    if params["objective"] == "binary":
        y = (y > np.median(y)).astype(float)
        y[0] = 1.0 - y[0] if y.min() == y.max() else y[0]
    digests = [
        bg.train({**params, **place}, bg.Dataset(X, y)).digest()
        for place in ({"device": "reference"}, {"frontier_alpha": alpha})
    ]
    assert digests[0] == digests[1]
