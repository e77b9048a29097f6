"""The verbs before a tree, on any backend: edges, bins, copies, integers, samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import Rounding
from bitgrove.data.binning import BinMapper
from bitgrove.data.row_ids import RowRun, RowRuns, one_run
from bitgrove.data.sampling import KeepRule, Sample
from kernel_cases import mapper_of, pack_rows
from verb_cases import REFERENCE, leaf_tree

N_ROWS = 9001
RUNS: dict[str, RowRuns] = {
    "one run": one_run(N_ROWS, 2**33),
    "several": [RowRun(0, 4000, 2**40), RowRun(4000, 4001, 7), RowRun(4001, N_ROWS, 100)],
}


def columns_of_many_kinds(n_rows: int, dtype: Any) -> list[NDArray[Any]]:
    rng = np.random.default_rng(1)
    normal = rng.normal(size=n_rows)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, tiny, -tiny, 5 * tiny, 1e30, -1e30, np.nan])
    kinds = [
        normal,
        np.floor(3 * normal),
        np.where(normal < 0.5, 0.0, normal),
        np.where(rng.random(n_rows) < 0.3, np.nan, normal),
        rng.choice(odd, size=n_rows),
        rng.integers(-9, 10, n_rows) * tiny,
        np.full(n_rows, -0.0),
        np.full(n_rows, np.nan),
    ]
    return [kind.astype(dtype) for kind in kinds]


def mapper_for(columns: list[NDArray[Any]], max_bin: int) -> BinMapper:
    edges = REFERENCE.find_edges(columns, None, max_bin)
    offset = np.concatenate([[0], np.cumsum([len(e) for e in edges])]).astype(np.int64)
    return BinMapper(np.concatenate(edges), offset, np.zeros(len(columns), dtype=np.uint8))


def bins_on(backend: Any, matrix: Any) -> NDArray[np.uint8]:
    """(n_features, n_rows) of a backend's matrix. A GPU's has columns once it has a pool."""
    if not hasattr(matrix, "here"):
        return np.asarray(backend.download(matrix.columns)[:, : matrix.n_rows])
    places = [place for place in (matrix.here, matrix.there) if place.n_rows]
    found = [bins_of_tiles(backend.download(p.tiles), p.n_rows, matrix) for p in places]
    backend.new_pool(matrix, 2, 32)
    places = [place for place in (matrix.here, matrix.there) if place.n_rows]
    for tiles, place in zip(found, places, strict=True):
        columns = backend.download(place.columns).reshape(tiles.shape)
        np.testing.assert_array_equal(tiles, columns)
    return np.concatenate(found, axis=1)


def bins_of_tiles(tiles: NDArray[np.uint8], n_rows: int, matrix: Any) -> NDArray[np.uint8]:
    found, n_features = [], matrix.mapper.n_features
    for first in range(0, n_features, 32):
        n = min(32, n_features - first)
        step = _core.tile_bytes(1, n)
        tile = tiles[first * n_rows : first * n_rows + step * n_rows].reshape(n_rows, step)
        found.append(tile[:, :n].T)
    return np.concatenate(found)


def check_bins(backend: Any, columns: list[Any], mapper: BinMapper) -> None:
    expected, found = (b.bin_columns(columns, mapper) for b in (REFERENCE, backend))
    assert found.n_rows == len(columns[0])
    np.testing.assert_array_equal(bins_on(backend, found), expected.bins)
    np.testing.assert_array_equal(found.missing, expected.missing)


def check_edges(backend: Any, columns: list[Any], rows: Any, max_bin: int) -> list[Any]:
    expected, found = (b.find_edges(columns, rows, max_bin) for b in (REFERENCE, backend))
    assert [e.tobytes() for e in found] == [e.tobytes() for e in expected]
    return list(found)


class ColumnVerbs:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("max_bin", [2, 3, 16, 255])
    def test_find_edges(self, backend: Any, max_bin: int, dtype: Any) -> None:
        columns = columns_of_many_kinds(20_000, dtype)
        found = check_edges(backend, columns, None, max_bin)
        assert max(map(len, found)) == max_bin - 1
        check_edges(backend, columns, np.arange(3, 20_000, 7, dtype=np.int32), max_bin)
        for n_rows in (0, 1, 2, 300):
            check_edges(backend, [column[:n_rows] for column in columns], None, max_bin)

    @pytest.mark.parametrize("max_bin", [2, 255])
    def test_bins_stay_bins(self, backend: Any, max_bin: int) -> None:
        """Columns of uint8 among those of values, each on its own and as rows of one array."""
        columns = columns_of_many_kinds(3000, np.float32)
        mapper = mapper_for(columns, max_bin)
        bins = REFERENCE.bin_columns(columns, mapper).bins
        padded = np.concatenate([bins, np.zeros((len(bins), 3), dtype=np.uint8)], axis=1)
        mixed = [bins[f] if f % 2 else column for f, column in enumerate(columns)]
        for given in (mixed, list(bins), [row[:3000] for row in padded]):
            check_bins(backend, given, mapper)
            assert (REFERENCE.bin_columns(given, mapper).bins == bins).all()

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_edges_of_tables(self, backend: Any, order: Any) -> None:
        """Many features of either layout, both types side by side; 2^k rows and columns."""
        rng = np.random.default_rng(5)
        table = rng.standard_cauchy((2048, 128)).astype(np.float32, order=order)
        columns = [*table.T, *table.astype(np.float64, order=order).T[:70], np.arange(2048.0)]
        columns[3] = np.round(columns[3]).astype(np.float64)
        listed = np.flatnonzero(rng.random(2048) < 0.6).astype(np.int32)
        for rows in (None, listed, listed[:0]):
            check_edges(backend, columns, rows, 63)

    def test_edges_of_heavy_values(self, backend: Any) -> None:
        """From one heavy value to more of them than bins, first, last and between."""
        rng = np.random.default_rng(6)
        columns = []
        for n_heavy in (1, 2, 5, 9, 20):
            heavy = rng.integers(-3, 4 * n_heavy, n_heavy) * 0.5
            column = np.where(
                rng.random(5000) < 0.8, rng.choice(heavy, 5000), rng.normal(size=5000)
            )
            columns += [column, np.maximum(column, heavy[0]), np.minimum(column, heavy[0])]
        for max_bin in (2, 3, 8, 21, 255):
            check_edges(backend, columns, None, max_bin)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n_rows", [1, 5, 2047, 2049, 10_000])
    def test_bins_of_many_kinds(self, backend: Any, n_rows: int, dtype: Any) -> None:
        columns = columns_of_many_kinds(n_rows, dtype)
        check_bins(backend, columns, mapper_for(columns, 255))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_bins_at_the_edges(self, backend: Any, dtype: Any) -> None:
        """A value equal to an edge is below it, also among denormals and infinities."""
        tiny = float(np.finfo(dtype).smallest_subnormal)
        edges = np.array([-np.inf, -1e35, -tiny, 0.0, tiny, 2 * tiny, 1e30])
        finite = edges[np.isfinite(edges)].astype(dtype)
        near = [np.nextafter(finite, dtype(to)) for to in (-np.inf, np.inf)]
        odd = np.array([-0.0, np.inf, -np.inf, np.nan, 3 * tiny], dtype=dtype)
        values = np.concatenate([finite, *near, odd])
        mapper = BinMapper(edges, np.array([0, len(edges)]), np.zeros(1, dtype=np.uint8))
        check_bins(backend, [values], mapper)

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("part", ["all", "rows", "features", "backwards"])
    def test_bins_of_views(self, backend: Any, order: Any, part: str) -> None:
        """Columns are views of tables of any layout."""
        table = np.array(columns_of_many_kinds(600, np.float32)).T.astype(np.float64, order=order)
        views = {
            "all": table,
            "rows": table[5::3],
            "features": table[:, 1::2],
            "backwards": table[::-1, ::-1],
        }
        columns = list(views[part].T)
        check_bins(backend, columns, mapper_for(columns, 20))

    def test_bins_of_mixed_columns(self, backend: Any) -> None:
        """Both types side by side, a column that repeats itself, and one with a gap."""
        columns = columns_of_many_kinds(500, np.float64)
        columns[1], columns[4] = columns[1].astype(np.float32), np.broadcast_to(2.5, 500)
        columns[2] = np.repeat(columns[2], 2)[::2]
        check_bins(backend, columns, mapper_for(columns, 100))

    def test_all_bins_of_many_features(self, backend: Any) -> None:
        columns = [np.arange(300.0)[::-1] % (f + 1) for f in range(70)]
        check_bins(backend, columns, mapper_for(columns, 255))


class CopyVerbs:
    @pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, "f4", "f8"])
    def test_there_and_back(self, backend: Any, dtype: Any) -> None:
        values = (np.random.default_rng(2).normal(size=(30, 20)) * 99).astype(dtype)
        views = [values, values[:, 3], values[::2, ::-3], values.T, values[:0], values[4, :0]]
        for view in views:
            found = backend.download(backend.upload(view))
            assert found.dtype == view.dtype and found.shape == view.shape
            assert found.tobytes() == view.tobytes()
        assert backend.upload(None) is None

    @pytest.mark.parametrize("n_rows", [1, 2, 3000])
    @pytest.mark.parametrize("n_outputs", [1, 3])
    def test_values_that_repeat_themselves(self, backend: Any, n_outputs: int, n_rows: int) -> None:
        """Every row one value, every row the same, and one value everywhere."""
        first = np.array([0.25, -0.0, -7.5])[:n_outputs, None]
        row = np.random.default_rng(3).normal(size=n_rows)
        shape = (n_outputs, n_rows)
        views = [np.broadcast_to(first, shape), np.broadcast_to(row, shape)]
        views += [np.broadcast_to(np.float32(-0.0), shape), np.broadcast_to(1.5, n_rows)]
        for view in views:
            found = backend.download(backend.upload(view))
            assert found.shape == view.shape and found.tobytes() == view.tobytes()

    @pytest.mark.parametrize("n_rows", [0, 1, 2, 3000])
    def test_repeated_scores_take_a_tree(self, backend: Any, n_rows: int) -> None:
        """They are the backend's own, also where so few rows need not be repeated."""
        mapper = mapper_of([2], [False])
        matrix = backend.bin_columns([np.zeros(n_rows)], mapper)
        scores = backend.upload(np.broadcast_to(np.array([[0.25], [1.5]]), (2, n_rows)))
        backend.add_tree(scores[1], matrix, leaf_tree(np.array([0.5])))
        found = backend.download(scores)
        assert np.all(found[0] == 0.25) and np.all(found[1] == 2.0)


