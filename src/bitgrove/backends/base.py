"""The backend protocol: a few verbs on whole arrays.

A backend owns everything large: bins, scores, gradients, packed rows, row lists and histograms, as
arrays of its own kind (`Any` here: NumPy on the CPU, CuPy on a GPU). The loop and the planner are
the same for all; only small arrays cross. Results carry what the next step needs. The reference
backend is the oracle: every other backend must give the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.host_slots import HostSlots
from bitgrove.backends.told import Gradients, OutputGradients, Told
from bitgrove.constraints.rules import GainRules, SplitRules
from bitgrove.data.given_values import narrowest, widened
from bitgrove.data.row_ids import RowRuns, row_ids
from bitgrove.kernels.plans import Records

if TYPE_CHECKING:
    from bitgrove.backends.panel import Panel
    from bitgrove.data.binning import BinMapper
    from bitgrove.data.sampling import KeepRule, Sample
    from bitgrove.distributed.comm import Comm
    from bitgrove.machine.memory import Room
    from bitgrove.model.tree import Tree
    from bitgrove.objectives import Objective
    from bitgrove.objectives.metrics import EvalSet

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]


class BinnedMatrix(Protocol):
    """Binned rows on a backend."""

    n_rows: int
    mapper: BinMapper
    missing: NDArray[np.uint8]  # whether each feature has a missing value among these rows

    @property
    def n_slot_bins(self) -> int:
        """Of a histogram in a slot; those of features that need none are left out."""

    def prepare(self, mapper: BinMapper, alone: bool = False) -> None:
        """Readies the rows for training; the mapper knows the missing values of all ranks.

        alone: no other rank's histograms are added to those of these rows.
        """


class Rounding(NamedTuple):
    """How one output's gradients become integers: floor(x * inverse + noise), within a limit."""

    inverse_grad: float
    inverse_hess: float
    grad_limit: int
    hess_limit: int
    half_bits: int  # of a packed row: 8, 16 or 32
    key: int  # of the noise
    stochastic: bool


class PackedRows(NamedTuple):
    """One packed integer per row, and what is known of those of this rank."""

    values: Any
    totals: Records  # one RowTotals


class TreeInputs(NamedTuple):
    """What a tree is grown on."""

    packed: PackedRows
    rows: Any  # row list of this rank; the tree's divisions reorder it
    allowed: NDArray[np.uint8]  # 1 for each feature that may be split on
    rules: GainRules
    separate_zeros: bool  # whether leaving zero rows out is worth a pass over all rows
    split_rules: SplitRules | None = None  # of a training that has some
    limits_features: bool = False  # whether nodes have allowed features of their own


class RootSums(NamedTuple):
    """The integers of all rows that a tree is grown on, and how many are active and zero."""

    grad: int
    hess: int
    n_active: int
    n_zero: int


class HistogramPool(Protocol):
    """Memory for a bounded number of histograms of one matrix."""

    matrix: Any
    n_slots: int
    half_bits: int  # that a sum takes at most

    def on_host(self, slots: I64) -> HostSlots:
        """These slots (ascending, each once) in host memory; it may be the pool's own."""

    def put_back(self, host: HostSlots) -> None:
        """Slots that were changed in host memory."""


class SearchPlan(Protocol):
    """One batch of histograms: what to build, what to subtract then, which nodes to search."""

    @property
    def builds(self) -> Records: ...
    @property
    def subtractions(self) -> Records: ...
    @property
    def nodes(self) -> Records: ...
    @property
    def allowed(self) -> NDArray[np.uint8] | None:
        """(n_nodes, n_features): the features of each node; None: those of the tree."""


class Frontier(Protocol):
    """The books of a growing tree: told what was found, it says what to do next."""

    def start(
        self, *, grad: int, hess: int, all_rows: tuple[int, int], local_rows: tuple[int, int]
    ) -> None:
        """The root's sums, and its active and zero rows on all ranks and on this one."""

    def next_search(self) -> SearchPlan | None:
        """None when every child is known."""

    def record(self, found: Records) -> None:
        """The SplitInfos of the nodes of the last plan."""

    def next_batch(self, alpha: float, missing_bin: I64) -> Records:
        """The Divisions of the next nodes; none when the tree is done."""

    def divide(self, local_left: Records, all_left: Records) -> None:
        """The RowCounts gone left, on this rank and on all."""

    @property
    def n_rounds(self) -> int: ...

    @property
    def widths_used(self) -> Sequence[int]:
        """Histograms that were built with accumulators of 8, 16, 32 and 64 bits."""

    def leaves(self) -> tuple[I64, I64]:
        """Where this rank's rows of each leaf begin and end."""

    def finish(
        self, edge_values: F64, edge_offset: I64, has_missing: NDArray[np.uint8], hess_scale: float
    ) -> dict[str, Any]:
        """The fields of the GrownTree."""


