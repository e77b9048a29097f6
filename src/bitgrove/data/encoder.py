"""From the columns of a table to the columns that trees see; part of the model.

Owns Encoder. Numbers stay as they are. A category of few levels becomes the codes of its levels,
each of which has a bin of its own. One of many levels becomes numbers (statistics.py): the first
stands in its place, further ones follow after the last feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.device_tables import beside, is_on_gpu, on_host
from bitgrove.data.levels import Levels, read_levels, recoded
from bitgrove.data.sparse.tables import changed_columns
from bitgrove.data.statistics import Statistics
from bitgrove.errors import DataError
from bitgrove.machine.gpu import import_cupy

Column = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Encoder:
    """levels: of every category, by feature; statistics: of those with many levels."""

    n_features: int
    levels: Mapping[int, Levels] = field(default_factory=dict)
    statistics: Mapping[int, Statistics] = field(default_factory=dict)

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """The feature that each column comes from."""
        more = [np.full(s.n_columns - 1, f) for f, s in sorted(self.statistics.items())]
        return np.concatenate([np.arange(self.n_features), *more]).astype(np.int64)

    @property
    def n_columns(self) -> int:
        return len(self.sources)

    @property
    def n_levels(self) -> dict[int, int]:
        """Of the columns that hold codes."""
        return {f: len(v) for f, v in sorted(self.levels.items()) if f not in self.statistics}

    @property
    def drawn(self) -> frozenset[int]:
        """The columns of statistics: the best of many cuts between noisy values is noise."""
        return frozenset(np.flatnonzero(np.isin(self.sources, list(self.statistics))).tolist())

    def encode(
        self, columns: Sequence[Column], levels: Mapping[int, Levels], names: Sequence[str]
    ) -> Sequence[Column]:
        """The columns of a table whose categories are codes of the table's own levels."""
        for f in sorted(f for f in levels if f not in self.levels and len(levels[f])):
            raise DataError(
                f"column {names[f]!r} holds text or categories, but it was a number in training"
            )
        encoded: dict[int, Column] = {}
        more: list[Column] = []
        for f, known in sorted(self.levels.items()):
            codes, own = columns[f], levels.get(f)
            if own is None:  # a category only by its values: numbers
                found = read_levels(names[f], on_host(codes))
                codes, own = np.where(found.codes < 0, np.nan, found.codes), found.levels
            new_code = known.find(names[f], own)
            if f in self.statistics:
                first, *others = self.statistics[f].of_codes(on_host(codes), new_code)
                encoded[f] = beside(first, columns[f])
                more += [beside(other, columns[f]) for other in others]
            else:
                found_codes = recoded(on_host(codes), new_code, np.float32, np.nan)
                encoded[f] = beside(found_codes, columns[f])
        return changed_columns(columns, encoded, more)

    def table(self, columns: Sequence[Column]) -> Any:
        """Columns side by side, row-major, where they are."""
        if is_on_gpu(columns[0]):
            return import_cupy().stack(columns, axis=1)
        return np.stack(columns, axis=1)
