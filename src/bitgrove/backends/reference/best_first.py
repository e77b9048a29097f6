"""Best-first growth, one leaf at a time: the oracle of cpp/growth/frontier.cpp.

Of all leaves that have a split, the one of the largest gain is divided (of equals the one that was
found first), until the tree has its leaves. Both children's histograms are built from their rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.backends.reference.levels import bin_set
from bitgrove.backends.reference.node_rules import NodeRules
from bitgrove.constraints.rules import TreeRules
from bitgrove.kernels.plans import (
    BUILD,
    DIVISION,
    GRADIENT_SUMS,
    GROWN_SPLIT,
    SEARCH_NODE,
    SUBSET,
    SUBTRACTION,
    Records,
    records,
)

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_WIDTH = 64
_DRAWN_CHILDREN = 1 << 41


@dataclass(eq=False)
class Node:
    begin: int  # this rank's rows
    end: int
    n_rows: int  # on all ranks
    depth: int
    grad: int
    hess: int
    key: int  # of what is drawn for it
    split: Any = None  # a SplitInfo, once it was searched and has one
    children: tuple[Node, Node] | None = None
    ruled: Any = None  # what the training's rules mean for it, if there are some


def child_key(parent: int, side: int) -> int:
    number = np.array([_DRAWN_CHILDREN + side], dtype=np.uint64)
    return int(row_hash(parent, number)[0])


class SearchPlan(NamedTuple):
    builds: Records
    subtractions: Records  # none
    nodes: Records
    allowed: NDArray[np.uint8] | None = None


class BestFirst:
    """Tells what to search and to divide next; has the interface of _core.Frontier."""

    def __init__(
        self,
        *,
        n_slots: int,
        num_leaves: int,
        max_depth: int,
        min_child_samples: float,
        min_child_hess: float,
        widths: Any,
        key: int = 0,
        rules: TreeRules | None = None,
    ) -> None:
        self.n_slots, self.num_leaves, self.max_depth = n_slots, num_leaves, max_depth
        self.min_child_samples, self.min_child_hess = min_child_samples, min_child_hess
        self._key, self._rules = key, None if rules is None else NodeRules(rules)
        self.taken: list[Node] = []
        self._leaves: list[Node] = []  # in the order they were found
        self._new: list[Node] = []
        self._n_built = 0

    def start(
        self, *, grad: int, hess: int, all_rows: tuple[int, int], local_rows: tuple[int, int]
    ) -> None:
        self.root = Node(0, sum(local_rows), sum(all_rows), 0, grad, hess, self._key)
        if self._rules is not None:
            self.root.ruled = self._rules.start(self.root)
        self._new, self._leaves = [self.root], [self.root]

    def least_hess(self, node: Node) -> float:
        """Of a child: by weight, and by samples as a share of the node's hessian."""
        by_samples = (self.min_child_samples - 0.5) * float(node.hess) / float(max(node.n_rows, 1))
        largest = max(by_samples, self.min_child_hess)
        return max(float(ceil(largest)) if largest < np.inf else np.inf, 1.0)

    def _can_split(self, node: Node) -> bool:
        deep = self.max_depth > 0 and node.depth >= self.max_depth
        return not deep and float(node.hess) >= 2.0 * self.least_hess(node)

    def next_search(self) -> SearchPlan | None:
        open_nodes = [node for node in self._new if self._can_split(node)]
        self._searched, self._new = open_nodes[: self.n_slots], open_nodes[self.n_slots :]
        if not self._searched:
            return None
        n = len(self._searched)
        self._n_built += n
        slots = np.arange(n)
        return SearchPlan(
            records(
                BUILD, n, slot=slots, block_rows=1, local_width=_WIDTH, total_width=_WIDTH,
                begin=[node.begin for node in self._searched],
                end=[node.end for node in self._searched],
            ),
            records(SUBTRACTION, 0),
            records(
                SEARCH_NODE, n, slot=slots, width=_WIDTH, sibling=-1,
                grad=[float(node.grad) for node in self._searched],
                hess=[float(node.hess) for node in self._searched],
                min_hess=[self.least_hess(node) for node in self._searched],
                hess_per_row=[float(n.hess) / float(max(n.n_rows, 1)) for n in self._searched],
                key=np.array([node.key for node in self._searched], dtype=np.uint64),
                **self._ruled_fields(),
            ),
            self._allowed(),
        )  # fmt: skip

    def _ruled_fields(self) -> dict[str, Any]:
        if self._rules is None:
            return {}
        names = ("lower", "upper", "output")
        return {name: [getattr(node.ruled, name) for node in self._searched] for name in names}

    def _allowed(self) -> NDArray[np.uint8] | None:
        if self._rules is None or not self._rules.limits_features:
            return None
        return np.stack([self._rules.allowed(node.ruled, node.key) for node in self._searched])

    def record(self, found: Records) -> None:
        for node, split in zip(self._searched, found, strict=True):
            if split["gain"] > 0.0:
                node.split = split.copy()

    def next_batch(self, alpha: float, missing_bin: I64) -> Records:
        """The division of the best leaf; none when the tree is done."""
        waiting = [leaf for leaf in self._leaves if leaf.split is not None]
        if not waiting or len(self.taken) == self.num_leaves - 1:
            return records(DIVISION, 0)
        best = max(waiting, key=lambda node: node.split["gain"])  # the first of equals
        self._leaves.remove(best)
        self.taken.append(best)
        feature = int(best.split["feature"])
        return records(
            DIVISION, 1, begin=best.begin, first_zero=best.end, end=best.end, feature=feature,
            bin=best.split["bin"], missing_bin=missing_bin[feature],
            default_left=best.split["default_left"], left_bins=best.split["left_bins"],
        )  # fmt: skip

    def divide(self, local_left: Records, all_left: Records) -> None:
        node, split = self.taken[-1], self.taken[-1].split
        middle = node.begin + int(local_left["active"][0] + local_left["zero"][0])
        n_left = int(all_left["active"][0] + all_left["zero"][0])
        grad, hess, depth = int(split["left_grad"]), int(split["left_hess"]), node.depth + 1
        sums = (node.grad - grad, node.hess - hess)
        left = Node(node.begin, middle, n_left, depth, grad, hess, child_key(node.key, 0))
        right = Node(middle, node.end, node.n_rows - n_left, depth, *sums, child_key(node.key, 1))
        node.children = (left, right)
        self._new = [left, right]
        if self._rules is not None:
            moved = self._rules.divide(node, left, right)
            self._new += [leaf for leaf in self._leaves if leaf.ruled in moved]
        for leaf in self._new:
            leaf.split = None
        self._leaves += [left, right]

    def _leaves_in_order(self) -> list[Node]:
        """As the splits they belong to were taken, left before right."""
        taken = set(self.taken)
        below = [child for node in self.taken for child in _children(node)]
        return [child for child in below if child not in taken] or [self.root]

    @property
    def n_rounds(self) -> int:
        return len(self.taken) + 1

    @property
    def widths_used(self) -> list[int]:
        return [0, 0, 0, self._n_built]

    def leaves(self) -> tuple[I64, I64]:
        leaves = self._leaves_in_order()
        begins = np.array([leaf.begin for leaf in leaves], dtype=np.int64)
        return begins, np.array([leaf.end for leaf in leaves], dtype=np.int64)

    def finish(
        self, edge_values: F64, edge_offset: I64, has_missing: NDArray[np.uint8], hess_scale: float
    ) -> dict[str, Any]:
        """The fields of a GrownTree."""
        number = {node: i for i, node in enumerate(self.taken)}
        leaves = self._leaves_in_order()
        number |= {leaf: ~i for i, leaf in enumerate(leaves)}
        links = [[number[_children(node)[side]] for node in self.taken] for side in (0, 1)]
        splits = [node.split for node in self.taken]
        feature = np.array([split["feature"] for split in splits], dtype=np.int32)
        by_subset = np.array([split["bin"] == SUBSET for split in splits], dtype=np.bool_)
        split_bin = np.array([max(split["bin"], 0) for split in splits], dtype=np.uint8)
        default_left = np.array([_default(n, has_missing) for n in self.taken], np.uint8)
        n_levels = np.diff(edge_offset)[feature] + 1
        # A split behind the last bin: all values go left, missing right.
        cuts, cut_at = np.append(edge_values, np.inf), edge_offset[feature] + split_bin
        cut_at = np.where(split_bin < n_levels - 1, cut_at, -1)
        sums = [(leaf.grad, leaf.hess) for leaf in leaves]
        grown = records(
            GROWN_SPLIT,
            len(splits),
            threshold=np.where(by_subset, 0.0, cuts[cut_at]),
            gain=np.array([split["gain"] for split in splits]),
            hess=np.array([float(node.hess) * hess_scale for node in self.taken]),
            rows=np.array([node.n_rows for node in self.taken]),
            feature=feature,
            left=np.array(links[0]),
            right=np.array(links[1]),
            bin=split_bin,
            default_left=default_left,
            by_subset=by_subset,
        )
        return {
            "splits": grown,
            "left_bins": _left_bins(splits, by_subset, default_left, n_levels),
            "leaf_rows": np.array([leaf.n_rows for leaf in leaves], dtype=np.int64),
            "leaf_sums": np.array(sums, dtype=GRADIENT_SUMS),
            **self._bounds_of(leaves),
        }

    def _bounds_of(self, leaves: list[Node]) -> dict[str, F64]:
        if self._rules is None:
            return {}
        bounds = np.array([self._rules.leaf_bounds(leaf.ruled) for leaf in leaves])
        return {"leaf_lower": bounds[:, 0].copy(), "leaf_upper": bounds[:, 1].copy()}


def _children(node: Node) -> tuple[Node, Node]:
    assert node.children is not None
    return node.children


def _left_bins(
    splits: list[Any], by_subset: NDArray[np.bool_], default_left: Any, n_levels: I64
) -> NDArray[np.uint64]:
    """The sets of all splits, with the missing bin where it goes left; no rows without a set."""
    sets = np.zeros((len(splits) if by_subset.any() else 0, 4), dtype=np.uint64)
    for i in np.flatnonzero(by_subset):
        missing = bin_set([int(n_levels[i])] if default_left[i] else [])
        sets[i] = splits[i]["left_bins"] | missing
    return sets


def _default(node: Node, has_missing: NDArray[np.uint8]) -> bool:
    """Where training had no missing value, missing goes with the majority."""
    if has_missing[node.split["feature"]]:
        return bool(node.split["default_left"])
    return 2 * _children(node)[0].n_rows >= node.n_rows
