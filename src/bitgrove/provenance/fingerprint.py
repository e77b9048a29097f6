"""Fingerprints of tables: a sha256 that depends on values and global row ids, on nothing else.

Owns RowHasher. Receives columns with the ids of their rows, in any number of parts, on any rank;
returns one fingerprint on all ranks. A block of consecutive ids is hashed in the canonical form of
cpp/data/canonical.cpp; the digests of all blocks, in their order, are hashed once more. Cutting a
table, storing it in another type or using more threads changes nothing. It is defined in
docs/verification.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.device_tables import on_host, take_rows
from bitgrove.data.levels import Levels
from bitgrove.data.row_ids import RowRuns
from bitgrove.distributed.comm import Comm
from bitgrove.machine.threads import map_in_threads

BLOCK_VALUES = 1 << 16
_DIGEST = hashlib.sha256().digest_size
_SENT_ROWS = 1 << 18  # of a GPU's table that are on the host at a time

F64 = NDArray[np.float64]


def block_rows(n_columns: int) -> int:
    """Rows of a block: a power of two, so that it has about BLOCK_VALUES values."""
    return max(1, BLOCK_VALUES >> (n_columns - 1).bit_length())


class RowHasher:
    """Hashes a table that comes in parts. Each rank has one and adds its own rows."""

    def __init__(self, n_columns: int, n_threads: int = 1) -> None:
        self.n_columns, self.n_threads = n_columns, n_threads
        self.size, self.n_rows = block_rows(n_columns), 0
        self.digests: dict[int, bytes] = {}
        self._pieces: dict[int, list[F64]] = {}  # rows of blocks that are not whole: id, values

    def add(self, columns: Sequence[NDArray[Any]], first: int) -> None:
        """Float32 or float64 columns; their rows have the ids first, first + 1, ..."""
        end = first + len(columns[0])
        self.n_rows += len(columns[0])
        head_end = min(-(-first // self.size) * self.size, end)
        tail_begin = max(end // self.size * self.size, head_end)
        self._hash_blocks(columns, first, range(head_end // self.size, tail_begin // self.size))
        self._add_piece(columns, first, first, head_end)
        self._add_piece(columns, first, tail_begin, end)

    def _add_piece(self, columns: Sequence[NDArray[Any]], first: int, begin: int, end: int) -> None:
        """Rows of one block, by id."""
        if begin == end:
            return
        ids = np.arange(begin, end, dtype=np.float64)
        rows = np.stack([ids, *(column[begin - first : end - first] for column in columns)], axis=1)
        block = begin // self.size
        pieces = self._pieces.setdefault(block, [])
        pieces.append(rows)
        if sum(map(len, pieces)) == self.size:
            self._finish_block(block)

    def _finish_block(self, block: int) -> None:
        rows = np.concatenate(self._pieces.pop(block))
        rows = rows[np.argsort(rows[:, 0])]
        columns = list(rows[:, 1:].T)
        canonical = _core.CanonicalRows(columns, len(rows))
        self.digests[block] = _digest(canonical, 0, len(rows), self._room(len(rows)))

    def _hash_blocks(self, columns: Sequence[NDArray[Any]], first: int, blocks: range) -> None:
        if not blocks:
            return
        rows = _core.CanonicalRows(list(columns), len(columns[0]))

        def work(mine: range) -> list[bytes]:
            room = self._room(self.size)
            return [_digest(rows, b * self.size - first, self.size, room) for b in mine]

        n_parts = min(self.n_threads, len(blocks))
        shares = [blocks[i::n_parts] for i in range(n_parts)]
        found = map_in_threads(work, shares)
        for share, digests in zip(shares, found, strict=True):
            self.digests.update(zip(share, digests, strict=True))

    def _room(self, n_rows: int) -> NDArray[np.uint8]:
        """For the bytes of so many rows."""
        return np.empty(self.n_columns * (1 + 8 * n_rows), dtype=np.uint8)

    def finish(self, comm: Comm, levels: Mapping[int, Levels] | None = None) -> str:
        """The fingerprint of the rows of all ranks, in hexadecimal.

        levels: of the columns that hold codes of categories.
        """
        self._exchange_pieces(comm)
        for block in list(self._pieces):
            self._finish_block(block)
        digests = self._all_digests(comm)
        n_rows = int(comm.allreduce_sum(np.array([self.n_rows], dtype=np.int64))[0])
        described = [
            [f, found.kind, found.values.tolist()] for f, found in sorted((levels or {}).items())
        ]
        facts = {"columns": self.n_columns, "levels": described, "rows": n_rows}
        final = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode())
        final.update(b"\n")
        final.update(digests.tobytes())
        return final.hexdigest()

    def _exchange_pieces(self, comm: Comm) -> None:
        """Rows of blocks that ranks have parts of go to one of them."""
        if comm.size == 1:
            return
        sent: list[list[F64]] = [[np.zeros(0)] for _ in range(comm.size)]
        for block, pieces in self._pieces.items():
            sent[block % comm.size] += [piece.ravel() for piece in pieces]
        came = np.concatenate(comm.alltoall([np.concatenate(parts) for parts in sent]))
        self._pieces = {}
        rows = came.reshape(-1, self.n_columns + 1)
        blocks = rows[:, 0].astype(np.int64) // self.size
        for block in np.unique(blocks).tolist():
            self._pieces[block] = [rows[blocks == block]]

    def _all_digests(self, comm: Comm) -> NDArray[np.uint8]:
        """Of all blocks, in order, on every rank."""
        blocks = np.array(sorted(self.digests), dtype=np.int64)
        raw = b"".join(self.digests[block] for block in blocks.tolist())
        mine = np.frombuffer(raw, dtype=np.uint8).reshape(-1, _DIGEST)
        if comm.size == 1:
            return mine
        order = np.argsort(np.concatenate(comm.allgather(blocks)))
        everyone = np.concatenate(comm.allgather(mine.ravel())).reshape(-1, _DIGEST)
        return np.asarray(everyone[order])


def _digest(rows: _core.CanonicalRows, first: int, n: int, room: NDArray[np.uint8]) -> bytes:
    n_bytes = rows.write(first, n, room)
    return hashlib.sha256(room[:n_bytes].data).digest()


def table_fingerprint(
    columns: Sequence[Any],
    runs: RowRuns,
    comm: Comm,
    *,
    levels: Mapping[int, Levels] | None = None,
    n_threads: int = 1,
) -> str:
    """Of a table whose rows on this rank have the ids of these runs."""
    hasher = RowHasher(len(columns), n_threads)
    for run in runs:
        for begin, part in _host_parts(columns, run.begin, run.end):
            hasher.add(part, run.first + begin - run.begin)
    return hasher.finish(comm, levels)


def _host_parts(
    columns: Sequence[Any], begin: int, end: int
) -> Iterator[tuple[int, list[NDArray[Any]]]]:
    """The rows in parts that are on the host: all at once if they are there already."""
    step = max(1, end - begin) if isinstance(columns[0], np.ndarray) else _SENT_ROWS
    for first in range(begin, end, step):
        rows = slice(first, min(first + step, end))
        yield first, [on_host(take_rows(column, rows)) for column in columns]


def rows_of_queries(group: NDArray[np.int64]) -> NDArray[np.float32]:
    """1 for the first row of each query, else 0: sizes as a column, which can be cut anywhere."""
    starts = np.zeros(int(group.sum()), dtype=np.float32)
    starts[np.cumsum(group) - group] = 1.0
    return starts
