"""The defaults as model files know them.

Owns: the version of the defaults, what older versions had, and the parameters of a model: all that
shape it, or only those that differ from the defaults, which is what a file holds. So a new
parameter changes no file of a model that does not use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from bitgrove.params.table import PARAMETERS, TrainParams

# Where a default of a parameter that shapes the model changes, add what it was: the first entry
# holds what version 1 had and version 2 has not, the second what version 2 had, and so on.
_OLDER: tuple[Mapping[str, object], ...] = (
    # Without max_delta_step no leaf was bounded, and no objective had a penalty of its own.
    {"max_delta_step": 0.0, "gradient_scale": "max", "reg_lambda": 0.0},
)
DEFAULTS_VERSION = len(_OLDER) + 1


_PLAIN = frozenset((bool, int, float, str, type(None)))


def model_params(params: TrainParams | None = None) -> dict[str, Any]:
    """The parameters that shape the model, as JSON values; None: today's defaults."""
    values = vars(params) if params is not None else {p.name: p.default for p in PARAMETERS}
    return {p.name: plain(values[p.name]) for p in PARAMETERS if p.affects_model}


def complete_params(changed: Mapping[str, Any], version: int | None = None) -> dict[str, Any]:
    """All parameters of a model, from those that differ from the defaults of this version."""
    return {name: plain(value) for name, value in {**_defaults(version), **changed}.items()}


def changed_params(params: Mapping[str, Any], version: int | None = None) -> dict[str, Any]:
    """Those that differ from the defaults of this version (None: today's), in value or type."""
    defaults = _defaults(version)
    return {n: v for n, v in params.items() if n not in defaults or not _same(v, defaults[n])}


@cache
def _defaults(version: int | None) -> dict[str, Any]:
    """Nobody changes them: whoever hands them on makes plain copies."""
    found = model_params()
    for older in reversed(() if version is None else _OLDER[version - 1 :]):
        found.update(older)
    return found


def _same(value: object, default: object) -> bool:
    """Equal, also in type and sign: in Python 1 == 1.0 == True and 0.0 == -0.0."""
    return value is default or (type(value) is type(default) and repr(value) == repr(default))


def plain(value: Any) -> Any:
    """As JSON: lists for tuples, names for functions; a list is a new one."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return getattr(value, "__name__", type(value).__name__) if callable(value) else value
