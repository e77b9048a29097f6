"""Validation sets: their scores, kept up to date tree by tree, and their metrics.

Owns Evaluator. Receives the finished trees of a Booster; returns Evaluations for the callbacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.backends import Backend, BinnedMatrix
from bitgrove.callbacks import Evaluation
from bitgrove.data.binning import BinMapper
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import require_device
from bitgrove.data.encoder import Encoder
from bitgrove.distributed.agreement import agree_on
from bitgrove.errors import DataError, DataTypeError, ParameterError
from bitgrove.model.tree import Tree
from bitgrove.objectives.metrics import EvalData, make_metric
from bitgrove.training.booster import start_scores

if TYPE_CHECKING:
    from bitgrove.training.booster import Booster


def bin_validation_set(
    dataset: Dataset, backend: Backend, mapper: BinMapper, encoder: Encoder | None
) -> BinnedMatrix:
    """Bins rows with the edges of the training set; the last binning is kept on the Dataset."""
    require_device(dataset.device, backend.name)
    key = (backend.name, "validation")
    kept = dataset.binned.get(key)
    if kept is None or kept.mapper is not mapper:
        encoder = encoder or Encoder(dataset.n_features)
        columns = encoder.encode(dataset.columns, dataset.levels, dataset.feature_names)
        dataset.binned[key] = backend.bin_columns(columns, mapper)
    return dataset.binned[key]


@dataclass(eq=False)
class _ValidSet:
    name: str
    matrix: BinnedMatrix
    scores: Any
    dataset: Dataset


class Evaluator:
    """Keeps the scores of the validation sets and computes the metrics."""

    def __init__(
        self,
        booster: Booster,
        train_set: Dataset,
        valid_sets: Dataset | Sequence[Dataset] | None,
        valid_names: Sequence[str] | None,
    ) -> None:
        self.booster, self.backend = booster, booster.backend
        names = booster.params.eval_metric or (booster.objective.default_metric,)
        metrics = map(make_metric, names)
        self.metrics = list({m.name: m for m in metrics}.values())  # ndcg and ndcg@10 are one
        datasets = _datasets(valid_sets)
        set_names = _names(valid_names, len(datasets))
        agree_on(booster.comm, "validation sets", set_names)
        self.sets = [
            self._prepare(name, dataset, train_set)
            for name, dataset in zip(set_names, datasets, strict=True)
        ]
        if len({valid.name for valid in self.sets}) != len(self.sets):
            raise ParameterError(f"valid_names: names must differ, got {set_names}")
        self._n_trees = 0

    def _prepare(self, name: str, dataset: Dataset, train_set: Dataset) -> _ValidSet:
        booster = self.booster
        if dataset is train_set:
            return _ValidSet("training", booster.matrix, booster.scores, booster.dataset)
        if name == "training":
            raise ParameterError("valid_names: 'training' is reserved for the training set")
        if dataset.label is None:
            raise DataError(f"validation set {name!r} has no label")
        if dataset.n_features != booster.dataset.n_features:
            raise DataError(
                f"validation set {name!r} has {dataset.n_features} features, "
                f"the training set {booster.dataset.n_features}"
            )
        if dataset.feature_names != booster.dataset.feature_names:
            raise DataError(
                f"validation set {name!r} has other feature names than the training set"
            )
        booster.objective.check_valid_labels(name, dataset.label)
        heaviest = 1.0 if dataset.weight is None else dataset.weight.max(initial=0.0)
        facts = np.array([dataset.n_rows, heaviest if dataset.n_rows else 0.0])
        n_rows, heaviest = booster.comm.allreduce_max(facts)
        if n_rows == 0:
            raise DataError(f"validation set {name!r} has no rows")
        if heaviest == 0.0:
            raise DataError(f"validation set {name!r}: all weights are zero")
        matrix = bin_validation_set(dataset, self.backend, booster.matrix.mapper, booster.encoder)
        scores = start_scores(self.backend, booster.base_score, dataset.n_rows)
        return _ValidSet(name, matrix, scores, dataset)

    def add(self, tree: Tree) -> None:
        output = self._n_trees % self.booster.objective.n_outputs
        self._n_trees += 1
        for valid in self.sets:
            if valid.name != "training":
                self.backend.add_tree(valid.scores[output], valid.matrix, tree)

    def evaluate(self) -> list[Evaluation]:
        return [
            Evaluation(valid.name, m.name, m.compute(data, self.booster.comm), m.higher_is_better)
            for valid in self.sets
            for data in [self._eval_data(valid)]
            for m in self.metrics
        ]

    def _eval_data(self, valid: _ValidSet) -> EvalData:
        dataset = valid.dataset
        scores = np.ascontiguousarray(self.backend.download(valid.scores).T)
        objective = self.booster.objective
        prediction = objective.link.predictions(scores)
        assert dataset.label is not None
        weight = (
            np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight.astype(np.float64)
        )
        group = dataset.group
        if group is None and dataset.n_rows == 0:
            group = np.zeros(0, dtype=np.int64)
        return EvalData(prediction, dataset.label, weight, group, objective.gains)


def _datasets(valid_sets: Dataset | Sequence[Dataset] | None) -> list[Dataset]:
    if valid_sets is None:
        return []
    datasets = [valid_sets] if isinstance(valid_sets, Dataset) else list(valid_sets)
    if not all(isinstance(dataset, Dataset) for dataset in datasets):
        raise DataTypeError("valid_sets must be a Dataset or a list of them")
    return datasets


def _names(given: Sequence[str] | None, n_sets: int) -> list[str]:
    if given is None:
        return [f"valid_{i}" for i in range(n_sets)]
    names = [given] if isinstance(given, str) else list(given)
    if len(names) != n_sets:
        raise ParameterError(f"valid_names: {len(names)} names for {n_sets} sets")
    return names
