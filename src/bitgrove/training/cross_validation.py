"""cv(): the same parameters on several folds of one Dataset.

Owns the folds and the table of results. The bins are found once, on all rows, and shared by the
folds. Receives parameters and a Dataset; returns means and deviations by iteration, and the models.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends import give_back_memory
from bitgrove.callbacks import (
    Callback,
    TrainingState,
    early_stopping,
    log_evaluation,
    progress_bar,
)
from bitgrove.data.dataset import Dataset
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import DataError, ParameterError
from bitgrove.model.model import Model
from bitgrove.objectives import OBJECTIVES, make_objective
from bitgrove.params import TrainParams, resolve
from bitgrove.params.parameter import MANY
from bitgrove.training.arguments import understood
from bitgrove.training.booster import Booster
from bitgrove.training.evaluation import Evaluator
from bitgrove.training.guards import Guards

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
_SET = "valid"


class CVResult(dict[str, Any]):
    """What `cv` found: a dict of lists with a value for each iteration.

    The keys are the set, the metric and what of it: `"valid rmse-mean"`, `"valid rmse-stdv"`.

    Attributes
    ----------
    cvbooster : list of Model
        The models of the folds, all of as many iterations as the result.
    best_iteration : int or None
        With early stopping, the iteration of the best mean.
    """

    def __init__(
        self, values: Mapping[str, Any], models: list[Model], best_iteration: int | None
    ) -> None:
        super().__init__(values)
        self.cvbooster, self.best_iteration = models, best_iteration

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row for each iteration."""
        import pandas

        return pandas.DataFrame(dict(self))


def cv(
    params: Mapping[str, Any] | TrainParams,
    train_set: Dataset,
    num_boost_round: int | None = None,
    *,
    folds: Any = None,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    groups: Any = None,
    time_order: bool = False,
    seed: int = 0,
    callbacks: Sequence[Callback] | None = None,
    **more: Any,
) -> CVResult:
    """Cross-validation: train on all folds but one, judge on that one, for each fold in turn.

    All folds grow together; early stopping looks at the mean over them. Bins are found once, on all
    rows.

    Parameters
    ----------
    params : dict
        As in `train`.
    train_set : Dataset
        All rows. Queries stay whole.
    num_boost_round : int, optional
        Number of iterations: another name of `n_estimators`.
    folds : list of (train rows, test rows), or a splitter of scikit-learn, optional
        Instead of all that follows.
    nfold : int
        Number of folds.
    stratified : bool
        Whether each fold has the same part of each class, where there are classes.
    shuffle : bool
        Whether rows are shuffled before they are cut into folds.
    groups : array, optional
        A value per row: rows of the same value stay together. Not with time_order.
    time_order : bool
        Whether each fold is later than the rows (or queries) it is trained on.
    seed : int
        Of the shuffling.
    callbacks : list of callables, optional
        They see the means.
    **more
        The other keywords of `train`.

    Returns
    -------
    CVResult

    Examples
    --------
    >>> import numpy as np
    >>> import bitgrove as bg
    >>> X = np.arange(2000.0).reshape(500, 4) % 37
    >>> data = bg.Dataset(X, X[:, 0] * X[:, 1])
    >>> result = bg.cv({"objective": "regression", "metric": "rmse"}, data, 20, nfold=3)
    >>> list(result), len(result["valid rmse-mean"]), len(result.cvbooster)
    (['valid rmse-mean', 'valid rmse-stdv'], 20, 3)
    """
    none = dict.fromkeys(("valid_sets", "valid_names", "init_model", "resume_from"))
    named = {**none, "callbacks": callbacks, "num_boost_round": num_boost_round}
    asked = understood(params, named, {k: v for k, v in more.items() if k != "return_cvbooster"})
    checked = resolve(asked.params)
    if train_set.label is None:
        raise DataError("label: the Dataset has none")
    # A fold may lack a class that the others have.
    objective = make_objective(checked, train_set, SoloComm())
    checked = replace(checked, **objective.class_settings(objective.n_classes or 0))
    how = {"nfold": nfold, "stratified": stratified, "shuffle": shuffle, "groups": groups,
           "time_order": time_order, "seed": seed}  # fmt: skip
    guards = Guards(checked, objective, rank=0)
    training = [
        _start(checked, train_set, *rows, guards) for rows in _folds(folds, train_set, checked, how)
    ]
    values, best = _run(checked, training, asked.callbacks)
    give_back_memory()
    return CVResult(values, [booster.model(best) for booster, _ in training], best)


def _start(
    params: TrainParams, dataset: Dataset, trained_on: Any, judged_on: Any, guards: Guards
) -> tuple[Booster, Evaluator]:
    train_set = dataset.subset(trained_on)
    booster = Booster(params, train_set, SoloComm())
    booster.guards = guards  # of all folds: what one of them was warned of is said
    return booster, Evaluator(booster, train_set, [dataset.subset(judged_on)], [_SET])


