"""Messages of other ranks: mutants are refused, or add to their own bins and no others."""

from __future__ import annotations

import numpy as np

from bitgrove.distributed.messages import add_messages, pack_messages
from kernel_cases import cpu, dirty_pool, write_slot
from one_tree import empty_case, parts


def one(rng: np.random.Generator) -> bool:
    """Whether the message was accepted."""
    n_bins, width = int(rng.choice([1, 5, 64, 65, 130])), int(rng.choice([16, 32, 64]))
    pool = dirty_pool(cpu(int(rng.integers(1, 3))), empty_case(n_bins).cpu, 4, 64)
    top = 2 ** int(rng.integers(1, width - 1))
    for slot in range(4):
        grads = rng.integers(-top, top, n_bins, endpoint=True).tolist()
        hessians = rng.integers(0, top, n_bins, endpoint=True).tolist()
        write_slot(pool, slot, width, list(zip(grads, hessians, strict=True)))
    first, last = sorted(rng.integers(0, n_bins + 1, 2).tolist())
    sent = parts((0, 0, width, first, last), (0, 1, width, 0, n_bins))
    (message,) = pack_messages(pool, sent, 1)
    into = parts((0, 2, width, first, last), (0, 3, width, 0, n_bins))
    before = pool.storage.copy()
    try:
        add_messages(pool, into, [(5, _mutant(rng, message))])
    except ValueError as error:
        assert "rank 5 sent histograms that do not fit" in str(error)
        accepted = False
    else:
        accepted = True
    # Slot 2: the bins of its part alone; slot 3: its bins, and not what lies behind them.
    changed = pool.storage != before
    size = width // 4  # bytes of a bin
    changed[2, first * size : last * size] = False
    changed[3, : n_bins * size] = False
    assert not changed.any(), "bins were written to that the message is not about"
    return accepted


def _mutant(rng: np.random.Generator, message: np.ndarray) -> np.ndarray:
    data = bytearray(message.tobytes())
    for _ in range(int(rng.integers(1, 4))):
        kind, at = int(rng.integers(5)), int(rng.integers(len(data) + 1))
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = rng.integers(0, 256, int(rng.integers(1, 20)), dtype=np.uint8).tobytes()
        elif kind == 2 and len(data) >= 8:  # a step's length
            length = int(rng.choice([0, 1, 2**31, 2**32 - 1, len(data)]))
            start = 4 * int(rng.integers(2))
            data[start : start + 4] = (length % 2**32).to_bytes(4, "little")
        elif at < len(data):
            data[at] = int(rng.choice([0, 1, 64, 65, 127, 128, 255, rng.integers(256)]))
    return np.frombuffer(bytes(data), np.uint8)
