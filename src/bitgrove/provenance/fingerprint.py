"""Fingerprints of tables: a sha256 that depends on values and global row ids, on nothing else.

Owns RowHasher. Receives columns with the ids of their rows, in any number of parts, on any rank;
returns one fingerprint on all ranks. A block of consecutive ids is hashed in the canonical form of
cpp/data/canonical.cpp; the digests of all blocks, in their order, are hashed once more. Cutting a
table, storing it in another type or sparsely, or using more threads changes nothing. It is defined
in docs/verification.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.device_tables import on_host, take_rows
from bitgrove.data.levels import Levels
from bitgrove.data.row_ids import RowRuns
from bitgrove.data.sparse.tables import SparseColumns, SparseTable, row_parts
from bitgrove.distributed.comm import Comm
from bitgrove.machine.threads import map_in_threads

BLOCK_VALUES, LEAST_ROWS = 1 << 16, 256
_DIGEST = hashlib.sha256().digest_size
_SENT_ROWS = 1 << 18  # of a GPU's table that are on the host at a time
# Columns that are written and hashed at a time: all of a usual block, so that threads ask for
# Python's lock twice per block, and few enough that their bytes stay in the cache.
_STRIP = BLOCK_VALUES // LEAST_ROWS

F64 = NDArray[np.float64]
Part = Sequence[NDArray[Any]] | SparseTable  # columns of values, or a table stored by rows


def block_rows(n_columns: int) -> int:
    """Rows of a block: a power of two, so that it has about BLOCK_VALUES values."""
    return max(LEAST_ROWS, BLOCK_VALUES >> (n_columns - 1).bit_length())


class Piece(NamedTuple):
    """Rows of a block that is not whole, and the id of their first."""

    first: int
    part: Part

    @property
    def n_rows(self) -> int:
        return _n_rows(self.part)

    def filled(self) -> F64:
        """What is not zero: (n, 3) of row id, column, value."""
        if isinstance(self.part, SparseTable):
            taken = self.part.matrix.tocoo()
            places, numbers, values = taken.row, taken.col, taken.data.astype(np.float64)
        else:
            table = np.stack([column.astype(np.float64) for column in self.part], axis=1)
            places, numbers = np.nonzero(table)
            values = table[places, numbers]
        return np.stack([places.astype(np.float64) + self.first, numbers, values], axis=1)


def _piece_of(filled: F64, first: int, n_rows: int, n_columns: int) -> Piece:
    """The rows of which this is not zero."""
    from scipy import sparse

    ids, columns, values = filled.T
    placed = (values, (ids.astype(np.int64) - first, columns.astype(np.int64)))
    return Piece(first, SparseTable.of(sparse.csr_array(placed, shape=(n_rows, n_columns))))


class RowHasher:
    """Hashes a table that comes in parts. Each rank has one and adds its own rows."""

    def __init__(self, n_columns: int, n_threads: int = 1) -> None:
        self.n_columns, self.n_threads = n_columns, n_threads
        self.size, self.n_rows = block_rows(n_columns), 0
        self.digests: dict[int, bytes] = {}
        self._pieces: dict[int, list[Piece]] = {}

    def add(self, part: Part, first: int, *, stays: bool = False) -> None:
        """Rows with the ids first, first + 1, ...; stays: in memory until finish, whoever asks."""
        n_rows = _n_rows(part)
        end = first + n_rows
        self.n_rows += n_rows
        head_end = min(-(-first // self.size) * self.size, end)
        tail_begin = max(end // self.size * self.size, head_end)
        self._hash_blocks(part, first, range(head_end // self.size, tail_begin // self.size))
        self._add_piece(part, first, first, head_end, stays)
        self._add_piece(part, first, tail_begin, end, stays)

    def _add_piece(self, part: Part, first: int, begin: int, end: int, stays: bool) -> None:
        """Rows of one block, by id."""
        if begin == end:
            return
        rows = slice(begin - first, end - first)
        if isinstance(part, SparseTable):
            kept: Part = part.take(rows)
        else:  # a copy where the part, which may be large, would be kept alive
            kept = [c[rows] if stays else c[rows].copy() for c in part]
        self._keep(begin // self.size, Piece(begin, kept))

    def _keep(self, block: int, piece: Piece) -> None:
        pieces = self._pieces.setdefault(block, [])
        pieces.append(piece)
        if sum(p.n_rows for p in pieces) == self.size:
            self._finish_block(block)

    def _finish_block(self, block: int) -> None:
        pieces = self._pieces.pop(block)
        n_rows = sum(piece.n_rows for piece in pieces)
        whole = pieces[0]
        if len(pieces) > 1:
            filled = np.concatenate([piece.filled() for piece in pieces])
            whole = _piece_of(filled, block * self.size, n_rows, self.n_columns)
        self.digests[block] = _digests_of(whole.part, n_rows)(0)

    def _hash_blocks(self, part: Part, first: int, blocks: range) -> None:
        if not blocks:
            return

        def work(mine: range) -> list[bytes]:
            digest = _digests_of(part, self.size)
            return [digest(b * self.size - first) for b in mine]

        n_parts = min(self.n_threads, len(blocks))
        shares = [blocks[i::n_parts] for i in range(n_parts)]
        found = map_in_threads(work, shares)
        for share, digests in zip(shares, found, strict=True):
            self.digests.update(zip(share, digests, strict=True))

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
        held, self._pieces = self._pieces, {}
        sizes: list[list[int]] = [[] for _ in range(comm.size)]
        sent: list[list[F64]] = [[np.zeros(0)] for _ in range(comm.size)]
        for block, pieces in held.items():
            for piece in pieces:
                filled = piece.filled()
                sizes[block % comm.size] += [piece.first, piece.n_rows, len(filled)]
                sent[block % comm.size].append(filled.ravel())
        facts = comm.alltoall([np.array(s, dtype=np.int64) for s in sizes])
        came = comm.alltoall([np.concatenate(parts) for parts in sent])
        for of_rank, values in zip(facts, came, strict=True):
            filled, begin = values.reshape(-1, 3), 0
            for first, n_rows, n_filled in of_rank.reshape(-1, 3).tolist():
                mine = filled[begin : begin + n_filled]
                self._keep(first // self.size, _piece_of(mine, first, n_rows, self.n_columns))
                begin += n_filled

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


def _n_rows(part: Part) -> int:
    return part.n_rows if isinstance(part, SparseTable) else len(part[0])


def _table_digest(table: SparseTable, first: int, n: int) -> bytes:
    return hashlib.sha256(_core.canonical_block(table.core, first, n)).digest()


def _digests_of(part: Part, size: int) -> Callable[[int], bytes]:
    """The digest of a block that begins at a row."""
    if isinstance(part, SparseTable):
        return partial(_table_digest, part, n=size)
    columns = _core.CanonicalRows(list(part), len(part[0]))
    n_columns = len(part)
    room = np.empty(min(n_columns, _STRIP) * _core.canonical_room(size), dtype=np.uint8)

    def digest(first: int) -> bytes:
        found = hashlib.sha256()
        for begin in range(0, n_columns, _STRIP):
            end = min(begin + _STRIP, n_columns)
            n_bytes = columns.write(first, size, begin, end, room)
            found.update(room[:n_bytes].data)
        return found.digest()

    return digest


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
    stays = not isinstance(columns, SparseColumns) and isinstance(columns[0], np.ndarray)
    for run in runs:
        for begin, part in _host_parts(columns, run.begin, run.end):
            hasher.add(part, run.first + begin - run.begin, stays=stays)
    return hasher.finish(comm, levels)


def _host_parts(columns: Sequence[Any], begin: int, end: int) -> Iterator[tuple[int, Part]]:
    """The rows in parts that are on the host: all at once if they are there already."""
    if isinstance(columns, SparseColumns):
        yield from row_parts(columns, begin, end)
        return
    step = max(1, end - begin) if isinstance(columns[0], np.ndarray) else _SENT_ROWS
    for first in range(begin, end, step):
        rows = slice(first, min(first + step, end))
        yield first, [on_host(take_rows(column, rows)) for column in columns]


def rows_of_queries(group: NDArray[np.int64]) -> NDArray[np.float32]:
    """1 for the first row of each query, else 0: sizes as a column, which can be cut anywhere."""
    starts = np.zeros(int(group.sum()), dtype=np.float32)
    starts[np.cumsum(group) - group] = 1.0
    return starts
