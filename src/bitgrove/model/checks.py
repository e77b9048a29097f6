"""What a Model must be: outputs, names, parameters and class labels that fit together.

Receives the fields of a Model, from training or out of a file that nobody vouches for; raises a
ModelFormatError where they contradict each other; returns labels and objective as it keeps them.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitgrove.errors import ModelFormatError, ParameterError
from bitgrove.objectives import OBJECTIVES, Objective

if TYPE_CHECKING:
    from bitgrove.model.model import Model

# "<U" is text of any width: an array takes that of its longest label. "|O" is an array of objects.
_CLASS_DTYPES = frozenset(
    ["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<U", "|O"]
)
_MAX_LABEL_CELLS = 1 << 24  # classes times the longest label: what an array of them takes
ROOM_FOR_CLASSES = 1 << 23  # bytes of the header: what is left of it is for all else


def check_outputs(model: Model) -> None:
    if model.objective not in OBJECTIVES:
        raise ModelFormatError(f"objective {reprlib.repr(model.objective)} is unknown")
    if model.base_score.ndim != 1:
        raise ModelFormatError("base_score must have one dimension")
    n_outputs, n_trees = model.n_outputs, len(model.trees)
    if not OBJECTIVES[model.objective].allows_outputs(n_outputs):
        raise ModelFormatError(f"objective {model.objective!r} with {n_outputs} outputs")
    if n_trees % n_outputs:
        raise ModelFormatError(f"{n_trees} trees cannot be shared by {n_outputs} outputs")
    best = model.best_iteration
    if best is not None and not 1 <= best <= model.n_iterations:
        raise ModelFormatError(f"best_iteration {best} is not in 1..{model.n_iterations}")


def check_names_and_params(model: Model) -> None:
    if not model.feature_names:
        raise ModelFormatError("there are no features")
    if not all(type(name) is str for name in model.feature_names):
        raise ModelFormatError("a feature name is not a string")
    if len(set(model.feature_names)) != model.n_features:
        raise ModelFormatError("the feature names are not unique")
    for name, value in model.params.items():
        if type(name) is not str:
            raise ModelFormatError(f"the parameter name {reprlib.repr(name)} is not a string")
        for item in _items(value, 2):
            if item is not None and type(item) not in (bool, int, float, str):
                kind = f"a {type(item).__name__}"
            elif type(item) is float and not math.isfinite(item):
                kind = str(item)
            else:
                continue
            raise ModelFormatError(f"parameter {reprlib.repr(name)} holds {kind}")


def _items(value: object, depth: int) -> Iterable[object]:
    """Of a list, and of the lists in it, down to a depth."""
    if depth and isinstance(value, list):
        return chain.from_iterable(_items(item, depth - 1) for item in value)
    return (value,)


def own_objective(model: Model) -> Objective:
    try:
        return OBJECTIVES[model.objective].for_model(model.params, model.n_outputs)
    except ParameterError as error:
        raise ModelFormatError(str(error)) from None


def check_classes(model: Model) -> None:
    if model.classes is not None and len(model.classes) != model.n_classes:
        raise ModelFormatError(
            f"{len(model.classes)} classes, expected {model.n_classes} for {model.objective!r}"
        )


def plain_classes(
    classes: Sequence[Any] | npt.NDArray[Any] | None, dtype: str | None
) -> tuple[list[Any] | None, str | None]:
    """Labels as plain Python values of one type, and a dtype that gives back the same values."""
    if classes is None:
        if dtype is not None:
            raise ModelFormatError("classes_dtype without classes")
        return None, None
    if dtype is None:
        given = np.asarray(classes)
        values, dtype = given.tolist(), _class_dtype(given.dtype)
        is_same = given.ndim == 1 and values == list(classes)  # NumPy turns ["a", 1] into strings
        if dtype not in _CLASS_DTYPES:
            raise ModelFormatError(f"classes of type {given.dtype} cannot be kept")
    else:
        values, is_same = list(classes), True
    kinds = {type(label) for label in values}
    if not is_same or len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise ModelFormatError("classes must all be strings, all integers, all floats or all bools")
    if dtype not in _CLASS_DTYPES:
        raise ModelFormatError(f"classes_dtype {reprlib.repr(dtype)} is unknown")
    if len(set(values)) != len(values):
        raise ModelFormatError("the classes are not unique")
    if str in kinds and len(values) * max(map(len, values)) > _MAX_LABEL_CELLS:
        raise ModelFormatError("the class labels are too long")
    if not _survives(values, dtype):
        raise ModelFormatError(f"the classes cannot be held in classes_dtype {dtype!r}")
    return values, dtype


def check_labels(classes: npt.NDArray[Any]) -> None:
    """Refuses labels of classes that a model file could not hold, before there is a model."""
    values, _ = plain_classes(classes, None)
    try:
        n_bytes = len(json.dumps(values, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise ModelFormatError("a class label is not Unicode text") from None
    if 6 * n_bytes > ROOM_FOR_CLASSES and len(json.dumps(values)) > ROOM_FOR_CLASSES:
        raise ModelFormatError(f"the class labels take more than {ROOM_FOR_CLASSES} bytes")


def _class_dtype(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "U":
        return "<U"
    if dtype.kind == "T":  # NumPy's variable-width strings, which older versions cannot read
        return "|O"
    return str(dtype.newbyteorder("<").str)


def _survives(values: list[Any], dtype: str) -> bool:
    try:
        with np.errstate(all="ignore"):
            back = np.array(values, dtype=dtype).tolist()
    except (ValueError, TypeError, OverflowError):
        return False
    return back == values and [type(label) for label in back] == [type(label) for label in values]
