"""Histograms as they lie in host memory: what messages between ranks are made of.

Owns HostSlots: some slots of a backend's pool in the layout of the core, the CPU's own memory or
copies from a device. Reading sums and the plans of messages need nothing else of a backend.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.kernels.plans import Records

I64 = NDArray[np.int64]


class HostSlots(NamedTuple):
    """memory[i] is slot slots[i]; without `slots`, memory[i] is slot i."""

    memory: NDArray[np.uint8]  # (n, slot bytes)
    width: int | None = None  # of all slots; None: as plans say
    slots: I64 | None = None  # ascending
    n_threads: int = 1

    def place(self, parts: Records) -> Records:
        """HistogramParts of the pool as parts of this memory."""
        placed = parts.copy()
        if self.slots is not None:
            placed["slot"] = np.searchsorted(self.slots, parts["slot"])
        if self.width is not None:
            placed["width"] = self.width
        return placed

    def sums(self, slot: int, width: int, n_bins: int) -> I64:
        """Gradient and hessian, summed over the first bins of a slot."""
        at = slot if self.slots is None else int(np.searchsorted(self.slots, slot))
        width = self.width or width
        raw = self.memory[at, : n_bins * width // 4]
        hess_mask = 2 ** min(width, 63) - 1
        if width < 64:  # both halves of a sum in one integer
            both = raw.view(f"i{width // 4}").astype(np.int64)
            return np.array([(both >> width).sum(), (both & hess_mask).sum()])
        pairs = raw.view(f"i{width // 8}").astype(np.int64).reshape(-1, 2)
        return np.array([pairs[:, 0].sum(), (pairs[:, 1] & hess_mask).sum()])
