"""Features that share a tile column: who shares, what the bytes say, and the sums that come out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cpu import CpuMatrix
from bitgrove.backends.reference import ReferenceBackend
from kernel_cases import (
    BinnedCase,
    binned,
    cpu,
    dirty_pool,
    mapper_of,
    pack_rows,
    random_binned,
    read_slot,
)
from one_tree import build

# (value bins, whether there is a missing bin): mostly few bins, as in one-hot tables.
feature = st.tuples(
    st.sampled_from([1, 2, 2, 2, 3, 4, 7, 16, 60]) | st.integers(1, 255), st.booleans()
)


def bin_counts(case: BinnedCase) -> list[int]:
    return [int(n) for n in np.diff(case.mapper.bin_offset)]


def layout_of(counts: list[int]) -> list[list[int]]:
    """The features of every column, before rows are looked at."""
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = _core.TileLayout(offset).columns
    assert all(len(codes) == 1 for codes in columns)
    return [list(codes[0]) for codes in columns]


def tile_bytes(matrix: CpuMatrix, n_columns: int) -> NDArray[np.uint8]:
    """The bytes of every column, (n_columns, n_rows); the padding must be zero."""
    assert matrix.tiles is not None
    parts, start = [], 0
    for first in range(0, n_columns, 32):
        n = min(32, n_columns - first)
        stride = next(s for s in (4, 8, 16, 32) if n <= s)
        part = matrix.tiles[start : start + matrix.n_rows * stride].reshape(-1, stride)
        assert not part[:, n:].any()
        parts.append(part[:, :n].T)
        start += matrix.n_rows * stride
    assert start == len(matrix.tiles)
    return np.concatenate(parts)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 256), min_size=1, max_size=80))
def test_every_feature_has_one_place_and_codes_fit_a_byte(counts: list[int]) -> None:
    columns = layout_of(counts)
    assert sorted(f for column in columns for f in column) == list(range(len(counts)))
    sizes = [math.prod(counts[f] for f in column) for column in columns]
    assert max(sizes) <= 256
    assert layout_of(counts) == columns
    # Best fit: two columns that could be one are never both left.
    assert sum(size <= 16 for size in sizes) <= 1


def test_who_shares() -> None:
    assert layout_of([2] * 8) == [list(range(8))]
    assert len(layout_of([2] * 9)) == 2
    assert layout_of([255, 255, 200]) == [[0], [1], [2]]
    assert layout_of([3, 85]) == [[0, 1]]  # few bins are the more significant
    assert layout_of([256, 1, 1]) == [[0, 1, 2]]  # one bin: no room taken
    forest = [255, 255, 60, 202, 220, 255, 200, 169, 255, 255, *[2] * 44]
    assert len(layout_of(forest)) == 16


@settings(max_examples=60, deadline=None)
@given(st.lists(feature, min_size=1, max_size=70), st.integers(1, 600), st.integers(0, 2**32 - 1))
def test_bytes_are_the_bins_in_mixed_radix(
    features: list[tuple[int, bool]], n_rows: int, seed: int
) -> None:
    case = random_binned(np.random.default_rng(seed), n_rows, *zip(*features, strict=True))
    counts, columns = bin_counts(case), case.cpu.layout.columns
    for codes, (column,) in zip(tile_bytes(case.cpu, len(columns)), columns, strict=True):
        left = codes.astype(int)
        for f in reversed(column):
            np.testing.assert_array_equal(left % counts[f], case.reference.bins[f])
            left //= counts[f]
        assert not left.any()


def one_hot(rng: np.random.Generator, n_rows: int, sizes: list[int]) -> NDArray[np.int64]:
    """Bins of a table whose columns are categories, one column per category: (features, rows)."""
    picks = [rng.integers(0, size, size=n_rows) for size in sizes]
    parts = [np.arange(size)[:, None] == pick for size, pick in zip(sizes, picks, strict=True)]
    return np.concatenate(parts).astype(np.int64)


def features_of(case: BinnedCase) -> list[list[int]]:
    return [[f for code in column for f in code] for column in case.cpu.layout.columns]


def check_joined(case: BinnedCase, rng: np.random.Generator) -> None:
    """Bytes and combinations of bins tell each other; sums are those of separate columns."""
    columns = features_of(case)
    assert sorted(f for column in columns for f in column) == list(range(len(case.reference.bins)))
    for codes, column in zip(tile_bytes(case.cpu, len(columns)), columns, strict=True):
        combinations = np.unique(case.reference.bins[column].T, axis=0)
        pairs = np.unique(np.column_stack([codes, case.reference.bins[column].T]), axis=0)
        assert len(pairs) == len(combinations) == len(np.unique(codes))
    n_rows = case.cpu.n_rows
    integers = np.stack([rng.integers(-3, 4, size=n_rows), rng.integers(0, 7, size=n_rows)], axis=1)
    rows = rng.permutation(n_rows).astype(np.int32)[: n_rows // 2]
    reference = ReferenceBackend()
    wanted = reference.new_pool(case.reference, 1, 64)
    build(reference, wanted, integers, rows, (0, len(rows), 0, 64, 64, 1))
    packed = pack_rows(integers[:, 0], integers[:, 1], 8)
    for local, total, packing in [(8, 16, True), (16, 32, True), (64, 64, True), (16, 32, False)]:
        backend = cpu(2, packed=packing)
        pool = dirty_pool(backend, case.cpu, 1)
        block = 40 if local == 8 else 1000
        build(backend, pool, packed, rows, (0, len(rows), 0, local, total, block))
        found = read_slot(pool, 0, total, case.n_bins)
        assert found == [(int(g), int(h)) for g, h in wanted.storage[0]]


def test_one_hot_features_share_a_column() -> None:
    """40 + 4 binary features of which one each is set: 160 combinations."""
    rng = np.random.default_rng(0)
    bins = np.concatenate([one_hot(rng, 5000, [40, 4]), rng.integers(0, 255, size=(1, 5000))])
    case = binned(bins, [2] * 44 + [255], [False] * 45)
    assert features_of(case) == [[44], list(range(44))]
    check_joined(case, rng)


def test_too_many_combinations_do_not() -> None:
    rng = np.random.default_rng(1)
    case = binned(one_hot(rng, 6000, [200, 200]), [2] * 400, [False] * 400)
    columns = features_of(case)
    assert columns == [list(range(200)), list(range(200, 400))]  # 40,000 combinations
    check_joined(case, rng)


def test_few_rows_are_left_alone() -> None:
    case = binned(one_hot(np.random.default_rng(2), 4000, [40]), [2] * 40, [False] * 40)
    assert [len(column) for column in features_of(case)] == [8] * 5


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(2, 60), min_size=1, max_size=5),
    st.lists(feature, max_size=6),
    st.integers(4096, 4600),
    st.integers(0, 2**32 - 1),
)
def test_joined_columns_give_the_same_sums(
    sizes: list[int], others: list[tuple[int, bool]], n_rows: int, seed: int
) -> None:
    """Categories, some of them dependent on each other, beside any other features."""
    rng = np.random.default_rng(seed)
    bins = one_hot(rng, n_rows, sizes)
    dependent = bins[: len(bins) // 2] | bins[-(len(bins) // 2) or None :][: len(bins) // 2]
    more = [rng.integers(0, n + missing, size=n_rows) for n, missing in others]
    table = np.concatenate([bins, dependent, np.array(more, dtype=np.int64).reshape(-1, n_rows)])
    n_binary = len(bins) + len(dependent)
    n_values = [2] * n_binary + [n for n, _ in others]
    has_missing = [False] * n_binary + [missing for _, missing in others]
    check_joined(binned(table, n_values, has_missing), rng)


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_threads_write_the_same_tiles(n_threads: int) -> None:
    rng = np.random.default_rng(0)
    bins = np.concatenate([one_hot(rng, 20_000, [20]), rng.integers(0, 100, size=(2, 20_000))])
    case = binned(bins, [2] * 20 + [100, 255], [False] * 21 + [True])
    again = replace(case.cpu, n_threads=n_threads, layout=None, tiles=None)
    again.prepare(case.mapper)
    assert again.tiles is not None and case.cpu.tiles is not None
    assert again.tiles.tobytes() == case.cpu.tiles.tobytes()


def test_a_bin_that_is_none_of_its_feature_is_refused() -> None:
    """It would be taken for another feature's: such as a missing value nobody announced."""
    mapper = mapper_of([2, 2], [False, False])
    matrix = cpu().bin_columns([np.array([0.0, np.nan]), np.zeros(2)], mapper)
    assert matrix.missing.tolist() == [1, 0]
    with pytest.raises(ValueError, match="bitgrove core: a bin is outside"):
        matrix.prepare(mapper)
    matrix.prepare(mapper.with_missing(matrix.missing))


def test_wrong_layouts_are_refused() -> None:
    for offset in ([0], [0, 0], [0, 257], [0, 5, 4]):
        with pytest.raises(ValueError, match="bitgrove core"):
            _core.TileLayout(np.array(offset, dtype=np.int64))
    case = binned(np.zeros((2, 10), dtype=np.int64), [2, 2], [False, False])
    assert case.cpu.tiles is not None
    with pytest.raises(ValueError, match="columns too small"):
        _core.lay_tiles(case.cpu.layout, case.cpu.columns[:1], 10, case.cpu.tiles, 1)
    with pytest.raises(ValueError, match="tiles too small"):
        _core.lay_tiles(case.cpu.layout, case.cpu.columns, 10, case.cpu.tiles[1:], 1)
