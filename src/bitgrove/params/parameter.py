"""One parameter: what it is called, what it may be, and how a given value is checked.

Receives what the user wrote for it; returns the value in its Python type, or a ParameterError that
says what is allowed. The table of all parameters is table.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bitgrove.errors import ParameterError
from bitgrove.objectives import owners
from bitgrove.objectives.metrics import METRICS, make_metric, own_name

Kind = Literal[
    "int", "float", "bool", "choice", "metrics", "floats", "schedule", "callable", "object",
    "directions", "groups",
]  # fmt: skip

_WORDS = {
    "callable": "a function",
    "object": "an object",
    "bool": "True or False",
    "directions": "a list with -1, 0 or 1 for each feature, or a dict of them by name",
    "groups": "a list of lists of features (numbers or names), or 'no_interactions'",
}
MANY = 2**31 - 1  # every count crosses into the kernels as a C integer


@dataclass(frozen=True)
class Parameter:
    """One row of the table. Bounds of numbers are inclusive unless `low_open`."""

    name: str
    type: Kind
    default: object
    doc: str
    group: str
    aliases: tuple[str, ...] = ()
    low: float = 0
    high: float | None = None
    low_open: bool = False
    reason: str = ""  # of the bounds, where users come with others
    choices: Collection[str] = ()
    synonyms: Mapping[object, object] = field(default_factory=dict)  # other spellings of a value
    hints: Mapping[str, str] = field(default_factory=dict)  # what others' values could mean here
    # Values that stand for those of several parameters.
    shorthands: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    optional: bool = False  # None is a value of its own
    one_or_more: bool = False  # a single number stands for a list of one
    or_bool: bool = False  # True and False stand for 1 and 0
    affects_model: bool = True
    # Values of other parameters, without which a value other than the default has no meaning.
    only_with: Mapping[str, object] = field(default_factory=dict)

    @property
    def objectives(self) -> tuple[str, ...]:
        """Where a value other than the default has a meaning: with the objectives that own it."""
        return owners(self.name)

    @property
    def allowed(self) -> str:
        """What may be given, in words."""
        if self.type == "choice":
            text = "one of " + ", ".join(repr(choice) for choice in self.choices)
        elif self.type == "metrics":
            with_argument = [f"{n}@{m.argument}" for n, m in METRICS.items() if m.argument]
            text = (
                f"a name, a function or a list of them; the names are {', '.join(METRICS)} and "
                f"{', '.join(with_argument)}"
            )
        elif self.type == "floats":
            text = "a number or a list of them" if self.one_or_more else "a list of finite numbers"
            text += self._bounds
        elif self.type in _WORDS:
            text = _WORDS[self.type]
        else:
            text = ("an integer" if self.type == "int" else "a finite number") + self._bounds
        if self.type == "schedule":
            text += ", a list of them, or a function of the iteration"
        others = [value for value in self.synonyms if not isinstance(value, str)]
        return " or ".join([text, *map(repr, [None, *others] if self.optional else others)])

    @property
    def _bounds(self) -> str:
        text = f" {'>' if self.low_open else '>='} {self.low}" if self.low > -MANY else ""
        return text + ("" if self.high in (None, MANY) else f" and <= {self.high}")


def checked(parameter: Parameter, value: object) -> object:
    """`value` as the parameter's Python type, or a ParameterError that says what is allowed."""
    plain = value.item() if isinstance(value, np.generic) else value
    if parameter.or_bool and isinstance(plain, bool):
        plain = int(plain)
    # True == 1 and 1.0 == 1 in a dict: only these types may be looked up as a synonym.
    if plain is None or type(plain) in (str, int):
        plain = parameter.synonyms.get(plain, plain)
    if (plain is None or _says_nothing(parameter, plain)) and parameter.optional:
        return None
    found = _CONVERT[parameter.type](parameter, plain)
    if found is None and parameter.type != "object":
        here = parameter.hints.get(plain) if isinstance(plain, str) else None
        hint = f"; use {parameter.name}={here!r}" if here else ""
        raise ParameterError(
            f"{parameter.name}={value!r}: must be {parameter.allowed}{parameter.reason}{hint}"
        )
    return found


def _says_nothing(parameter: Parameter, value: Any) -> bool:
    """Rules of features, but of none: "" and [] are what LightGBM's defaults look like."""
    is_empty = isinstance(value, (str, list, tuple, dict)) and len(value) == 0
    return is_empty and parameter.type in ("directions", "groups")


