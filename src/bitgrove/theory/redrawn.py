"""The gradients that the trees of a model were grown from, and roundings of them.

Owns RedrawnTree: one tree with the rows that it saw (a sample, where the model has `subsample`),
the leaf each is in, their original gradients, and drawings of their integers by the library's own
quantizer. Receives a model and the rows it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.reference import ReferenceBackend, output_gradients
from bitgrove.data.dataset import Dataset
from bitgrove.data.row_ids import one_run
from bitgrove.data.sampling import rounding_key
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import ParameterError
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.params import BY_NAME, TrainParams, resolve
from bitgrove.training.booster import Booster
from bitgrove.training.quantize import (
    NO_TRAITS,
    QuantizedGradients,
    Traits,
    quantize,
    traits_of,
)
from bitgrove.training.starting import start_scores

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_UNMEASURED = ("boosting_type", "data_sample_strategy")


@dataclass(frozen=True, eq=False)
class RedrawnTree:
    """grad and hess are of all rows, which decide about the scales; `rows` are those it saw."""

    number: int
    tree: Tree
    leaf: I64  # of each row in `rows`
    rows: Any  # indices, or a slice
    grad: NDArray[np.float32]
    hess: NDArray[np.float32] | None
    params: TrainParams  # with the bits and the rounding of the drawings
    seed: int
    traits: Traits = NO_TRAITS

    def draw(self, number: int) -> list[F64]:
        """Gradients and hessians that were rounded and scaled back."""
        q = self._quantized(number)
        grad, hess = q.packed.values[self.rows].T
        return [grad * q.grad_scale, hess * q.hess_scale]

    def original(self) -> tuple[F64, F64 | None]:
        hess = None if self.hess is None else self.hess[self.rows].astype(np.float64)
        return self.grad[self.rows].astype(np.float64), hess

    @cached_property
    def units(self) -> tuple[float, float]:
        """What one step of the integers is worth; that of hessians 0 where they are not rounded."""
        q = self._quantized(0)
        return q.grad_scale, 0.0 if self.hess is None else q.hess_scale

    def _quantized(self, number: int) -> QuantizedGradients:
        key = rounding_key(self.seed, (self.number << 20) + number)
        runs = one_run(len(self.grad))
        given = output_gradients(self.grad, self.hess)
        backend = ReferenceBackend()
        return quantize(backend, given, self.params, key, runs, SoloComm(), self.traits)


def redrawn_trees(
    model: Model,
    data: Dataset,
    iterations: Sequence[int] | None,
    seed: int,
    objective: Callable[..., Any] | None = None,
    unmeasured: Sequence[str] = (),
    **drawing: Any,
) -> Iterator[tuple[RedrawnTree, Booster]]:
    """The trees of the given iterations (from 0; None: all), with the booster they came from.

    objective: the function, where the model was trained with one. unmeasured: parameters that a
    model must not have changed. drawing: those of the roundings, as gradient_bits and rounding.
    """
    chosen = range(model.n_iterations) if iterations is None else sorted(set(iterations))
    if chosen and not 0 <= chosen[0] <= chosen[-1] < model.n_iterations:
        raise ParameterError(f"iterations: must lie between 0 and {model.n_iterations - 1}")
    given = model.params
    # What is 0 is off, whatever the default.
    changed = [n for n in (*_UNMEASURED, *unmeasured) if given[n] not in (BY_NAME[n].default, 0.0)]
    found = ["categories"] * (model.encoder is not None) + [f"{n}={given[n]!r}" for n in changed]
    if found:
        raise ParameterError(
            f"model: trained with {', '.join(found)}, which cannot be measured yet"
        )
    booster = Booster(_params_of(model, objective), data, SoloComm())
    params = replace(booster.params, **drawing)
    table = np.column_stack(booster.dataset.as_columns().values)
    leaves = model.predict_leaf(table, num_iteration=max(chosen, default=-1) + 1)
    own = booster.dataset.init_score
    scores = start_scores(booster.backend, model.base_score, len(table), own)
    for number in range(leaves.shape[1]):
        iteration, output = divmod(number, model.n_outputs)
        tree, leaf = model.trees[number], leaves[:, number].astype(np.int64)
        if output == 0 and iteration in chosen:
            gradients = booster.backend.gradients(booster.objective, scores, booster.targets)
        if iteration in chosen:
            part, rows = gradients.output(output), _rows_seen(booster, iteration)
            traits = traits_of(booster.objective, output)
            facts = (part.grad, part.hess, params, seed, traits)
            yield RedrawnTree(number, tree, leaf[rows], rows, *facts), booster
        scores[output] += tree.leaf_value[leaf]


def _params_of(model: Model, objective: Callable[..., Any] | None) -> TrainParams:
    params = {n: v for n, v in model.params.items() if n != "objective_function"}
    if objective is not None:
        if model.params["objective_function"] is None:
            raise ParameterError("objective: the model was not trained with a function of yours")
        params["objective"] = objective
    return resolve({**params, "device": "cpu"})


def _rows_seen(booster: Booster, iteration: int) -> Any:
    sample = booster.draws.sample(iteration)
    if sample is None:
        return slice(None)
    return booster.backend.download(booster.backend.select_rows(booster.runs, sample))
