"""Splits of categories: cpu = reference bit for bit, the best of all subsets, and the rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitgrove.backends.base import GainRules
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import DIVISION, SUBSET, Records, records
from kernel_cases import SIMD, Sums, core_tree, cpu, dirty_pool, mapper_of, random_binned
from test_split_kernel import Search, plain_gain, random_nodes

FREE = GainRules(1.0, 1.0, 0.0, 0.0, 0.0)  # every run of levels is tried, none is penalised


@dataclass
class LevelSearch(Search):
    hess_per_row: float = 1.0

    def records(self, width: int) -> Records:
        nodes = super().records(width)
        nodes["hess_per_row"] = self.hess_per_row
        return nodes


def categories(n_levels: list[int], has_missing: list[bool], numeric: int = 0) -> BinMapper:
    """The last `numeric` features are numbers."""
    mapper = mapper_of(n_levels, has_missing)
    return replace(mapper, category_features=frozenset(range(len(n_levels) - numeric)))


def left_levels(info: np.void) -> set[int]:
    bits = np.unpackbits(info["left_bins"].copy().view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def best_subset(bins: Sums, rules: GainRules) -> float:
    """The largest gain of any subset against the rest, all of them tried."""
    total = tuple(int(s) for s in np.sum(bins, axis=0))
    subsets = chain.from_iterable(combinations(bins, n) for n in range(1, len(bins)))
    sides = [tuple(int(s) for s in np.sum(subset, axis=0)) for subset in subsets]
    return max(plain_gain((g, h), (total[0], total[1]), rules) for g, h in sides)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.booleans())
def test_no_subset_is_better(seed: int, n_levels: int, has_missing: bool) -> None:
    rng = np.random.default_rng(seed)
    n_bins = n_levels + has_missing
    sums = np.stack([rng.integers(-9, 10, n_bins), rng.integers(1, 9, n_bins)], axis=1)
    node = [(g, h) for g, h in sums.tolist()]
    info = LevelSearch(categories([n_levels], [has_missing]), [node], FREE).check()[0]
    best = best_subset(node, FREE)
    if best <= 1e-9:
        assert info["feature"] == -1
        return
    assert info["gain"] == pytest.approx(best, rel=1e-12)
    taken = left_levels(info)
    left = np.sum([node[b] for b in taken], axis=0)
    assert (info["left_grad"], info["left_hess"]) == (left[0], left[1])
    assert info["bin"] == SUBSET and info["default_left"] == (has_missing and n_levels in taken)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_all_backends_agree_under_random_rules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 256, size=4)]
    mapper = categories([*sizes, 30], rng.random(5).round().astype(bool).tolist(), numeric=1)
    nodes = random_nodes(rng, mapper, 3, int(rng.integers(5, 900)), int(rng.integers(1, 9)))
    rules = GainRules(
        *rng.uniform(0.01, 2, size=2), *rng.choice([0.0, 0.5, 3.0], size=2), 0.0,
        cat_smooth=float(rng.choice([0.0, 1.0, 10.0])), cat_l2=float(rng.choice([0.0, 10.0])),
        min_data_per_group=float(rng.choice([1, 10, 100])),
        max_cat_threshold=float(rng.choice([1, 8, 32, 255])),
        max_cat_to_onehot=float(rng.choice([1, 4, 255])),
    )  # fmt: skip
    search = LevelSearch(mapper, nodes, rules, min_hess=float(rng.choice([1.0, 7.0])))
    search.hess_per_row = float(rng.uniform(0.1, 3))
    search.check((32, 64))


def test_one_level_against_the_rest() -> None:
    rules = FREE._replace(max_cat_to_onehot=4.0, cat_l2=1e9, min_data_per_group=1e9)
    node = [(-9, 3), (8, 3), (-9, 3), (1, 1)]
    info = LevelSearch(categories([4], [False]), [node], rules).check()[0]
    assert left_levels(info) == {1}
    symmetric = [(5, 2), (-5, 2), (5, 2), (-5, 2)]
    info = LevelSearch(categories([4], [False]), [symmetric], rules).check()[0]
    assert left_levels(info) == {0}  # of equals the lowest


def test_longest_run() -> None:
    node = [(-10, 2)] * 5 + [(10, 2)] * 7
    for longest, n_taken in ((1, 1), (3, 3), (32, 5)):
        rules = FREE._replace(max_cat_threshold=float(longest))
        info = LevelSearch(categories([12], [False]), [node], rules).check()[0]
        assert left_levels(info) == set(range(n_taken))


def test_equal_steps_go_by_level() -> None:
    node = [(3, 1), (-2, 1), (3, 1), (-2, 1), (3, 1), (-2, 1)]
    rules = FREE._replace(max_cat_threshold=2.0)
    info = LevelSearch(categories([6], [False]), [node], rules).check()[0]
    # Both ends have runs of two levels of equal steps, and equal gains: the low end is first.
    assert left_levels(info) == {1, 3}


def test_groups_of_rows() -> None:
    """With 10 rows per unit of hessian, groups of 30 rows are groups of 3 units."""
    node = [(-9, 1), (-8, 1), (-7, 1), (5, 4), (6, 4), (7, 4)]
    search = LevelSearch(categories([6], [False]), [node], FREE, hess_per_row=0.1)
    assert len(left_levels(search.check()[0])) == 3
    search.rules = FREE._replace(min_data_per_group=30.0)
    assert len(left_levels(search.check()[0])) == 3
    search.rules = FREE._replace(min_data_per_group=45.0)
    assert left_levels(search.check()[0]) == {4, 5}  # the three low ones are too few
    search.rules = FREE._replace(min_data_per_group=1000.0)
    assert search.check()["feature"][0] == -1


def test_levels_without_rows_go_right() -> None:
    node = [(0, 0), (-9, 3), (0, 0), (9, 3), (0, 0)]
    info = LevelSearch(categories([4], [True]), [node], FREE).check()[0]
    assert left_levels(info) == {1} and info["default_left"] == 0


def test_penalty_of_runs() -> None:
    mapper, node = categories([3, 3], [False, False], numeric=1), [(-9, 3), (1, 3), (8, 3)] * 2
    free = LevelSearch(mapper, [node], FREE).check()[0]
    assert free["feature"] == 0  # of equal gains the lowest feature
    dear = LevelSearch(mapper, [node], FREE._replace(cat_l2=5.0)).check()[0]
    assert dear["feature"] == 1 and dear["gain"] == free["gain"]


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("n_rows", [0, 1, 17, 9000, 30_000])
def test_rows_divided_by_a_set(simd: int, n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    case = random_binned(rng, 30_000, [255, 9], [True, False])
    rows = np.sort(rng.permutation(30_000)[:n_rows]).astype(np.int32)
    words = rng.integers(0, 2**63, size=4, dtype=np.uint64)
    steps = records(DIVISION, 1, end=n_rows, first_zero=n_rows // 3, bin=SUBSET, missing_bin=255)
    steps["left_bins"][0] = words
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
    expected: list[int] = []
    for run in (rows[: n_rows // 3], rows[n_rows // 3 :]):
        expected += run[bits[case.reference.bins[0, run]]].tolist()
    others = [row for row in rows.tolist() if not bits[case.reference.bins[0, row]]]
    backend = cpu(2, simd)
    given = rows.copy()
    left = core_tree(backend, dirty_pool(backend, case.cpu, 2), given).divide(steps)
    assert given.tolist() == expected + others
    assert int(left["active"][0] + left["zero"][0]) == len(expected)
