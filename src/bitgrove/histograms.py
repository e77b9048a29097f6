"""Histogram memory and the widths of its integers.

Owns WidthPlan (the narrowest accumulator that provably cannot overflow) and HistogramPool (a
bounded set of slots: which node's histogram is where, what is built, what is subtracted, what is
thrown away when memory is short). Every choice made here changes the time, never the result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend, BinnedMatrix
from bitgrove.quantize import QuantizedGradients

I64 = NDArray[np.int64]
TOTAL_WIDTHS = (16, 32, 64)
LOCAL_WIDTHS = (8, 16, 32, 64)
# Rows a thread adds up before it flushes; below the least, flushing would cost more than adding.
BLOCK_ROWS = 8192
LEAST_BLOCK_ROWS = 1024


def half_range(width: int) -> tuple[int, int]:
    """Largest |gradient sum| and hessian sum of a half of `width` bits (64: both are signed)."""
    return 2 ** (width - 1) - 1, 2 ** min(width, 63) - 1


class WidthPlan:
    """Widths for one tree, from the bounds of its integers."""

    def __init__(self, quantized: QuantizedGradients) -> None:
        self._rows_that_fit = {w: _rows_that_fit(w, quantized) for w in LOCAL_WIDTHS}
        self._any_fits = {w: _everything_fits(w, quantized) for w in LOCAL_WIDTHS}

    def rows_that_fit(self, width: int) -> int:
        """How many rows, whichever they are, cannot overflow a sum of this width."""
        return self._rows_that_fit[width]

    def total_width(self, n_rows: int) -> int:
        """Width of the histogram of a node of n_rows rows over all ranks."""
        for width in TOTAL_WIDTHS:
            if self._any_fits[width] or n_rows <= self._rows_that_fit[width]:
                return width
        raise OverflowError(f"{n_rows} rows of these gradients overflow 64-bit sums")

    def local(self, n_rows: int, total_width: int) -> tuple[int, int]:
        """(width, rows per block) of the accumulators that feed a total of the given width."""
        for width in LOCAL_WIDTHS:
            fits = BLOCK_ROWS if self._any_fits[width] else self._rows_that_fit[width]
            if width == total_width or fits >= min(n_rows, LEAST_BLOCK_ROWS):
                return width, max(1, min(fits, BLOCK_ROWS))
        raise AssertionError("a total has a width of its own")


def _rows_that_fit(width: int, q: QuantizedGradients) -> int:
    grad_range, hess_range = half_range(width)
    return min(grad_range // max(q.grad_limit, 1), hess_range // max(q.hess_limit, 1))


def _everything_fits(width: int, q: QuantizedGradients) -> bool:
    grad_range, hess_range = half_range(width)
    return q.abs_grad_sum <= grad_range and q.hess_sum <= hess_range


@dataclass
class BatchPlan:
    """What one expansion does with slots; rows of the arrays the backend takes."""

    builds: list[tuple[int, int]] = field(default_factory=list)  # (node, slot)
    subtractions: list[tuple[int, int, int]] = field(default_factory=list)  # parent, built, large
    searched: list[int] = field(default_factory=list)  # nodes whose histogram is complete
    temporary: list[int] = field(default_factory=list)  # slots free again after the search


class HistogramPool:
    """Slots for histograms. A node holds at most one; evicted ones are built again if needed."""

    def __init__(
        self,
        backend: Backend,
        matrix: BinnedMatrix,
        half_bits: int,
        budget_mb: int,
        num_leaves: int,
    ) -> None:
        n_bins = int(matrix.mapper.bin_offset[-1])
        slot_bytes = n_bins * half_bits // 4
        affordable = (budget_mb << 20) // max(slot_bytes, 1)
        self.half_bits = half_bits
        self.n_slots = max(2, min(affordable, 2 * num_leaves))
        self.storage = backend.new_pool(self.n_slots, n_bins, half_bits)
        self.widths_used: Counter[int] = Counter()
        self.reset()

    def reset(self) -> None:
        """Forgets all histograms, before a new tree."""
        self._free = list(range(self.n_slots))
        self._slot_of: dict[int, int] = {}
        self._gain_of: dict[int, float] = {}

    @property
    def pairs_per_batch(self) -> int:
        """A pair of children takes at most two slots, their parent's included."""
        return self.n_slots // 2

    def slot_of(self, node: int) -> int:
        return self._slot_of[node]

    def keep(self, node: int, gain: float) -> None:
        """After the search: remember how promising a cached node is, or let it go."""
        if gain > 0.0:
            self._gain_of[node] = gain
        else:
            self._release(node)

    def _release(self, node: int) -> None:
        slot = self._slot_of.pop(node, None)
        self._gain_of.pop(node, None)
        if slot is not None:
            self._free.append(slot)

    def free(self, slots: list[int]) -> None:
        self._free.extend(slots)

    def _take(self, node: int) -> int:
        slot = self._free.pop()
        self._slot_of[node] = slot
        return slot

    def _make_room(self, n_needed: int, busy: set[int]) -> None:
        """Evicts the least promising nodes until n_needed slots are free."""
        if len(self._free) >= n_needed:
            return
        for node in sorted(self._gain_of.keys() - busy, key=lambda n: (self._gain_of[n], n)):
            self._release(node)
            if len(self._free) >= n_needed:
                return

    def plan_root(self) -> BatchPlan:
        return BatchPlan(builds=[(0, self._take(0))], searched=[0])

    def plan_batch(self, pairs: list[tuple[int, int, int, bool, bool]]) -> BatchPlan:
        """pairs: (parent, smaller child, larger child, is each of them to be searched)."""
        self._make_room(2 * len(pairs), busy={pair[0] for pair in pairs})
        plan = BatchPlan()
        for pair in pairs:
            self._plan_pair(plan, *pair)
        return plan

    def _plan_pair(
        self,
        plan: BatchPlan,
        parent: int,
        small: int,
        large: int,
        search_small: bool,
        search_large: bool,
    ) -> None:
        if not search_large or parent not in self._slot_of:
            self._release(parent)
            for child, search in ((small, search_small), (large, search_large)):
                if search:
                    plan.builds.append((child, self._take(child)))
                    plan.searched.append(child)
            return
        parent_slot = self._slot_of.pop(parent)
        self._gain_of.pop(parent, None)
        built = self._take(small)
        self._slot_of[large] = parent_slot
        plan.builds.append((small, built))
        plan.subtractions.append((parent, small, large))
        plan.searched.append(large)
        if search_small:
            plan.searched.append(small)
        else:
            plan.temporary.append(self._slot_of.pop(small))
