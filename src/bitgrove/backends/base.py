"""The backend protocol: about a dozen verbs on whole arrays.

A backend owns everything large: bins, scores, gradients, packed rows, row partitions and the
histogram pool, as arrays of its own kind (`Any` here: NumPy on the CPU, CuPy on a GPU). The loop,
the grower and the planner are the same for all; only small arrays cross. The reference backend is
the oracle: every other backend must give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bitgrove.data.binning import BinMapper
    from bitgrove.model.tree import Tree
    from bitgrove.objectives import Objective
    from bitgrove.training.splits import GainRules, SplitInfos

I64 = NDArray[np.int64]


class BinnedMatrix(Protocol):
    """Binned rows on a backend."""

    n_rows: int
    mapper: BinMapper


class TreeWork(NamedTuple):
    """What the searches of one tree have in common."""

    pool: Any
    matrix: Any
    packed: Any
    rows: Any
    allowed: NDArray[np.uint8]
    rules: GainRules
    packing: bool


class Targets(NamedTuple):
    """What the scores are compared with, on the device; made once per training."""

    label: Any
    weight: Any  # None: one for every row
    tables: tuple[Any, ...]  # the objective's own, in its order


class OutputGradients(NamedTuple):
    """The gradients of one output; hess and its bounds are those of Gradients."""

    grad: Any
    hess: Any
    tops: NDArray[np.uint32]  # (2,)
    counts: I64 | None  # (2, 2048)


class Gradients(NamedTuple):
    """Gradients of all outputs, and the bounds that quantization needs.

    grad and hess: (n_outputs, n_rows) float32 on the device; hess is None where it is constant one.
    tops: (n_outputs, 2), the bit pattern of the largest |grad| and of the largest hess (0 without
    hess); at least 0x7F800000 if one is not finite.
    counts: (n_outputs, 2, 2048), how many |grad| and hess fall into each bucket, the upper 11 bits
    of their pattern; None where they were not asked for.
    """

    grad: Any
    hess: Any
    tops: NDArray[np.uint32]
    counts: I64 | None

    def output(self, k: int) -> OutputGradients:
        hess = None if self.hess is None else self.hess[k]
        counts = None if self.counts is None else self.counts[k]
        return OutputGradients(self.grad[k], hess, self.tops[k], counts)


class Backend(Protocol):
    name: str
    pool_mb: int  # memory for histograms, where histogram_pool_mb leaves it to the backend

    def bin_columns(
        self, columns: Sequence[Any], mapper: BinMapper
    ) -> tuple[Any, NDArray[np.uint8]]:
        """(binned matrix, whether each feature has a missing value)."""

    def prepare_training(self, matrix: Any, mapper: BinMapper) -> None:
        """Readies binned rows for histograms; the mapper knows the missing values of all ranks."""

    def array(self, values: NDArray[Any] | None) -> Any:
        """A host array on the device."""

    def host(self, values: Any) -> NDArray[Any]:
        """A device array on the host."""

    def new_scores(self, base: NDArray[np.float64], n_rows: int) -> Any:
        """(n_outputs, n_rows) float64, each output filled with its base score."""

    def gradients(
        self, objective: Objective, scores: Any, targets: Targets, count_magnitudes: bool = False
    ) -> Gradients:
        """The objective's gradients, times the weights, with their bounds."""

    def quantize(
        self,
        grad: Any,
        hess: Any,
        scales: tuple[float, float, float, float],
        half_bits: int,
        key: int,
        first_row: int,
        stochastic: bool,
    ) -> tuple[Any, tuple[int, int, int]]:
        """(packed rows, (sum of |grad|, sum of hess, rows that are zero))."""

    def row_sums(self, packed: Any, rows: Any) -> tuple[int, int]:
        """Sums of integer gradient and hessian over the listed rows."""

    def select_rows(self, n_rows: int, first_row: int, sample: tuple[int, int] | None) -> Any:
        """Row list (int32, ascending) of the rows in the sample; all rows if it is None."""

    def excluded_rows(self, rows: Any, n_rows: int) -> Any:
        """The rows that are not in the list."""

    def separate_zero_rows(self, packed: Any, rows: Any) -> int:
        """Puts rows whose integers are zero behind the active ones; returns how many are active.

        Only for speed: a backend may call all rows active and leave them where they are.
        """

    def partition(self, matrix: Any, rows: Any, plan: I64) -> I64:
        """Divides rows[begin:end] of each node in place, stably; returns (n_nodes, 2) counts of
        the active and the zero rows gone left.

        plan columns: begin, end, feature, bin, missing bin, default left, first zero row.
        """

    def new_pool(self, n_slots: int, n_bins: int, half_bits: int) -> Any:
        """Room for n_slots histograms whose sums take at most half_bits per half."""

    def build_histograms(
        self, pool: Any, matrix: Any, packed: Any, rows: Any, plan: I64, packing: bool
    ) -> None:
        """plan columns: begin, end, slot, local width, total width, rows per block."""

    def subtract_histograms(
        self, pool: Any, plan: I64, bins: tuple[int, int], packing: bool
    ) -> None:
        """parent slot -= built slot, within the bins [first, last).

        plan columns: parent slot, built slot, parent width, built width, out width.
        """

    def histogram_sums(
        self, pool: Any, slot: int, width: int, bins: tuple[int, int], packing: bool
    ) -> I64:
        """(n_bins, 2) sums of gradient and hessian in the bins [first, last)."""

    def pack_messages(
        self, pool: Any, plan: I64, n_messages: int, packing: bool
    ) -> list[NDArray[np.uint8]]:
        """What other ranks need of this rank's histograms, in as few bits as the sums take.

        plan columns: message, slot, width, first bin, last bin; in the order of the messages.
        """

    def add_messages(
        self,
        pool: Any,
        plan: I64,
        steps: tuple[int, int],
        messages: list[tuple[int, NDArray[np.uint8]]],
        packing: bool,
    ) -> None:
        """Adds the steps [first, last) of what ranks sent; ValueError names one whose message
        does not fit.

        plan columns: slot, width, first bin, last bin, as in the messages.
        """

    def find_splits(
        self,
        pool: Any,
        mapper: BinMapper,
        slots: I64,
        widths: I64,
        sums: NDArray[np.float64],
        features: tuple[int, int],
        allowed: NDArray[np.uint8],
        rules: GainRules,
        packing: bool,
    ) -> SplitInfos:
        """The best split of each node; sums columns: grad, hess, least hessian of a child."""

    def run_rounds(self, work: TreeWork, frontier: Any, alpha: float) -> bool:
        """Runs all rounds of a tree where no other rank is asked; False, and nothing done, if the
        backend has no loop of its own for them."""

    def locate_leaves(self, rows: Any, begins: I64, ends: I64, n_rows: int) -> Any:
        """Which of the n_rows rows are in which leaf: rows[begin:end] are those of one."""

    def leaf_sums(self, leaves: Any, grad: Any, hess: Any, units: tuple[float, float]) -> I64:
        """(n_leaves, 2) fixed-point sums of the original gradients times their units."""

    def add_leaf_values(self, scores: Any, leaves: Any, values: NDArray[np.float64]) -> None:
        """Adds the value of each leaf to the scores of its rows."""

    def add_tree(self, scores: Any, matrix: Any, tree: Tree, subset: Any) -> None:
        """Adds a tree to the scores of binned rows (all, or the listed subset)."""


def make_targets(
    backend: Backend,
    objective: Objective,
    label: NDArray[np.float64],
    weight: NDArray[np.float32] | None,
    group: I64 | None,
) -> Targets:
    """Labels, weights and the objective's tables, sent to the device."""
    tables = tuple(backend.array(table) for table in objective.tables(label, group))
    return Targets(backend.array(label), backend.array(weight), tables)


def search_in_steps(backend: Backend, work: TreeWork, plan: Any) -> NDArray[np.uint8]:
    """A SearchPlan of the frontier, verb by verb, on one rank; returns the SplitInfos as bytes."""
    mapper, packing = work.matrix.mapper, work.packing
    backend.build_histograms(work.pool, work.matrix, work.packed, work.rows, plan.builds, packing)
    if len(plan.subtractions):
        everything = (0, int(mapper.bin_offset[-1]))
        backend.subtract_histograms(work.pool, plan.subtractions, everything, packing)
    nodes = (plan.slots, plan.widths, plan.sums)
    features = (0, mapper.n_features)
    found = backend.find_splits(
        work.pool, mapper, *nodes, features, work.allowed, work.rules, packing
    )
    return found.view(np.uint8)
