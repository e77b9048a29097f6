"""scikit-learn's HistGradientBoosting, from a fitted estimator.

Its splits compare as ours do, unseen levels follow missing ones as here, and leaf values are added
in the order of the trees, in float64: scores are equal bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import DataTypeError
from bitgrove.model.exchange.incoming import Category, Found, LevelSet, model_of
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.objectives import OBJECTIVES, SYNONYMS, Multiclass


def model_of_estimator(estimator: Any) -> Model:
    """The model; DataTypeError if it is not a fitted HistGradientBoosting estimator."""
    kinds = [kind.__name__ for kind in type(estimator).__mro__]
    if not {"HistGradientBoostingClassifier", "HistGradientBoostingRegressor"} & set(kinds):
        raise DataTypeError(
            "import_model: a file, or a HistGradientBoosting estimator of scikit-learn, got "
            f"{type(estimator).__name__}"
        )
    if not hasattr(estimator, "_predictors"):
        raise DataTypeError(f"import_model: this {type(estimator).__name__} is not fitted yet")
    n_features, k = estimator.n_features_in_, estimator.n_trees_per_iteration_
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    names = names or [f"f{i}" for i in range(n_features)]
    column, categories = _columns(estimator, names)
    loss = str(estimator.loss)
    objective = Multiclass.name if k > 1 else SYNONYMS.get(loss, loss)
    kind = OBJECTIVES[objective]
    params: dict[str, Any] = kind.class_settings(k)
    if "quantile_alpha" in kind.parameters():
        params["quantile_alpha"] = [float(estimator.quantile)]
    predictors = [one for iteration in estimator._predictors for one in iteration]
    base = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    found = Found(objective, [_tree(one.nodes, column) for one in predictors], base, names, params)
    found.sets = {number: _sets(one) for number, one in enumerate(predictors)}
    found.categories = categories
    found.classes = getattr(estimator, "classes_", None)
    return model_of(found)


def _columns(estimator: Any, names: list[str]) -> tuple[NDArray[np.int64], dict[int, Category]]:
    """The feature of each column that its trees see (categories come first), and the levels."""
    if estimator._preprocessor is None:
        return np.arange(len(names)), {}
    is_category = np.asarray(estimator.is_categorical_, dtype=np.bool_)
    column = np.concatenate([np.flatnonzero(is_category), np.flatnonzero(~is_category)])
    listed = estimator._preprocessor.named_transformers_["encoder"].categories_
    categories = {}
    for f, values in zip(np.flatnonzero(is_category).tolist(), listed, strict=True):
        present = [v for v in values.tolist() if v is not None and v == v]  # a missing one is last
        categories[f] = Category.of_list(names[f], present)
    return column, categories


def _tree(nodes: NDArray[Any], column: NDArray[np.int64]) -> Tree:
    is_leaf = nodes["is_leaf"].astype(np.bool_)
    splits, leaves = nodes[~is_leaf], nodes[is_leaf]
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    return Tree(
        feature=column[splits["feature_idx"]].astype(np.int32),
        split_bin=splits["bin_threshold"].astype(np.uint8),
        threshold=splits["num_threshold"].astype(np.float64),
        default_left=splits["missing_go_to_left"].astype(np.uint8),
        left=number[splits["left"]].astype(np.int32),
        right=number[splits["right"]].astype(np.int32),
        gain=splits["gain"].clip(0.0),
        split_rows=splits["count"].astype(np.int64),
        split_hess=splits["count"].astype(np.float64),
        leaf_value=leaves["value"].astype(np.float64),
        leaf_rows=leaves["count"].astype(np.int64),
        leaf_hess=leaves["count"].astype(np.float64),
    )


def _sets(predictor: Any) -> dict[int, LevelSet]:
    splits = predictor.nodes[~predictor.nodes["is_leaf"].astype(np.bool_)]
    found = {}
    for i in np.flatnonzero(splits["is_categorical"]).tolist():
        words = predictor.raw_left_cat_bitsets[splits["bitset_idx"][i]].astype("<u4")
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        default = bool(splits["missing_go_to_left"][i])
        found[i] = LevelSet(np.flatnonzero(bits), default, default)
    return found
