"""Every verb of the CUDA backend against the reference, on random data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bitgrove.training.splits import GainRules
from numpy.typing import NDArray

from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.data.binning import BinMapper
from bitgrove.model.tree import Tree
from kernel_cases import binned, mapper_of, pack_rows

REFERENCE = ReferenceBackend()
SIZES = [0, 1, 31, 32, 33, 4095, 4096, 4097, 9000]


class Binned:
    """Random bins on the reference and on the GPU."""

    def __init__(self, backend: Any, seed: int, n_rows: int, n_features: int) -> None:
        rng = np.random.default_rng(seed)
        n_values = rng.choice([1, 2, 9, 100, 254, 255], size=n_features)
        has_missing = rng.random(n_features) < 0.5
        bins = [rng.integers(0, n + m, n_rows) for n, m in zip(n_values, has_missing, strict=True)]
        case = binned(np.array(bins), n_values.tolist(), has_missing.tolist())
        self.mapper, self.reference = case.mapper, case.reference
        columns = [
            np.where(b == n, np.nan, b.astype(float)) for b, n in zip(bins, n_values, strict=True)
        ]
        self.cuda, self.missing = backend.bin_columns(columns, case.mapper)

    @property
    def n_bins(self) -> int:
        return int(self.mapper.bin_offset[-1])


@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 70])
def test_bins(backend: Any, n_features: int) -> None:
    case = Binned(backend, n_features, 3000, n_features)
    np.testing.assert_array_equal(backend.host(case.cuda.columns), case.reference.bins)
    tiles, bins = backend.host(case.cuda.tiles), case.reference.bins
    for first in range(0, n_features, 32):
        n_here = min(32, n_features - first)
        tile = tiles[3000 * first : 3000 * (first + 32)].reshape(3000, -1)  # the last is narrower
        assert tile.shape[1] == next(n for n in (4, 8, 16, 32) if n >= n_here)
        np.testing.assert_array_equal(tile[:, :n_here], bins[first : first + n_here].T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_of_extreme_values(backend: Any, dtype: Any) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    values = np.array([0, -0.0, tiny, -tiny, 3 * tiny, np.inf, -np.inf, np.nan, 1e30], dtype=dtype)
    edges = np.array([-1e35, -float(tiny), 0.0, float(tiny), 2 * float(tiny), 1e30])
    mapper = BinMapper(edges, np.array([0, len(edges)]), np.ones(1, np.uint8))
    expected, missing = REFERENCE.bin_columns([values], mapper)
    found, found_missing = backend.bin_columns([values], mapper)
    np.testing.assert_array_equal(backend.host(found.columns), expected.bins)
    np.testing.assert_array_equal(found_missing, missing)


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize(
    ("half_bits", "limits"), [(8, (3, 6)), (16, (32767, 900)), (32, (2**23 - 1, 2**24 - 2))]
)
def test_quantize(backend: Any, half_bits: int, limits: tuple[int, int], stochastic: bool) -> None:
    rng = np.random.default_rng(3)
    grad = rng.normal(size=10_001).astype(np.float32)
    hess = rng.random(10_001).astype(np.float32)
    scales = (
        limits[0] / float(np.abs(grad).max()),
        limits[1] / float(hess.max()),
        *map(float, limits),
    )
    for h in (hess, None):
        args = (scales, half_bits, 12345678901234567890, 2**33, stochastic)
        expected, totals = REFERENCE.quantize(grad, h, *args)
        packed, found = backend.quantize(backend.array(grad), backend.array(h), *args)
        assert found == totals
        rows = np.sort(rng.permutation(10_001)[:4000]).astype(np.int32)
        raw = pack_rows(expected[:, 0], expected[:, 1], half_bits)
        assert backend.host(packed).tobytes() == raw.tobytes()
        everyone = backend.select_rows(10_001, 0, None)
        assert backend.row_sums(packed, everyone) == tuple(expected.sum(axis=0).tolist())
        assert backend.row_sums(packed, backend.array(rows)) == REFERENCE.row_sums(expected, rows)


def test_samples(backend: Any) -> None:
    sample = (987654321, int(0.3 * 2**64))
    expected = REFERENCE.select_rows(5000, 17, sample)
    rows = backend.select_rows(5000, 17, sample)
    np.testing.assert_array_equal(backend.host(rows), expected)
    left_out = backend.host(backend.excluded_rows(rows, 5000))
    np.testing.assert_array_equal(left_out, REFERENCE.excluded_rows(expected, 5000))
    assert backend.host(rows).dtype == left_out.dtype == np.int32


@pytest.mark.parametrize("default_left", [0, 1])
def test_partition(backend: Any, default_left: int) -> None:
    case = Binned(backend, 5, sum(SIZES) + 10, 6)
    ends = np.cumsum(SIZES)
    rng = np.random.default_rng(5)
    plan = [
        [end - size, end, f := int(rng.integers(0, 6)), rng.integers(0, case.mapper.missing_bin[f]),
         case.mapper.missing_bin[f], default_left, end]
        for size, end in zip(SIZES, ends.tolist(), strict=True)
    ]  # fmt: skip
    rows = np.sort(rng.permutation(case.cuda.n_rows)[: ends[-1]]).astype(np.int32)
    on_device = backend.array(rows)
    n_left = REFERENCE.partition(case.reference, rows, np.array(plan))
    np.testing.assert_array_equal(backend.partition(case.cuda, on_device, np.array(plan)), n_left)
    np.testing.assert_array_equal(backend.host(on_device), rows)


# (bits of a row's half, local width, rows per block, largest gradient and hessian)
WIDTHS = [
    (8, 8, 50, 1, 2), (8, 16, 8192, 3, 6), (8, 16, 1057, 31, 62), (8, 32, 8192, 127, 254),
    (16, 16, 8192, 3, 6), (16, 32, 8192, 32767, 65535), (32, 64, 8192, 2**23 - 1, 2**24 - 2),
    (32, 32, 256, 2**23 - 1, 2**24 - 2),
]  # fmt: skip


@pytest.mark.parametrize("total", [16, 32, 64])
@pytest.mark.parametrize("width", WIDTHS)
def test_histograms(backend: Any, width: tuple[int, int, int, int, int], total: int) -> None:
    half_bits, local, block_rows, grad_limit, hess_limit = width
    rng = np.random.default_rng(6)
    case = Binned(backend, 7, 25_000, 37)
    limits = np.where(rng.random(25_000) < 0.5, 1, 0)  # half of the rows at the limits
    integers = np.stack([limits * -grad_limit, limits * hess_limit], axis=1)
    rows = np.sort(rng.permutation(25_000)[:24_000]).astype(np.int32)
    ranges = [(0, 24_000), (1000, 24_000), (0, 1000), (960, 1000), (7, 7)]
    plan = np.array([[a, b, slot, local, total, block_rows] for slot, (a, b) in enumerate(ranges)])
    expected = REFERENCE.new_pool(5, case.n_bins, 64)
    REFERENCE.build_histograms(expected, case.reference, integers, rows, plan, True)
    packed = backend.array(pack_rows(integers[:, 0], integers[:, 1], half_bits))
    for pool_bits in (32, 64):
        if pool_bits == 32 and hess_limit * 24_000 >= 2**32:
            continue
        pool = backend.new_pool(5, case.n_bins, pool_bits)
        backend.build_histograms(pool, case.cuda, packed, backend.array(rows), plan, True)
        np.testing.assert_array_equal(pool_sums(backend, pool), expected)
        steps = np.array([[0, 1, 64, 64, 64], [2, 3, 64, 64, 64]])
        part = (5, case.n_bins - 3)
        backend.subtract_histograms(pool, steps, part, True)
        wanted = expected.copy()
        REFERENCE.subtract_histograms(wanted, steps, part, True)
        np.testing.assert_array_equal(pool_sums(backend, pool), wanted)


def pool_sums(backend: Any, pool: Any) -> NDArray[np.int64]:
    raw = backend.host(pool)
    return raw if raw.ndim == 3 else np.stack([raw >> 32, raw & 0xFFFFFFFF], axis=-1)


@pytest.mark.parametrize("width", [32, 64])
def test_messages_are_those_of_the_cpu(backend: Any, width: int) -> None:
    rng = np.random.default_rng(8)
    sums = np.stack([rng.integers(-9, 10, (4, 200)), rng.integers(0, 2**20, (4, 200))], axis=-1)
    raw = sums if width == 64 else (sums[..., 0] << 32) + sums[..., 1]
    cpu, pool = CpuBackend(1), backend.array(raw)
    cpu_pool = raw.view(np.uint8).reshape(4, -1)
    plan = np.array([[0, 2, width, 0, 90], [0, 0, width, 0, 90], [1, 2, width, 90, 200]])
    sent = backend.pack_messages(pool, plan, 3, True)
    expected = cpu.pack_messages(cpu_pool, plan, 3, True)
    assert [m.tobytes() for m in sent] == [m.tobytes() for m in expected]
    steps = np.array([[3, width, 10, 100], [1, width, 110, 200]])
    backend.add_messages(pool, steps, (0, 2), [(1, sent[0]), (2, sent[0])], True)
    sums[3, 10:100] += 2 * sums[2, :90]
    sums[1, 110:200] += 2 * sums[0, :90]
    for slot in range(4):
        found = backend.histogram_sums(pool, slot, width, (5, 190), True)
        np.testing.assert_array_equal(found, sums[slot, 5:190])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("top", [1, 30, 10**6])
def test_find_splits(backend: Any, top: int, wide: bool) -> None:
    """Many equal gains with small integers: the order of ties."""
    rng = np.random.default_rng(top)
    n_values = [1, 2, 3, 255, 254, 7, 9, 31, 32, 33, 64, 8, 5, 200, 12, 4, 4, 4, 255]
    has_missing = (np.arange(len(n_values)) % 3 != 0).tolist()
    mapper = mapper_of(n_values, has_missing)
    pool, sums = np.zeros((30, int(mapper.bin_offset[-1]), 2), dtype=np.int64), []
    for slot in range(30):
        n_rows = int(rng.choice([4, 30, 500]))
        rows = np.stack([rng.integers(-top, top + 1, n_rows), rng.integers(0, top + 1, n_rows)], 1)
        for first, last in zip(mapper.bin_offset[:-1], mapper.bin_offset[1:], strict=True):
            np.add.at(pool[slot], rng.integers(first, last, n_rows), rows)
        sums.append([*rows.sum(axis=0), rng.choice([1.0, 1.0, 0.1 * rows[:, 1].sum()])])
    raw = pool if wide else (pool[..., 0] << 32) + pool[..., 1]
    on_device = backend.array(raw)
    allowed = (rng.random(len(n_values)) < 0.9).astype(np.uint8)
    slots = rng.permutation(30)[:25].astype(np.int64)
    for rules in (GainRules(1, 1, 0, 0, 0, 0), GainRules(0.3, 0.7, 1.0, 0.5, 0.2, 0)):
        for features in ((0, 19), (3, 11), (18, 19), (4, 4)):
            args = (slots, slots, np.array(sums)[slots], features, allowed, rules, True)
            expected = REFERENCE.find_splits(pool, mapper, *args)
            assert backend.find_splits(on_device, mapper, *args).tobytes() == expected.tobytes()


@pytest.mark.parametrize("constant", [False, True])
def test_leaves(backend: Any, constant: bool) -> None:
    rng = np.random.default_rng(9)
    n_rows = sum(SIZES) + 100
    rows = rng.permutation(n_rows)[: sum(SIZES)].astype(np.int32)
    ends = np.cumsum(SIZES)
    begins = ends - SIZES
    grad = rng.normal(size=n_rows).astype(np.float32)
    hess = None if constant else rng.random(n_rows).astype(np.float32)
    units = (2.0**38, 1.0 if constant else 2.0**40)
    leaves = REFERENCE.locate_leaves(rows, begins, ends, n_rows)
    expected = REFERENCE.leaf_sums(leaves, grad, hess, units)
    on_device = [backend.array(a) for a in (rows, grad, hess)]
    mine_leaves = backend.locate_leaves(on_device[0], begins, ends, n_rows)
    found = backend.leaf_sums(mine_leaves, *on_device[1:], units)
    np.testing.assert_array_equal(found, expected)
    scores, values = rng.normal(size=n_rows), rng.normal(size=len(SIZES))
    mine = backend.array(scores)
    REFERENCE.add_leaf_values(scores, leaves, values)
    backend.add_leaf_values(mine, mine_leaves, values)
    assert backend.host(mine).tobytes() == scores.tobytes()


@pytest.mark.parametrize("n_splits", [0, 2])
def test_add_tree(backend: Any, n_splits: int) -> None:
    case = Binned(backend, 10, 3000, 3)
    one = np.zeros(n_splits)
    tree = Tree(
        feature=np.arange(n_splits, dtype=np.int32),
        split_bin=np.zeros(n_splits, dtype=np.uint8),
        threshold=one,
        default_left=np.array([1, 0], dtype=np.uint8)[:n_splits],
        left=np.array([1, -1], dtype=np.int32)[:n_splits],
        right=np.array([-2, -3], dtype=np.int32)[:n_splits],
        gain=one,
        split_rows=one.astype(np.int64),
        split_hess=one,
        leaf_value=np.array([0.1, -0.2, 0.7])[: n_splits + 1],
        leaf_rows=np.zeros(n_splits + 1, dtype=np.int64),
        leaf_hess=np.zeros(n_splits + 1),
    )
    subset = np.arange(1, 3000, 3, dtype=np.int32)
    for rows in (None, subset):
        scores = backend.host(backend.new_scores(np.array([0.25, 1.5]), 3000))
        assert scores.tolist() == [[0.25] * 3000, [1.5] * 3000]
        mine = backend.array(scores[1])
        REFERENCE.add_tree(scores[1], case.reference, tree, rows)
        backend.add_tree(mine, case.cuda, tree, backend.array(rows))
        assert backend.host(mine).tobytes() == scores[1].tobytes()
