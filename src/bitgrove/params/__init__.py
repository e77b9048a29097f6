"""Training parameters: one table, checked once."""

from bitgrove.params.defaults import (
    DEFAULTS_VERSION,
    changed_params,
    complete_params,
    model_params,
    plain,
)
from bitgrove.params.parameter import Parameter
from bitgrove.params.resolve import resolve
from bitgrove.params.table import BY_NAME, CANONICAL, PARAMETERS, TrainParams

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
    "plain",
    "resolve",
]
