"""Messages between ranks whose histograms are on a GPU: staged through the host.

Owns HostSlots: copies of a pool's slots on which the CPU's code writes and adds messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.machine.simd import simd_level

Array = NDArray[Any]
I64 = NDArray[np.int64]


class HostSlots:
    """The slots that a plan (slot, width, first bin, last bin) names."""

    def __init__(self, cupy: Any, pool: Any, plan: I64) -> None:
        self._cupy, self._pool = cupy, pool
        slots, index = np.unique(plan[:, 0], return_inverse=True)
        self._slots = cupy.asarray(slots)
        self._raw: I64 = cupy.asnumpy(pool[self._slots])
        self._bytes = self._raw.reshape(len(slots), -1).view(np.uint8)
        width = 32 if pool.ndim == 2 else 64  # of all slots, whatever the plan says
        self._plan = np.column_stack([index, np.full_like(index, width), plan[:, 2:]])

    def pack(self, destinations: I64, n_messages: int) -> list[Array]:
        """destinations: a column, the message of each step."""
        plan = np.hstack([destinations, self._plan])
        content, ends = _core.pack_messages(self._bytes, plan, n_messages, True, 1, simd_level())
        return np.split(content, ends[:-1])

    def add(self, steps: tuple[int, int], messages: list[tuple[int, Array]]) -> None:
        _core.add_messages(self._bytes, self._plan, steps, messages, True, 1, simd_level())
        self._pool[self._slots] = self._cupy.asarray(self._raw)
