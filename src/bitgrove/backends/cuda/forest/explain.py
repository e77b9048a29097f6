"""Shapley values on the GPU: the steps of a forest uploaded once, rows read where they are.

Receives the core's ShapForest and rows; returns values with the bits of the CPU's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.backends.cuda.device import THREADS, blocks_of, on_device
from bitgrove.backends.cuda.forest.predict import DeviceRows
from bitgrove.backends.cuda.memory import address_of

# Of the walks' room: what stays in the cache of a large GPU. More threads would wait for memory.
_ROOM_BYTES = 48 << 20


class DeviceShapForest(DeviceRows):
    """All trees of a model on one GPU, as explanations walk them."""

    def __init__(self, forest: Any, n_outputs: int, n_players: int, device: str) -> None:
        super().__init__(device)
        self._n_outputs, self._n_players = n_outputs, n_players
        tables = forest.tables()
        self._depth, self._points = int(tables["depth"]), int(tables["points"])
        with self.device.in_use():
            upload = self.device.memory.upload
            records = [tables[name].view(np.uint8) for name in ("steps", "factors")]
            arrays = [*records, tables["sets"], tables["first_step"], tables["n_points"]]
            self._forest = [upload(array) for array in arrays]

    @on_device
    def values(self, rows: Any, n_trees: int) -> Any:
        """(n_rows, n_outputs * (n_features + 1)); the last of each output is left 0."""
        levels = self._depth + 1
        per_thread = 8 * levels * (2 + 2 * self._points)
        n_blocks = max(1, _ROOM_BYTES // (per_thread * THREADS))
        n_blocks = min(n_blocks, blocks_of(max(1, len(rows))))
        n_threads = n_blocks * THREADS
        masks = self.device.memory.empty(2 * levels * n_threads, np.int64)
        sums = self.device.memory.empty(2 * levels * self._points * n_threads, np.float64)

        def explain(part: Any, out: Any) -> None:
            strides = (stride // part.itemsize for stride in part.strides)
            kernel = "shap_float32" if part.dtype == np.float32 else "shap_float64"
            self.device.launch(
                "shap", kernel, (n_blocks, 1), address_of(part), *strides, len(part),
                *map(address_of, self._forest), n_trees, self._n_outputs, self._n_players,
                address_of(masks), address_of(sums), address_of(out),
            )  # fmt: skip

        return self._over_rows(rows, self._n_outputs * (self._n_players + 1), np.float64, explain)
