"""The arguments of train(), as people type them.

Owns the spellings: parameters as keywords, XGBoost's `evals`, `evals_result`, `verbose_eval` and
`xgb_model`, schedules that come as callbacks. Receives them; returns Arguments in our own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bitgrove.callbacks import Callback, log_evaluation, record_evaluation
from bitgrove.data.dataset import Dataset
from bitgrove.errors import DataTypeError, ParameterError
from bitgrove.machine.files import PathLike
from bitgrove.model.model import Model
from bitgrove.params import CANONICAL, TrainParams

_HARMLESS = ("keep_training_booster",)


@dataclass
class Arguments:
    """What train() was asked for, apart from the training set and the ranks."""

    params: Mapping[str, Any] | TrainParams
    valid_sets: Sequence[Dataset]
    valid_names: Sequence[str] | None
    callbacks: list[Callback]
    init_model: Model | PathLike | None
    resume_from: Model | PathLike | None


def understood(
    params: Mapping[str, Any] | TrainParams, named: Mapping[str, Any], more: Mapping[str, Any]
) -> Arguments:
    """`named`: arguments of train() by name; `more`: the other keywords it was given."""
    params = dict(params) if isinstance(params, (list, tuple)) else params  # XGBoost's pairs
    left = {name: value for name, value in more.items() if name not in _HARMLESS}
    callbacks = list(named["callbacks"] or [])
    sets, names = named["valid_sets"], named["valid_names"]
    sets = _one("evals", left.pop("evals", None) or None, "valid_sets", sets)
    sets = [] if sets is None else [sets] if isinstance(sets, Dataset) else list(sets)
    if sets and all(isinstance(pair, tuple) and len(pair) == 2 for pair in sets):  # XGBoost's
        sets, names = [dataset for dataset, _ in sets], [name for _, name in sets]
    if not all(isinstance(dataset, Dataset) for dataset in sets):
        raise DataTypeError("valid_sets must be a Dataset or a list of them")
    result = left.pop("evals_result", None)
    if result is not None:
        callbacks.append(record_evaluation(result))
    period = left.pop("verbose_eval", None)
    if period:
        callbacks.append(log_evaluation(1 if period is True else period))
    init_model = _one("init_model", named["init_model"], "xgb_model", left.pop("xgb_model", None))
    if init_model is not None and named["resume_from"] is not None:
        raise ParameterError("init_model and resume_from exclude each other")
    for callback in callbacks:
        left.update(getattr(callback, "parameters", {}))
    if named["num_boost_round"] is not None:
        left["num_boost_round"] = named["num_boost_round"]
    joined = _joined(params, left)
    return Arguments(joined, sets, names, callbacks, init_model, named["resume_from"])


def _one(name: str, value: Any, other: str, other_value: Any) -> Any:
    if value is not None and other_value is not None:
        raise ParameterError(f"{name} and {other} are the same argument; give one of them")
    return other_value if value is None else value


def _joined(params: Mapping[str, Any] | TrainParams, more: Mapping[str, Any]) -> Any:
    """One mapping of all parameters; the keywords of a checked TrainParams replace its values."""
    if not more:
        return params
    if isinstance(params, TrainParams):
        main = {CANONICAL.get(name, name): value for name, value in more.items()}
        return {**vars(params), **main}
    twice = [name for name in more if name in params and params[name] != more[name]]
    if twice:
        raise ParameterError(
            f"{twice[0]!r} is given twice: {params[twice[0]]!r} and {more[twice[0]]!r}"
        )
    return {**params, **more}
