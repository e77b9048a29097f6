"""Histograms on the wire: what ranks send each other of their sums, and adding what came.

Owns the one place where histograms become bytes and bytes become sums. Receives a HistogramPool and
HistogramParts; a message says its own widths (cpp/ranks/messages.cpp has the format), so that ranks
with a CPU and ranks with a GPU can be mixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.machine.simd import simd_level

if TYPE_CHECKING:
    from bitgrove.backends.base import HistogramPool
    from bitgrove.backends.host_slots import HostSlots
    from bitgrove.kernels.plans import Records

Message = NDArray[np.uint8]
Messages = list[tuple[int, Message]]  # with the rank that each came from


def pack_messages(pool: HistogramPool, parts: Records, n_messages: int) -> list[Message]:
    """Messages of the parts, which are in the order of their `message`."""
    host = pool.on_host(np.unique(parts["slot"]))
    content, ends = _core.pack_messages(
        host.memory, host.place(parts), n_messages, host.n_threads, simd_level()
    )
    return np.split(content, ends[:-1])


def add_messages(
    pool: HistogramPool, parts: Records, messages: Messages, added: tuple[int, int] | None = None
) -> None:
    """Adds what ranks sent of the parts: of all, or of [first, last).

    ValueError names a rank whose message does not fit.
    """
    host = pool.on_host(np.unique(parts["slot"]))
    add_to_host(host, parts, messages, added or (0, len(parts)))
    pool.put_back(host)


def add_to_host(
    host: HostSlots, parts: Records, messages: Messages, added: tuple[int, int]
) -> None:
    """add_messages on slots that are in host memory already."""
    how = (host.n_threads, simd_level())
    _core.add_messages(host.memory, host.place(parts), added, messages, *how)