def _run(
    params: TrainParams, training: Sequence[tuple[Booster, Evaluator]], callbacks: list[Callback]
) -> tuple[dict[str, list[float]], int | None]:
    """All folds, one iteration at a time; callbacks see the means."""
    deadline = time.perf_counter() + (params.max_seconds or math.inf)
    callbacks = list(callbacks)
    may_choose = params.max_seconds is not None and training[0][0].boosting.trees_stay
    if params.early_stopping_rounds is not None or may_choose:
        rounds = params.early_stopping_rounds or MANY
        callbacks.append(early_stopping(rounds, params.first_metric_only))
    if params.verbosity >= 1:
        callbacks.append(log_evaluation(params.verbosity))
    if params.progress:
        callbacks.append(progress_bar())
    try:
        return _grow_folds(params, training, callbacks, deadline)
    finally:
        for callback in callbacks:
            if hasattr(callback, "close"):
                callback.close()


def _grow_folds(
    params: TrainParams,
    training: Sequence[tuple[Booster, Evaluator]],
    callbacks: list[Callback],
    deadline: float,
) -> tuple[dict[str, list[float]], int | None]:
    values: dict[str, list[float]] = {}
    state = TrainingState(0, params.n_estimators, [])
    for iteration in range(params.n_estimators):
        judged = []
        for booster, evaluator in training:
            for change in booster.boost(iteration):
                evaluator.add(change)
            judged.append(evaluator.evaluate())
        state.iteration, state.evaluations = iteration + 1, []
        for each in zip(*judged, strict=True):
            numbers = np.array([e.value for e in each])
            state.evaluations.append(replace(each[0], value=float(numbers.mean())))
            values.setdefault(f"{_SET} {each[0].metric}-mean", []).append(float(numbers.mean()))
            values.setdefault(f"{_SET} {each[0].metric}-stdv", []).append(float(numbers.std()))
        answers = [callback(state) for callback in callbacks]  # each sees every iteration
        training[0][0].boosting.check_best(state.best_iteration)
        if any(answers) or time.perf_counter() >= deadline:
            break
    best = state.best_iteration
    return {name: column[:best] for name, column in values.items()}, best


def _folds(
    given: Any, dataset: Dataset, params: TrainParams, how: Mapping[str, Any]
) -> Iterable[Fold]:
    """Pairs of row numbers; queries stay whole."""
    label, group = dataset.label, dataset.group
    groups, listed = how["groups"], given is not None and not hasattr(given, "split")
    if groups is not None and (listed or (given is None and how["time_order"])):
        other = "a list of folds" if listed else "time_order=True"
        raise ParameterError(f"groups: {other} does not keep them together; give one of the two")
    if listed:
        return [_checked_fold(pair, dataset.n_rows) for pair in given]
    queries = None if group is None else np.repeat(np.arange(len(group)), group)
    groups = queries if groups is None else groups
    table = np.zeros((dataset.n_rows, 1))
    splitter = given or _splitter(params, groups is not None, how)
    try:
        if queries is not None and given is None and how["time_order"]:
            pairs = splitter.split(np.zeros((queries[-1] + 1, 1)))
            return [(_among(queries, a), _among(queries, b)) for a, b in pairs]
        return [(a, b) for a, b in splitter.split(table, label, groups)]
    except ValueError as error:
        raise DataError(f"cv: {error}") from None


def _among(queries: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of the chosen queries."""
    return np.flatnonzero(np.isin(queries, chosen))


def _splitter(params: TrainParams, has_groups: bool, how: Mapping[str, Any]) -> Any:
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

    n, shuffle = how["nfold"], how["shuffle"]
    if isinstance(n, bool) or not isinstance(n, int) or n < 2:
        raise ParameterError(f"nfold={n!r}: must be an integer >= 2")
    if how["time_order"]:
        return TimeSeriesSplit(n)
    if has_groups:
        return GroupKFold(n)
    drawn = {"shuffle": shuffle, "random_state": how["seed"] if shuffle else None}
    has_classes = params.objective is not None and OBJECTIVES[params.objective].is_classifier
    return (StratifiedKFold if how["stratified"] and has_classes else KFold)(n, **drawn)


def _checked_fold(pair: Any, n_rows: int) -> Fold:
    try:
        trained_on, judged_on = (np.asarray(rows) for rows in pair)
    except (TypeError, ValueError):
        raise DataError("folds: pairs of (train rows, test rows) are needed") from None
    for rows in (trained_on, judged_on):
        if rows.ndim != 1 or rows.dtype.kind not in "iub" or len(rows) == 0:
            raise DataError("folds: rows must be lists of row numbers, and not empty")
        if rows.dtype.kind != "b" and not (rows.min() >= 0 and rows.max() < n_rows):
            raise DataError(f"folds: row numbers must lie in 0..{n_rows - 1}")
    return trained_on, judged_on
