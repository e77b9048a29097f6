"""Whether a prediction can walk the trees of a model file; whole arrays at a time."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bitgrove.errors import ModelFormatError

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


def refuse(what: str) -> NoReturn:
    raise ModelFormatError(what)


def check_forest(arrays: Arrays, n_features: int) -> None:
    """Refuse trees that a prediction could not walk safely; checks whole arrays at a time."""
    n_splits = arrays["tree_splits"].astype(np.int64)
    if (n_splits < 0).any():
        refuse(f"tree {int(np.argmin(n_splits))} has a negative number of splits")
    if int(n_splits.sum()) != len(arrays["feature"]):
        refuse(f"the trees have {n_splits.sum()} splits, expected {len(arrays['feature'])}")
    if not np.isfinite(arrays["base_score"]).all():
        refuse("a base score is not finite")
    feature, gain = arrays["feature"], arrays["gain"]
    is_known = (feature >= 0) & (feature < n_features)
    require_each("split", is_known, n_splits, f"feature is not in 0..{n_features - 1}")
    require_each("split", ~np.isnan(arrays["threshold"]), n_splits, "threshold is NaN")
    require_each("split", arrays["default_left"] <= 1, n_splits, "default_left is neither 0 nor 1")
    require_each("split", np.isfinite(gain), n_splits, "gain is not finite")
    require_each("split", gain >= 0, n_splits, "gain is negative")
    require_each("leaf", np.isfinite(arrays["leaf_value"]), n_splits, "value is not finite")
    for per in ("split", "leaf"):
        require_each(per, arrays[f"{per}_rows"] >= 0, n_splits, "number of rows is negative")
        require_each(per, np.isfinite(arrays[f"{per}_hess"]), n_splits, "hessian sum is not finite")
    _check_children(arrays["left"], arrays["right"], n_splits)


def _check_children(left: Array, right: Array, n_splits: Array) -> None:
    """Each tree has 2s children for s - 1 splits below its root and s + 1 leaves.

    So when all children exist and no two are the same, every node but the root has exactly one
    parent; and when child splits come after their parents, there is no cycle.
    """
    n_nodes = 2 * len(left) + len(n_splits)
    index = np.int32 if n_nodes < 2**31 else np.int64  # half the memory for all but giant forests
    first_split = np.cumsum(n_splits) - n_splits
    first_leaf = len(left) + first_split + np.arange(len(n_splits))
    split_base = np.repeat(first_split.astype(index), n_splits)
    leaf_base = np.repeat(first_leaf.astype(index), n_splits)
    size = np.repeat(n_splits.astype(index), n_splits)
    own = np.arange(len(left), dtype=index) - split_base
    nodes = []
    for side, child in (("left", left), ("right", right)):
        exists = (child < size) & (~child <= size)
        require_each("split", exists, n_splits, f"{side} child does not exist")
        is_later = (child < 0) | (child > own)
        require_each("split", is_later, n_splits, f"{side} child does not come after its parent")
        nodes.append(np.where(child >= 0, split_base + child, leaf_base + ~child))
    has_parent = np.zeros(n_nodes, np.bool_)
    has_parent[nodes[0]] = True
    has_parent[nodes[1]] = True
    if np.count_nonzero(has_parent) != 2 * len(left):
        n_parents = np.bincount(np.concatenate(nodes))
        for side, node in zip(("left", "right"), nodes, strict=True):
            require_each("split", n_parents[node] == 1, n_splits, f"{side} child has two parents")


def require_each(per: str, ok: Array, n_splits: Array, what: str) -> None:
    """Name the first split or leaf that is not ok."""
    if ok.all():
        return
    index = int(np.argmin(ok))
    ends = np.cumsum(n_splits if per == "split" else n_splits + 1)
    tree = int(np.searchsorted(ends, index, side="right"))
    start = int(ends[tree - 1]) if tree else 0
    refuse(f"tree {tree}, {per} {index - start}: {what}")
