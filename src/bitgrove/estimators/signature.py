"""The parameters of an estimator: its __init__, its docstring and its other spellings.

All of them are made from the one table, so that a new parameter is an argument of every estimator
that can use it, with its explanation. Receives the class; returns what __init__ stores.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from bitgrove.errors import ParameterError, UnknownParameterError, raise_all
from bitgrove.objectives import Objective
from bitgrove.params import CANONICAL, PARAMETERS, Parameter
from bitgrove.params.peers import check_switch, unknown_name
from bitgrove.params.resolve import own_names

_IMPORTANCE_TYPE = Parameter(
    "importance_type", "choice", "gain",
    "What `feature_importances_` measures: the total gain of a feature's splits, their number, or "
    "the training rows that they divided ('cover').",
    "Estimators", choices=("gain", "split", "cover"),
)  # fmt: skip
_WARM_START = Parameter(
    "warm_start", "bool", False,
    "Go on from the last fit: its trees stay, and fit adds those that `n_estimators` has more.",
    "Estimators",
)  # fmt: skip
_VALIDATION_FRACTION = Parameter(
    "validation_fraction", "float", None,
    "With `early_stopping_rounds` and without `eval_set`: the part of the rows that fit keeps "
    "away from training to judge it. Drawn by `random_state`, the same part of each class.",
    "Estimators", low_open=True, high=0.9, optional=True,
)  # fmt: skip
_CATEGORICAL_FEATURES = Parameter(
    "categorical_features", "object", "auto",
    "Which columns are categories: 'auto' (text and category types of data frames), a list of "
    "names or positions, or None. LightGBM `categorical_feature`.", "Estimators", optional=True,
)  # fmt: skip
# The parameters that every estimator has beside those of the table.
OF_ALL = (_IMPORTANCE_TYPE, _WARM_START, _VALIDATION_FRACTION, _CATEGORICAL_FEATURES)


def table_of(
    objectives: Iterable[type[Objective]], own: Iterable[Parameter]
) -> dict[str, Parameter]:
    """The parameters that some of these objectives use, and an estimator's own."""
    names = [objective.name for objective in objectives]
    used = [p for p in PARAMETERS if set(names) & set(p.objectives) and p.type != "callable"]
    found = {p.name: p for p in (*used, *own)}
    found["objective"] = replace(found["objective"], choices=names)
    return found


def make_init(parameters: Mapping[str, Parameter]) -> Callable[..., None]:
    """__init__ with every parameter as a keyword; it takes their other spellings, too."""

    def __init__(self: Any, **given: Any) -> None:
        found = main_names(type(self).__name__, parameters, given)
        for p in parameters.values():
            setattr(self, p.name, found.get(p.name, p.default))

    keyword, positional = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [inspect.Parameter("self", positional)]
    shown += [inspect.Parameter(p.name, keyword, default=p.default) for p in parameters.values()]
    __init__.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return __init__


def main_names(
    owner: str, parameters: Mapping[str, Parameter], given: Mapping[str, Any]
) -> dict[str, Any]:
    """What was given, by main names; switches of other libraries that change nothing are left out.

    Values are not looked at: that is for fit.
    """
    found: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    problems: list[Exception] = []
    canonical = {**CANONICAL, **own_names(given)}
    for name, value in given.items():
        main = canonical.get(name, name)
        if main in parameters:
            first = spelled.setdefault(main, name)
            if first != name and not _alike(found[main], value):
                problems.append(ParameterError(
                    f"{first!r} and {name!r} are the same parameter but have different values: "
                    f"{found[main]!r} and {value!r}"
                ))  # fmt: skip
            found[main] = value
            continue
        try:
            if main in CANONICAL:
                raise UnknownParameterError(f"{owner} has no parameter {name!r}")
            if not check_switch(name, value):
                raise UnknownParameterError(f"{owner}: {unknown_name(name)}")
        except ParameterError as error:
            problems.append(error)
    raise_all(problems)
    return found


def _alike(one: object, other: object) -> bool:
    return one is other or bool(type(one) is type(other) and repr(one) == repr(other))


def docstring(summary: str, parameters: Mapping[str, Parameter]) -> str:
    """The class's own words, the table as NumPy's docstrings have it, the class's examples."""
    words, _, examples = inspect.cleandoc(summary).partition("\n\nExamples\n--------\n")
    lines = [words, "", "Parameters", "----------"]
    for p in parameters.values():
        lines.append(f"{p.name} : {p.allowed}, default={p.default!r}")
        text = p.doc + (f" Also called: {', '.join(p.aliases)}." if p.aliases else "")
        lines += textwrap.wrap(text, 96, initial_indent="    ", subsequent_indent="    ")
    lines += [
        "",
        "Attributes",
        "----------",
        "model_ : Model",
        "    The trained model, which predicts and saves itself.",
        "n_iter_ : int",
        "    Boosting iterations of the model.",
        "best_iteration_ : int or None",
        "    The iteration that early stopping found best.",
        "best_score_, evals_result_ : dict",
        "    The metrics of the kept iteration, and of all of them, by eval set and metric.",
        "feature_importances_ : array, a value for each feature",
        "    Each feature's share of the total; see `importance_type`.",
        "n_features_in_ : int",
        "    The number of features.",
        "feature_names_in_ : array",
        "    Their names, where the training table had some.",
    ]
    if examples:
        lines += ["", "Examples", "--------", examples]
    return "\n".join(lines)
