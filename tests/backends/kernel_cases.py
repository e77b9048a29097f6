"""What the tests of single kernels share: binned matrices, packed rows and sums as plain integers.

The sums that kernels store are unpacked here by Python's own integer arithmetic, so that the
expectation never comes from the code under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import GainRules
from bitgrove.backends.cpu import CpuBackend, CpuMatrix, CpuPool
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.backends.reference.tree import ReferenceMatrix
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import BUILD, Records, records

I64 = NDArray[np.int64]
Sums = list[tuple[int, int]]
Step = tuple[int, int, int, int, int, int]  # begin, end, slot, local width, total width, block
SIMD = list(range(int(_core.best_simd()) + 1))
ROW_TYPES = {8: np.int16, 16: np.int32, 32: np.int64}


def cpu(n_threads: int = 1, simd: int = SIMD[-1], packed: bool = True) -> CpuBackend:
    backend = CpuBackend(n_threads, packed)
    backend.simd = simd
    return backend


@dataclass
class BinnedCase:
    """The same bins on the reference and on the CPU."""

    mapper: BinMapper
    reference: ReferenceMatrix
    cpu: CpuMatrix

    @property
    def n_bins(self) -> int:
        return int(self.mapper.bin_offset[-1])


def mapper_of(n_values: Sequence[int], has_missing: Sequence[bool]) -> BinMapper:
    """Feature f has n_values[f] value bins; the number b is in bin b."""
    edges = [np.arange(n - 1) + 0.5 for n in n_values]
    offset = np.concatenate([[0], np.cumsum([len(e) for e in edges])]).astype(np.int64)
    return BinMapper(np.concatenate(edges), offset, np.array(has_missing, dtype=np.uint8))


def binned(bins: NDArray[Any], n_values: Sequence[int], has_missing: Sequence[bool]) -> BinnedCase:
    """bins is (n_features, n_rows); bin n_values[f] is the missing one."""
    mapper = mapper_of(n_values, has_missing)
    columns = [
        np.where(b == n, np.nan, b.astype(float)) for b, n in zip(bins, n_values, strict=True)
    ]
    reference = ReferenceBackend().bin_columns(columns, mapper)
    matrix = cpu().bin_columns(columns, mapper)
    reference.prepare(mapper)
    matrix.prepare(mapper)
    np.testing.assert_array_equal(reference.bins, bins)
    return BinnedCase(mapper, reference, matrix)


def random_binned(
    rng: np.random.Generator, n_rows: int, n_values: Sequence[int], has_missing: Sequence[bool]
) -> BinnedCase:
    bins = [
        rng.integers(0, n + int(missing), size=n_rows)
        for n, missing in zip(n_values, has_missing, strict=True)
    ]
    return binned(np.array(bins), n_values, has_missing)


def one_bin(n_rows: int) -> BinnedCase:
    """All rows in one bin of one feature: the worst case for an accumulator."""
    return binned(np.zeros((1, n_rows), dtype=np.int64), [1], [False])


def pack(grad: int, hess: int, half_bits: int) -> int:
    """The packed integer as a Python integer in the signed range of its type."""
    bits = 2 * half_bits
    raw = ((grad << half_bits) + hess) % 2**bits
    return raw - 2**bits if raw >= 2 ** (bits - 1) else raw


def pack_rows(grad: Iterable[int], hess: Iterable[int], half_bits: int) -> NDArray[Any]:
    pairs = zip((int(g) for g in grad), (int(h) for h in hess), strict=True)
    return np.array([pack(g, h, half_bits) for g, h in pairs], dtype=ROW_TYPES[half_bits])


def unpack(sum_: int, half_bits: int) -> tuple[int, int]:
    return sum_ >> half_bits, sum_ & (2**half_bits - 1)


def unpack_rows(packed: NDArray[Any]) -> I64:
    """(n, 2): gradient and hessian of every packed row."""
    half_bits = packed.dtype.itemsize * 4
    return np.array([unpack(p, half_bits) for p in packed.tolist()], dtype=np.int64).reshape(-1, 2)


def read_slot(pool: CpuPool, slot: int, width: int, n_bins: int) -> Sums:
    """The sums of a slot, unpacked here and not by the core."""
    raw = pool.storage[slot, : n_bins * width // 4]
    if width < 64:
        return [unpack(both, width) for both in raw.view(ROW_TYPES[width]).tolist()]
    pairs = raw.view(f"i{width // 8}").reshape(-1, 2).tolist()
    return [(grad, hess % 2**width) for grad, hess in pairs]


def write_slot(pool: CpuPool, slot: int, width: int, sums: Sums) -> None:
    """Puts sums into a slot as the kernels have them there."""
    if width < 64:
        raw = np.array([pack(g, h, width) for g, h in sums], dtype=ROW_TYPES[width])
    else:
        signed = [(g, h - 2**width if h >= 2 ** (width - 1) else h) for g, h in sums]
        raw = np.array(signed, dtype=f"i{width // 8}")
    pool.storage[slot, : raw.nbytes] = raw.reshape(-1).view(np.uint8)


def dirty_pool(
    backend: CpuBackend, matrix: CpuMatrix, n_slots: int, half_bits: int = 64
) -> CpuPool:
    """A pool with garbage in it: nothing may rely on fresh memory."""
    pool = backend.new_pool(matrix, n_slots, half_bits)
    pool.storage[:] = 0xA5
    return pool


def builds_of(steps: Sequence[Step]) -> Records:
    begins, ends, slots, local, total, blocks = np.array(steps).T
    return records(
        BUILD, len(steps), begin=begins, end=ends, slot=slots, local_width=local,
        total_width=total, block_rows=blocks,
    )  # fmt: skip


def core_tree(
    backend: CpuBackend,
    pool: CpuPool,
    rows: NDArray[np.int32] | None = None,
    packed_rows: NDArray[Any] | None = None,
    **changes: Any,
) -> Any:
    """The core's tree on the rows (all of them), whose integers are zero unless they are given."""
    matrix, n_rows = pool.matrix, pool.matrix.n_rows
    rows = np.arange(n_rows, dtype=np.int32) if rows is None else rows
    shared = {
        "storage": pool.storage,
        "layout": matrix.layout,
        "tiles": matrix.tiles,
        "columns": matrix.columns,
        "bin_offset": matrix.mapper.bin_offset,
        "has_missing": matrix.mapper.has_missing,
        "kinds": matrix.mapper.kinds,
        "column_of": matrix.column_of,
        "sparse": matrix.lists,
        "marks": np.full((0, 0), _core.NO_MARK, dtype=np.uint8),
        "n_threads": backend.n_threads,
    }
    own = {
        "rows": rows,
        "scratch": np.empty(len(rows), dtype=np.int32),
        "packed_rows": np.zeros(n_rows, dtype=np.int16) if packed_rows is None else packed_rows,
        "allowed": np.ones(matrix.mapper.n_features, dtype=np.uint8),
        "rules": _core.GainRules(**GainRules(1.0, 1.0, 0.0, 0.0, 0.0)._asdict()),
        "split_rules": None,
        "packed": backend.packed,
        "n_threads": backend.n_threads,
        "simd": backend.simd,
    }
    wanted = [{name: changes.get(name, given[name]) for name in given} for given in (shared, own)]
    return _core.CpuTree(pool=_core.CpuPool(**wanted[0]), **wanted[1])
