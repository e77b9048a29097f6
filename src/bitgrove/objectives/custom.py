"""An objective that is a function of the user's: scores and labels in, gradients out.

Owns how the function is called and what it may return. Arrays are NumPy's, or CuPy's where training
runs on a GPU: they stay there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitgrove.arithmetic.exact_math import numpy_to_gradient
from bitgrove.errors import ParameterError, TrainingError
from bitgrove.objectives.base import F32, F64, Objective, Tables


@dataclass(frozen=True)
class Custom(Objective):
    """grad, hess = function(label, score[, weight]); predictions are the scores themselves.

    With `num_class`, or a label of several columns, scores and gradients are (n_rows, n_outputs).
    """

    name = "custom"
    family = "given"
    kernel = "given"
    peers = {"lightgbm": "custom", "xgboost": "reg:squarederror"}  # noqa: RUF012
    default_metric = None
    predicts = "score"
    takes_columns = True

    objective_function: Callable[..., Any] | None = None
    num_class: int | None = None

    @property
    def n_outputs(self) -> int:
        return self.num_class or self.n_columns

    @property
    def n_joint(self) -> int:
        """Outputs are classes, or each learns a column of the label."""
        return self.num_class or 1

    def check_settings(self) -> None:
        if self.objective_function is None:
            raise ParameterError(
                "objective='custom': give the function itself, objective=f, where "
                "grad, hess = f(label, score)"
            )

    def given(self, scores: Any, label: Any, weight: Any, xp: Any) -> tuple[Any, Any]:
        """The function's gradients times the weights: float64 of xp (NumPy or CuPy), all outputs.

        scores (n_outputs, n_rows), label (n_rows,) or (n_columns, n_rows).
        """
        function, (n_outputs, n_rows) = self.objective_function, scores.shape
        assert function is not None
        args = [label.T, scores[0] if n_outputs == 1 else scores.T]
        takes_weight = _takes_weight(function)
        if takes_weight:
            args.append(xp.ones(n_rows) if weight is None else weight.astype(np.float64))
        found = _call(function, [_guarded(arg) for arg in args])
        sides = []
        for what, values in zip(("gradient", "hessian"), found, strict=True):
            side = _rows(function, what, values, (n_rows, n_outputs), xp)
            sides.append(side if takes_weight or weight is None else side * weight)
        return sides[0], sides[1]

    def gradients(
        self, scores: F64, label: F64, weight: F32 | None, tables: Tables
    ) -> tuple[F32, F32 | None]:
        grad, hess = self.given(scores, label, weight, np)
        return numpy_to_gradient(grad), numpy_to_gradient(hess)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _takes_weight(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in places if p.default is p.empty]
    if len(needed) > 3 or len(places) < 2:
        raise ParameterError(
            f"objective={_name(function)}: must take (label, score) or (label, score, weight)"
        )
    return len(needed) == 3 or [p.name for p in places[2:3]] in (["weight"], ["sample_weight"])


def _guarded(values: Any) -> Any:
    """The function's own view of an array: what it writes must not reach training."""
    if isinstance(values, np.ndarray):
        values = values.view()
        values.flags.writeable = False
        return values
    return values.copy()  # CuPy has no read-only arrays


def _call(function: Callable[..., Any], args: list[Any]) -> tuple[Any, Any]:
    try:
        found = function(*args)
    except AttributeError as error:
        if "get_label" not in str(error):
            raise
        raise ParameterError(
            f"objective={_name(function)}: is called as f(label, score) with arrays; "
            "wrap a function of (score, dataset), see losses.md"
        ) from error
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise TrainingError(
            f"objective={_name(function)}: must return (gradient, hessian), got "
            f"{type(found).__name__}"
        )
    return found[0], found[1]


def _rows(function: Any, what: str, values: Any, shape: tuple[int, int], xp: Any) -> Any:
    """(n_outputs, n_rows) float64, contiguous and checked."""
    try:
        array = xp.asarray(values)
    except (TypeError, ValueError) as error:
        raise TrainingError(
            f"objective={_name(function)}: its {what} is no array: {error}"
        ) from None
    n_rows, n_outputs = shape
    wanted = (n_rows,) if n_outputs == 1 else shape
    if array.shape != wanted and array.shape != shape:
        raise TrainingError(
            f"objective={_name(function)}: its {what} has shape {array.shape}, expected {wanted}"
        )
    if array.dtype.kind not in "fiub":
        raise TrainingError(
            f"objective={_name(function)}: its {what} has type {array.dtype}, numbers are needed"
        )
    table = xp.ascontiguousarray(array.astype(np.float64).reshape(shape).T)
    allowed = xp.isfinite(table) if what == "gradient" else xp.isfinite(table) & (table >= 0.0)
    if not bool(allowed.all()):
        output, row = (int(i) for i in np.argwhere(np.asarray(_on_host(~allowed)))[0])
        needed = "a finite number" if what == "gradient" else "a finite number of at least 0"
        raise TrainingError(
            f"objective={_name(function)}: its {what} of row {row} is {float(table[output, row])}; "
            f"{needed} is needed"
        )
    return table


def _on_host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array
