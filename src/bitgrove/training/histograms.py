"""Histogram memory and the widths of its integers.

Owns WidthPlan (the narrowest accumulator that provably cannot overflow) and how many slots a pool
has. Every choice made here changes the time, never the result.
"""

from __future__ import annotations

from typing import Any

from bitgrove import _core
from bitgrove.backends.base import Backend, BinnedMatrix
from bitgrove.training.quantize import QuantizedGradients

LOCAL_WIDTHS = (8, 16, 32, 64)
TOTAL_WIDTHS = LOCAL_WIDTHS[1:]
# Rows a thread adds up before it flushes; below the least, flushing would cost more than adding.
# The kernel watches the real sums, so rows are counted by their mean; LEAST_ROWS of the largest
# must fit nevertheless, since it looks at sums of that many.
BLOCK_ROWS = 8192
LEAST_BLOCK_ROWS = 1024
LEAST_ROWS = 256
ALL_ROWS = 2**62


def half_range(width: int) -> tuple[int, int]:
    """Largest |gradient sum| and hessian sum of a half of `width` bits (64: both are signed)."""
    return 2 ** (width - 1) - 1, 2 ** min(width, 63) - 1


_RANGES = {width: half_range(width) for width in LOCAL_WIDTHS}


class WidthPlan:
    """Widths for one tree, from the bounds of its integers; `limits` is what the frontier uses."""

    def __init__(self, quantized: QuantizedGradients, n_rows: int) -> None:
        """n_rows: on all ranks, as the sums."""
        self._limits = max(quantized.grad_limit, 1), max(quantized.hess_limit, 1)
        grad_limit, hess_limit = self._limits
        # No row is wider than a sum.
        grad, hess = max(quantized.abs_grad_sum, grad_limit), max(quantized.hess_sum, hess_limit)
        n_active = max(n_rows - quantized.zero_rows, 1)
        most_rows, usual_rows = [ALL_ROWS] * len(_RANGES), [ALL_ROWS] * len(_RANGES)
        for i, (width, (grad_range, hess_range)) in enumerate(_RANGES.items()):
            # If the sums over all rows fit, so do those of any node, here and in wider halves.
            if grad <= grad_range and hess <= hess_range:
                break
            most_rows[i] = min(self.rows_that_fit(width), ALL_ROWS)
            by_grad, by_hess = grad_range * n_active // grad, hess_range * n_active // hess
            usual_rows[i] = min(by_grad, by_hess, ALL_ROWS)
        self._most_rows = most_rows[-1]  # of the widest
        self.limits = _core.WidthLimits(
            most_rows[1:], most_rows, usual_rows, BLOCK_ROWS, LEAST_BLOCK_ROWS, LEAST_ROWS
        )

    def rows_that_fit(self, width: int) -> int:
        """How many rows, whichever they are, cannot overflow a sum of this width."""
        grad_range, hess_range = _RANGES[width]
        grad_limit, hess_limit = self._limits
        return min(grad_range // grad_limit, hess_range // hess_limit)

    def total_width(self, n_rows: int) -> int:
        """Width of the histogram of a node of n_rows rows over all ranks."""
        if n_rows > self._most_rows:
            raise OverflowError(f"{n_rows} rows of these gradients overflow 64-bit sums")
        return int(self.limits.total_width(n_rows))

    def local(self, n_rows: int, total_width: int) -> tuple[int, int]:
        """(width, rows per block) of the accumulators that feed a total of the given width."""
        width, block_rows = self.limits.local(n_rows, total_width)
        return int(width), int(block_rows)


def new_pool(
    backend: Backend, matrix: BinnedMatrix, half_bits: int, budget_mb: int, num_leaves: int
) -> Any:
    """Room for a bounded number of histograms; the frontier decides which node uses which slot.

    With many leaves or wide data there are fewer slots than leaves: histograms that were thrown
    away are built again from their rows.
    """
    slot_bytes = matrix.n_slot_bins * half_bits // 4
    affordable = (budget_mb << 20) // max(slot_bytes, 1)
    return backend.new_pool(matrix, max(2, min(affordable, 2 * num_leaves)), half_bits)
