"""From what the user wrote to checked parameters.

Receives any mapping of parameters, by any of their names; returns a frozen `TrainParams`, or raises
one ParameterError that names everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

from bitgrove.errors import ParameterError, Problems, raise_all
from bitgrove.objectives import Custom, objective_of, written_out
from bitgrove.objectives.metrics import judged_by, make_metric
from bitgrove.params.parameter import NO_METRIC, checked
from bitgrove.params.peers import check_switch, unknown_name
from bitgrove.params.table import BY_NAME, CANONICAL, PARAMETERS, TrainParams

_DEFAULTS = {p.name: p.default for p in PARAMETERS}
# What was resolved is frozen, and need not be again; a copy with other values must.
_CHECKED: WeakValueDictionary[int, TrainParams] = WeakValueDictionary()


def resolve(params: Mapping[str, object] | TrainParams | None = None) -> TrainParams:
    """Defaults, aliases, types, bounds and rules between parameters; ParameterError otherwise."""
    if isinstance(params, TrainParams) and _CHECKED.get(id(params)) is params:
        return params
    given = (
        vars(params)
        if isinstance(params, TrainParams)
        else with_shorthands(with_function(params or {}))
    )
    own = own_names(given)
    canonical = {**CANONICAL, **own} if own else CANONICAL
    values: dict[str, Any] = dict(_DEFAULTS)
    spelled: dict[str, str] = {}
    problems: list[Exception] = []
    for name, value in given.items():
        try:
            if name not in canonical:
                if check_switch(name, value):
                    continue
                raise ParameterError(unknown_name(name))
            parameter = BY_NAME[canonical[name]]
            first = spelled.setdefault(parameter.name, name)
            # Most are: an estimator hands over all of its parameters.
            is_default = value is parameter.default
            value_found = value if is_default else checked(parameter, value)
            if first != name and values[parameter.name] != value_found:
                raise ParameterError(
                    f"{first!r} and {name!r} are the same parameter but have different values: "
                    f"{given[first]!r} and {value!r}"
                )
            values[parameter.name] = value_found
        except ParameterError as error:
            problems.append(error)
    with_rates = Problems()
    with with_rates.collect():
        values["learning_rate"] = _rates(values["learning_rate"], values["n_estimators"])
    raise_all([*problems, *with_rates.found, *_contradictions(values)])
    found = TrainParams(**values)
    _CHECKED[id(found)] = found
    return found


def with_function(params: Mapping[str, Any]) -> dict[str, Any]:
    """A function as the objective is an objective of its own, and its function."""
    given = dict(params)
    for name in [n for n, v in given.items() if CANONICAL.get(n) == "objective" and callable(v)]:
        given["objective_function"] = given.pop(name)
        given["objective"] = Custom.name
    return given


def with_shorthands(params: Mapping[str, Any]) -> dict[str, Any]:
    """Values that stand for several parameters become these."""
    given = dict(params)
    for name, value in params.items():
        if not isinstance(value, str) or not (meaning := _meaning(name, value)):
            continue
        del given[name]
        for full, meant in meaning.items():
            parameter, wanted = BY_NAME[full], checked(BY_NAME[full], meant)
            for other in [n for n in given if CANONICAL.get(n) == full]:
                if checked(parameter, given.pop(other)) not in (wanted, parameter.default):
                    raise ParameterError(f"{name}={value!r}: not together with {other}")
            given[full] = wanted
    return given


def _meaning(name: str, value: str) -> Mapping[str, object]:
    """The parameters that a value of this one stands for; none if it is a value of its own."""
    main = CANONICAL.get(name)
    if main == "objective":
        return written_out(value)
    return BY_NAME[main].shorthands.get(value, {}) if main is not None else {}


def own_names(given: Mapping[str, Any]) -> Mapping[str, str]:
    """Names that mean something of their own with the objective that is given."""
    for name, value in given.items():
        if CANONICAL.get(name) == "objective" and isinstance(value, str):
            objective = objective_of(value)
            return {} if objective is None else objective.spellings
    return {}


def _rates(rate: Any, n_iterations: int) -> Any:
    """A schedule as one rate for each iteration; a single rate as it is."""
    if callable(rate):
        asked = [rate(iteration) for iteration in range(n_iterations)]
        return checked(BY_NAME["learning_rate"], asked)
    if isinstance(rate, tuple) and len(rate) != n_iterations:
        raise ParameterError(
            f"learning_rate: {len(rate)} values for {n_iterations} iterations (n_estimators)"
        )
    return rate


def _contradictions(values: Mapping[str, Any]) -> Iterator[ParameterError]:
    """Rules between parameters: what has no meaning is refused, not ignored."""
    changed = [p for p in PARAMETERS if values[p.name] != p.default]
    for p in changed:
        for other, wanted in p.only_with.items():
            if values[other] != wanted:
                yield ParameterError(
                    f"{p.name}={values[p.name]!r} has no meaning with {other}={values[other]!r}; "
                    f"it belongs to {wanted!r}"
                )
    objective = values["objective"]
    if objective is None:
        return
    for p in changed:
        if objective not in p.objectives:
            yield ParameterError(
                f"{p.name}={values[p.name]!r} has no meaning for objective={objective!r}; "
                f"it belongs to {' and '.join(p.objectives)}"
            )
    if values["eval_metric"] == NO_METRIC:
        if values["early_stopping_rounds"] is not None:
            yield ParameterError("early_stopping_rounds: needs a metric, and eval_metric is 'None'")
        return
    for name in values["eval_metric"] or ():
        fits = judged_by(make_metric(name)) if isinstance(name, str) else (objective,)
        if objective not in fits:
            yield ParameterError(
                f"eval_metric={name!r} cannot judge objective={objective!r}; "
                f"it belongs to {' and '.join(fits)}"
            )
