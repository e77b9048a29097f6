"""train(): one run from parameters and Datasets to a Model.

Owns the order of things: binning, evaluation, the iterations, callbacks, the end. What an iteration
does is booster.py.
"""

from __future__ import annotations

import sys
import time
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
from bitgrove.training.booster import Booster
from bitgrove.training.evaluation import Evaluator
from bitgrove.training.resume import shared_checkpoint


def train(
    params: Mapping[str, Any] | TrainParams,
    train_set: Dataset,
    *,
    valid_sets: Dataset | Sequence[Dataset] | None = None,
    valid_names: Sequence[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
    comm: Comm | None = None,
    resume_from: Model | PathLike | None = None,
) -> Model:
    """Trains a model. With a Comm, train_set is this rank's shard; every rank gets the model.

    The shards in rank order are the rows of the training; a shard may be empty. Queries must lie
    whole on one rank. If a rank fails, all raise: that one its own error, the others RankFailure.

    resume_from: a checkpoint (see callbacks.checkpoint) of this same training, as a Model or a
    file that rank 0 can read. Its iterations are repeated from their trees, without growing them
    again, and training goes on after them: the final bytes are those of an uninterrupted run.
    """
    comm = comm if comm is not None else SoloComm()

    def work() -> Model:
        started = time.perf_counter()
        checked = resolve(params)
        comm.timeout = checked.distributed_timeout
        booster = Booster(checked, train_set, comm)
        binned = time.perf_counter()
        evaluator = Evaluator(booster, train_set, valid_sets, valid_names)
        grown = shared_checkpoint(resume_from, booster)
        state = _run(booster, evaluator, list(callbacks or []), grown)
        info = booster.info
        info.best_score = state.best_score or scores_by_name(state.evaluations)
        info.seconds = {"bin": binned - started, "train": time.perf_counter() - binned}
        booster.guards.finish(info.rounding_noise)
        model = booster.model(state.best_iteration)
        check_same_model(comm, model)
        return model

    with fails_together(comm):
        model = work()
    give_back_memory()  # the booster, which held it, is gone by now
    return model


def _run(
    booster: Booster, evaluator: Evaluator, callbacks: list[Callback], grown: list[list[Tree]]
) -> TrainingState:
    params, comm = booster.params, booster.comm
    # The user's callbacks may answer differently on each rank: if one stops, all stop.
    ask_all = comm.size > 1 and bool(comm.allreduce_max(np.array([len(callbacks)]))[0])
    callbacks = [record_evaluation(booster.info.evals_result), *callbacks]
    if params.early_stopping_rounds is not None:
        if not evaluator.sets:
            raise ParameterError("early_stopping_rounds: needs a validation set (valid_sets)")
        callbacks.append(early_stopping(params.early_stopping_rounds, params.first_metric_only))
    if params.verbosity >= 1:
        if comm.rank == 0 and (warning := caveat(params, comm.size)):
            print(warning, file=sys.stderr)
        callbacks.append(log_evaluation())
    if params.progress:
        callbacks.append(progress_bar())
    state = TrainingState(0, params.n_estimators, [], booster=booster)
    try:
        for iteration in range(params.n_estimators):
            state.repeated = iteration < len(grown)
            known = grown[iteration] if state.repeated else None
            for tree in booster.boost(iteration) if known is None else booster.repeat(known):
                evaluator.add(tree)
            state.iteration, state.evaluations = iteration + 1, evaluator.evaluate()
            # Every callback sees every iteration, also the one another callback stops at.
            answers = [callback(state) for callback in callbacks]
            stop = any(answers)
            if ask_all:
                stop = bool(comm.allreduce_max(np.array([int(stop)]))[0])
            if stop:
                break
    finally:
        for callback in callbacks:
            if hasattr(callback, "close"):
                callback.close()
    return state
