"""Wrong plans for the GPU: refused before anything is launched, so no GPU is needed to try."""

from __future__ import annotations

from typing import Any

import pytest

from bitgrove import _core
from bitgrove.kernels.plans import BUILD, DIVISION, SEARCH_NODE, SUBTRACTION, records

N_ROWS, N_BINS = 10, 6
BAD_BUILDS: list[dict[str, int]] = [
    {"end": N_ROWS + 1}, {"begin": -1}, {"begin": 6, "end": 5}, {"block_rows": 0},
    {"block_rows": -1}, {"slot": 2}, {"slot": -1},
]  # fmt: skip
BAD_DIVISIONS: list[dict[str, int]] = [
    {"end": N_ROWS + 1}, {"begin": -1}, {"first_zero": 6}, {"begin": 4, "first_zero": 3},
    {"feature": 1}, {"feature": -1},
]  # fmt: skip


@pytest.fixture
def tree() -> Any:
    """Two slots of one feature, ten rows, no device."""
    made = _core.CudaTree()
    made.n_slots, made.n_listed, made.buffers.n_nodes = 2, N_ROWS, 8
    made.matrix.n_features, made.matrix.n_bins = 1, N_BINS
    return made


def test_a_frontier_without_a_root(tree: Any) -> None:
    rows = 2**40
    widths = _core.WidthLimits([rows] * 3, [rows] * 4, [rows] * 4, 8192, 1024, 256)
    limits = {"max_depth": -1, "min_child_samples": 1.0, "min_child_hess": 1.0, "widths": widths}
    with pytest.raises(ValueError, match="was not told the root"):
        tree.begin(_core.Frontier(n_slots=2, num_leaves=2, **limits), 0.5)


@pytest.mark.parametrize("change", BAD_BUILDS, ids=str)
def test_builds(tree: Any, change: dict[str, int]) -> None:
    fields = {"begin": 0, "end": 5, "block_rows": 8, "local_width": 8, "total_width": 32}
    with pytest.raises(ValueError, match="bitgrove core"):
        tree.build(records(BUILD, 1, **{**fields, **change}))


@pytest.mark.parametrize("block_rows", [0, -3])
def test_blocks_without_rows(block_rows: int) -> None:
    with pytest.raises(ValueError, match="rows per block"):
        _core.plan_blocks(records(BUILD, 1, end=5, block_rows=block_rows), 8, 1, 1)


@pytest.mark.parametrize("change", BAD_DIVISIONS, ids=str)
def test_divisions(tree: Any, change: dict[str, int]) -> None:
    fields = {"begin": 0, "first_zero": 5, "end": 5, "missing_bin": N_BINS}
    with pytest.raises(ValueError, match="bitgrove core"):
        tree.divide(records(DIVISION, 1, **{**fields, **change}))


@pytest.mark.parametrize("change", [{"parent_slot": 2}, {"built_slot": -1}], ids=str)
def test_subtractions(tree: Any, change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="slot out of range"):
        tree.subtract(records(SUBTRACTION, 1, **change), (0, N_BINS))


@pytest.mark.parametrize("bins", [(0, N_BINS + 1), (-1, 2), (3, 2)])
def test_bins_of_subtractions(tree: Any, bins: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="bad range of bins"):
        tree.subtract(records(SUBTRACTION, 1), bins)


@pytest.mark.parametrize("slot", [2, -1])
def test_searches(tree: Any, slot: int) -> None:
    with pytest.raises(ValueError, match="slot out of range"):
        tree.find(records(SEARCH_NODE, 1, slot=slot), (0, 1))


@pytest.mark.parametrize("features", [(0, 2), (-1, 1), (1, 0)])
def test_features_of_searches(tree: Any, features: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="bad feature range"):
        tree.find(records(SEARCH_NODE, 1), features)


def test_a_copy_is_a_tree_of_its_own(tree: Any) -> None:
    copy = tree.copy()
    copy.rows, copy.matrix.n_features = 16, 5
    assert tree.rows == 0 and tree.matrix.n_features == 1 and copy.n_slots == 2
