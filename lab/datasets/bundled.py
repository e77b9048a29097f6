"""The small real sets that scikit-learn carries with it.

Owns Bundled, a line of the table. Rows are shuffled once; the last fifth of them test.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.datasets.entry import Entry, Wanted, sample
from lab.datasets.task import Task

_TEST_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Bundled(Entry):
    """Named as the loader in sklearn.datasets, without its load_."""

    def found(self, folder: Path | None) -> bool:
        return True

    def load(self, wanted: Wanted) -> Task:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{self.name}")(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order].astype(np.float32), y[order].astype(np.float32)
        n_classes = int(y.max()) + 1 if self.objective == "multiclass" else 1
        n_train = len(y) - round(_TEST_SHARE * len(y))
        whole = Task.cut(self.name, self.objective, X, y, n_train, n_classes=n_classes)
        share = wanted.share(n_train)
        return whole if share >= 1.0 else sample(whole, share)

    def source(self) -> str:
        return "scikit-learn"
