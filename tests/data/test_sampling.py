"""Sampling by hash: which rows and features a tree sees depends on the seed and nothing else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.data.row_ids import RowRun, one_run
from bitgrove.data.sampling import feature_sample, rounding_key, row_sample
from bitgrove.kernels.plans import DIVISION, records
from bitgrove.model.tree import Tree
from bitgrove.params import TrainParams, resolve
from kernel_cases import cpu, random_binned
from one_tree import start_tree

BACKENDS = {"reference": ReferenceBackend(), "cpu": cpu()}


def params(**changes: Any) -> TrainParams:
    return resolve(changes)


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Any:
    return BACKENDS[request.param]


def test_no_sampling_takes_all_rows(backend: Any) -> None:
    assert row_sample(params(), 0) is None
    assert row_sample(params(subsample=0.5, subsample_freq=0), 3) is None
    rows = backend.select_rows(one_run(5, 100), None)
    assert rows.dtype == np.int32 and rows.tolist() == [0, 1, 2, 3, 4]


@settings(max_examples=60, deadline=None)
@given(
    st.floats(1e-6, 1.0, exclude_max=True),
    st.integers(0, 2**63 - 1),
    st.integers(0, 1000),
    st.integers(0, 300),
    st.integers(0, 2**50),
)
def test_rows_are_those_below_the_threshold(
    share: float, seed: int, iteration: int, n_rows: int, first_row: int
) -> None:
    sample = row_sample(params(subsample=share, random_state=seed), iteration)
    assert sample is not None
    key, threshold, *_ = sample
    assert 0 <= key < 2**64 and threshold == int(share * 2.0**64) < 2**64
    ids = np.arange(first_row, first_row + n_rows, dtype=np.uint64)
    expected = [i for i, h in enumerate(row_hash(key, ids).tolist()) if h < threshold]
    for backend in BACKENDS.values():
        rows = backend.select_rows(one_run(n_rows, first_row), sample)
        assert rows.dtype == np.int32 and rows.tolist() == expected


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_of_rows(backend: Any, share: float) -> None:
    n = 50_000
    rows = backend.select_rows(one_run(n), row_sample(params(subsample=share), 0))
    assert abs(len(rows) - share * n) < 5 * math.sqrt(n * share * (1 - share))
    # ... in every part of the data
    parts = np.histogram(rows, bins=5, range=(0, n))[0]
    assert np.all(np.abs(parts - share * n / 5) < 5 * math.sqrt(n / 5 * share * (1 - share)))


def test_shards_sample_as_the_whole(backend: Any) -> None:
    sample = row_sample(params(subsample=0.3), 4)
    whole = backend.select_rows(one_run(1000, 70), sample).tolist()
    parts: list[int] = []
    for begin, end in ((0, 1), (1, 1), (1, 600), (600, 1000)):
        part = backend.select_rows(one_run(end - begin, 70 + begin), sample)
        parts += [begin + int(r) for r in part]
    assert parts == whole
    # A shard joined from pieces: its rows go by the ids of each piece.
    runs = [RowRun(0, 400, 670), RowRun(400, 999, 71)]
    joined = backend.select_rows(runs, sample).tolist()
    assert joined == [r - 600 for r in whole if r >= 600] + [r + 399 for r in whole if 1 <= r < 600]


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_every_row_gets_the_tree_sampled_or_not(backend: Any, share: float) -> None:
    """Rows that a tree was not grown on walk it by their bins."""
    case = random_binned(np.random.default_rng(1), 500, [9], [False])
    matrix = case.cpu if backend.name == "cpu" else case.reference
    packed = np.zeros(500, dtype=np.int16) if backend.name == "cpu" else np.zeros((500, 2), int)
    rows = backend.select_rows(one_run(500), row_sample(params(subsample=share), 0))
    assert 0 < len(rows) < 500
    work = start_tree(backend, backend.new_pool(matrix, 2, 32), packed, rows)
    left = work.divide(
        records(DIVISION, 1, first_zero=len(rows), end=len(rows), bin=4, missing_bin=9)
    )
    border = int(left["active"][0])
    work.set_leaves(np.array([0, border]), np.array([border, len(rows)]))
    scores = np.arange(500.0)
    work.add_tree(scores, stump(split_bin=4, values=[1000.0, 2000.0]))
    expected = np.where(case.reference.bins[0] <= 4, 1000.0, 2000.0)
    np.testing.assert_array_equal(scores, np.arange(500.0) + expected)


def stump(split_bin: int, values: list[float]) -> Tree:
    return Tree(
        feature=np.zeros(1, np.int32),
        split_bin=np.array([split_bin], np.uint8),
        threshold=np.array([split_bin + 0.5]),
        default_left=np.zeros(1, np.uint8),
        left=np.array([-1], np.int32),
        right=np.array([-2], np.int32),
        gain=np.ones(1),
        split_rows=np.zeros(1, np.int64),
        split_hess=np.zeros(1),
        leaf_value=np.array(values),
        leaf_rows=np.zeros(2, np.int64),
        leaf_hess=np.zeros(2),
    )


def test_a_sample_lasts_for_subsample_freq_iterations() -> None:
    p = params(subsample=0.5, subsample_freq=3)
    samples = [row_sample(p, iteration) for iteration in range(9)]
    assert samples[0] == samples[1] == samples[2]
    assert len({samples[0], samples[3], samples[6]}) == 3
    every = params(subsample=0.5)
    assert len({row_sample(every, iteration) for iteration in range(20)}) == 20


def test_samples_of_two_iterations_are_independent(backend: Any) -> None:
    n, p = 40_000, params(subsample=0.5)
    first, second = (
        set(backend.select_rows(one_run(n), row_sample(p, i)).tolist()) for i in (0, 1)
    )
    assert abs(len(first & second) - n / 4) < 5 * math.sqrt(n * 3 / 16)


def test_the_seed_changes_rows_features_and_noise() -> None:
    a, b = params(subsample=0.5, random_state=1), params(subsample=0.5, random_state=2)
    assert row_sample(a, 0) != row_sample(b, 0)
    a, b = (params(colsample_bytree=0.5, random_state=seed) for seed in (1, 2))
    assert feature_sample(a, 0, 100).tolist() != feature_sample(b, 0, 100).tolist()
    keys = {rounding_key(seed, tree) for seed in range(10) for tree in range(100)}
    assert len(keys) == 1000 and all(0 <= key < 2**64 for key in keys)


def test_purposes_do_not_share_keys() -> None:
    """The rows of iteration t are not chosen by the noise that rounds tree t."""
    sample = row_sample(params(subsample=0.5), 7)
    assert sample is not None and sample[0] != rounding_key(0, 7)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 1.0), st.integers(1, 200), st.integers(0, 500))
def test_number_of_features(share: float, n_features: int, tree: int) -> None:
    allowed = feature_sample(params(colsample_bytree=share), tree, n_features)
    assert allowed.dtype == np.uint8 and allowed.shape == (n_features,)
    assert set(allowed.tolist()) <= {0, 1}
    wanted = share * n_features
    assert abs(int(allowed.sum()) - wanted) <= 0.5 or int(allowed.sum()) == 1
    assert allowed.sum() >= 1
    again = feature_sample(params(colsample_bytree=share), tree, n_features)
    np.testing.assert_array_equal(allowed, again)


def test_all_features_without_sampling() -> None:
    assert feature_sample(params(), 3, 7).tolist() == [1] * 7


def test_every_feature_gets_its_turn() -> None:
    """Over many trees each feature is taken about as often as the share says."""
    n_trees, p = 1000, params(colsample_bytree=0.3)
    counts = np.sum([feature_sample(p, tree, 10) for tree in range(n_trees)], axis=0, dtype=int)
    assert np.all(np.abs(counts - 300) < 5 * math.sqrt(n_trees * 0.3 * 0.7))


def test_features_are_kept_in_nested_sets() -> None:
    """A larger share only adds features: the smallest hashes are taken."""
    sets = [
        set(np.flatnonzero(feature_sample(params(colsample_bytree=s), 5, 40)).tolist())
        for s in (0.1, 0.4, 0.9)
    ]
    assert sets[0] < sets[1] < sets[2]
