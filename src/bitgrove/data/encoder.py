"""From the columns of a table to the columns that trees see; part of the model.

Owns Encoder. Numbers stay as they are. A category of few levels becomes the codes of its levels,
each of which has a bin of its own. One of many levels becomes numbers (statistics.py): the first
stands in its place, further ones follow after the last feature. One in between becomes both: the
codes stay in their place, all numbers follow.
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
    """levels: of every category, by feature; statistics: of those with many levels.

    kept: those among them whose codes are there, too.
    """

    n_features: int
    levels: Mapping[int, Levels] = field(default_factory=dict)
    statistics: Mapping[int, Statistics] = field(default_factory=dict)
    kept: frozenset[int] = frozenset()

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """The feature that each column comes from."""
        more = [f for column, (f, _) in self.places.items() if column >= self.n_features]
        return np.array([*range(self.n_features), *more], dtype=np.int64)

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Of each column of statistics: the feature, and which of its statistics it holds."""
        found, end = {}, self.n_features
        for f, s in sorted(self.statistics.items()):
            for k in range(s.n_columns):
                in_place = k == 0 and f not in self.kept
                found[f if in_place else end] = (f, k)
                end += not in_place
        return found

    @property
    def n_columns(self) -> int:
        return len(self.sources)

    @property
    def n_levels(self) -> dict[int, int]:
        """Of the columns that hold codes."""
        return {f: len(v) for f, v in sorted(self.levels.items()) if f not in self.places}

    @property
    def drawn(self) -> frozenset[int]:
        """The columns of statistics: the best of many cuts between noisy values is noise."""
        return frozenset(self.places)

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
            made: list[Column] = []
            if f not in self.places:
                made.append(recoded(on_host(codes), new_code, np.float32, np.nan))
            if f in self.statistics:
                made += self.statistics[f].of_codes(on_host(codes), new_code)
            encoded[f], *others = [beside(column, columns[f]) for column in made]
            more += others
        return changed_columns(columns, encoded, more)

    def table(self, columns: Sequence[Column]) -> Any:
        """Columns side by side, row-major, where they are."""
        if is_on_gpu(columns[0]):
            return import_cupy().stack(columns, axis=1)
        return np.stack(columns, axis=1)
