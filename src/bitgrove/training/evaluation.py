"""Validation sets: their scores, kept up to date tree by tree, and their metrics.

Owns Evaluator. Receives the finished trees of a Booster; returns Evaluations for the callbacks.
"""

from __future__ import annotations

import time
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
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives.metrics import EvalSet, FunctionMetric, Metric, make_metric
from bitgrove.params.parameter import NO_METRIC
from bitgrove.training.variants.boosting import ScoreChange

if TYPE_CHECKING:
    from bitgrove.training.booster import Booster


def bin_validation_set(
    dataset: Dataset,
    backend: Backend,
    mapper: BinMapper,
    encoder: Encoder | None,
    n_jobs: int | None = None,
) -> BinnedMatrix:
    """Bins rows with the edges of the training set; the last binning is kept on the Dataset."""
    require_device(dataset.device, backend.name)
    key = (backend.name, "validation")
    kept = dataset.binned.get(key)
    if kept is None or kept.mapper is not mapper:
        encoder = encoder or Encoder(dataset.n_features)
        columns = dataset.encoded(encoder, mapper, n_jobs)
        dataset.binned[key] = backend.bin_columns(columns, mapper)
    return dataset.binned[key]


@dataclass(eq=False)
class _ValidSet:
    name: str
    matrix: BinnedMatrix
    scores: Any
    dataset: Dataset
    is_training: bool = False
    start: Any = None  # the scores before the first tree, once they are needed


class Evaluator:
    """Keeps the scores of the validation sets and computes the metrics."""

    def __init__(
        self,
        booster: Booster,
        train_set: Dataset,
        valid_sets: Sequence[Dataset],
        valid_names: Sequence[str] | None,
    ) -> None:
        self.booster, self.backend = booster, booster.backend
        self.seconds = 0.0
        self.metrics, self.functions = _metrics(booster, bool(valid_sets))
        set_names = _names(valid_names, [dataset is train_set for dataset in valid_sets])
        agree_on(booster.comm, "validation sets", set_names)
        self.sets = [
            self._prepare(name, dataset, train_set)
            for name, dataset in zip(set_names, valid_sets, strict=True)
        ]
        if len({valid.name for valid in self.sets}) != len(self.sets):
            raise ParameterError(f"valid_names: names must differ, got {set_names}")
        eval_sets = [self._eval_set(valid) for valid in self.sets]
        self.panel = self.backend.new_panel(eval_sets, booster.comm)
        for name, given in zip(set_names, eval_sets, strict=True):
            self._warn_of_blind_metrics(name, given)

    @property
    def has_deciding(self) -> bool:
        """Whether there is a validation set other than the training set."""
        return any(not valid.is_training for valid in self.sets)

    def _prepare(self, name: str, dataset: Dataset, train_set: Dataset) -> _ValidSet:
        booster = self.booster
        if dataset is train_set:
            return _ValidSet(name, booster.matrix, booster.scores, booster.dataset, True)
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
        how = (booster.matrix.mapper, booster.encoder, booster.params.n_jobs)
        matrix = bin_validation_set(dataset, self.backend, *how)
        if (dataset.init_score is None) != (booster.dataset.init_score is None):
            raise DataError(
                f"validation set {name!r}: it and the training set need an init_score, or neither"
            )
        scores = booster.start_scores(dataset)
        return _ValidSet(name, matrix, scores, dataset)

    def _warn_of_blind_metrics(self, name: str, given: EvalSet) -> None:
        """Early stopping would take the first iteration for the best."""
        for metric in self.metrics:
            here = metric.evidence(given).astype(np.float64)
            if len(here) and not self.booster.comm.allreduce_max(here).all():
                self.booster.guards.warn(
                    f"validation set {name!r}: {metric.name} says nothing without {metric.needs}"
                )

    def after(self, changes: Sequence[ScoreChange]) -> list[Evaluation]:
        """The metrics after an iteration; what they cost is counted in `seconds`."""
        started = time.perf_counter()
        for change in changes:
            self.add(change)
        found = self.evaluate()
        self.seconds += time.perf_counter() - started
        return found

    def add(self, change: ScoreChange) -> None:
        """What the training scores went through, done to those of all validation sets."""
        for valid in self.sets:
            if not valid.is_training:
                self._apply(change, valid)

    def _apply(self, change: ScoreChange, valid: _ValidSet) -> None:
        output, tree, keep = change
        if keep != 1.0:
            if valid.start is None:
                valid.start = self.booster.start_scores(valid.dataset)
            self.backend.fade(valid.scores[output], valid.start[output], keep)
        self.backend.add_tree(valid.scores[output], valid.matrix, tree)

    def evaluate(self) -> list[Evaluation]:
        if not self.sets:
            return []
        values, found = self.panel.judge(self.metrics, [valid.scores for valid in self.sets]), []
        for number, (valid, of_set) in enumerate(zip(self.sets, values, strict=True)):
            where = valid.is_training
            found += [
                Evaluation(valid.name, m.name, value, m.higher_is_better, where)
                for m, value in zip(self.metrics, of_set, strict=True)
            ]
            if self.functions:
                data = self.panel.host_data(number, valid.scores)
                for function in self.functions:
                    judged = function.evaluate(data, self.booster.comm)
                    found += [Evaluation(valid.name, *one, where) for one in judged]
        return found

    def _eval_set(self, valid: _ValidSet) -> EvalSet:
        dataset, objective = valid.dataset, self.booster.objective
        assert dataset.label is not None
        group = dataset.group
        if group is None and dataset.n_rows == 0:
            group = np.zeros(0, dtype=np.int64)
        return EvalSet(dataset.label, dataset.weight, group, objective.gains, objective.link)


def _metrics(booster: Booster, needed: bool) -> tuple[list[Metric], list[FunctionMetric]]:
    """The named metrics and the user's functions that judge a training."""
    objective, given = booster.objective, booster.params.eval_metric
    if given is None and objective.default_metric is None and needed:
        raise ParameterError(
            f"eval_metric=None: objective {objective.name!r} has no metric of its own; name one"
        )
    own = (objective.default_metric,) if objective.default_metric else ()
    names = () if given == NO_METRIC else given or own
    metrics = [make_metric(n).for_objective(objective) for n in names if isinstance(n, str)]
    # ndcg and ndcg@10 are one
    unique = list({metric.name: metric for metric in metrics}.values())
    return unique, [FunctionMetric(n) for n in names if callable(n)]


def _names(given: Sequence[str] | None, is_training: list[bool]) -> list[str]:
    if given is None:
        return ["training" if own else f"valid_{i}" for i, own in enumerate(is_training)]
    names = [given] if isinstance(given, str) else list(given)
    if len(names) != len(is_training):
        raise ParameterError(f"valid_names: {len(names)} names for {len(is_training)} sets")
    return names
