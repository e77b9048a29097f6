"""A metric that is a function of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.errors import TrainingError
from bitgrove.objectives.metrics.facts import EvalData

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm


class FunctionMetric:
    """name, value, is_higher_better = function(label, prediction[, weight]), on NumPy arrays.

    It may return a list of several such results, as LightGBM's may.
    The rows of all ranks are gathered for it, in rank order: every rank gets the same value.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.base_name = str(getattr(function, "__name__", type(function).__name__))
        self._takes_weight = _n_arguments(function) >= 3

    def evaluate(self, data: EvalData, comm: Comm) -> list[tuple[str, float, bool]]:
        parts = [data.label, data.prediction, data.weight]
        if comm.size > 1:
            parts = [_gathered(part, comm) for part in parts]
        found = self.function(*parts[: 3 if self._takes_weight else 2])
        several = found if isinstance(found, list) and found else [found]
        return [self._checked(one) for one in several]

    def _checked(self, found: Any) -> tuple[str, float, bool]:
        if not isinstance(found, tuple) or len(found) != 3 or not isinstance(found[0], str):
            raise TrainingError(
                f"eval_metric={self.base_name}: must return (name, value, is_higher_better) or a "
                f"list of them, got {type(found).__name__}"
            )
        name, value, is_higher_better = found
        if np.ndim(value) or np.ndim(is_higher_better) or isinstance(value, (str, bytes)):
            raise self._no_number(name, value)
        try:
            return name, float(value), bool(is_higher_better)
        except (TypeError, ValueError):
            raise self._no_number(name, value) from None

    def _no_number(self, name: str, value: Any) -> TrainingError:
        return TrainingError(
            f"eval_metric={self.base_name}: the value of {name!r} must be one number and "
            f"is_higher_better True or False, got {str(value)[:60]!r} ({type(value).__name__})"
        )


def _gathered(part: np.ndarray, comm: Comm) -> np.ndarray:
    flat = np.concatenate(comm.allgather(np.ascontiguousarray(part).reshape(-1)))
    return flat.reshape(-1, *part.shape[1:])


def _n_arguments(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return 2
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)
