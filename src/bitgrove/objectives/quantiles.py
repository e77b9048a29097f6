"""Losses whose leaves are medians or other quantiles of the residuals: exact selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.arithmetic.selection import weighted_quantile
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives.base import F32, F64, Objective, Tables, check_level
from bitgrove.objectives.links import IDENTITY, SORTED, Link
from bitgrove.objectives.regression import Values

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.distributed.comm import Comm


class _Quantiles(Values):
    """Its gradient only says on which side of the label a score is."""

    unit_hessian = True

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        assert self.leaf_level is not None
        return np.array([weighted_quantile(label, weight, self.leaf_level, comm)])


@dataclass(frozen=True)
class AbsoluteError(_Quantiles):
    """The absolute error, whose best constant is the median."""

    name = "mae"
    synonyms: ClassVar[tuple[str, ...]] = (
        "regression_l1", "l1", "mean_absolute_error", "absolute_error", "reg:absoluteerror", "MAE",
    )  # fmt: skip
    kernel = "absolute"
    peers = {"lightgbm": "regression_l1", "xgboost": "reg:absoluteerror"}  # noqa: RUF012
    default_metric = "mae"

    @property
    def leaf_level(self) -> float | None:
        return 0.5

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        return np.sign(scores - label), np.ones_like(scores)


@dataclass(frozen=True)
class Mape(AbsoluteError):
    """The absolute error relative to the label (to one, for smaller labels)."""

    name = "mape"
    peers = {"lightgbm": "mape", "xgboost": "reg:absoluteerror"}  # noqa: RUF012
    synonyms: ClassVar[tuple[str, ...]] = ("mean_absolute_percentage_error", "MAPE")
    default_metric = "mape"
    takes_columns = False

    def row_weights(self, label: F64, weight: F32 | None) -> F32 | None:
        relative = 1.0 / np.maximum(np.abs(label), 1.0)
        product = relative if weight is None else relative * weight
        if ((product < MIN_WEIGHT) | (product > MAX_MAGNITUDE)).any():
            raise DataError(
                f"weight: over the label it must lie between {MIN_WEIGHT:.2g} and "
                f"{MAX_MAGNITUDE:g} for objective 'mape'"
            )
        return product.astype(np.float32)


@dataclass(frozen=True)
class Quantile(_Quantiles):
    """One or several quantiles of the label, each with trees of its own."""

    name = "quantile"
    synonyms = ("quantile_loss", "regression_quantile", "reg:quantileerror", "pinball")
    spellings = {"alpha": "quantile_alpha"}  # noqa: RUF012
    shorthands: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "Quantile": {"quantile_alpha": 0.5},
        "MultiQuantile": {"quantile_alpha": 0.5},
    }
    kernel = "quantile"
    peers = {"lightgbm": "quantile", "xgboost": "reg:quantileerror"}  # noqa: RUF012
    default_metric = "quantile"
    takes_columns = False

    quantile_alpha: Sequence[float] = (0.9,)
    non_crossing: bool = False

    @classmethod
    def for_model(cls, settings: Mapping[str, Any], n_outputs: int) -> Self:
        non_crossing = settings.get("non_crossing", False)
        if type(non_crossing) is not bool:
            raise ParameterError("parameter 'non_crossing' is neither true nor false")
        return cls(_levels_of_file(settings.get("quantile_alpha"), n_outputs), non_crossing)

    @classmethod
    def allows_outputs(cls, n_outputs: int) -> bool:
        return n_outputs >= 1

    @property
    def n_outputs(self) -> int:
        return len(self.quantile_alpha)

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        return tuple(self.quantile_alpha)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.quantile_alpha[0],)

    @property
    def leaf_level(self) -> float | None:
        return self.quantile_alpha[0]

    @property
    def link(self) -> Link:
        return SORTED if self.non_crossing and self.n_outputs > 1 else IDENTITY

    def output(self, k: int) -> Objective:
        return replace(self, quantile_alpha=(self.quantile_alpha[k],))

    def check_settings(self) -> None:
        for level in self.quantile_alpha:
            check_level("quantile_alpha", level)
        if self.non_crossing and list(self.quantile_alpha) != sorted(self.quantile_alpha):
            raise ParameterError(
                f"quantile_alpha={tuple(self.quantile_alpha)!r}: must ascend with non_crossing=True"
            )

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        level = self.quantile_alpha[0]
        return np.where(scores >= label, 1.0 - level, -level), np.ones_like(scores)


def _levels_of_file(given: Any, n_outputs: int) -> tuple[float, ...]:
    """As they are if they make sense; if not, any will do: predictions do not depend on them."""
    levels = tuple(given) if isinstance(given, (list, tuple)) else ()
    sound = all(type(level) is float and 0.0 < level < 1.0 for level in levels)
    return levels if sound and len(levels) == n_outputs else (0.5,) * n_outputs
