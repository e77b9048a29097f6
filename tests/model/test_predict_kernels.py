"""Prediction: all paths and instruction sets find the leaves that NumPy finds, and equal sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.model.predict import predict_leaves, predict_scores
from bitgrove.model.tree import Tree, make_forest
from denormal_case import denormal_case
from kernel_cases import SIMD

N_FEATURES = 6
Rows = NDArray[Any]


def random_tree(rng: np.random.Generator, n_leaves: int, thresholds: list[Rows]) -> Tree:
    """Splits a random leaf of the tree so far, n_leaves - 1 times."""
    n = n_leaves - 1
    left, right = np.zeros(n, np.int32), np.zeros(n, np.int32)
    open_ends: list[tuple[NDArray[np.int32], int]] = []
    for split in range(n):
        if open_ends:
            child, parent = open_ends.pop(int(rng.integers(len(open_ends))))
            child[parent] = split
        open_ends += [(left, split), (right, split)]
    numbers = rng.permutation(n_leaves)
    for (child, parent), leaf in zip(open_ends, numbers, strict=False):
        child[parent] = ~leaf
    feature = rng.integers(N_FEATURES, size=n).astype(np.int32)
    chosen = [rng.choice(thresholds[f]) for f in feature]
    return Tree(
        feature=feature,
        split_bin=np.zeros(n, np.uint8),
        threshold=np.array(chosen, np.float64),
        default_left=rng.integers(2, size=n).astype(np.uint8),
        left=left,
        right=right,
        gain=np.zeros(n),
        split_rows=np.zeros(n, np.int64),
        split_hess=np.zeros(n),
        leaf_value=rng.normal(size=n_leaves),
        leaf_rows=np.zeros(n_leaves, np.int64),
        leaf_hess=np.zeros(n_leaves),
    )


def leaves_by_numpy(trees: list[Tree], rows: Rows) -> NDArray[np.int64]:
    """The leaf of each row in each tree, one step of all rows at a time."""
    found = np.zeros((len(rows), len(trees)), np.int64)
    for t, tree in enumerate(trees):
        node = np.full(len(rows), 0 if tree.n_splits else -1)
        while (inner := np.flatnonzero(node >= 0)).size:
            split = node[inner]
            x = rows[inner, tree.feature[split]].astype(np.float64)
            goes_left = np.where(np.isnan(x), tree.default_left[split], x <= tree.threshold[split])
            node[inner] = np.where(goes_left, tree.left[split], tree.right[split])
        found[:, t] = ~node
    return found


def check(trees: list[Tree], rows: Rows, n_outputs: int = 1, n_features: int = N_FEATURES) -> None:
    """Leaves and scores at every instruction set and on one and two threads."""
    leaves = leaves_by_numpy(trees, rows)
    base = np.linspace(-1.0, 1.0, n_outputs)
    scores = np.tile(base, (len(rows), 1))
    for t, tree in enumerate(trees):
        scores[:, t % n_outputs] += tree.leaf_value[leaves[:, t]]
    for simd in SIMD:
        forest = make_forest(trees, n_features, simd)
        for n_jobs in (1, 2):
            np.testing.assert_array_equal(predict_leaves(forest, rows, n_jobs), leaves)
            got = predict_scores(forest, rows, base, len(trees) // n_outputs, n_jobs)
            np.testing.assert_array_equal(got, scores)


def make_case(
    seed: int, n_rows: int, n_leaves: list[int], dtype: type, n_thresholds: int = 100
) -> tuple[list[Tree], Rows]:
    """Rows that hit thresholds exactly, are missing, infinite, or just beside a threshold."""
    rng = np.random.default_rng(seed)
    thresholds = [np.append(rng.normal(size=n_thresholds), np.inf) for _ in range(N_FEATURES)]
    thresholds[0] = np.array([0.0])
    thresholds[1] = np.append(thresholds[1][:9], -1e308)
    trees = [random_tree(rng, n, thresholds) for n in n_leaves]
    rows = rng.normal(size=(n_rows, N_FEATURES))
    exact = np.stack([rng.choice(t, n_rows) for t in thresholds], axis=1)
    rows = np.where(rng.random(rows.shape) < 0.3, exact, rows)
    rows = np.where(rng.random(rows.shape) < 0.1, np.nextafter(exact, np.inf), rows)
    odd = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e300], rows.shape)
    rows = np.where(rng.random(rows.shape) < 0.1, odd, rows)
    with np.errstate(over="ignore"):
        return trees, np.ascontiguousarray(rows.astype(dtype))


# One row, fewer than eight, the least that is coded, whole blocks and what is left of them.
@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 47, 48, 64, 255, 256, 257, 300, 303, 320, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes_around_the_borders(n_rows: int, dtype: type) -> None:
    trees, rows = make_case(n_rows, n_rows, [255, 1, 2, 31, 256, 257, 3, 100, 60, 8], dtype)
    check(trees, rows)


def test_rows_without_missing_values() -> None:
    trees, rows = make_case(5, 600, [255, 31, 40], np.float64)
    check(trees, np.nan_to_num(rows))


@pytest.mark.parametrize("n_leaves", [1, 2, 255, 256, 257, 512, 513, 1024, 1025])
def test_numbers_of_leaves(n_leaves: int) -> None:
    trees, rows = make_case(n_leaves, 500, [n_leaves, n_leaves], np.float64)
    check(trees, rows)


def test_outputs_take_turns() -> None:
    trees, rows = make_case(1, 400, [31] * 12, np.float32)
    check(trees, rows, n_outputs=3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float32_denormals_are_told_apart(dtype: type) -> None:
    case = denormal_case()
    model, rows = case.train(), case.X.astype(dtype)
    assert np.abs(rows).min() > 1e-42 and np.abs(rows).max() < 2.0001e-40
    leaves = leaves_by_numpy(model.trees, rows)
    assert all(len(np.unique(column)) > 50 for column in leaves.T)
    check(model.trees, rows, n_features=1)
    together = model.predict_raw(rows)
    alone = np.concatenate([model.predict_raw(rows[i : i + 1]) for i in range(300)])
    np.testing.assert_array_equal(alone, together[:300])


@given(seed=st.integers(0, 2**32), n_rows=st.integers(0, 600), dtype=st.sampled_from(["f4", "f8"]))
@settings(max_examples=30, deadline=None)
def test_any_forest(seed: int, n_rows: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    n_leaves = rng.integers(1, 400, size=int(rng.integers(1, 20))).tolist()
    trees, rows = make_case(seed, n_rows, n_leaves, np.dtype(dtype).type, int(rng.integers(1, 120)))
    check(trees, rows)


def test_which_forests_are_coded() -> None:
    """Thresholds of a feature must fit into a byte, the leaves of a tree into its row sets."""
    if len(SIMD) == 1:
        pytest.skip("codes need AVX2")
    rng = np.random.default_rng(0)
    ordinary = random_tree(rng, 200, [np.arange(254.0)] * N_FEATURES)
    assert make_forest([ordinary], N_FEATURES).is_coded
    assert not make_forest([ordinary], N_FEATURES, simd=0).is_coded
    large = random_tree(rng, 1025, [np.arange(10.0)] * N_FEATURES)
    assert not make_forest([ordinary, large], N_FEATURES).is_coded
    many = random_tree(rng, 1000, [np.arange(1e6)] * N_FEATURES)
    many.feature[:] = 0
    assert not make_forest([many], N_FEATURES).is_coded
    strange = random_tree(rng, 10, [np.array([np.nan])] * N_FEATURES)
    assert not make_forest([strange], N_FEATURES).is_coded
    for trees in ([ordinary, large], [many], [strange]):
        check(trees, rng.normal(size=(300, N_FEATURES)))


def test_forged_links_are_refused() -> None:
    tree = random_tree(np.random.default_rng(0), 4, [np.zeros(1)] * N_FEATURES)
    tree.left[:], tree.right[:] = [1, 2, ~0], [~1, ~2, ~3]
    make_forest([tree], N_FEATURES)
    for side, at, link, message in [
        (tree.left, 0, 3, "out of range"),
        (tree.left, 0, ~4, "out of range"),
        (tree.right, 0, 1, "two parents"),
        (tree.right, 0, ~2, "two parents"),
        (tree.left, 2, 0, "two parents"),
        (tree.left, 0, ~0, "no parent"),
    ]:
        kept = side[at]
        side[at] = link
        with pytest.raises(ValueError, match=message):
            make_forest([tree], N_FEATURES)
        side[at] = kept
    with pytest.raises(ValueError, match="feature out of range"):
        make_forest([tree], int(tree.feature.max()))
    with pytest.raises(ValueError, match="wrong shape"):
        _core.predict_scores(
            make_forest([tree], N_FEATURES), 1, np.zeros((3, 2)), np.zeros((3, 1)), 1
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split_offset": [], "leaf_offset": []}, "one offset more than trees"),
        ({"split_offset": [0, 1, 1]}, "one offset more than trees"),
        ({"split_offset": [1, 1], "leaf_offset": [1, 2]}, "not all of the arrays"),
        ({"split_offset": [0, 0], "leaf_offset": [0, 1]}, "not all of the arrays"),
        ({"n_features": -1}, "number of features is out of range"),
        ({"threshold": []}, "differ in length"),
    ],
)
def test_forged_arrays_are_refused(change: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {
        "split_offset": [0, 1], "leaf_offset": [0, 2], "feature": [0], "threshold": [0.5],
        "default_left": [0], "left_bins": np.zeros((0, 4)), "left": [~0], "right": [~1],
        "leaf_value": [1.0, 2.0], "n_features": 1, "simd": _core.best_simd(),
    }  # fmt: skip
    dtypes = {"split_offset": "i8", "leaf_offset": "i8", "feature": "i4", "threshold": "f8",
              "default_left": "u1", "left_bins": "u8", "left": "i4", "right": "i4",
              "leaf_value": "f8"}  # fmt: skip

    def forest(arrays: dict[str, Any]) -> Any:
        typed = {name: np.array(arrays[name], dtype) for name, dtype in dtypes.items()}
        return _core.make_forest(**{**arrays, **typed})

    made = forest(whole)
    with pytest.raises(ValueError, match="scores have the wrong shape"):  # not a division by zero
        _core.predict_scores(made, 1, np.zeros((3, 1)), np.zeros((3, 0)), 1)
    for n_players, message_of_it in ((-1, "one player per column"), (0, "player out of range")):
        with pytest.raises(ValueError, match=message_of_it):
            _core.make_shap_forest(made, np.ones(2), np.zeros(1, np.int32), n_players)
    with pytest.raises(ValueError, match=message):
        forest({**whole, **change})
