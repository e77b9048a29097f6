"""Variants of training: ways of drawing rows, each one class, registered here once."""

from __future__ import annotations

from bitgrove.params import TrainParams
from bitgrove.training.variants.rows import Bagging, RowDraws, TrainingRows
from bitgrove.training.variants.rows_by_gradient import Goss, MinimalVariance

_ROW_DRAWS = (Bagging, Goss, MinimalVariance)
ROW_DRAWS: dict[str, type[RowDraws]] = {kind.name: kind for kind in _ROW_DRAWS}


def make_draws(params: TrainParams, data: TrainingRows) -> RowDraws:
    return ROW_DRAWS[params.data_sample_strategy](params, data)
