"""Tables on their way to a GPU: every layout arrives whole. A host array plays the device."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda import transfer
from bitgrove.backends.cuda.transfer import Sender, rectangles

Array = NDArray[Any]


class Pinned:
    def __init__(self, n_bytes: int) -> None:
        self.memory = np.zeros(n_bytes, dtype=np.uint8)
        self.ptr = self.memory.ctypes.data


class HostDevice:
    """Copies at once; keeps what was sent in arrays of the host."""

    def __init__(self) -> None:
        event = SimpleNamespace(synchronize=lambda: None, record=lambda stream: None)
        stream = SimpleNamespace(synchronize=lambda: None)
        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                Event=lambda **_: event,
                Stream=SimpleNamespace(null=None),
                get_current_stream=lambda: stream,
                alloc_pinned_memory=Pinned,
            )
        )
        self.stream = SimpleNamespace(upload=self._upload)

    def _upload(self, to: int, from_host: int, n_bytes: int) -> None:
        ctypes.memmove(to, from_host, n_bytes)


def sent(columns: list[Array]) -> list[Array]:
    """What the kernels would read of each column, block after block."""
    sender: Any = Sender(HostDevice(), 2)  # type: ignore[arg-type]
    found = [np.zeros(len(column), column.dtype) for column in columns]
    seen = np.zeros((len(columns), len(columns[0])), dtype=int)
    for part in rectangles(columns):
        room = np.zeros(transfer.BLOCK_BYTES, dtype=np.uint8)
        for block in sender.blocks(part.table, room.ctypes.data, one_room=True):
            sources, rows = part.columns(block)
            for source in sources:
                item, n = part.table.itemsize, rows.stop - rows.start
                first = int(source["address"]) - room.ctypes.data
                values = room[first:].view(np.uint8)[: ((n - 1) * int(source["stride"]) + 1) * item]
                values = values.view(part.table.dtype)[:: int(source["stride"])]
                found[int(source["feature"])][rows] = values
                seen[int(source["feature"]), rows] += 1
    assert np.all(seen == 1)
    return found


def layouts(table: Array) -> dict[str, list[Array]]:
    fortran, wide = np.asfortranarray(table), np.repeat(table, 2, axis=1)
    mixed = list(table.T)
    mixed[1] = mixed[1].astype(np.float64)
    mixed[2] = np.broadcast_to(table.dtype.type(2.5), len(table))
    return {
        "row-major": list(table.T),
        "column-major": list(fortran.T),
        "separate": [column.copy() for column in table.T],
        "some rows": list(table[1::3].T),
        "some columns": list(wide[:, ::2].T),
        "few columns": list(np.repeat(table, 5, axis=1)[:, ::5].T),
        "some rows of columns": list(fortran[2:-3].T),
        "backwards": list(table[::-1, ::-1].T),
        "in another order": [table[:, f] for f in (3, 0, 2, 1, 4, 3)],
        "mixed": mixed,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 2, 700])
@pytest.mark.parametrize("name", sorted(layouts(np.zeros((7, 5)))))
def test_every_layout_arrives(
    name: str, n_rows: int, dtype: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(transfer, "BLOCK_BYTES", 512)  # many blocks, also of one column
    columns = layouts(rng.normal(size=(n_rows + 6, 5)).astype(dtype))[name]
    for found, column in zip(sent(columns), columns, strict=True):
        assert found.tobytes() == column.tobytes()


def test_tables_travel_in_one_piece(rng: np.random.Generator) -> None:
    table = rng.normal(size=(50, 6))
    by_layout = {name: rectangles(columns) for name, columns in layouts(table).items()}
    for name in ("row-major", "some rows", "some columns", "in another order"):
        (part,) = by_layout[name]
        assert part.by_rows
    (part,) = by_layout["column-major"]
    assert not part.by_rows and part.table.shape == (6, 50)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (70, 9), (1, 200_000), (90_000, 3)])
def test_copies_of_rows(shape: tuple[int, int], rng: np.random.Generator) -> None:
    table = rng.normal(size=(shape[0], shape[1] + 2))
    for view in (table, table[:, 1:-1], table[::-1, :1]):
        to = np.full(view.size + 1, 7.0)
        _core.copy_rows(view, to.ctypes.data, 2)
        assert to[:-1].tobytes() == view.tobytes() and to[-1] == 7.0


def test_values_of_a_row_are_neighbours() -> None:
    to = np.zeros(6)
    with pytest.raises(ValueError, match="neighbours"):
        _core.copy_rows(np.zeros((2, 6))[:, ::2], to.ctypes.data, 1)