class Exchange(Protocol):
    """What ranks say to each other while a tree grows; without one, a rank is alone."""

    def sum_counts(self, counts: Records) -> Records:
        """RowCounts over all ranks."""

    def sum_built(self, pool: HistogramPool, builds: Records) -> tuple[int, int]:
        """After builds: sums what other ranks built; returns the bins worth subtracting."""

    def choose(self, plan: SearchPlan, work: TreeWork) -> Records:
        """The SplitInfos of the plan's nodes, the same on all ranks."""


class LeafSums(NamedTuple):
    """Gradient and hessian of each leaf: integers, and what one of them is worth."""

    integers: Records  # GradientSums
    grad_unit: float
    hess_unit: float


class LeafRule(NamedTuple):
    """What turns the sums of a leaf into its value."""

    reg_alpha: float
    reg_lambda: float
    learning_rate: float


class GrownTree(NamedTuple):
    """A tree without leaf values; its splits in best-first order."""

    splits: Records  # GrownSplits
    left_bins: NDArray[np.uint64]  # (n_splits, 4), or no rows: no split is by a set of bins
    leaf_rows: I64
    leaf_sums: Records  # GradientSums of integers
    leaf_lower: F64 | None = None  # what leaf values must keep to, before the learning rate
    leaf_upper: F64 | None = None


