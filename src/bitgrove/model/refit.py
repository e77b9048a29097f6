"""New leaf values for old trees.

Receives a Model and rows of its features; returns a Model of the same splits whose leaf values fit
the new rows. Each iteration asks for gradients at the scores of the trees before it, in plain
NumPy, and sums them in fixed point: the same bits for any number of ranks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import to_units, unit_exponent
from bitgrove.arithmetic.selection import weighted_quantile
from bitgrove.constraints.given import directions
from bitgrove.constraints.outputs import in_order, newton_steps, smoothed
from bitgrove.data.dataset import Dataset
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.data.row_ids import number_rows, row_ids
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError, ParameterError
from bitgrove.model.predict import predict_leaves, starts_of
from bitgrove.objectives import OBJECTIVES, make_objective, with_penalty
from bitgrove.params import TrainParams, resolve

if TYPE_CHECKING:
    from bitgrove.model.model import Model
    from bitgrove.model.tree import Tree

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def refitted_trees(model: Model, dataset: Dataset, decay_rate: float, comm: Comm) -> list[Tree]:
    """Each leaf: decay_rate of its old value and the rest of the new; unreached ones stay."""
    if isinstance(decay_rate, bool) or not 0.0 <= decay_rate <= 1.0:
        raise ParameterError(f"decay_rate={decay_rate!r}: must lie between 0 and 1")
    kind = OBJECTIVES[model.objective]
    _check_can_refit(model)
    params = resolve({**model.params, **kind.class_settings(model.n_classes)})
    dataset = dataset.without_zero_weights()
    objective = make_objective(params, dataset, comm)
    if objective.n_outputs != model.n_outputs:
        raise DataError(
            f"label has {objective.n_outputs} columns, that of the training {model.n_outputs}"
        )
    rates = params.learning_rate
    if not isinstance(rates, tuple):
        rates = (rates,) * model.n_iterations
    if len(rates) < model.n_iterations:
        raise ParameterError(
            f"refit: the schedule of learning rates has {len(rates)} values, the model "
            f"{model.n_iterations} iterations: those of its init_model are not known"
        )
    limit = objective.link.step_limit(params.max_delta_step)
    label = dataset.label
    assert label is not None, "make_objective refuses data without labels"
    weight = objective.row_weights(label, dataset.weight)
    params = with_penalty(params, objective, label, weight, comm)
    runs, n_total = number_rows(comm, dataset.n_rows, dataset.pieces)
    tables = objective.tables(label, dataset.group, row_ids(runs))
    labels = objective.output_labels(label)
    if n_total == 0:
        raise DataError("refit: there are no rows")
    rows = rows_for_prediction(dataset, model.feature_names, model.encoder)
    starts = starts_of(model.base_score, dataset.init_score)
    scores = np.broadcast_to(starts, (dataset.n_rows, model.n_outputs)).T.copy()
    direction = _column_directions(model, params)
    trees: list[Tree] = []
    for iteration in range(model.n_iterations):
        part = model[iteration : iteration + 1]
        leaves = predict_leaves(part.forest, rows, None)
        drawn = objective.at(iteration, params.random_state)
        grad, hess = drawn.gradients(scores, labels, weight, tables)
        for output, tree in enumerate(part.trees):
            mine = leaves[:, output]
            given = grad[output], None if hess is None else hess[output]
            size, counts, hesses = _newton(tree, mine, given, params, n_total, comm)
            level = objective.output(output).leaf_level
            if level is not None:
                residual = np.broadcast_to(labels, scores.shape)[output] - scores[output]
                size = _leaf_quantiles(residual, weight, mine, counts, level, comm)
            bound = limit * rates[iteration]
            fresh = np.clip(size * rates[iteration] + 0.0, -bound, bound)
            kept = decay_rate * tree.leaf_value + (1.0 - decay_rate) * fresh
            values = np.where(counts > 0, kept if decay_rate > 0.0 else fresh, tree.leaf_value)
            values = in_order(tree, values, direction)
            trees.append(replace(tree, leaf_value=values, leaf_rows=counts, leaf_hess=hesses))
            scores[output] += values[mine]
    return trees


def _column_directions(model: Model, params: TrainParams) -> NDArray[np.int8]:
    """Of the monotone features, by the columns that trees see."""
    encoder = model.encoder
    categories = () if encoder is None else encoder.levels
    found = directions(params, model.feature_names, categories)
    return found if encoder is None else found[encoder.sources]


def _check_can_refit(model: Model) -> None:
    if OBJECTIVES[model.objective].family == "given":
        raise ParameterError("refit: the objective is a function of yours, which no model holds")
    if (boosting := model.params["boosting_type"]) != "gbdt":
        raise ParameterError(f"refit: not for boosting_type={boosting!r}; train again")


def _leaf_quantiles(
    residual: F64,
    weight: NDArray[np.float32] | None,
    leaves: NDArray[np.int32],
    counts: NDArray[np.int64],
    level: float,
    comm: Comm,
) -> F64:
    """Of the residuals of each leaf that has rows on some rank; 0 of the others."""
    found = np.zeros(len(counts))
    for leaf in np.flatnonzero(counts):
        rows = leaves == leaf
        part = None if weight is None else weight[rows]
        found[leaf] = weighted_quantile(residual[rows], part, level, comm)
    return found


def _newton(
    tree: Tree,
    leaves: NDArray[np.int32],
    gradients: tuple[F32, F32 | None],
    params: TrainParams,
    n_total: int,
    comm: Comm,
) -> tuple[F64, I64, F64]:
    """Steps of the leaves, which rows are in; their rows and hessians."""
    grad, hess = gradients
    counts = comm.allreduce_sum(np.bincount(leaves, minlength=tree.n_leaves))
    grads, grad_unit = _leaf_sums(grad, leaves, tree, n_total, comm)
    hesses, hess_unit = counts, 1.0
    if hess is not None:
        hesses, hess_unit = _leaf_sums(hess, leaves, tree, n_total, comm)

    def step(grad: I64, hess: I64) -> F64:
        wide = grad * grad_unit, hess * hess_unit
        return newton_steps(*wide, params.reg_alpha, params.leaf_penalty)

    if params.path_smooth > 0.0:
        sums = np.stack([grads, hesses, counts], axis=1)
        steps = smoothed(tree.left, tree.right, sums, step, params.path_smooth)
    else:
        steps = step(grads, hesses)
    return steps, counts, hesses * hess_unit


def _leaf_sums(
    values: F32, leaves: NDArray[np.int32], tree: Tree, n_total: int, comm: Comm
) -> tuple[I64, float]:
    """The sum of each leaf over all ranks, in integers, and what one of them is worth."""
    wide = values.astype(np.float64)
    top = comm.allreduce_max(np.array([np.abs(wide).max(initial=0.0)]))[0]
    exponent = unit_exponent(float(top), n_total)
    sums = np.zeros(tree.n_leaves, dtype=np.int64)
    np.add.at(sums, leaves, to_units(wide, exponent))
    return comm.allreduce_sum(sums), math.ldexp(1.0, -exponent)
