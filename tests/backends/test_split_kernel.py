"""The split search: cpu = reference bit for bit, the paper's gain, and the order of ties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import GainRules, PackedRows, TreeInputs
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.data.binning import BinMapper
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.distributed.comm import Comm, feature_block
from bitgrove.distributed.data_parallel import best_of_ranks
from bitgrove.kernels.plans import ROW_TOTALS, SEARCH_NODE, Records, no_splits, records
from kernel_cases import SIMD, Sums, core_tree, cpu, dirty_pool, mapper_of, write_slot

PLAIN = GainRules(1.0, 1.0, 0.0, 0.0, 0.0)


@dataclass
class Search:
    """Histograms of some nodes over one mapper, and how to search them."""

    mapper: BinMapper
    nodes: list[Sums]  # every feature's bins of a node add up to the same pair
    rules: GainRules = PLAIN
    min_hess: float = 1.0
    features: tuple[int, int] | None = None
    allowed: NDArray[np.uint8] | None = None

    @property
    def range(self) -> tuple[int, int]:
        return self.features or (0, self.mapper.n_features)

    def may_split(self) -> NDArray[np.uint8]:
        return np.ones(self.mapper.n_features, np.uint8) if self.allowed is None else self.allowed

    def records(self, width: int) -> Records:
        """Node i is in slot i."""
        first = slice(0, int(self.mapper.bin_offset[1]))
        sums = np.array([np.sum(node[first], axis=0) for node in self.nodes])
        return records(
            SEARCH_NODE, len(sums), slot=np.arange(len(sums)), width=width, sibling=-1,
            grad=sums[:, 0], hess=sums[:, 1], min_hess=self.min_hess,
        )  # fmt: skip

    def reference(self) -> Records:
        backend = ReferenceBackend()
        pool = backend.new_pool(self.matrix(backend), len(self.nodes), 64)
        pool.storage[:] = self.nodes
        no_rows = PackedRows(np.zeros((1, 2), dtype=np.int64), records(ROW_TOTALS, 1))
        rows = np.zeros(1, dtype=np.int32)
        inputs = TreeInputs(no_rows, rows, self.may_split(), self.rules, False)
        return backend.start_tree(pool, inputs).find(self.records(64), self.range)

    def matrix(self, backend: Any) -> Any:
        """One row, so that there is a pool."""
        matrix = backend.bin_columns([np.zeros(1)] * self.mapper.n_features, self.mapper)
        matrix.prepare(self.mapper)
        return matrix

    def cpu(self, width: int, simd: int = SIMD[-1], n_threads: int = 1) -> Records:
        backend = cpu(n_threads, simd)
        pool = dirty_pool(backend, self.matrix(backend), len(self.nodes))
        for slot, node in enumerate(self.nodes):
            write_slot(pool, slot, width, node)
        rules = _core.GainRules(**self.rules._asdict())
        tree = core_tree(backend, pool, rules=rules, allowed=self.may_split())
        found: Records = tree.find(self.records(width), self.range)
        return found

    def check(self, widths: tuple[int, ...] = (16, 32, 64)) -> Records:
        """All layouts and instruction sets give the reference's bytes."""
        expected = self.reference()
        for width in widths:
            for simd in SIMD:
                found = self.cpu(width, simd, 1 + simd)
                assert found.tobytes() == expected.tobytes()
        return expected


def histogram(mapper: BinMapper, bins: NDArray[Any], rows: NDArray[np.int64]) -> Sums:
    """Sums of (grad, hess) rows; bins is (n_features, n_rows)."""
    sums = np.zeros((int(mapper.bin_offset[-1]), 2), dtype=np.int64)
    for feature, offset in enumerate(mapper.bin_offset[:-1]):
        np.add.at(sums, offset + bins[feature], rows)
    return [(int(g), int(h)) for g, h in sums]


def random_nodes(
    rng: np.random.Generator, mapper: BinMapper, n_nodes: int, n_rows: int, top: int
) -> list[Sums]:
    """Nodes of random rows; a small `top` makes many equal gains."""
    nodes = []
    for _ in range(n_nodes):
        sizes = np.diff(mapper.bin_offset)
        bins = np.stack([rng.integers(0, n, size=n_rows) for n in sizes])
        rows = np.stack([rng.integers(-top, top + 1, n_rows), rng.integers(0, top + 1, n_rows)], 1)
        nodes.append(histogram(mapper, bins, rows))
    return nodes


def soft(grad: float, alpha: float) -> float:
    return math.copysign(max(abs(grad) - alpha, 0.0), grad)


