"""Columns with drawn cuts: cpu = reference bit for bit, and what the draw depends on."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitgrove.backends.reference.best_first import child_key
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import Records
from kernel_cases import Sums, mapper_of
from test_split_kernel import PLAIN, Search, candidates, random_nodes, random_rules


@dataclass
class DrawnSearch(Search):
    keys: tuple[int, ...] = ()  # of the nodes

    def records(self, width: int) -> Records:
        nodes = super().records(width)
        nodes["key"] = self.keys
        return nodes


def drawn_mapper(n_values: list[int], has_missing: list[bool], numbers: int = 0) -> BinMapper:
    """The last ones are numbers."""
    drawn = frozenset(range(len(n_values) - numbers))
    return replace(mapper_of(n_values, has_missing), drawn_features=drawn)


def cuts_of(mapper: BinMapper, node: Sums, keys: range, min_hess: float = 1.0) -> list[int]:
    """What nodes that differ in their keys alone split the only feature at; -1: at nothing."""
    search = DrawnSearch(mapper, [node] * len(keys), min_hess=min_hess, keys=tuple(keys))
    found = search.reference()
    assert search.cpu(64).tobytes() == found.tobytes()
    return np.where(found["feature"] < 0, -1, found["bin"]).tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(1, 70), st.booleans()), min_size=1, max_size=9),
    st.sampled_from([1, 2, 30]),
    st.sampled_from([5, 40, 300]),
)
def test_cpu_equals_reference(
    seed: int, features: list[tuple[int, bool]], top: int, n_rows: int
) -> None:
    """All layouts and instruction sets; what is found is a cut of the node, and gains what it says.

    Among the cuts of the feature of one node, nothing better was to be had on the same cut.
    """
    rng = np.random.default_rng(seed)
    n_values, has_missing = (list(part) for part in zip(*features, strict=True))
    mapper = drawn_mapper(n_values, has_missing, numbers=len(features) // 3)
    nodes = random_nodes(rng, mapper, 3, n_rows, top)
    keys = tuple(rng.integers(0, 2**63, size=3).tolist())
    least = float(rng.choice([1, 1, 2.5, 5, 20, 1e9]))
    search = DrawnSearch(mapper, nodes, random_rules(rng), least, keys=keys)
    for node, info in zip(nodes, search.check(), strict=True):
        if info["feature"] < 0:
            continue
        same = [
            option
            for option in candidates(search, node)
            if option[1:3] == (info["feature"], info["bin"])
        ]
        assert info["gain"] == pytest.approx(max(option[0] for option in same), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_numbers_beside_drawn_columns(width: int) -> None:
    """They keep all their cuts, and the same one as without such columns."""
    rng = np.random.default_rng(3)
    mapper = drawn_mapper([40, 40, 40], [True, False, True], numbers=2)
    nodes = random_nodes(rng, mapper, 2, 300, 30)
    both = DrawnSearch(mapper, nodes, keys=(1, 2), features=(1, 3))
    alone = Search(replace(mapper, drawn_features=frozenset()), nodes, features=(1, 3))
    assert both.check((width,)).tobytes() == alone.check((width,)).tobytes()


def test_each_cut_is_drawn_as_often() -> None:
    node = [(-8 if b < 10 else 8, 5) for b in range(20)]
    drawn = Counter(cuts_of(drawn_mapper([20], [False]), node, range(3800)))
    assert sorted(drawn) == list(range(19))
    expected = 3800 / 19
    assert sum((n - expected) ** 2 / expected for n in drawn.values()) < 45  # 18 degrees: p = 4e-4


def test_only_cuts_that_leave_enough_are_drawn() -> None:
    """Bins without rows of the node, and those too near its ends, are no cuts of it."""
    node = [(0, 0)] * 5 + [(-4, 2), (-4, 2), (1, 2), (4, 2), (4, 2)] + [(0, 0)] * 5
    mapper = drawn_mapper([15], [False])
    assert set(cuts_of(mapper, node, range(200))) == {5, 6, 7, 8}
    assert set(cuts_of(mapper, node, range(200), min_hess=4.0)) == {6, 7}
    assert set(cuts_of(mapper, node, range(20), min_hess=6.0)) == {-1}
    with_missing = [*node, (-7, 3)]
    mapper = drawn_mapper([15], [True])
    cuts = set(cuts_of(mapper, with_missing, range(400)))
    assert {4, 5, 6, 7, 8, 14} <= cuts  # 4: missing values against others, and so is 14


def test_features_and_nodes_draw_apart() -> None:
    """Two columns alike; the draws of a node's features, its children and other trees differ."""
    node = [(-8 if b < 30 else 8, 5) for b in range(60)]
    mapper = drawn_mapper([60, 60], [False, False])
    keys = [7, child_key(7, 0), child_key(7, 1), child_key(child_key(7, 0), 1), 8]
    found = []
    for feature in (0, 1):
        search = DrawnSearch(
            mapper, [node * 2] * len(keys), features=(feature, feature + 1), keys=tuple(keys)
        )
        found += search.check()["bin"].tolist()
    assert len(set(found)) >= 8


def test_one_cut_gains_less_than_the_best() -> None:
    rng = np.random.default_rng(1)
    mapper = drawn_mapper([50] * 4, [True, False, True, False])
    nodes = random_nodes(rng, mapper, 20, 400, 20)
    search = DrawnSearch(mapper, nodes, PLAIN, keys=tuple(range(20)))
    best = Search(replace(mapper, drawn_features=frozenset()), nodes, PLAIN).check((64,))
    drawn = search.check((64,))
    assert np.all(drawn["gain"] <= best["gain"]) and np.any(drawn["gain"] < best["gain"])
    assert math.isfinite(drawn["gain"].max())