def _to_int(parameter: Parameter, value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if _in_bounds(parameter, value) else None


def _to_float(parameter: Parameter, value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and _in_bounds(parameter, number) else None


def _to_bool(parameter: Parameter, value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _to_choice(parameter: Parameter, value: object) -> str | None:
    name = re.sub(":[0-9]+$", ":0", value) if isinstance(value, str) else None  # any number
    return str(value) if name in parameter.choices else None


NO_METRIC = ("None",)
_NAMES_OF_NO_METRIC = ("None", "none", "na", "null", "custom")  # LightGBM's


def _to_metrics(parameter: Parameter, value: object) -> tuple[Any, ...] | None:
    names = [value] if isinstance(value, str) or callable(value) else value
    if isinstance(names, (set, frozenset)):  # as in LightGBM's examples; the first may decide
        names = sorted(names, key=lambda name: getattr(name, "__name__", str(name)))
    if not isinstance(names, (list, tuple)) or not names:
        return None
    if len(names) == 1 and isinstance(names[0], str) and names[0] in _NAMES_OF_NO_METRIC:
        return NO_METRIC
    known = [own_name(name) if isinstance(name, str) else name for name in names]
    return tuple(dict.fromkeys(known)) if all(map(_is_metric, known)) else None


def _to_floats(parameter: Parameter, value: object) -> tuple[float, ...] | None:
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if parameter.one_or_more and isinstance(items, (int, float)):
        items = [items]
    if not isinstance(items, (list, tuple)) or not items:
        return None
    numbers = [_to_float(parameter, x.item() if isinstance(x, np.generic) else x) for x in items]
    found = tuple(x for x in numbers if x is not None)
    return found if len(found) == len(numbers) else None


def _to_callable(parameter: Parameter, value: object) -> object:
    return value if callable(value) else None


def _to_schedule(parameter: Parameter, value: object) -> object:
    """A number, a list of them, or a function, which resolve() asks for all iterations."""
    if callable(value):
        return value
    return _to_float(parameter, value) or _to_floats(parameter, value)


def _to_object(parameter: Parameter, value: object) -> object:
    return value


_PAIR = re.compile(r"\s*([^:,]+?)\s*:\s*([+-]?\d+)\s*")


def _to_directions(parameter: Parameter, value: object) -> tuple[Any, ...] | None:
    """Of all features in their order, or (name, direction) of some; "1,-1,0" and "a:1,b:-1" too."""
    if isinstance(value, str):
        words = value.strip("()[] ").split(",")
        pairs = [_PAIR.fullmatch(word) for word in words]
        value = [(m[1], int(m[2])) for m in pairs if m is not None]
        if len(value) != len(words):
            value = [int(w) for w in words if re.fullmatch(r"\s*[+-]?[01]\s*", w)]
            if len(value) != len(words):
                return None
    items = list(value.items()) if isinstance(value, Mapping) else _as_list(value)
    if not items:
        return None
    if all(isinstance(item, (list, tuple)) and len(item) == 2 for item in items):
        names = [_feature(name) for name, _ in items]
        numbers = [_direction(direction) for _, direction in items]
        return None if None in names + numbers else tuple(zip(names, numbers, strict=True))
    found = tuple(_direction(item) for item in items)
    return None if None in found else found


def _to_groups(parameter: Parameter, value: object) -> Any:
    """A tuple of tuples of features; "[0,1],[2]" as LightGBM's command line has it."""
    if value == "no_interactions":
        return value
    if isinstance(value, str):
        inner = re.findall(r"\[([^\[\]]*)\]", value)
        words = [[w.strip().strip("'\"") for w in group.split(",")] for group in inner]
        value = [[int(w) if w.isdigit() else w for w in group] for group in words]
    groups = [_as_list(group) for group in _as_list(value) or ()]
    if not groups or not all(groups):
        return None
    found = tuple(tuple(_feature(item) for item in group or ()) for group in groups)
    return None if any(None in group or "" in group for group in found) else found


def _as_list(value: object) -> list[Any] | None:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else None


def _feature(value: object) -> int | str | None:
    """The number or the name of a feature."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _direction(value: object) -> int | None:
    value = value.item() if isinstance(value, np.generic) else value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and value in (-1, 0, 1) else None  # type: ignore[call-overload, no-any-return]


_CONVERT: dict[str, Callable[[Parameter, object], object]] = {
    "int": _to_int, "float": _to_float, "bool": _to_bool, "choice": _to_choice,
    "metrics": _to_metrics, "floats": _to_floats, "schedule": _to_schedule,
    "callable": _to_callable, "object": _to_object, "directions": _to_directions,
    "groups": _to_groups,
}  # fmt: skip


def _in_bounds(parameter: Parameter, value: float) -> bool:
    above = value > parameter.low if parameter.low_open else value >= parameter.low
    return above and (parameter.high is None or value <= parameter.high)


def _is_metric(name: object) -> bool:
    if not isinstance(name, str):
        return callable(name)
    try:
        make_metric(name)
    except KeyError:
        return False
    return True
