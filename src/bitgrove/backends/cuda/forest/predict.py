"""Prediction on the GPU: a forest uploaded once, rows read where they are.

Receives trees and a CuPy table, or a host table and a device to send it to, part by part: the next
part is under way while one is worked on. Returns predictions or leaves with the bits of the CPU's,
as a CuPy array (NumPy for a host table).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda.device import Device, blocks_of, on_device
from bitgrove.backends.cuda.memory import address_of
from bitgrove.backends.cuda.transfer import Sender
from bitgrove.kernels.plans import FOREST_SPLIT, records
from bitgrove.machine.threads import resolve_threads
from bitgrove.model.tree import Tree, all_sets, concatenate
from bitgrove.objectives.links import Link

_PART_BYTES = 64 << 20  # of rows that are sent at once: enough of them to fill a GPU
_FOUND_BYTES = 1 << 30  # of what is found of rows before it is fetched
_Work = Callable[[Any, Any], None]  # fills what is found of some rows, both on the device


class DeviceRows:
    """One GPU, and the way of rows through it."""

    def __init__(self, device: str) -> None:
        self.device = Device(device)
        self._sender = Sender(self.device, resolve_threads(None))

    def _over_rows(self, rows: Any, width: int, dtype: Any, work: _Work) -> Any:
        """(n_rows, width) of what work() fills: for rows of the device there, of the host here."""
        if not isinstance(rows, np.ndarray):
            out = self.device.cupy.empty((len(rows), width), dtype)
            if out.size:
                work(rows, out)
                self.device.stream.wait()
            return out
        found = np.empty((len(rows), width), dtype)
        n_each = max(1, _FOUND_BYTES // max(1, width * found.itemsize))
        n_sent = max(1, _PART_BYTES // max(1, rows.shape[1] * rows.itemsize))
        for first in range(0, len(rows) if width else 0, n_each):
            wanted = rows[first : first + n_each]
            out = self.device.memory.empty((len(wanted), width), dtype)
            for begin in range(0, len(wanted), n_sent):
                part = self._sender.table(wanted[begin : begin + n_sent])
                work(part, out[begin : begin + n_sent])
            out.get(out=found[first : first + n_each])
        return found


class DeviceForest(DeviceRows):
    """All trees of a model on one GPU."""

    def __init__(self, trees: Sequence[Tree], base_score: NDArray[np.float64], device: str) -> None:
        super().__init__(device)
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
        with self.device.in_use():
            upload = self.device.memory.upload
            self._base = upload(base_score)
            arrays: list[NDArray[Any]] = [splits.view(np.uint8), sets[by_subset], values]
            self._forest = [upload(array) for array in arrays + offsets]

    @on_device
    def predict(self, rows: Any, n_trees: int, link: Link) -> Any:
        """(n_rows, n_outputs): what the link makes of the scores."""

        def score(part: Any, out: Any) -> None:
            self._launch("predict", part, n_trees, address_of(self._base), address_of(out))
            if link.kernel is not None:
                given = (address_of(out), len(part), self._n_outputs, link.slope)
                self.device.launch("predict", link.kernel, (blocks_of(len(part)), 1), *given)

        return self._over_rows(rows, self._n_outputs, np.float64, score)

    @on_device
    def leaves(self, rows: Any, n_trees: int) -> Any:
        """(n_rows, n_trees): the leaf of every row in each of the first trees."""

        def find(part: Any, out: Any) -> None:
            self._launch("leaves", part, n_trees, address_of(out))

        return self._over_rows(rows, n_trees, np.int32, find)

    def _launch(self, what: str, rows: Any, n_trees: int, *out: int) -> None:
        strides = (stride // rows.itemsize for stride in rows.strides)
        kernel = f"{what}_float32" if rows.dtype == np.float32 else f"{what}_float64"
        where = (address_of(rows), *strides, len(rows))
        forest = (*map(address_of, self._forest), n_trees, self._n_outputs)
        self.device.launch("predict", kernel, (blocks_of(len(rows)), 1), *where, *forest, *out)