def plain_gain(left: tuple[int, int], node: tuple[int, int], rules: GainRules) -> float:
    """Equation (7) of the paper with L1 and L2, as it is written."""

    def score(grad: int, hess: int) -> float:
        denominator = hess * rules.hess_scale + rules.reg_lambda
        return soft(grad * rules.grad_scale, rules.reg_alpha) ** 2 / denominator

    right = (node[0] - left[0], node[1] - left[1])
    return 0.5 * (score(*left) + score(*right) - score(*node))


def candidates(search: Search, node: Sums) -> list[tuple[float, int, int, int, tuple[int, int]]]:
    """(gain, feature, bin, missing goes right, left sums) of every allowed split."""
    found = []
    allowed, rules = search.may_split(), search.rules
    for f in range(*search.range):
        bins = node[search.mapper.bin_offset[f] : search.mapper.bin_offset[f + 1]]
        total = tuple(int(s) for s in np.sum(bins, axis=0))
        n_values = int(search.mapper.missing_bin[f])
        missing = bins[n_values] if search.mapper.has_missing[f] else None
        for b in range(n_values):
            values = tuple(int(s) for s in np.sum(bins[: b + 1], axis=0))
            for goes_right in (0, 1):
                if missing is None and (goes_right or b == n_values - 1):
                    continue
                if missing is not None and not goes_right and b == n_values - 1:
                    continue
                left = values
                if missing is not None and not goes_right:
                    left = (values[0] + missing[0], values[1] + missing[1])
                least = min(left[1], total[1] - left[1])
                if allowed[f] and least >= search.min_hess:
                    gain = plain_gain(left, total, rules)
                    found.append((gain, f, b, goes_right, left))
    return found


def random_rules(rng: np.random.Generator) -> GainRules:
    return GainRules(
        grad_scale=float(rng.uniform(0.01, 2.0)),
        hess_scale=float(rng.uniform(0.01, 2.0)),
        reg_lambda=float(rng.choice([0.0, 0.0, 1.0, 37.5])),
        reg_alpha=float(rng.choice([0.0, 0.0, 0.5, 3.0])),
        min_gain=float(rng.choice([0.0, 0.0, 0.3])),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([1, 2, 30]),
    st.sampled_from([5, 40, 300]),
)
def test_cpu_equals_reference_and_brute_force(
    seed: int, features: list[tuple[int, bool]], top: int, n_rows: int
) -> None:
    rng = np.random.default_rng(seed)
    n_values, has_missing = zip(*features, strict=True)
    mapper = mapper_of(n_values, has_missing)
    search = Search(
        mapper,
        random_nodes(rng, mapper, 2, n_rows, top),
        random_rules(rng),
        float(rng.choice([1, 1, 5, 20])),
        allowed=(rng.random(len(features)) < 0.8).astype(np.uint8),
    )
    first = int(rng.integers(0, len(features) + 1))
    search.features = (first, int(rng.integers(first, len(features) + 1)))
    found = search.check()
    for node, info in zip(search.nodes, found, strict=True):
        options = candidates(search, node)
        best = max((option[0] for option in options), default=-math.inf)
        if info["feature"] < 0:
            assert best <= search.rules.min_gain + 1e-9 and info["gain"] == -math.inf
            continue
        assert info["gain"] == pytest.approx(best, rel=1e-9, abs=1e-12)
        split = (info["feature"], info["bin"], 1 - info["default_left"])
        chosen = {option[1:4]: option for option in options}[split]
        assert chosen[0] == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert (info["left_grad"], info["left_hess"]) == chosen[4]
        assert info["ready"] == 0


@pytest.mark.parametrize("n_features", [1, 16, 17, 40])
def test_wide_histograms(n_features: int) -> None:
    """255 bins and blocks of features, with sums that need 32 bits."""
    rng = np.random.default_rng(n_features)
    n_values = rng.choice([255, 254, 2, 60], size=n_features).tolist()
    mapper = mapper_of(n_values, (rng.random(n_features) < 0.5).tolist())
    nodes = random_nodes(rng, mapper, 3, 2000, 10**6)
    found = Search(mapper, nodes, random_rules(rng)).check((32, 64))
    assert np.all(found["feature"] >= 0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-3, 1e9, 1e15]))
