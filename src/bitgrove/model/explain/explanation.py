"""Explanation: Shapley values together with what they are about.

Receives values, the expected score and the rows as they were given; returns a `shap.Explanation`,
which all of `shap.plots` accept, where that package is installed, else a record of the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.dataset import Dataset
from bitgrove.data.tables import collected


@dataclass(frozen=True, eq=False)
class Explanation:
    """values: (n_rows, n_features), or with several outputs a last dimension for them.

    base_values: (n_rows,) or (n_rows, n_outputs), the expected score; base_values plus the values
    of a row is its raw score. data: the rows in numbers, categories as the trees see them;
    display_data: as they were given, where they differ. The names are those of `shap.Explanation`.
    """

    values: NDArray[np.float64]
    base_values: NDArray[np.float64]
    data: NDArray[Any]
    display_data: NDArray[Any] | None
    feature_names: list[str]
    output_names: list[str] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        """Of some rows: `explanation[:100]`."""
        some = np.atleast_1d(np.arange(len(self))[rows])
        shown = None if self.display_data is None else self.display_data[some]
        parts = (self.values[some], self.base_values[some], self.data[some], shown)
        return Explanation(*parts, self.feature_names, self.output_names)


def make_explanation(**parts: Any) -> Any:
    """shap's own class, if there is one; `parts` are the fields of Explanation."""
    try:
        import shap
    except ImportError:
        return Explanation(**parts)
    return shap.Explanation(**parts)


def rows_as_given(X: Any) -> NDArray[Any] | None:
    """The cells of a table, for pictures; None of a Dataset, which keeps codes."""
    table = collected(X)
    if isinstance(table, Dataset):
        return None
    for method in ("to_numpy", "to_pandas"):
        if hasattr(table, method):
            return np.asarray(getattr(table, method)(), dtype=object)
    return np.asarray(table, dtype=object)
