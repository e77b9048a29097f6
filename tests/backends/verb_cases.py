"""What the verb suite shares: the same work on the reference and on the backend under test.

Owns tables, packed rows and plans made by hand, and how sums are read from and written to a pool of
any backend: through HostSlots, unpacked by NumPy and not by the core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import GainRules, HistogramPool, PackedRows, TreeInputs, TreeWork
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.backends.reference.tree import ReferenceTree
from bitgrove.constraints.rules import SplitRules
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import ROW_TOTALS, SUBTRACTION, Records, records
from bitgrove.model.tree import Tree
from kernel_cases import ROW_TYPES, mapper_of, pack_rows

I64 = NDArray[np.int64]
REFERENCE = ReferenceBackend()
PLAIN = GainRules(1.0, 1.0, 0.0, 0.0, 0.0)
REGULARISED = GainRules(0.3, 0.7, 1.0, 0.5, 0.2)


@dataclass
class Table:
    """Columns whose numbers are their bins; NaN is in the missing bin."""

    mapper: BinMapper
    columns: list[NDArray[Any]]

    @property
    def n_rows(self) -> int:
        return len(self.columns[0])

    @property
    def n_bins(self) -> int:
        return int(self.mapper.bin_offset[-1])

    def on(self, backend: Any) -> Any:
        """The table's matrix, ready for training."""
        matrix = backend.bin_columns(self.columns, self.mapper)
        matrix.prepare(self.mapper)
        return matrix


def random_table(seed: int, n_rows: int, n_features: int) -> Table:
    """Features of one bin to 256, half of them with missing values."""
    rng = np.random.default_rng(seed)
    n_values = rng.choice([1, 2, 3, 9, 100, 254, 255], size=n_features)
    has_missing = rng.random(n_features) < 0.5
    columns = []
    for n, missing in zip(n_values.tolist(), has_missing.tolist(), strict=True):
        bins = rng.integers(0, n + int(missing), n_rows).astype(np.float64)
        columns.append(np.where(bins == n, np.nan, bins))
    return Table(mapper_of(n_values.tolist(), has_missing.tolist()), columns)


@dataclass
class Integers:
    """Rows of a tree before they are packed: (n_rows, 2), and the bits of a half of a row."""

    pairs: I64
    half_bits: int = 8

    def on(self, backend: Any) -> PackedRows:
        grad, hess = self.pairs.T
        zeros = int((self.pairs == 0).all(axis=1).sum())
        totals = records(
            ROW_TOTALS, 1, abs_grad=np.abs(grad).sum(), grad=grad.sum(), hess=hess.sum(),
            zero_rows=zeros,
        )  # fmt: skip
        values = self.pairs
        if backend.name != "reference":
            values = backend.upload(pack_rows(grad.tolist(), hess.tolist(), self.half_bits))
        return PackedRows(values, totals)


def random_integers(
    rng: np.random.Generator, n_rows: int, limits: tuple[int, int], half_bits: int = 8
) -> Integers:
    grad = rng.integers(-limits[0], limits[0] + 1, n_rows)
    return Integers(np.stack([grad, rng.integers(0, limits[1] + 1, n_rows)], axis=1), half_bits)


@dataclass
class Twin:
    """One tree twice: on the reference, and on the backend under test."""

    table: Table
    oracle: ReferenceTree
    work: TreeWork
    oracle_rows: NDArray[np.int32]
    rows: Any

    def sums(self, slot: int, width: int) -> tuple[I64, I64]:
        """What the backend has in a slot, and what the reference has."""
        expected = self.oracle.pool.storage[slot]
        return pool_sums(self.work.pool, slot, width), expected

    def write(self, slot: int, width: int, sums: I64) -> None:
        self.oracle.pool.storage[slot] = sums
        write_sums(self.work.pool, slot, width, sums)

    def node_sums(self, begin: int, end: int) -> list[int]:
        """Gradient and hessian of the listed rows [begin, end)."""
        pairs: I64 = self.oracle._packed[self.oracle_rows[begin:end]]
        return [int(s) for s in pairs.sum(axis=0)]


