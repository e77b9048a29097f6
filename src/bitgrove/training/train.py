"""train(): one run from parameters and Datasets to a Model.

Owns the order of things: binning, evaluation, the iterations, callbacks, the end. What an iteration
does is booster.py.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bitgrove.backends import give_back_memory
from bitgrove.callbacks import (
    Callback,
    TrainingState,
    early_stopping,
    log_evaluation,
    progress_bar,
    record_evaluation,
    scores_by_name,
)
from bitgrove.data.dataset import Dataset
from bitgrove.distributed.agreement import check_same_model
from bitgrove.distributed.comm import Comm, SoloComm, fails_together
from bitgrove.distributed.exchanges import caveat
from bitgrove.errors import ParameterError
from bitgrove.machine.files import PathLike
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.params import TrainParams, resolve
from bitgrove.params.parameter import MANY
from bitgrove.training.arguments import understood
from bitgrove.training.booster import Booster
from bitgrove.training.evaluation import Evaluator
from bitgrove.training.resume import shared_checkpoint


def train(
    params: Mapping[str, Any] | TrainParams,
    train_set: Dataset,
    num_boost_round: int | None = None,
    valid_sets: Dataset | Sequence[Dataset] | None = None,
    *,
    valid_names: Sequence[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
    init_model: Model | PathLike | None = None,
    resume_from: Model | PathLike | None = None,
    comm: Comm | None = None,
    **more: Any,
) -> Model:
    """Train a model.

    Parameters
    ----------
    params : dict
        Parameters by any of their names. `objective` is the one that is needed.
    train_set : Dataset
        The rows. With a Comm, those of this rank.
    num_boost_round : int, optional
        Number of iterations: another name of `n_estimators`.
    valid_sets : Dataset or list of them, optional
        Judged after each iteration, and used for early stopping.
    valid_names : list of str, optional
        A name for each of them.
    callbacks : list of callables, optional
        Called after each iteration; see `bitgrove.callbacks`.
    init_model : Model or path, optional
        A model whose trees stay in front of the new ones. Its rows may have been others, of the
        same features and objective. `n_estimators` counts the new iterations.
    resume_from : Model or path, optional
        A checkpoint of this same training (see `checkpoint`). Its trees are not grown again, and
        training goes on after them, to the bytes of an uninterrupted run. Rank 0 reads the file.
    comm : Comm, optional
        The ranks of a distributed training. The shards in rank order are the rows; a shard may be
        empty, and a query lies whole on one rank. Every rank gets the model. If a rank fails, all
        raise: that one its own error, the others RankFailure.
    **more
        Parameters as keywords, such as `early_stopping_rounds=20`. XGBoost's `evals`,
        `evals_result`, `verbose_eval` and `xgb_model` are understood.

    Returns
    -------
    Model
        It depends on the rows, the parameters and the seed, and on nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> import bitgrove as bg
    >>> X = np.arange(2000.0).reshape(500, 4) % 37
    >>> y = X[:, 0] > X[:, 1]
    >>> model = bg.train({"objective": "binary", "num_leaves": 7}, bg.Dataset(X, y), 20)
    >>> model.predict(X).shape
    (500,)
    """
    comm = comm if comm is not None else SoloComm()
    named = {"num_boost_round": num_boost_round, "valid_sets": valid_sets,
             "valid_names": valid_names, "callbacks": callbacks, "init_model": init_model,
             "resume_from": resume_from}  # fmt: skip

    def work() -> Model:
        started = time.perf_counter()
        asked = understood(params, named, more)
        checked = resolve(asked.params)
        comm.timeout = checked.distributed_timeout
        booster = Booster(checked, train_set, comm, asked.init_model, asked.valid_sets)
        binned = time.perf_counter()
        evaluator = Evaluator(booster, train_set, asked.valid_sets, asked.valid_names)
        grown = shared_checkpoint(asked.resume_from, booster)
        deadline = None if checked.max_seconds is None else started + checked.max_seconds
        state = _run(booster, evaluator, asked.callbacks, grown, deadline)
        booster.grower.pool = None  # histograms make room for the model
        info = booster.info
        info.best_score = state.best_score or scores_by_name(state.evaluations)
        stages = _stages(binned, evaluator)
        booster.guards.finish(info.rounding_noise)
        model = booster.model(state.best_iteration)
        info.seconds = {"bin": binned - started, "fingerprint": booster.record.seconds, **stages}
        check_same_model(comm, model)
        _say_what_was_trained(booster, model)
        return model

    with fails_together(comm):
        model = work()
    give_back_memory()  # the booster, which held it, is gone by now
    return model


def _stages(binned: float, evaluator: Evaluator) -> dict[str, float]:
    """Seconds since the rows were binned."""
    growing = {"train": time.perf_counter() - binned - evaluator.seconds}
    return {**growing, "evaluate": evaluator.seconds} if evaluator.sets else growing


def _run(
    booster: Booster,
    evaluator: Evaluator,
    given: list[Callback],
    grown: list[list[Tree]],
    deadline: float | None,
) -> TrainingState:
    params, comm, first = booster.params, booster.comm, booster.n_before
    # The user's callbacks and clocks may answer differently on each rank: if one stops, all stop.
    asks = len(given) + (deadline is not None)
    ask_all = comm.size > 1 and bool(comm.allreduce_max(np.array([asks]))[0])
    callbacks = _callbacks(booster, evaluator, given)
    total = first + params.n_estimators
    state = TrainingState(first, total, [], first_iteration=first + 1, booster=booster)
    try:
        for iteration in range(first, total):
            state.repeated = iteration < len(grown)
            known = grown[iteration] if state.repeated else None
            changes = booster.boost(iteration) if known is None else booster.repeat(known)
            state.iteration, state.evaluations = iteration + 1, evaluator.after(changes)
            # Every callback sees every iteration, also the one another callback stops at.
            answers = [callback(state) for callback in callbacks]
            booster.boosting.check_best(state.best_iteration)
            stop = any(answers) or (deadline is not None and time.perf_counter() >= deadline)
            if ask_all:
                stop = bool(comm.allreduce_max(np.array([int(stop)]))[0])
            if stop:
                break
    finally:
        for callback in callbacks:
            if hasattr(callback, "close"):
                callback.close()
    return state


def _callbacks(booster: Booster, evaluator: Evaluator, given: list[Callback]) -> list[Callback]:
    """The user's, and those that parameters ask for."""
    params, comm = booster.params, booster.comm
    callbacks = [record_evaluation(booster.info.evals_result), *given]
    if params.early_stopping_rounds is not None:
        if not evaluator.sets:
            raise ParameterError("early_stopping_rounds: needs a validation set (valid_sets)")
        callbacks.append(early_stopping(params.early_stopping_rounds, params.first_metric_only))
    elif params.max_seconds is not None and evaluator.has_deciding and booster.boosting.trees_stay:
        # Never stops, but keeps the best iteration of those there was time for.
        callbacks.append(early_stopping(MANY, params.first_metric_only))
    if params.verbosity >= 1:
        if comm.rank == 0 and (warning := caveat(params, comm.size)):
            print(warning, file=sys.stderr)
        callbacks.append(log_evaluation(params.verbosity))
    if params.progress:
        callbacks.append(progress_bar())
    return callbacks


def _say_what_was_trained(booster: Booster, model: Model) -> None:
    """A line for those who asked for one, and a warning for those who got nothing."""
    if booster.comm.rank > 0:
        return
    params, info = booster.params, booster.info
    if params.verbosity >= 1:
        seconds = sum(info.seconds.values())
        print(f"{booster.n_total} rows, {model!r} in {seconds:.3g} s", file=sys.stderr)
    if params.verbosity >= 0 and not any(tree.n_splits for tree in model.trees):
        least = params.min_child_samples
        reason = f"a leaf needs min_child_samples={least} rows, and there are {booster.n_total}"
        if booster.n_total >= 2 * least:
            reason = "no feature tells the rows apart, or the limits of a leaf are too strict"
        warnings.warn(f"no tree has a split, all predictions are equal: {reason}", stacklevel=4)
