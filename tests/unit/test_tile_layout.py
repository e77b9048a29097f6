"""Features that share a tile column: who shares, what the bytes say, and the sums that come out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cpu import CpuMatrix
from kernel_cases import BinnedCase, binned, cpu, mapper_of, random_binned

# (value bins, whether there is a missing bin): mostly few bins, as in one-hot tables.
feature = st.tuples(
    st.sampled_from([1, 2, 2, 2, 3, 4, 7, 16, 60]) | st.integers(1, 255), st.booleans()
)


def bin_counts(case: BinnedCase) -> list[int]:
    return [int(n) for n in np.diff(case.mapper.bin_offset)]


def layout_of(counts: list[int]) -> list[list[int]]:
    """The features of every column."""
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return [list(column) for column in _core.TileLayout(offset).columns]


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
    for codes, column in zip(tile_bytes(case.cpu, len(columns)), columns, strict=True):
        left = codes.astype(int)
        for f in reversed(column):
            np.testing.assert_array_equal(left % counts[f], case.reference.bins[f])
            left //= counts[f]
        assert not left.any()


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_threads_write_the_same_tiles(n_threads: int) -> None:
    rng = np.random.default_rng(0)
    case = random_binned(rng, 20_000, [2] * 20 + [100, 255], [False] * 21 + [True])
    again = CpuMatrix(case.cpu.n_rows, case.mapper, case.cpu.columns)
    cpu(n_threads).prepare_training(again, case.mapper)
    assert again.tiles is not None and case.cpu.tiles is not None
    assert again.tiles.tobytes() == case.cpu.tiles.tobytes()


def test_a_bin_that_is_none_of_its_feature_is_refused() -> None:
    """It would be taken for another feature's: such as a missing value nobody announced."""
    backend = cpu()
    mapper = mapper_of([2, 2], [False, False])
    matrix, missing = backend.bin_columns([np.array([0.0, np.nan]), np.zeros(2)], mapper)
    assert missing.tolist() == [1, 0]
    with pytest.raises(ValueError, match="bitgrove core: a bin is outside"):
        backend.prepare_training(matrix, mapper)
    backend.prepare_training(matrix, mapper.with_missing(missing))


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
