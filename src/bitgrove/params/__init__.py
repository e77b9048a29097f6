"""Training parameters: one table, checked once."""

from bitgrove.params.parameter import Parameter
from bitgrove.params.table import (
    BY_NAME,
    CANONICAL,
    PARAMETERS,
    TrainParams,
    model_params,
    resolve,
)

__all__ = [
    "BY_NAME",
    "CANONICAL",
    "PARAMETERS",
    "Parameter",
    "TrainParams",
    "model_params",
    "resolve",
]
