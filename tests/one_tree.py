"""What tests of a tree's work share: a tree on given rows, and single steps of its plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import GainRules, PackedRows, TreeInputs, TreeWork
from bitgrove.backends.reference.best_first import SearchPlan
from bitgrove.kernels.plans import (
    BUILD,
    GRADIENT_SUMS,
    HISTOGRAM_PART,
    ROW_TOTALS,
    SEARCH_NODE,
    SUBTRACTION,
    Records,
    no_splits,
    records,
)
from kernel_cases import BinnedCase, binned

PLAIN_RULES = GainRules(1.0, 1.0, 0.0, 0.0, 0.0)
BINS_OF_A_FEATURE = 250
# The fields of a step, in the order in which tests write it.
_BUILD = ("begin", "end", "slot", "local_width", "total_width", "block_rows")
_SUBTRACTION = (
    "parent_slot", "built_slot", "out_slot", "parent_width", "built_width", "out_width",
)  # fmt: skip
_PART = ("message", "slot", "width", "first_bin", "last_bin")


def _steps(dtype: np.dtype[np.void], names: Sequence[str], steps: Sequence[Any]) -> Records:
    columns = zip(*steps, strict=True)
    return records(dtype, len(steps), **dict(zip(names, columns, strict=bool(steps))))


def builds(*steps: Sequence[int]) -> Records:
    """Each (begin, end, slot, local width, total width, rows of a block)."""
    return _steps(BUILD, _BUILD, steps)


def subtractions(*steps: Sequence[int]) -> Records:
    """Each (slots of the parent, the built one and what is left, their widths)."""
    return _steps(SUBTRACTION, _SUBTRACTION, steps)


def parts(*steps: Sequence[int]) -> Records:
    """Each (message, slot, width, first bin, last bin)."""
    return _steps(HISTOGRAM_PART, _PART, steps)


def empty_case(n_bins: int) -> BinnedCase:
    """One row, and histograms of n_bins bins."""
    sizes = [BINS_OF_A_FEATURE] * (n_bins // BINS_OF_A_FEATURE)
    sizes += [n_bins % BINS_OF_A_FEATURE] * (n_bins % BINS_OF_A_FEATURE > 0)
    return binned(np.zeros((len(sizes), 1), dtype=np.int64), sizes, [False] * len(sizes))


def start_tree(
    backend: Any, pool: Any, values: NDArray[Any], rows: NDArray[np.int32], **changes: Any
) -> TreeWork:
    """A tree on packed rows of which nothing else is known; it may look at all features."""
    allowed = np.ones(pool.matrix.mapper.n_features, dtype=np.uint8)
    packed = PackedRows(values, records(ROW_TOTALS, 1))
    inputs = TreeInputs(packed, rows, allowed, PLAIN_RULES, False)
    work: TreeWork = backend.start_tree(pool, inputs._replace(**changes))
    return work


class _NoSearch:
    """An exchange that ends a plan before its search, and subtracts within given bins."""

    def __init__(self, bins: tuple[int, int]) -> None:
        self.bins = bins

    def sum_counts(self, counts: Records) -> Records:
        return counts

    def sum_built(self, pool: Any, builds: Records) -> tuple[int, int]:
        return self.bins

    def choose(self, plan: SearchPlan, work: TreeWork) -> Records:
        return no_splits(len(plan.nodes))


def run_steps(
    work: TreeWork,
    built: Records,
    subtracted: Records | None = None,
    bins: tuple[int, int] | None = None,
) -> None:
    """Builds and subtracts histograms, and searches nothing."""
    plan = SearchPlan(
        built, subtractions() if subtracted is None else subtracted, records(SEARCH_NODE, 0)
    )
    everything = (0, int(work.pool.matrix.mapper.bin_offset[-1]))
    work.search(plan, _NoSearch(everything if bins is None else bins))


def build(
    backend: Any, pool: Any, values: NDArray[Any], rows: NDArray[np.int32], *steps: Sequence[int]
) -> None:
    """The histograms of a tree's rows, one for each step of builds()."""
    run_steps(start_tree(backend, pool, values, rows), builds(*steps))


def subtract(
    backend: Any, pool: Any, *steps: Sequence[int], bins: tuple[int, int] | None = None
) -> None:
    """Differences of what is in the pool, one for each step of subtractions()."""
    no_rows = np.zeros(pool.matrix.n_rows, dtype=np.int16), np.zeros(0, dtype=np.int32)
    run_steps(start_tree(backend, pool, *no_rows), builds(), subtractions(*steps), bins)


def root_sums(backend: Any, pool: Any, values: NDArray[Any], rows: NDArray[np.int32]) -> Any:
    """(gradient, hessian) of the listed rows, as a tree finds them at its start."""
    root = start_tree(backend, pool, values, rows).root
    return root.grad, root.hess


def leaf_sums(
    work: TreeWork, leaves: tuple[Any, Any], gradients: tuple[Any, Any], units: tuple[float, float]
) -> NDArray[np.int64]:
    """(n_leaves, 2): what the leaves' rows (begins, ends) add up to."""
    work.set_leaves(*leaves)
    found = work.leaf_sums(*gradients, units).read()
    assert found.dtype == GRADIENT_SUMS
    return found.view(np.int64).reshape(-1, 2)