LIMITS = [(8, 1, 2), (8, 3, 6), (8, 127, 254), (16, 32767, 900), (32, 2**23 - 1, 2**24 - 2)]


class RowVerbs:
    @pytest.mark.parametrize("runs", sorted(RUNS))
    @pytest.mark.parametrize("stochastic", [False, True])
    @pytest.mark.parametrize("limits", LIMITS)
    def test_quantize(
        self, backend: Any, limits: tuple[int, int, int], stochastic: bool, runs: str
    ) -> None:
        half_bits, grad_limit, hess_limit = limits
        rng = np.random.default_rng(4)
        grad = rng.normal(size=N_ROWS).astype(np.float32)
        hess = rng.random(N_ROWS).astype(np.float32)
        grad[:9], hess[:9] = [0.0, -0.0, 1.2e-38, -1.2e-38, 1e-30, 0.5, -0.5, 90.0, -90.0], 0.0
        inverse = (grad_limit / 5.0, hess_limit / float(hess.max()))
        bounds = (grad_limit, hess_limit)
        rounding = Rounding(*inverse, *bounds, half_bits, 12345678901234567890, stochastic)
        for h in (hess, None):
            expected = REFERENCE.quantize(grad, h, rounding, RUNS[runs])
            mine = [backend.upload(values) for values in (grad, h)]
            found = backend.quantize(*mine, rounding, RUNS[runs])
            raw = pack_rows(*expected.values.T.tolist(), half_bits)
            assert backend.download(found.values).tobytes() == raw.tobytes()
            assert found.totals == expected.totals

    def test_quantize_no_rows(self, backend: Any) -> None:
        """A rank may hold none."""
        nothing = backend.upload(np.zeros(0, dtype=np.float32))
        found = backend.quantize(nothing, nothing, Rounding(1.0, 1.0, 1, 2, 8, 1, True), one_run(0))
        assert len(found.values) == 0 and found.totals.tolist() == [(0, 0, 0, 0, 0, 0)]

    @pytest.mark.parametrize("runs", sorted(RUNS))
    def test_select_rows(self, backend: Any, runs: str) -> None:
        samples = [Sample(987654321, int(share * 2**64)) for share in (0.0, 0.001, 0.3, 0.97)]
        for sample in [None, *samples, Sample(5, 2**64 - 1)]:
            expected = REFERENCE.select_rows(RUNS[runs], sample)
            found = backend.download(backend.select_rows(RUNS[runs], sample))
            assert found.dtype == np.int32
            np.testing.assert_array_equal(found, expected)

    def test_select_no_rows(self, backend: Any) -> None:
        for sample in (None, Sample(1, 2**63)):
            assert len(backend.select_rows(one_run(0), sample)) == 0

    @pytest.mark.parametrize("runs", sorted(RUNS))
    def test_select_by_ids_and_limits(self, backend: Any, runs: str) -> None:
        """Rows with one id and one limit are in together, or out together."""
        rng = np.random.default_rng(5)
        ids = np.sort(rng.integers(0, 900, N_ROWS)).astype(np.uint64)
        limits = rng.choice(np.array([0, 2**62, 2**64 - 1], dtype=np.uint64), N_ROWS)
        for own in ((ids, None), (None, limits), (ids, limits)):
            expected = REFERENCE.select_rows(RUNS[runs], Sample(77, 2**63, *own))
            sample = Sample(77, 2**63, *(backend.upload(a) for a in own))
            found = backend.download(backend.select_rows(RUNS[runs], sample))
            np.testing.assert_array_equal(found, expected)
            assert 0 < len(found) < N_ROWS

    @pytest.mark.parametrize("rule", [(0.1, 1.5, 0.0, 1 / 1.5), (0.0, 2.0, 0.1, 0.0)])
    @pytest.mark.parametrize("runs", sorted(RUNS))
    def test_rows_kept_by_gradient(
        self, backend: Any, runs: str, rule: tuple[float, float, float, float]
    ) -> None:
        rng = np.random.default_rng(6)
        grad = rng.normal(size=N_ROWS).astype(np.float32)
        hess = rng.random(N_ROWS).astype(np.float32)
        grad[:6], hess[:6] = [0.0, -0.0, 1.2e-38, -1e-30, 3e38, 1.5], 0.0
        for h in (hess, None):
            mine = [backend.upload(values) for values in (grad, h)]
            sizes = REFERENCE.count_importance(grad, h, rule[0])
            np.testing.assert_array_equal(backend.count_importance(*mine, rule[0]), sizes)
            expected = REFERENCE.keep_rows(grad, h, KeepRule(*rule, 99), RUNS[runs])
            found = backend.keep_rows(*mine, KeepRule(*rule, 99), RUNS[runs])
            for a, b in zip(found[:2], expected[:2], strict=True):
                assert backend.download(a).tobytes() == b.tobytes()
            assert found.magnitudes == expected.magnitudes
            assert sizes.sum() == N_ROWS > expected.magnitudes["hess_rows"] > 100

    def test_keep_no_rows(self, backend: Any) -> None:
        nothing = backend.upload(np.zeros(0, dtype=np.float32))
        found = backend.keep_rows(nothing, None, KeepRule(0.1, 1.0, 0.0, 1.0, 5), one_run(0))
        assert len(found.grad) == 0 and not any(found.magnitudes)
        assert backend.count_importance(nothing, nothing, 0.1).sum() == 0

    def test_fade(self, backend: Any) -> None:
        rng = np.random.default_rng(7)
        scores, start = rng.normal(size=(2, 2, N_ROWS))
        mine = [backend.upload(values) for values in (scores.copy(), start)]
        backend.fade(mine[0][1], mine[1][1], 2 / 3)
        REFERENCE.fade(scores[1], start[1], 2 / 3)
        assert backend.download(mine[0]).tobytes() == scores.tobytes()
