"""The fewest gradient bits whose measured gain error stays under a tolerance.

Owns suggest_bits: receives rows (a short model of full precision is trained on them) or a model and
the rows it was trained on; returns a BitsSuggestion with the error at every number of bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitgrove.data.dataset import Dataset
from bitgrove.errors import DataError, DataTypeError, ParameterError
from bitgrove.model.model import Model
from bitgrove.params import resolve
from bitgrove.theory.gain_error import measure_gain_errors
from bitgrove.training.train import train

BITS = range(2, 9)


@dataclass(frozen=True)
class BitsSuggestion:
    """bits: the suggestion; None where even 8 bits are above the tolerance (use full precision).

    errors[b]: the relative gain error that 90% of the splits, weighted by their gain, stay under in
    90% of the roundings with b bits.
    """

    bits: int | None
    errors: dict[int, float]
    tolerance: float


def suggest_bits(
    source: Dataset | Model,
    params: Mapping[str, Any] | None = None,
    *,
    data: Dataset | None = None,
    tolerance: float = 0.1,
    n_trees: int = 10,
    n_draws: int = 10,
) -> BitsSuggestion:
    """The fewest bits (2 to 8) whose measured gain error is at most `tolerance`.

    source: a Dataset, with `params` for train() (the objective is needed); n_trees of full
    precision are trained on it. Or a trained Model, with the rows it was trained on as `data`.
    Errors are measured on up to n_trees iterations, spread evenly over the model.
    """
    if not tolerance > 0.0:
        raise ParameterError(f"tolerance={tolerance!r}: must be a number > 0")
    if n_trees < 1:
        raise ParameterError(f"n_trees={n_trees!r}: must be an integer >= 1")
    model, rows = _model_and_rows(source, params, data, n_trees)
    steps = np.linspace(0, model.n_iterations - 1, min(n_trees, model.n_iterations))
    iterations = sorted({round(step) for step in steps.tolist()})
    scale = str(model.params.get("gradient_scale", "max"))
    errors: dict[int, float] = {}
    for bits in BITS:
        found = measure_gain_errors(
            model, rows, bits, n_draws=n_draws, iterations=iterations, gradient_scale=scale
        )
        errors[bits] = found.worst()
    enough = [bits for bits in BITS if errors[bits] <= tolerance]
    return BitsSuggestion(enough[0] if enough else None, errors, tolerance)


def _model_and_rows(
    source: Any, params: Mapping[str, Any] | None, data: Dataset | None, n_trees: int
) -> tuple[Model, Dataset]:
    if isinstance(source, Dataset):
        if data is not None:
            raise ParameterError("data: only for a Model; source already is a Dataset")
        checked = replace(resolve(params), early_stopping_rounds=None)
        return train(replace(checked, gradient_bits=None, n_estimators=n_trees), source), source
    model = getattr(source, "model_", source)  # an estimator is as good as its model
    if not isinstance(model, Model):
        raise DataTypeError(f"source must be a Dataset or a Model, got {type(source).__name__}")
    if data is None:
        raise DataError("data: a Model holds no rows; give the Dataset it was trained on")
    return model, data
