"""Plans in the form the GPU takes them.

Owns the division of leaves into parts and the splits of a tree as a kernel walks them. All of it is
NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.model.tree import Tree

Array = NDArray[Any]
I64 = NDArray[np.int64]
# Rows of a part of an average leaf: many, so that a thread has several loads under way, but not so
# many that blocks are too few for a GPU. The largest leaf's parts must not keep the others waiting.
_LEAST_PART, _MOST_PART, _LARGEST_PART, _ENOUGH_BLOCKS = 256, 1024, 16384, 1024
# Mirrors BinnedSplit in kernels/cuda/leaves.cu.
_BINNED_SPLIT = np.dtype(
    [("feature", "<i4"), ("left", "<i4"), ("right", "<i4"), ("bin", "u1"), ("missing_bin", "u1"),
     ("default_left", "u1"), ("reserved", "u1")]
)  # fmt: skip


def leaf_grid(begins: I64, ends: I64) -> tuple[int, int]:
    """Blocks for the kernels over leaves: every leaf is cut into the same number of parts."""
    sizes = ends - begins
    n_rows, largest = int(sizes.sum()), int(sizes.max())
    part_rows = min(max(n_rows // _ENOUGH_BLOCKS, _LEAST_PART), _MOST_PART)
    n_parts = max(n_rows // (len(sizes) * part_rows), largest // _LARGEST_PART, 1)
    return len(sizes), min(n_parts, 65535)  # the limit of a grid's second axis


def binned_splits(tree: Tree, missing_bin: I64) -> Array:
    """The splits of a tree as the kernel that walks binned rows reads them."""
    splits = np.zeros(tree.n_splits, dtype=_BINNED_SPLIT)
    for name in ("feature", "left", "right", "default_left"):
        splits[name] = getattr(tree, name)
    splits["bin"] = tree.split_bin
    splits["missing_bin"] = missing_bin[tree.feature]
    return splits
