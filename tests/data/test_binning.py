"""Bin edges and bins: bounds, monotony, special values, and independence of order and shards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import hash_key, row_hash
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.backends.reference.edges import find_edges
from bitgrove.data.binning import BinMapper, fit_edges
from bitgrove.data.row_ids import RowRuns, one_run
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.params import resolve
from kernel_cases import SIMD, cpu

F64 = NDArray[np.float64]
ODD_VALUES = [0.0, -0.0, math.inf, -math.inf, 1e38, -1e38, 1e308, -1.7e308, 5e-324, -5e-324]
ODD_VALUES += [1e-310, 1.0, math.nextafter(1.0, 2.0), 3.4028234663852886e38, 1.17549435e-38]

values = st.floats(allow_nan=False) | st.sampled_from(ODD_VALUES) | st.integers(-5, 5).map(float)
columns = st.lists(values | st.just(math.nan), min_size=1, max_size=60)


def fit_table(
    table: list[NDArray[Any]],
    max_bin: int = 255,
    sample_rows: int = 10**6,
    runs: RowRuns | None = None,
    comm: Comm | None = None,
    seed: int = 0,
) -> BinMapper:
    """Edges by the core; checks those of the reference against them."""
    params = resolve({"max_bin": max_bin, "bin_sample_rows": sample_rows, "random_state": seed})
    runs = one_run(len(table[0])) if runs is None else runs
    reference, mapper = (
        fit_edges(table, backend.find_edges, params, runs, comm or SoloComm())
        for backend in (ReferenceBackend(), cpu())
    )
    assert reference.edge_values.tobytes() == mapper.edge_values.tobytes()
    np.testing.assert_array_equal(reference.edge_offset, mapper.edge_offset)
    return mapper


def fit(column: Any, max_bin: int = 255, sample_rows: int = 10**6) -> BinMapper:
    return fit_table([np.asarray(column)], max_bin, sample_rows)


def bins_of(mapper: BinMapper, table: list[NDArray[Any]]) -> NDArray[np.uint8]:
    """Bins by the reference; checks every instruction set and thread count against it."""
    reference = ReferenceBackend().bin_columns(table, mapper)
    for simd in SIMD:
        for n_threads in (1, 2):
            matrix = cpu(n_threads, simd).bin_columns(table, mapper)
            np.testing.assert_array_equal(matrix.columns[:, : len(table[0])], reference.bins)
            np.testing.assert_array_equal(matrix.missing, reference.missing)
    return reference.bins


@settings(max_examples=100, deadline=None)
@given(columns, st.integers(2, 12))
def test_edges_and_bins_of_any_column(column: list[float], max_bin: int) -> None:
    x = np.array(column)
    mapper = fit(x, max_bin)
    edges = mapper.edge_values
    assert len(edges) <= max_bin - 1
    assert np.all(edges[1:] > edges[:-1]) and not np.isnan(edges).any()
    bins = bins_of(mapper, [x])[0]
    is_missing = np.isnan(x)
    assert np.all(bins[is_missing] == mapper.missing_bin[0])
    assert np.all(bins[~is_missing] < mapper.missing_bin[0])
    order = np.argsort(x[~is_missing], kind="stable")
    ordered, sorted_bins = x[~is_missing][order], bins[~is_missing][order].astype(int)
    assert np.all(np.diff(sorted_bins) >= 0)
    same = ordered[1:] == ordered[:-1]
    assert np.all(np.diff(sorted_bins)[same] == 0)  # also 0.0 and -0.0
    # No bin of the sample is empty.
    assert set(sorted_bins.tolist()) == set(range(len(edges) + 1)) or not len(ordered)


@settings(max_examples=100, deadline=None)
@given(columns, st.integers(2, 12), st.lists(values, max_size=20))
def test_threshold_is_the_border_of_its_bin(
    column: list[float], max_bin: int, others: list[float]
) -> None:
    """x <= threshold(bin) iff bin(x) <= bin: raw values and bins take the same way."""
    mapper = fit(np.array(column), max_bin)
    neighbours = [math.nextafter(e, d) for e in mapper.edge_values for d in (-math.inf, math.inf)]
    x = np.array([v for v in column if not math.isnan(v)] + others + neighbours + ODD_VALUES)
    bins = bins_of(mapper, [x])[0]
    thresholds = [*mapper.edge_values.tolist(), math.inf]
    assert len(thresholds) == mapper.missing_bin[0]
    for b, threshold in enumerate(thresholds):
        np.testing.assert_array_equal(x <= threshold, bins <= b)


@st.composite
def samples(draw: st.DrawFn) -> NDArray[Any]:
    """A sample of few or many distinct values, some of them heavy, in any order."""
    distinct = draw(st.lists(values | st.just(math.nan), min_size=1, max_size=80))
    light = st.integers(1, 3)
    counts = st.lists(light | st.integers(1, 400), min_size=len(distinct), max_size=len(distinct))
    if draw(st.booleans(), "no heavy values"):
        counts = st.lists(light, min_size=len(distinct), max_size=len(distinct))
    sample = np.repeat(distinct, draw(counts))
    np.random.default_rng(draw(st.integers(0, 2**32 - 1))).shuffle(sample)
    if draw(st.booleans(), "float32"):
        with np.errstate(over="ignore"):
            sample = sample.astype(np.float32)
    return sample


@settings(max_examples=400, deadline=None)
@given(samples(), st.integers(2, 40) | st.just(255))
def test_the_core_cuts_where_the_reference_does(sample: NDArray[Any], max_bin: int) -> None:
    (cut,) = cpu().find_edges([sample], None, max_bin)
    found = find_edges(sample, max_bin)
    assert cut.dtype == found.dtype == np.float64
    assert cut.tobytes() == found.tobytes()
    assert len(cut) <= max_bin - 1 and np.all(cut[1:] > cut[:-1])


@pytest.mark.parametrize("max_bin", [2, 5, 255])
def test_the_core_cuts_long_samples_where_the_reference_does(
    max_bin: int, rng: np.random.Generator
) -> None:
    """Thousands of distinct values beside heavy ones: every share of rows has its borders."""
    for scale in (1e-320, 1.0, 1e300):
        sample = np.round(rng.standard_cauchy(20_000) * 50) * scale
        sample[rng.random(20_000) < 0.2] = 3.0 * scale
        sample[:40] = np.repeat([math.inf, -math.inf, math.nan, -0.0], 10)
        (cut,) = cpu().find_edges([sample], None, max_bin)
        assert cut.tobytes() == find_edges(sample, max_bin).tobytes()


@settings(max_examples=50, deadline=None)
@given(columns, st.integers(2, 8), st.randoms(use_true_random=False))
def test_row_order_does_not_matter(column: list[float], max_bin: int, random: Any) -> None:
    shuffled = column.copy()
    random.shuffle(shuffled)
    (edges,) = cpu().find_edges([np.array(column)], None, max_bin)
    (others,) = cpu().find_edges([np.array(shuffled)], None, max_bin)
    assert others.tobytes() == edges.tobytes()
    assert find_edges(np.array(shuffled), max_bin).tobytes() == edges.tobytes()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(values, values | st.just(math.nan)), min_size=2, max_size=60),
    st.integers(2, 8),
    st.integers(1, 4),
    st.sampled_from([20, 10**6]),
    st.integers(0, 100),
)
def test_shards_do_not_matter(
    rows: list[tuple[float, float]], max_bin: int, n_ranks: int, sample_rows: int, seed: int
) -> None:
    """Also when the edges come from a sample: it is chosen by global row id."""
    table = np.array(rows)
    whole = fit_table([*table.T], max_bin, sample_rows, seed=seed)
    borders = np.linspace(0, len(table), n_ranks + 1).astype(int)

    def work(comm: Comm) -> BinMapper:
        part = table[borders[comm.rank] : borders[comm.rank + 1]]
        runs = one_run(len(part), int(borders[comm.rank]))
        return fit_table([*part.T], max_bin, sample_rows, runs, comm, seed)

    for mapper in run_threads(n_ranks, work):
        assert mapper.edge_values.tobytes() == whole.edge_values.tobytes()
        np.testing.assert_array_equal(mapper.edge_offset, whole.edge_offset)


def test_few_values_get_a_bin_each() -> None:
    x = np.array([3.0, 1.0, 2.0, 1.0, 10.0])
    mapper = fit(x, 4)
    assert mapper.edge_values.tolist() == [1.5, 2.5, 6.5]
    assert bins_of(mapper, [x])[0].tolist() == [2, 0, 1, 0, 3]


@pytest.mark.parametrize("max_bin", [2, 3, 16, 255])
def test_equal_shares(max_bin: int, rng: np.random.Generator) -> None:
    """Continuous values: all bins are used and none holds much more than its share."""
    x = rng.normal(size=20_000)
    mapper = fit(x, max_bin)
    assert len(mapper.edge_values) == max_bin - 1
    counts = np.bincount(bins_of(mapper, [x])[0], minlength=max_bin)
    assert counts.max() <= math.ceil(20_000 / max_bin) + 1
    assert counts.min() >= 20_000 // max_bin - 1


@pytest.mark.parametrize("heavy", [0.0, -7.5, 1e6])
def test_a_heavy_value_gets_its_own_bin(heavy: float, rng: np.random.Generator) -> None:
    x = rng.normal(size=5000)
    x[rng.random(5000) < 0.4] = heavy
    mapper = fit(x, 32)
    bins = bins_of(mapper, [x])[0]
    its_bin = set(bins[x == heavy].tolist())
    assert len(its_bin) == 1
    assert not its_bin & set(bins[x != heavy].tolist())
    # The others still share the other bins about equally.
    counts = np.bincount(bins[x != heavy], minlength=32)
    assert counts.max() <= 2 * (x != heavy).sum() / 31


def test_many_heavy_values_keep_within_the_bins() -> None:
    """Heavy values between light ones: more wishes than bins."""
    for max_bin in (2, 3, 4, 5, 8):
        heavy = np.repeat(np.arange(max_bin - 1.0), 1000)
        light = np.arange(-0.5, max_bin, 0.01)
        mapper = fit(np.concatenate([heavy, light]), max_bin)
        assert 1 <= len(mapper.edge_values) <= max_bin - 1


@pytest.mark.parametrize("value", [0.0, -0.0, 5.5, math.inf, -math.inf, 1e38, math.nan])
def test_a_constant_feature_has_one_bin(value: float) -> None:
    x = np.full(20, value)
    mapper = fit(x)
    assert len(mapper.edge_values) == 0 and mapper.missing_bin.tolist() == [1]
    assert set(bins_of(mapper, [x])[0].tolist()) == ({1} if math.isnan(value) else {0})


def test_zeros_are_one_value() -> None:
    mapper = fit(np.array([-0.0, 0.0, -1.0, 1.0]))
    assert len(mapper.edge_values) == 2
    bins = bins_of(mapper, [np.array([-0.0, 0.0, -5e-324, 5e-324])])[0]
    assert bins[0] == bins[1] == 1


def test_infinities_and_neighbours_are_separated() -> None:
    one_up = math.nextafter(1.0, 2.0)
    x = np.array([-math.inf, -1.7e308, -5e-324, 0.0, 5e-324, 1.0, one_up, 1e38, 1.7e308, math.inf])
    mapper = fit(x)
    assert bins_of(mapper, [x])[0].tolist() == list(range(10))
    assert np.all(mapper.edge_values < math.inf)


def test_255_bins_and_missing() -> None:
    """The most bins there are: 254 edges, missing is byte 255."""
    x = np.append(np.arange(255.0), math.nan)
    mapper = fit(x, 255)
    assert mapper.missing_bin.tolist() == [255]
    assert bins_of(mapper, [x])[0].tolist() == [*range(255), 255]
    with pytest.raises(ValueError, match="edge offsets"):
        too_many = BinMapper(np.arange(255.0), np.array([0, 255]), np.zeros(1, np.uint8))
        cpu().bin_columns([x], too_many)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 5, 32, 33, 70])
def test_layouts_of_columns(n_features: int, dtype: Any, rng: np.random.Generator) -> None:
    """float32 and float64, row-major, column-major and reversed tables; several blocks of rows."""
    table = rng.normal(size=(4100, n_features)).astype(dtype)
    table[rng.random(table.shape) < 0.05] = np.nan
    table[:, 0] = 1.0
    c_order = [table[:, f] for f in range(n_features)]
    mapper = fit_table(c_order, sample_rows=1000)
    bins = bins_of(mapper, c_order)
    fortran = np.asfortranarray(table)
    np.testing.assert_array_equal(bins_of(mapper, [fortran[:, f] for f in range(n_features)]), bins)
    backwards = bins_of(mapper, [table[::-1, f] for f in range(n_features)])
    np.testing.assert_array_equal(backwards, bins[:, ::-1])


def test_float32_and_float64_get_the_same_bins(rng: np.random.Generator) -> None:
    x = rng.normal(size=1000).astype(np.float32)
    narrow, wide = fit(x, 50), fit(x.astype(np.float64), 50)
    assert narrow.edge_values.tobytes() == wide.edge_values.tobytes()
    np.testing.assert_array_equal(bins_of(narrow, [x]), bins_of(wide, [x.astype(np.float64)]))


def test_the_sample_is_chosen_by_hash(rng: np.random.Generator) -> None:
    """Edges depend on the sampled rows only: about sample_rows of them, the same everywhere."""
    x = rng.normal(size=10_000)
    limit = np.uint64((1000 << 64) // 10_000)
    ids = np.arange(77, 77 + 10_000, dtype=np.uint64)
    sampled = row_hash(hash_key(5, 1), ids) < limit
    assert 850 < sampled.sum() < 1150
    runs = one_run(len(x), 77)
    mapper = fit_table([x, -x], 255, 1000, runs, seed=5)
    first = mapper.edge_values[: mapper.edge_offset[1]]
    assert first.tobytes() == find_edges(x[sampled], 255).tobytes()
    spoiled = np.where(sampled, x, 1e9)
    again = fit_table([spoiled, -x], 255, 1000, runs, seed=5)
    assert again.edge_values.tobytes() == mapper.edge_values.tobytes()
    other = fit_table([x, -x], 255, 1000, runs, seed=6)
    assert other.edge_values.tobytes() != mapper.edge_values.tobytes()


def test_values_outside_the_sample_go_to_the_outer_bins() -> None:
    mapper = fit(np.array([1.0, 2.0, 3.0]))
    x = np.array([-math.inf, -100.0, 100.0, math.inf, math.nan])
    assert bins_of(mapper, [x])[0].tolist() == [0, 0, 2, 2, 3]


def test_offsets_of_a_histogram() -> None:
    mapper = fit_table([np.arange(4.0), np.zeros(4), np.arange(4.0) % 2])
    assert mapper.n_features == 3
    assert mapper.missing_bin.tolist() == [4, 1, 2]
    assert mapper.bin_offset.tolist() == [0, 4, 5, 7]
    with_missing = mapper.with_missing(np.array([1, 0, 1], dtype=np.uint8))
    assert with_missing.bin_offset.tolist() == [0, 5, 6, 9]
    assert mapper.bin_offset.tolist() == [0, 4, 5, 7]  # a copy, not a change
    assert mapper.edge_offset.tolist() == [0, 3, 3, 4]
    assert mapper.edge_values.tolist() == [0.5, 1.5, 2.5, 0.5]


@pytest.mark.parametrize("column", [np.arange(5), np.zeros(4)], ids=["integers", "short"])
def test_wrong_columns_are_refused(column: NDArray[Any]) -> None:
    mapper = fit_table([np.arange(5.0), np.arange(5.0)])
    with pytest.raises(ValueError, match="bitgrove core"):
        cpu().bin_columns([np.arange(5.0), column], mapper)
