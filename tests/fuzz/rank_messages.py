"""Messages of other ranks: mutants are refused, or add to their own bins and no others.

Bytes of a case: the number that makes slots and parts (8), then the message.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bitgrove.distributed.messages import add_messages, pack_messages
from kernel_cases import cpu, dirty_pool, write_slot
from one_tree import empty_case, parts
from tests.fuzz.mutations import chosen

_NUMBER = 8  # bytes
_N_SEEDS = 200


class _Slots(NamedTuple):
    """Slots 0 and 1 hold what is sent, in two parts; 2 and 3 take it."""

    pool: Any
    n_bins: int
    width: int
    first: int
    last: int

    def parts_of(self, slot: int) -> Any:
        return parts(
            (0, slot, self.width, self.first, self.last), (0, slot + 1, self.width, 0, self.n_bins)
        )


def _slots(number: int) -> _Slots:
    rng = np.random.default_rng(number)
    n_bins, width = int(rng.choice([1, 5, 64, 65, 130])), int(rng.choice([16, 32, 64]))
    pool = dirty_pool(cpu(int(rng.integers(1, 3))), empty_case(n_bins).cpu, 4, 64)
    top = 2 ** int(rng.integers(1, width - 1))
    for slot in range(4):
        grads = rng.integers(-top, top, n_bins, endpoint=True).tolist()
        hessians = rng.integers(0, top, n_bins, endpoint=True).tolist()
        write_slot(pool, slot, width, list(zip(grads, hessians, strict=True)))
    first, last = sorted(rng.integers(0, n_bins + 1, 2).tolist())
    return _Slots(pool, n_bins, width, first, last)


@cache
def seeds() -> list[bytes]:
    return [number.to_bytes(_NUMBER, "little") + _message(number) for number in range(_N_SEEDS)]


def _message(number: int) -> bytes:
    slots = _slots(number)
    (message,) = pack_messages(slots.pool, slots.parts_of(0), 1)
    return message.tobytes()


def mutant(rng: np.random.Generator, data: bytes) -> bytes:
    number, message = data[:_NUMBER], bytearray(data[_NUMBER:])
    for _ in range(int(rng.integers(1, 4))):
        kind, at = int(rng.integers(5)), int(rng.integers(len(message) + 1))
        if kind == 0:
            del message[at:]
        elif kind == 1:
            message[at:at] = rng.bytes(int(rng.integers(1, 20)))
        elif kind == 2 and len(message) >= 8:  # a step's length
            length = int(rng.choice([0, 1, 2**31, 2**32 - 1, len(message)]))
            start = 4 * int(rng.integers(2))
            message[start : start + 4] = (length % 2**32).to_bytes(4, "little")
        elif at < len(message):
            message[at] = chosen(rng, [0, 1, 64, 65, 127, 128, 255, int(rng.integers(256))])
    return number + bytes(message)


def check(data: bytes, rng: np.random.Generator) -> bool:
    """Whether the message was accepted."""
    slots = _slots(int.from_bytes(data[:_NUMBER], "little"))
    before = slots.pool.storage.copy()
    message = np.frombuffer(data[_NUMBER:], np.uint8)
    try:
        add_messages(slots.pool, slots.parts_of(2), [(5, message)])
    except ValueError as error:
        assert "rank 5 sent histograms that do not fit" in str(error)
        accepted = False
    else:
        accepted = True
    # Slot 2: the bins of its part alone; slot 3: its bins, and not what lies behind them.
    changed = slots.pool.storage != before
    size = slots.width // 4  # bytes of a bin
    changed[2, slots.first * size : slots.last * size] = False
    changed[3, : slots.n_bins * size] = False
    assert not changed.any(), "bins were written to that the message is not about"
    return accepted
