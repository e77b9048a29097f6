"""Plans that do not fit are refused before anything is read or written.

A wrong number in a record is a ValueError, an array of other records a TypeError.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove import _core
from bitgrove.kernels.plans import (
    BUILD,
    DIVISION,
    GRADIENT_SUMS,
    ROW_COUNTS,
    SEARCH_NODE,
    SPLIT_INFO,
    SUBTRACTION,
    Records,
    records,
)
from kernel_cases import Step, binned, builds_of, core_tree, cpu, dirty_pool

N_ROWS, N_BINS = 10, 32
UNTOUCHED = 0xA5


@pytest.fixture
def pool() -> Any:
    """Two slots of at most 32 bits per half."""
    case = binned(np.arange(N_ROWS)[None, :], [N_BINS], [False])
    return dirty_pool(cpu(), case.cpu, 2, half_bits=32)


@pytest.fixture
def tree(pool: Any) -> Any:
    return core_tree(cpu(2), pool)


BUILDS: dict[str, Step] = {
    "rows": (0, 11, 0, 16, 16, 5),
    "begin": (-1, 5, 0, 16, 16, 5),
    "order": (6, 5, 0, 16, 16, 5),
    "slot": (0, 5, 2, 16, 16, 5),
    "negative slot": (0, 5, -1, 16, 16, 5),
    "wider than the total": (0, 5, 0, 32, 16, 5),
    "no room": (0, 5, 0, 16, 64, 5),
    "block": (0, 5, 0, 16, 16, 0),
    "unknown local": (0, 5, 0, 24, 32, 5),
    "unknown total": (0, 5, 0, 16, 24, 5),
    "far too wide": (0, 5, 0, 16, 128, 5),
    "an accumulator's total": (0, 5, 0, 8, 8, 5),
}


@pytest.mark.parametrize("name", BUILDS)
def test_builds(tree: Any, pool: Any, name: str) -> None:
    """An unknown width inside a parallel region would end the process."""
    with pytest.raises(ValueError, match="bitgrove core"):
        tree.build(builds_of([(0, 5, 1, 16, 16, 5), BUILDS[name]]))
    assert np.all(pool.storage == UNTOUCHED)  # not even the right one was begun


SUBTRACTIONS = {
    "parent": (2, 1, 2, 32, 32, 32),
    "built": (0, 2, 0, 32, 32, 32),
    "negative parent": (-1, 1, -1, 32, 32, 32),
    "negative built": (0, -1, 0, 32, 32, 32),
    "left": (0, 1, 2, 32, 32, 32),
    "negative left": (0, 1, -1, 32, 32, 32),
    "left in the built one": (0, 1, 1, 32, 32, 32),
    "narrower in place": (0, 1, 0, 32, 16, 16),
    "no room": (0, 1, 0, 64, 32, 32),
    "wider child": (0, 1, 0, 16, 32, 16),
    "wider result": (0, 1, 0, 16, 16, 32),
    "unknown parent": (0, 1, 0, 24, 16, 16),
    "unknown built": (0, 1, 0, 32, 24, 16),
    "unknown result": (0, 1, 0, 32, 32, 24),
    "an accumulator's parent": (0, 1, 0, 8, 8, 8),
    "an accumulator's child": (0, 1, 0, 32, 8, 32),
    "an accumulator's result": (0, 1, 0, 32, 32, 8),
}


@pytest.mark.parametrize("name", SUBTRACTIONS)
def test_subtractions(tree: Any, pool: Any, name: str) -> None:
    steps = np.array([(1, 0, 1, 32, 32, 32), SUBTRACTIONS[name]], dtype=SUBTRACTION)
    with pytest.raises(ValueError, match="bitgrove core"):
        tree.subtract(steps, (0, N_BINS))
    assert np.all(pool.storage == UNTOUCHED)


@pytest.mark.parametrize("bins", [(-1, 4), (5, 4), (0, N_BINS + 1)])
def test_bins_of_subtractions(tree: Any, pool: Any, bins: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="bitgrove core"):
        tree.subtract(np.array([(0, 1, 0, 32, 32, 32)], dtype=SUBTRACTION), bins)
    assert np.all(pool.storage == UNTOUCHED)


def nodes(**changes: int) -> Records:
    fields = {"slot": 0, "width": 32, "sibling": -1, "hess": 1, "min_hess": 1}
    return records(SEARCH_NODE, 1, **{**fields, **changes})


@pytest.mark.parametrize(
    "change",
    [{"slot": 2}, {"slot": -1}, {"width": 64}, {"width": 8}, {"width": 24}, {"width": 0}],
    ids=["slot", "negative slot", "no room", "accumulator", "unknown width", "no width"],
)
def test_searches(tree: Any, change: dict[str, int]) -> None:
    assert len(tree.find(nodes(), (0, 1))) == 1
    with pytest.raises(ValueError, match="bitgrove core"):
        tree.find(nodes(**change), (0, 1))


@pytest.mark.parametrize("features", [(0, 2), (-1, 1), (1, 0), (2, 2)])
def test_features_of_searches(tree: Any, features: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="bad feature range"):
        tree.find(nodes(), features)


DIVISIONS = {
    "end": (0, 5, 11, 0),
    "begin": (-1, 5, 5, 0),
    "order": (6, 5, 5, 0),
    "feature": (0, 5, 5, 1),
    "negative feature": (0, 5, 5, -1),
    "zero rows before": (3, 2, 5, 0),
    "zero rows after": (0, 6, 5, 0),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions(pool: Any, name: str) -> None:
    rows = np.arange(N_ROWS, dtype=np.int32)[::-1].copy()
    begin, first_zero, end, feature = DIVISIONS[name]
    steps = records(DIVISION, 2, bin=4, missing_bin=N_BINS)
    steps[0] = (5, 10, 10, 0, 2, N_BINS, 0, (0, 0, 0, 0))
    for field, value in zip(("begin", "first_zero", "end"), (begin, first_zero, end), strict=True):
        steps[field][1] = value
    steps["feature"][1] = feature
    with pytest.raises(ValueError, match="bitgrove core"):
        core_tree(cpu(), pool, rows).divide(steps)
    np.testing.assert_array_equal(rows, np.arange(N_ROWS)[::-1])


ARRAYS = {
    "bin_offset": (np.zeros(1, dtype=np.int64), "feature arrays differ"),
    "has_missing": (np.zeros(2, dtype=np.uint8), "feature arrays differ"),
    "allowed": (np.ones(2, dtype=np.uint8), "feature arrays differ"),
    "kinds": (np.zeros(2, dtype=np.uint8), "feature arrays differ"),
    "columns": (np.zeros((0, N_ROWS + 3), dtype=np.uint8), "a feature is nowhere"),
    "scratch": (np.zeros(N_ROWS - 1, dtype=np.int32), "scratch too small"),
    "packed_rows": (np.zeros(N_ROWS + 1, dtype=np.int16), "packed rows differ"),
    "tiles": (np.zeros(1, dtype=np.uint8), "packed rows differ"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_a_tree(pool: Any, name: str) -> None:
    array, message = ARRAYS[name]
    with pytest.raises(ValueError, match=message):
        core_tree(cpu(), pool, **{name: array})


def test_packed_rows_of_unknown_width(pool: Any) -> None:
    with pytest.raises(ValueError, match="unknown width"):
        core_tree(cpu(), pool, packed_rows=np.zeros(N_ROWS, dtype=np.int8))


VERBS = {"build": BUILD, "subtract": SUBTRACTION, "find": SEARCH_NODE, "divide": DIVISION}


def not_records_of(dtype: Any) -> list[Any]:
    """Arrays and others that are not what a verb with these records may read."""
    others = [other for other in (*VERBS.values(), ROW_COUNTS) if other != dtype]
    right = records(dtype, 4)
    renamed = np.dtype([(f"x{i}", dtype[name]) for i, name in enumerate(dtype.names)])
    swapped = right.astype(dtype.newbyteorder(">"))
    return [
        *(records(other, 2) for other in others), right.view(renamed), swapped, right[::2],
        right.reshape(2, 2), right[0], np.zeros((2, 6), dtype=np.int64), right.tolist(), None,
    ]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_other_records(pool: Any, device: str, verb: str) -> None:
    """Also on a GPU: the type is looked at before anything is launched."""
    tree = core_tree(cpu(), pool) if device == "cpu" else _core.CudaTree()
    more = {"subtract": [(0, 1)], "find": [(0, 1)]}.get(verb, [])
    for wrong in not_records_of(VERBS[verb]):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            getattr(tree, verb)(wrong, *more)
    assert np.all(pool.storage == UNTOUCHED)


def test_a_plan_made_elsewhere_is_not_a_search_plan(tree: Any) -> None:
    for wrong in (None, (records(BUILD, 1),), records(BUILD, 1)):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            tree.search(wrong)


def frontier() -> Any:
    limits = _core.WidthLimits(
        total_rows=[10, 100, 1000], local_rows=[1, 10, 100, 1000],
        usual_rows=[1, 10, 100, 1000], block_rows=8, least_block_rows=4, least_rows=4,
    )  # fmt: skip
    made = _core.Frontier(
        n_slots=2, num_leaves=4, max_depth=-1, min_child_samples=1.0, min_child_hess=1.0,
        widths=limits,
    )  # fmt: skip
    made.start(grad=0, hess=10, all_rows=(10, 0), local_rows=(10, 0))
    return made


def test_findings_of_a_frontier() -> None:
    """One SplitInfo per searched node, one RowCounts per divided one, and no other records."""
    growing = frontier()
    assert len(growing.next_search().nodes) == 1
    for wrong in (records(GRADIENT_SUMS, 1), records(SPLIT_INFO, 4)[::2], None):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            growing.record(wrong)
    for n in (0, 2):
        with pytest.raises(ValueError, match="one SplitInfo per searched node"):
            growing.record(records(SPLIT_INFO, n))
    growing.record(records(SPLIT_INFO, 1, gain=5.0, left_grad=-3, left_hess=5, feature=3))
    with pytest.raises(ValueError, match="feature out of range"):
        growing.next_batch(1.0, np.zeros(3, dtype=np.int64))
    assert len(growing.next_batch(1.0, np.zeros(4, dtype=np.int64))) == 1
    one, two = records(ROW_COUNTS, 1, active=5), records(ROW_COUNTS, 2)
    for left in ((two, one), (one, two)):
        with pytest.raises(ValueError, match="counts of each node"):
            growing.divide(*left)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        growing.divide(one, records(GRADIENT_SUMS, 1))
    growing.divide(one, one)
