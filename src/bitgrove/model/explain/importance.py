"""How much each feature matters to a forest, from what its splits recorded, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import DataError, ParameterError

if TYPE_CHECKING:
    from bitgrove.model.model import Model

# What is added up over a feature's splits: a field of Tree; None: one for each.
KINDS: dict[str, str | None] = {"gain": "gain", "split": None, "cover": "split_rows"}


def importance_of(model: Model, kind: str, n_iterations: int) -> NDArray[np.float64]:
    """One number per feature; the columns that a category became count as the category."""
    if kind not in KINDS:
        allowed = ", ".join(map(repr, KINDS))
        raise ParameterError(f"kind={kind!r}: allowed are {allowed}")
    field = KINDS[kind]
    importance = np.zeros(model.n_features)
    for tree in model.trees[: n_iterations * model.n_outputs]:
        feature = tree.feature if model.encoder is None else model.encoder.sources[tree.feature]
        np.add.at(importance, feature, 1.0 if field is None else getattr(tree, field))
    return importance


def thresholds_of(model: Model, feature: str | int, n_iterations: int) -> NDArray[np.float64]:
    """The finite thresholds of a feature's splits, in the order of trees."""
    names = model.feature_names
    if feature not in (names if isinstance(feature, str) else range(len(names))):
        some = ", ".join(map(repr, names[:5]))
        raise DataError(f"feature {feature!r}: the {len(names)} features are {some}, ...")
    index = names.index(feature) if isinstance(feature, str) else int(feature)
    if model.encoder is not None and index in model.encoder.levels:
        raise DataError(f"feature {feature!r} is a category: its splits have no thresholds")
    trees = model.trees[: n_iterations * model.n_outputs]
    found = np.concatenate([np.zeros(0), *(t.threshold[t.feature == index] for t in trees)])
    return found[np.isfinite(found)]
