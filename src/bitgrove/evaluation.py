"""Validation sets: their scores, kept up to date tree by tree, and their metrics.

Owns Evaluator. Receives the finished trees of a Booster; returns Evaluations for the callbacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends import Backend, BinnedMatrix
from bitgrove.binning import BinMapper
from bitgrove.callbacks import Evaluation
from bitgrove.dataset import Dataset
from bitgrove.errors import DataError, ParameterError
from bitgrove.metrics import EvalData, make_metric
from bitgrove.objectives import DEFAULT_METRIC, Objective, label_gains, scores_to_predictions
from bitgrove.params import TrainParams
from bitgrove.tree import Tree

if TYPE_CHECKING:
    from bitgrove.boosting import Booster


def bin_validation_set(dataset: Dataset, backend: Backend, mapper: BinMapper) -> BinnedMatrix:
    """Bins rows with the edges of the training set."""
    key = (backend.name, mapper)
    if key not in dataset.binned:
        matrix, _ = backend.bin_columns(dataset.columns, mapper)
        dataset.binned[key] = matrix
    return dataset.binned[key]  # type: ignore[no-any-return]


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
        self.metrics = [
            make_metric(name) for name in _metric_names(booster.params, booster.objective)
        ]
        datasets = [valid_sets] if isinstance(valid_sets, Dataset) else list(valid_sets or [])
        names = list(valid_names) if valid_names else [f"valid_{i}" for i in range(len(datasets))]
        if len(names) != len(datasets):
            raise ParameterError(f"valid_names: {len(names)} names for {len(datasets)} sets")
        if len(set(names)) != len(names) or "training" in names:
            raise ParameterError("valid_names: names must differ, and 'training' is reserved")
        self.sets = [
            self._prepare(name, dataset, train_set)
            for name, dataset in zip(names, datasets, strict=True)
        ]
        self._n_trees = 0

    def _prepare(self, name: str, dataset: Dataset, train_set: Dataset) -> _ValidSet:
        booster = self.booster
        if dataset is train_set:
            return _ValidSet("training", booster.matrix, booster.scores, booster.dataset)
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
        _check_valid_labels(name, dataset.label, booster)
        matrix = bin_validation_set(dataset, self.backend, booster.matrix.mapper)
        scores = self.backend.new_scores(booster.base_score, dataset.n_rows)
        return _ValidSet(name, matrix, scores, dataset)

    def add(self, tree: Tree) -> None:
        output = self._n_trees % self.booster.objective.n_outputs
        self._n_trees += 1
        for valid in self.sets:
            if valid.name != "training":
                self.backend.add_tree(valid.scores[output], valid.matrix, tree, None)

    def evaluate(self) -> list[Evaluation]:
        return [
            Evaluation(valid.name, m.name, m.compute(data, self.booster.comm), m.higher_is_better)
            for valid in self.sets
            for data in [self._eval_data(valid)]
            for m in self.metrics
        ]

    def _eval_data(self, valid: _ValidSet) -> EvalData:
        objective, dataset = self.booster.objective, valid.dataset
        scores = np.ascontiguousarray(self.backend.host(valid.scores).T)
        prediction = scores_to_predictions(objective.name, scores, objective.sigmoid)
        assert dataset.label is not None
        weight = (
            np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight.astype(np.float64)
        )
        gains = label_gains(self.booster.params)
        return EvalData(prediction, dataset.label, weight, dataset.group, gains)


def _metric_names(params: TrainParams, objective: Objective) -> Sequence[str]:
    return params.eval_metric or (DEFAULT_METRIC[objective.name],)


def _check_valid_labels(name: str, label: NDArray[np.float64], booster: Booster) -> None:
    objective = booster.objective
    top = {
        "binary": 1,
        "multiclass": objective.n_outputs - 1,
        "lambdarank": len(label_gains(booster.params)) - 1,
    }.get(objective.name)
    if top is not None and ((label < 0) | (label > top) | (label != np.floor(label))).any():
        raise DataError(f"validation set {name!r}: labels must be whole numbers 0 to {top}")
