"""How many bits the data at hand need, from the splits that rounding would choose.

Owns suggest_bits. Receives rows (a model of full precision is trained on them) or a model and the
rows it was trained on; returns a BitsSuggestion with the split regret at every number of bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitgrove.data.dataset import Dataset
from bitgrove.errors import DataError, DataTypeError, ParameterError
from bitgrove.model.model import Model
from bitgrove.params import resolve
from bitgrove.theory.split_regret import measure_split_regret
from bitgrove.training.train import train

BITS = range(2, 9)


@dataclass(frozen=True)
class BitsSuggestion:
    """bits: the suggestion; None where even 8 bits are above the tolerance (use full precision).

    regrets[b]: the share of its gain that a tree loses because b bits choose other splits, of the
    iteration that loses most. Late trees lose most: there is less to gain, and no less noise.
    """

    bits: int | None
    regrets: dict[int, float]
    tolerance: float


def suggest_bits(
    source: Dataset | Model,
    params: Mapping[str, Any] | None = None,
    *,
    data: Dataset | None = None,
    objective: Callable[..., Any] | None = None,
    tolerance: float = 0.1,
    n_trees: int = 5,
    n_draws: int = 3,
) -> BitsSuggestion:
    """The fewest bits (2 to 8) whose split regret is at most `tolerance` in every tree looked at.

    source: a Dataset, with `params` for train() (the objective is needed); a model of full
    precision is trained on it. Or a trained Model, with the rows it was trained on as `data`, and
    its `objective`, if that is a function of yours. Up to n_trees iterations are looked at, spread
    evenly over the model. It is on the safe side: where late trees mostly fit noise, fewer bits
    would do.
    """
    if not tolerance > 0.0:
        raise ParameterError(f"tolerance={tolerance!r}: must be a number > 0")
    if n_trees < 1:
        raise ParameterError(f"n_trees={n_trees!r}: must be an integer >= 1")
    if isinstance(source, Dataset):
        if data is not None or objective is not None:
            raise ParameterError("data, objective: only for a Model; source already is a Dataset")
        checked = replace(resolve(params), early_stopping_rounds=None)
        model, rows = train(replace(checked, gradient_bits=None), source), source
        objective = checked.objective_function
    else:
        if params is not None:
            raise ParameterError("params: only for a Dataset; source already is a Model")
        model, rows = _of_model(source, data)
    steps = np.linspace(0, model.n_iterations - 1, min(n_trees, model.n_iterations))
    iterations = sorted({round(step) for step in steps.tolist()})
    regrets: dict[int, float] = {}
    for bits in BITS:
        found = measure_split_regret(
            model, rows, bits, n_draws=n_draws, iterations=iterations, objective=objective,
            gradient_scale=model.params["gradient_scale"],
        )  # fmt: skip
        regrets[bits] = max(found.regret_by_tree().values(), default=0.0)
    enough = [bits for bits in BITS if regrets[bits] <= tolerance]
    return BitsSuggestion(enough[0] if enough else None, regrets, tolerance)


def _of_model(source: Any, data: Dataset | None) -> tuple[Model, Dataset]:
    model = getattr(source, "model_", source)  # an estimator is as good as its model
    if not isinstance(model, Model):
        raise DataTypeError(f"source must be a Dataset or a Model, got {type(source).__name__}")
    if data is None:
        raise DataError("data: a Model holds no rows; give the Dataset it was trained on")
    return model, data