class TreeWork(ABC):
    """One tree on a backend: its rows, its histograms, and the verbs that grow it."""

    pool: HistogramPool
    root: RootSums

    @abstractmethod
    def search(self, plan: SearchPlan, exchange: Exchange | None = None) -> Records:
        """Builds and subtracts what a SearchPlan says; the SplitInfo of each of its nodes."""

    @abstractmethod
    def find(
        self,
        nodes: Records,
        features: tuple[int, int],
        pool: HistogramPool | None = None,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Records:
        """The best splits among the features [first, last).

        pool: to be searched instead of the tree's own; allowed: a row of flags for each node, to be
        looked at instead of the tree's.
        """

    @abstractmethod
    def divide(self, divisions: Records) -> Records:
        """Divides the rows of nodes in place, stably; the RowCounts gone left of each."""

    @abstractmethod
    def leaf_sums(self, grad: Any, hess: Any, units: tuple[float, float]) -> Told:
        """Fixed-point GradientSums of the original gradients times their units, by leaf."""

    @abstractmethod
    def leaf_values(self, sums: LeafSums, rule: LeafRule) -> tuple[F64, F64]:
        """-soft(G) / (H + lambda) * learning rate, 0 where a leaf has no curvature; and H."""

    @abstractmethod
    def leaf_digits(self, keys: Any, weights: Any, prefixes: U32, shift: int) -> I64:
        """(n_leaves, 256): the weight of each next digit of the keys of a leaf's rows.

        Of keys that begin with the leaf's prefix: the digit is key >> shift & 255, the prefix what
        is above it. weights: int64 of each row, None: one. Keys are those of residual_keys.
        """

    @abstractmethod
    def next_keys(self, keys: Any, lower: U32) -> U32:
        """Of each leaf the least key of its rows above `lower`; 2^32 - 1 where there is none."""

    @abstractmethod
    def add_tree(self, scores: Any, tree: Tree) -> None:
        """Adds the finished tree to the scores of all rows, sampled or not."""

    @abstractmethod
    def set_leaves(self, begins: I64, ends: I64) -> None:
        """Tells which rows each leaf has: rows[begin:end], once the tree is grown."""

    def begin(self, frontier: Frontier, alpha: float) -> None:
        """Where no rank is asked, a device may begin to grow the tree by itself; grow() joins."""
        return  # the others wait until they are told what to do

    def grow(
        self, frontier: Frontier, alpha: float, missing_bin: I64, exchange: Exchange | None
    ) -> None:
        """All rounds of a tree: divide -> build -> [exchange] -> find, until the frontier is done.

        The core has the same loop (cpp/growth/rounds.h) for a rank that is alone.
        """
        self._search_all(frontier, exchange)
        while len(divisions := frontier.next_batch(alpha, missing_bin)):
            local_left = self.divide(divisions)
            all_left = local_left if exchange is None else exchange.sum_counts(local_left)
            frontier.divide(local_left, all_left)
            self._search_all(frontier, exchange)

    def _search_all(self, frontier: Frontier, exchange: Exchange | None) -> None:
        while (plan := frontier.next_search()) is not None:
            frontier.record(self.search(plan, exchange))


class Targets(NamedTuple):
    """What the scores are compared with, on the device; made once per training."""

    label: Any  # of each row, or (n_outputs, n_rows)
    weight: Any  # None: one for every row
    tables: tuple[Any, ...]  # the objective's own, in its order

    def label_of(self, output: int) -> Any:
        return self.label if self.label.ndim == 1 else self.label[output]


class Backend(Protocol):
    name: str
    pool_mb: int  # memory for histograms, where histogram_pool_mb leaves it to the backend
    frontier_alpha: float  # where the parameter leaves it to the backend, and no rank is asked
    leaves_host_idle: bool  # while trees grow, the host's cores have little to do
    shares_bytes: bool  # features of few bins share bytes of its tiles
    spills_bins: bool  # those that have no room lie in other memory
    narrow_labels: bool  # it takes labels as `narrowest` makes them

    @property
    def frontier(self) -> Callable[..., Frontier]:
        """The class that keeps the books of a growing tree."""

    def room(self) -> Room:
        """Memory that is free where its arrays lie."""

    def tile_bytes(self, n_rows: int, n_columns: int) -> int:
        """Of the bins by rows, which lie beside those by columns."""

    def send_columns(self, columns: Sequence[Any]) -> Sequence[Any]:
        """The columns where the next two verbs read them best: on a device, if they fit there."""

    def find_edges(
        self, columns: Sequence[Any], rows: NDArray[np.int32] | None, max_bin: int
    ) -> list[F64]:
        """At most max_bin - 1 increasing edges for each column; NaN is ignored.

        rows: those that are looked at; None: all.
        """

    def bin_columns(self, columns: Sequence[Any], mapper: BinMapper) -> Any:
        """A BinnedMatrix of columns of values; those of uint8 are bins already."""

    def upload(self, values: NDArray[Any] | None) -> Any:
        """A host array on the device; one that repeats itself (stride 0) is repeated there."""

    def download(self, values: Any) -> NDArray[Any]:
        """A device array on the host."""

    def gradients(self, objective: Objective, scores: Any, targets: Targets) -> Gradients:
        """The objective's gradients, times the weights, with their magnitudes."""

    def residual_keys(self, scores: Any, label: Any) -> Any:
        """float32(label - score) of each row of one output, as uint32 keys of the same order."""

    def quantize(self, grad: Any, hess: Any, rounding: Rounding, runs: RowRuns) -> PackedRows:
        """Integers of one output; hess None: the count is the hessian."""

    def select_rows(self, runs: RowRuns, sample: Sample | None) -> Any:
        """Row list (int32, ascending) of the rows whose ids are in the sample; None: all rows."""

    def count_importance(self, grad: Any, hess: Any, hess_share: float) -> I64:
        """(2048,): how many sizes, as KeepRule has them, fall into each bucket of magnitudes."""

    def keep_rows(self, grad: Any, hess: Any, rule: KeepRule, runs: RowRuns) -> OutputGradients:
        """Of kept rows the gradients over the chance of being kept, of others zero.

        hess None: one. The magnitudes are of the kept rows. The arrays are good until the
        next call.
        """

    def fade(self, scores: Any, start: Any, keep: float) -> None:
        """start + (scores - start) * keep, for the scores of one output, in place."""

    def new_pool(self, matrix: Any, n_slots: int, half_bits: int) -> Any:
        """A HistogramPool."""

    def start_tree(self, pool: Any, inputs: TreeInputs) -> TreeWork:
        """A tree on the pool's matrix."""

    def add_tree(self, scores: Any, matrix: Any, tree: Tree) -> None:
        """Adds a tree to the scores of binned rows, by walking it."""

    def new_panel(self, sets: Sequence[EvalSet], comm: Comm) -> Panel:
        """For the validation sets of a training; the ranks make one together."""


def make_targets(
    backend: Backend,
    objective: Objective,
    label: NDArray[Any],
    weight: NDArray[np.float32] | None,
    group: I64 | None,
    runs: RowRuns,
) -> Targets:
    """Labels, weights and the objective's tables, sent to the device."""
    ids = row_ids(runs) if objective.needs_row_ids else None
    tables = tuple(backend.upload(t) for t in objective.tables(widened(label), group, ids))
    labels = objective.output_labels(label)
    labels = narrowest(labels) if backend.narrow_labels else widened(labels)
    return Targets(backend.upload(labels), backend.upload(weight), tables)