def test_gains_that_estimates_cannot_tell_apart(seed: int, reg_lambda: float) -> None:
    """Sums near 2^30 that differ by a few units: float32 estimates tie, the exact gains do not."""
    rng = np.random.default_rng(seed)
    mapper = mapper_of([255, 255, 40], [False, True, True])
    sizes = np.diff(mapper.bin_offset)
    nodes = []
    for _ in range(2):
        node: Sums = []
        for size in sizes:
            bins = rng.integers(-2, 3, size=(size, 2)) * [1, 0] + [0, 1]
            bins[size // 3] += [2**29, 2**29]
            bins[0] += [-(2**29), 2**29] - bins.sum(axis=0) + [2**29, 2**29]
            node += [(int(g), int(h)) for g, h in bins]
        nodes.append(node)
    rules = GainRules(0.01, 0.02, reg_lambda, 0.0, 0.0)
    search = Search(mapper, nodes, rules)
    found = search.check((32, 64))
    assert np.all(found["feature"] >= 0)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(1, 255), st.booleans()), min_size=1, max_size=4),
    st.sampled_from([1, 3, 40, 65535 // 3]),
    st.sampled_from([30, 300, 3000]),
    st.sampled_from([0.0, 0.02, 0.3, 0.5]),
)
def test_sums_of_16_bits_with_many_bins(
    seed: int, features: list[tuple[int, bool]], top: int, n_rows: int, least_share: float
) -> None:
    """Sixteen cuts are looked at together: any number of bins, empty ones, sums to the last bit."""
    rng = np.random.default_rng(seed)
    mapper = mapper_of(*zip(*features, strict=True))
    sizes = np.diff(mapper.bin_offset)
    rows = np.stack([rng.integers(-top, top + 1, n_rows), rng.integers(0, top + 1, n_rows)], 1)
    rows = rows[(np.abs(rows[:, 0]).cumsum() < 2**15) & (rows[:, 1].cumsum() < 2**16)]
    few = rng.integers(1, 256, size=len(sizes))  # a feature's rows are in so many bins at most
    bins = [
        rng.permutation(n)[:m][rng.integers(0, min(n, m), len(rows))]
        for n, m in zip(sizes, few, strict=True)
    ]
    node = histogram(mapper, np.stack(bins), rows)
    least = max(1.0, least_share * float(rows[:, 1].sum()))
    Search(mapper, [node], random_rules(rng)._replace(reg_alpha=0.0), least).check((16, 32))


def test_full_precision_sums() -> None:
    """Sums up to 2^52 are exact in float64."""
    rng = np.random.default_rng(1)
    mapper = mapper_of([30, 30], [True, False])
    nodes = random_nodes(rng, mapper, 2, 500, 2**43)
    found = Search(mapper, nodes, PLAIN._replace(grad_scale=1e-9, hess_scale=1e-9)).check((64,))
    assert np.all(found["gain"] > 0)


def test_equal_columns_take_the_lowest_feature() -> None:
    rng = np.random.default_rng(2)
    mapper = mapper_of([9] * 40, [False] * 40)
    column = rng.integers(0, 9, size=300)
    rows = np.stack([column * 2 - 8 + rng.integers(-1, 2, 300), rng.integers(1, 3, 300)], axis=1)
    node = histogram(mapper, np.tile(column, (40, 1)), rows)
    found = Search(mapper, [node]).check()
    assert found["feature"][0] == 0
    # Of the allowed ones, and of a range; also across the blocks that threads search.
    allowed = np.ones(40, dtype=np.uint8)
    allowed[:19] = 0
    assert Search(mapper, [node], allowed=allowed).check()["feature"][0] == 19
    assert Search(mapper, [node], features=(33, 40)).check()["feature"][0] == 33
    assert Search(mapper, [node], features=(7, 7)).check()["feature"][0] == -1


def test_equal_gains_take_the_lowest_bin() -> None:
    """Empty bins do not move the cut; a symmetric node has two best cuts."""
    mapper = mapper_of([6], [False])
    empty = [(-5, 2), (0, 0), (0, 0), (5, 2), (0, 0), (0, 0)]
    assert Search(mapper, [empty]).check()["bin"][0] == 0
    symmetric = [(0, 0), (4, 2), (-8, 4), (4, 2), (0, 0), (0, 0)]
    assert Search(mapper, [symmetric]).check()["bin"][0] == 1


def test_missing_ties_go_left() -> None:
    mapper = mapper_of([3], [True])
    info = Search(mapper, [[(-6, 3), (1, 1), (5, 2), (0, 0)]]).check()[0]
    assert (info["bin"], info["default_left"]) == (0, 1)
    # The bin goes before the side: {0} against all is as good as {0, 1, missing} against {2}.
    search = Search(mapper, [[(-4, 2), (4, 2), (-4, 2), (4, 2)]])
    gains = {option[1:4]: option[0] for option in candidates(search, search.nodes[0])}
    best = max(gains.values())
    assert {split for split, gain in gains.items() if gain == best} == {
        (0, 0, 1),
        (0, 1, 0),
        (0, 2, 1),
    }
    info = search.check()[0]
    assert (info["bin"], info["default_left"]) == (0, 0)


@pytest.mark.parametrize(("missing", "default_left"), [((-9, 4), 1), ((9, 4), 0)])
def test_missing_goes_where_it_gains(missing: tuple[int, int], default_left: int) -> None:
    mapper = mapper_of([4], [True])
    info = Search(mapper, [[(-5, 2), (-5, 2), (5, 2), (5, 2), missing]]).check()[0]
    assert (info["bin"], info["default_left"]) == (1, default_left)
    assert info["left_hess"] == (8 if default_left else 4)


def test_values_against_missing() -> None:
    """The last cut separates all values from the missing ones; the only one with one value bin."""
    mapper = mapper_of([1, 3], [True, True])
    node = [(-9, 6), (9, 6), (-3, 2), (-3, 2), (-3, 2), (9, 6)]
    info = Search(mapper, [node]).check()[0]
    assert (info["feature"], info["bin"], info["default_left"]) == (0, 0, 0)
    assert (info["left_grad"], info["left_hess"]) == (-9, 6)
    info = Search(mapper, [node], features=(1, 2)).check()[0]
    assert (info["feature"], info["bin"], info["default_left"]) == (1, 2, 0)


def test_no_split() -> None:
    """One bin, a pure node, too little hessian, an empty node: no feature and no gain."""
    mapper = mapper_of([1, 3], [False, True])
    pure = [(6, 6), (2, 2), (2, 2), (1, 1), (1, 1)]
    small = [(0, 3), (-5, 1), (0, 0), (5, 1), (0, 1)]
    empty = [(0, 0)] * 5
    found = Search(mapper, [pure, small, empty], min_hess=3.0).check()
    assert found.tobytes() == no_splits(3).tobytes()
    assert Search(mapper, [small]).check()["feature"][0] == 1


def test_least_hessian_of_a_child() -> None:
    mapper = mapper_of([3], [False])
    node = [(-50, 4), (1, 1), (49, 4)]
    bins = [Search(mapper, [node], min_hess=m).check()["bin"][0] for m in (1.0, 4.0)]
    assert bins[0] == bins[1] and Search(mapper, [node], min_hess=4.5).check()["feature"][0] == -1
    lopsided = [(-50, 1), (30, 4), (20, 4)]
    assert Search(mapper, [lopsided], min_hess=1.0).check()["bin"][0] == 0
    assert Search(mapper, [lopsided], min_hess=2.0).check()["bin"][0] == 1


def test_least_gain() -> None:
    """A split needs more than min_gain, and more than the rounding noise of the parent's score."""
    mapper = mapper_of([2], [False])
    node = [(-6, 3), (6, 3)]
    gain = plain_gain((-6, 3), (0, 6), PLAIN)
    assert gain == 12.0
    assert Search(mapper, [node], PLAIN._replace(min_gain=11.999)).check()["gain"][0] == 12.0
    assert Search(mapper, [node], PLAIN._replace(min_gain=12.0)).check()["feature"][0] == -1
    same = Search(mapper, [[(10**6, 7), (2 * 10**6, 14)]], PLAIN._replace(grad_scale=0.1))
    assert same.check((32, 64))["feature"][0] == -1


def test_regularisation_lowers_the_gain() -> None:
    mapper = mapper_of([2], [False])
    search = Search(mapper, [[(-6, 3), (8, 4)]])
    plain = search.check()["gain"][0]
    for change in ({"reg_lambda": 2.0}, {"reg_alpha": 1.0}):
        search.rules = PLAIN._replace(**change)
        gain = search.check()["gain"][0]
        assert 0 < gain < plain
        assert gain == pytest.approx(plain_gain((-6, 3), (2, 7), search.rules), rel=1e-12)
    search.rules = PLAIN._replace(reg_alpha=8.0)  # shrinks every gradient to zero
    assert search.check()["feature"][0] == -1


@pytest.mark.parametrize("n_ranks", [2, 3, 7])
def test_ranks_find_the_same_split(n_ranks: int) -> None:
    """Each rank searches its own features; the best of all, of equals the lowest, wins."""
    rng = np.random.default_rng(3)
    mapper = mapper_of([4] * 5, [False, True, False, True, False])
    nodes = random_nodes(rng, mapper, 40, 12, 1)
    alone = Search(mapper, nodes).check()

    def work(comm: Comm) -> Records:
        search = Search(mapper, nodes, features=feature_block(comm, 5))
        return best_of_ranks(search.cpu(16), comm)

    for found in run_threads(n_ranks, work):
        assert found.tobytes() == alone.tobytes()
    assert best_of_ranks(alone, SoloComm()).tobytes() == alone.tobytes()