@dataclass
class TwinPlan:
    """How a Twin is made."""

    table: Table
    integers: Integers
    rows: NDArray[np.int32] | None = None  # all of them
    n_slots: int = 4
    half_bits: int = 64  # of the pool
    rules: GainRules = PLAIN
    allowed: NDArray[np.uint8] | None = None  # all features
    separate_zeros: bool = False
    split_rules: SplitRules | None = None

    def start(self, backend: Any) -> Twin:
        rows = self.rows
        if rows is None:
            rows = np.arange(self.table.n_rows, dtype=np.int32)
        mine = backend.upload(rows.copy())
        work = self._tree(backend, mine)
        listed = backend.download(mine).copy()  # zero rows may be separated
        oracle = self._tree(REFERENCE, listed)
        return Twin(self.table, oracle, work, listed, mine)

    def _tree(self, backend: Any, rows: Any) -> Any:
        allowed = self.allowed
        if allowed is None:
            allowed = np.ones(self.table.mapper.n_features, dtype=np.uint8)
        pool = backend.new_pool(self.table.on(backend), self.n_slots, self.half_bits)
        packed = self.integers.on(backend)
        inputs = TreeInputs(packed, rows, allowed, self.rules, self.separate_zeros)
        return backend.start_tree(pool, inputs._replace(split_rules=self.split_rules))


class Plan(NamedTuple):
    """A SearchPlan made by hand."""

    builds: Records
    subtractions: Records
    nodes: Records
    allowed: NDArray[np.uint8] | None = None


@dataclass
class Alone:
    """An exchange with nobody: a plan made by hand goes through build, subtract and find."""

    bins: tuple[int, int]
    subtractions: Records = field(default_factory=lambda: records(SUBTRACTION, 0))

    def sum_counts(self, counts: Records) -> Records:
        return counts

    def sum_built(self, pool: Any, builds: Records) -> tuple[int, int]:
        return self.bins

    def choose(self, plan: Plan, work: TreeWork) -> Records:
        everything = (0, work.pool.matrix.mapper.n_features)
        return work.find(plan.nodes, everything, allowed=plan.allowed)


class AloneInNumpy(Alone):
    """The same for the reference, whose own plans build every node and subtract nothing."""

    def sum_built(self, pool: Any, builds: Records) -> tuple[int, int]:
        part = slice(*self.bins)
        for step in self.subtractions:
            parent, built, out = (
                pool.storage[step[name], part] for name in ("parent_slot", "built_slot", "out_slot")
            )
            out[:] = parent - built
        return self.bins


def search_both(
    twin: Twin, plan: Any, bins: tuple[int, int] | None = None
) -> tuple[Records, Records]:
    """What the backend finds, step by step, and what the reference finds."""
    bins = bins or (0, twin.table.n_bins)
    expected = twin.oracle.search(plan, AloneInNumpy(bins, plan.subtractions))
    return twin.work.search(plan, Alone(bins)), expected


def _slot_memory(pool: HistogramPool, slot: int) -> tuple[Any, NDArray[np.uint8]]:
    host = pool.on_host(np.array([slot]))
    return host, host.memory[slot if host.slots is None else 0]


def pool_sums(pool: HistogramPool, slot: int, width: int) -> I64:
    """(n_bins, 2): the sums of a slot of any backend's pool."""
    host, raw = _slot_memory(pool, slot)
    width = host.width or width
    n_bins = int(pool.matrix.mapper.bin_offset[-1])
    raw = raw[: n_bins * width // 4]
    mask = 2 ** min(width, 63) - 1
    if width < 64:
        both = raw.view(ROW_TYPES[width]).astype(np.int64)
        return np.stack([both >> width, both & mask], axis=1)
    pairs = raw.view(f"i{width // 8}").astype(np.int64).reshape(-1, 2)
    return np.stack([pairs[:, 0], pairs[:, 1] & mask], axis=1)


def write_sums(pool: HistogramPool, slot: int, width: int, sums: I64) -> None:
    host, memory = _slot_memory(pool, slot)
    width = host.width or width
    if width < 64:
        raw = ((sums[:, 0] << width) + sums[:, 1]).astype(ROW_TYPES[width])
    else:
        raw = sums.astype(f"i{width // 8}")
    memory[: raw.nbytes] = raw.reshape(-1).view(np.uint8)
    pool.put_back(host)


def narrowest(pairs: I64) -> int:
    """The least width of a total that holds the sums of these rows, whichever are in a bin."""
    grad, hess = int(np.abs(pairs[:, 0]).sum()), int(pairs[:, 1].sum())
    return next(w for w in (16, 32, 64) if grad < 2 ** (w - 1) and hess < 2 ** min(w, 63))


def leaf_tree(values: NDArray[np.float64]) -> Tree:
    """A tree of which only the values count: its rows are in leaves already, or it has one."""
    whole, none = np.zeros(0, dtype=np.int32), np.zeros(0)
    splits = (whole, whole.astype(np.uint8), none, whole.astype(np.uint8), whole, whole)
    about = (none, whole.astype(np.int64), none)
    return Tree(*splits, *about, values, np.zeros(len(values), np.int64), np.zeros(len(values)))
