"""Training parameters: one table, checked once."""

from bitgrove.params.defaults import (
    DEFAULTS_VERSION,
    changed_params,
    complete_params,
    model_params,
)
from bitgrove.params.parameter import Parameter
from bitgrove.params.table import BY_NAME, CANONICAL, PARAMETERS, TrainParams, resolve

__all__ = [
    "BY_NAME",
    "CANONICAL",
    "DEFAULTS_VERSION",
    "PARAMETERS",
    "Parameter",
    "TrainParams",
    "changed_params",
    "complete_params",
    "model_params",
    "resolve",
]
