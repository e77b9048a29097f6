"""Prediction on the GPU: a forest uploaded once, rows read where they are.

Receives trees and a CuPy table, or a host table and a device to send it to, block by block; returns
scores or predictions with the bits of the CPU's, as a CuPy array (NumPy for a host table).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda.memory import address_of
from bitgrove.backends.cuda.module import kernels_of
from bitgrove.kernels.plans import FOREST_SPLIT, records
from bitgrove.machine.gpu import find_device, import_cupy
from bitgrove.model.tree import Tree, all_sets, concatenate
from bitgrove.objectives.links import Link

_THREADS: int = _core.constants["THREADS"]
_CHUNK_BYTES = 1 << 30


class DeviceForest:
    """All trees of a model on one GPU."""

    def __init__(self, trees: Sequence[Tree], base_score: NDArray[np.float64], device: str) -> None:
        self._cupy = cupy = import_cupy()
        self._index = find_device(device)
        self._kernels, self._stream = kernels_of(self._index), _core.Stream(0)
        splits = records(FOREST_SPLIT, sum(tree.n_splits for tree in trees))
        for name in ("threshold", "left", "right"):
            splits[name] = concatenate(trees, name, FOREST_SPLIT[name].str)
        default = concatenate(trees, "default_left", "u4") * np.uint32(
            _core.constants["DEFAULT_LEFT_BIT"]
        )
        sets = all_sets(trees)
        by_subset = np.flatnonzero(sets.any(axis=1))
        splits["set"][by_subset] = np.arange(len(by_subset))
        splits["feature"] = concatenate(trees, "feature", "u4") | default
        splits["feature"][by_subset] |= np.uint32(_core.constants["SUBSET_BIT"])
        sizes = ([tree.n_splits for tree in trees], [tree.n_leaves for tree in trees])
        offsets = [np.concatenate([[0], np.cumsum(n)]).astype(np.int64) for n in sizes]
        values = concatenate(trees, "leaf_value", "f8")
        self._n_outputs = len(base_score)
        with cupy.cuda.Device(self._index), cupy.cuda.Stream.null:
            self._base = cupy.asarray(base_score)
            arrays = (splits.view(np.uint8), sets[by_subset], values, *offsets)
            self._forest = [cupy.asarray(array) for array in arrays]

    def predict(self, rows: Any, n_trees: int, link: Link) -> Any:
        """(n_rows, n_outputs): what the link makes of the scores."""
        cupy = self._cupy
        with cupy.cuda.Device(self._index), cupy.cuda.Stream.null:
            if not isinstance(rows, np.ndarray):
                return self._predict(rows, n_trees, link)
            step = max(1, _CHUNK_BYTES // max(1, rows.shape[1] * rows.itemsize))
            found = np.empty((len(rows), self._n_outputs))
            for first in range(0, len(rows), step):
                part = cupy.asarray(rows[first : first + step])
                found[first : first + step] = cupy.asnumpy(self._predict(part, n_trees, link))
            return found

    def _predict(self, rows: Any, n_trees: int, link: Link) -> Any:
        n_rows = len(rows)
        scores = self._cupy.empty((n_rows, self._n_outputs))
        if n_rows == 0:
            return scores
        strides = (stride // rows.itemsize for stride in rows.strides)
        forest = (*map(address_of, self._forest), n_trees, self._n_outputs)
        kernel = "predict_float32" if rows.dtype == np.float32 else "predict_float64"
        out = address_of(scores)
        where = (address_of(rows), *strides, n_rows)
        self._launch(kernel, n_rows, *where, *forest, address_of(self._base), out)
        if link.kernel is not None:
            self._launch(link.kernel, n_rows, out, n_rows, self._n_outputs, link.slope)
        self._stream.wait()
        return scores

    def _launch(self, kernel: str, n_rows: int, *args: Any) -> None:
        grid = (-(-n_rows // _THREADS), 1)
        self._stream.launch(self._kernels.get("predict", kernel, _THREADS), grid, *args)
