"""Variants of training: ways of boosting and of drawing rows, each one class, registered here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitgrove.params import TrainParams
from bitgrove.training.variants.boosting import Boosting, Gbdt
from bitgrove.training.variants.dart import Dart
from bitgrove.training.variants.forest import Forest
from bitgrove.training.variants.rows import Bagging, RowDraws, TrainingRows
from bitgrove.training.variants.rows_by_gradient import Goss, MinimalVariance

if TYPE_CHECKING:
    from bitgrove.training.booster import Booster

_BOOSTING = (Gbdt, Dart, Forest)
_ROW_DRAWS = (Bagging, Goss, MinimalVariance)
BOOSTING: dict[str, type[Boosting]] = {kind.name: kind for kind in _BOOSTING}
ROW_DRAWS: dict[str, type[RowDraws]] = {kind.name: kind for kind in _ROW_DRAWS}


def make_draws(params: TrainParams, data: TrainingRows) -> RowDraws:
    return ROW_DRAWS[params.data_sample_strategy](params, data)


def make_boosting(booster: Booster) -> Boosting:
    return BOOSTING[booster.params.boosting_type](booster)
