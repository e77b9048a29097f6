"""A dataset of the paper: its official files if the user has them, else rows of the same shape.

Owns PaperSet. Official files are checked against the row counts of the paper's Table 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bitgrove import DataError
from lab.datasets.entry import Entry, Wanted, sample, share_of_test
from lab.datasets.task import Task

_LEAST_TRAIN, _LEAST_TEST = 2000, 1000  # fewer generated rows would show nothing
_GENERATED_SHARE = 0.01  # unless rows are asked for
# Appendix C of the paper.
_PARAMETERS = {"learning_rate": 0.1, "num_leaves": 255, "min_child_weight": 100.0}


@dataclass(frozen=True, kw_only=True)
class PaperSet(Entry):
    """One line of the paper's Table 1, with the hyperparameters of Appendix C."""

    title: str
    n_train: int
    n_test: int
    n_features: int
    generate: Callable[[int, int], Task]
    read: Callable[[Path], Task]
    files: tuple[str, ...]  # patterns; all must be found
    where: str
    parameters: dict[str, float] = field(default_factory=lambda: dict(_PARAMETERS))
    counts_sum: bool = False  # only the sum of training and test rows can be checked

    def found(self, folder: Path | None) -> bool:
        if folder is None:
            return True
        # A name without a * may be followed by what a packer adds (.bz2).
        patterns = [p if "*" in p else f"{p}*" for p in self.files]
        return all(next(self._own(folder).glob(p), None) is not None for p in patterns)

    def load(self, wanted: Wanted) -> Task:
        """If no size is asked for: all rows of official files, 1% of generated ones."""
        share = wanted.share(self.n_train)
        if wanted.folder is None:
            if wanted.scale is None and wanted.max_rows is None:
                share = _GENERATED_SHARE
            n_test = round(self.n_test * share_of_test(self.n_train, self.n_test, share))
            n_train = max(round(self.n_train * share), _LEAST_TRAIN)
            return self.generate(n_train, max(n_test, _LEAST_TEST))
        if not self.found(wanted.folder):
            raise DataError(
                f"{self.title}: {' and '.join(self.files)} not found in "
                f"{wanted.folder / self.name} or {wanted.folder}; get it from {self.where}, or "
                "leave out --data and BITGROVE_DATA to use generated rows"
            )
        task = self.read(self._own(wanted.folder))
        self._check_rows(task)
        return task if share >= 1.0 else sample(task, share)

    def source(self) -> str:
        return f"{self.title}: {self.where}"

    def hyperparameters(self, task: Task) -> dict[str, float]:
        """Fewer rows lower the least hessian of a leaf alike."""
        least = self.parameters["min_child_weight"] * len(task.X_train) / self.n_train
        return {**self.parameters, "min_child_weight": max(least, 1.0)}

    def _own(self, folder: Path) -> Path:
        """The dataset's own folder in the user's if there is one, else that itself."""
        return folder / self.name if (folder / self.name).is_dir() else folder

    def _check_rows(self, task: Task) -> None:
        found, wanted = (len(task.X_train), len(task.X_test)), (self.n_train, self.n_test)
        if self.counts_sum:
            found, wanted = (sum(found), 0), (sum(wanted), 0)
        if found != wanted or task.X_train.shape[1] != self.n_features:
            raise DataError(
                f"{self.title}: {found[0]:,} train and {found[1]:,} test rows of "
                f"{task.X_train.shape[1]} features were read, the paper has {wanted[0]:,} and "
                f"{wanted[1]:,} of {self.n_features}; the files are not whole or not the "
                "official ones"
            )
