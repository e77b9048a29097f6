"""Values: the squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bitgrove.objectives.base import F32, F64, Objective, Tables, label_mean

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm


@dataclass(frozen=True)
class Regression(Objective):
    """Any labels; the score is the value itself."""

    name = "regression"
    synonyms = ("regression_l2", "l2", "mse", "rmse", "squared_error", "reg:squarederror")
    family = "elementwise"
    kernel = "squared"
    default_metric = "rmse"
    predicts = "value"
    unit_hessian = True

    def base_scores(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        return label_mean(label, weight, comm)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        return scores - label, np.ones_like(scores)

    def losses(self, scores: F64, label: F64) -> F64:
        return np.asarray(0.5 * np.square(scores[0] - label))
