"""XGBoost's JSON and UBJSON, as versions 2 and 3 write them.

XGBoost compares float32 values by `<` and adds float32 leaf values: thresholds are rounded so that
every float32 row goes the way it goes here, and scores agree up to the rounding of their sums
(docs/export.md states the bound). The base score is a first iteration of trees without splits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.levels import TEXT
from bitgrove.model.exchange.documents import read_json, read_ubjson, write_json, write_ubjson
from bitgrove.model.exchange.formats import Format, register
from bitgrove.model.exchange.incoming import model_of
from bitgrove.model.exchange.outgoing import Outgoing, node_values
from bitgrove.model.exchange.xgboost_reading import PARAMETERS, XGBoostDocument, as_float32
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree

F64 = NDArray[np.float64]
_NO_PARENT = 2147483647


class _XGBoost(Format):
    library = "xgboost"

    def write(self, model: Outgoing) -> bytes:
        return self.packed(_document(model))

    def read(self, data: bytes) -> Model:
        return model_of(XGBoostDocument(self.unpacked(data), len(data)).found())

    def packed(self, document: Any) -> bytes:
        raise NotImplementedError

    def unpacked(self, data: bytes) -> Any:
        raise NotImplementedError


@register
class XGBoostJson(_XGBoost):
    name = "xgboost"
    extensions = (".json",)

    def recognises(self, data: bytes) -> bool:
        start = data[:4096].lstrip()
        return start[:1] == b"{" and b'"learner"' in start

    def packed(self, document: Any) -> bytes:
        return write_json(document).encode()

    def unpacked(self, data: bytes) -> Any:
        return read_json(data)


@register
class XGBoostUbjson(_XGBoost):
    name = "xgboost_ubj"
    extensions = (".ubj",)

    def recognises(self, data: bytes) -> bool:
        return data[:1] == b"{" and data[1:2] in b"iUIlL" and b"learner" in data[:32]

    def packed(self, document: Any) -> bytes:
        return write_ubjson(document)

    def unpacked(self, data: bytes) -> Any:
        return read_ubjson(data)


def _document(model: Outgoing) -> dict[str, Any]:
    name, k = model.peer_objective("xgboost"), model.n_outputs
    n_features, slope = model.model.n_features, model.link.slope
    base = (model.base_score * slope).tolist() if model.needs_base_trees else []
    first = [_leaf(n_features, value) for value in base]
    trees = first + [_tree(model, tree, slope) for tree in model.trees]
    for number, tree in enumerate(trees):
        tree["id"] = number
    is_softmax = name == "multi:softprob"
    # Base scores are predictions, here the one whose score is zero; of softmax they are scores.
    zero = 0.0 if is_softmax else float(model.link.predictions(np.zeros((1, 1)))[0])
    return {
        "learner": {
            "attributes": {"bitgrove": model.note(exact=False, without=("sigmoid",))},
            "feature_names": model.model.feature_names if model.model.has_names else [],
            "feature_types": ["c" if f in model.levels else "float" for f in range(n_features)],
            "gradient_booster": {
                "model": {
                    "cats": _levels_out(model),
                    "gbtree_model_param": {
                        "num_parallel_tree": "1",
                        "num_trees": str(len(trees)),
                    },
                    "iteration_indptr": [i * k for i in range(len(trees) // k + 1)],
                    "tree_info": [number % k for number in range(len(trees))],
                    "trees": trees,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": json.dumps([zero] * k),
                "boost_from_average": "1",
                "num_class": str(k if is_softmax else 0),
                "num_feature": str(n_features),
                "num_target": str(1 if is_softmax else k),
            },
            "objective": _objective_out(model, name),
        },
        "version": [3, 0, 0],
    }


def _objective_out(model: Outgoing, name: str) -> dict[str, Any]:
    place, names = PARAMETERS.get(name, ("reg_loss_param", ()))
    values = {key: _parameter_text(model.model.params[key]) for key in names}
    if name == "multi:softprob":
        values["num_class"] = str(model.n_outputs)
    return {"name": name, place: values}


def _parameter_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else repr(value)


def _levels_out(model: Outgoing) -> dict[str, Any]:
    """Text that stands as its number in a table; XGBoost finds it in columns of pandas by this."""
    entries: list[dict[str, Any]] = []
    sizes = [0]
    order: list[int] = []
    for f in range(model.model.n_features):
        levels = model.levels.get(f)
        texts = [] if levels is None or levels.kind != TEXT else levels.values.tolist()
        if not all(text.isascii() for text in texts):
            texts = []  # XGBoost counts their letters, but compares their bytes
        content = "".join(texts).encode()
        entries.append({
            "offsets": _i32(np.cumsum([0, *map(len, texts)]) if texts else []),
            "values": np.frombuffer(content, dtype=np.int8),
        })  # fmt: skip
        sizes.append(len(texts))
        order += range(len(texts))
    if not any(sizes):
        entries, sizes = [], []
    return {"enc": entries, "feature_segments": _i32(np.cumsum(sizes)), "sorted_idx": _i32(order)}


def _i32(values: Any) -> NDArray[np.int32]:
    return np.asarray(values, dtype=np.int32)


def _leaf(n_features: int, value: float) -> dict[str, Any]:
    """A tree without splits."""
    zero = np.zeros(1)
    return _nodes(n_features, left=zero - 1, right=zero - 1, parent=zero + _NO_PARENT, feature=zero,
                  condition=zero + value, value=zero + value, default_left=zero, gain=zero,
                  hess=zero + 1, sets={})  # fmt: skip


def _tree(model: Outgoing, tree: Tree, slope: float) -> dict[str, Any]:
    """The children of split i are the nodes 2 i + 1 and 2 i + 2."""
    n, leaf_value = tree.n_splits, tree.leaf_value * slope
    if n == 0:
        return _leaf(model.model.n_features, float(leaf_value[0]))
    left, right, default_left = tree.left.copy(), tree.right.copy(), tree.default_left.copy()
    feature, condition = model.features(tree), less_than(tree.threshold)
    sets: dict[int, NDArray[np.int64]] = {}
    for i, subset in model.subsets(tree).items():
        goes_right, default_left[i] = ~subset.left, subset.missing_left
        if not subset.unseen_left:  # what is not in XGBoost's set goes left
            left[i], right[i] = tree.right[i], tree.left[i]
            goes_right, default_left[i] = subset.left, not subset.missing_left
        cells = model.cells[int(feature[i])][goes_right]
        condition[i] = 0.0 if len(cells) else np.inf  # all but missing ones go left
        if len(cells):
            sets[i] = cells
    node, leaf_node = np.zeros(n, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    first = 2 * np.arange(n) + 1
    for place, child in ((first, left), (first + 1, right)):
        node[child[child >= 0]] = place[child >= 0]
        leaf_node[~child[child < 0]] = place[child < 0]
    of_nodes: dict[str, tuple[Any, Any]] = {
        "left": (first, -1),
        "right": (first + 1, -1),
        "feature": (feature, 0),
        "condition": (condition, leaf_value),
        "value": (node_values(tree) * slope, leaf_value),
        "default_left": (default_left, 0),
        "gain": (tree.gain, 0.0),
        "hess": (tree.split_hess, tree.leaf_hess),
    }
    parts = {name: np.zeros(2 * n + 1) for name in of_nodes}
    for name, (of_splits, of_leaves) in of_nodes.items():
        parts[name][node], parts[name][leaf_node] = of_splits, of_leaves
    parent = np.full(2 * n + 1, _NO_PARENT)
    parent[1::2] = parent[2::2] = node
    by_node = sorted((int(node[i]), cells) for i, cells in sets.items())
    return _nodes(model.model.n_features, dict(by_node), parent=parent, **parts)


def _nodes(n_features: int, sets: Mapping[int, NDArray[np.int64]], **parts: Any) -> dict[str, Any]:
    sizes = [len(cells) for cells in sets.values()]
    kinds = np.zeros(len(parts["left"]), dtype=np.uint8)
    kinds[list(sets)] = 1
    f32 = {name: as_float32(parts[name]) for name in ("value", "gain", "condition", "hess")}
    return {
        "base_weights": f32["value"],
        "categories": _i32(np.concatenate([[], *sets.values()])),
        "categories_nodes": _i32(list(sets)),
        "categories_segments": (np.cumsum(sizes) - sizes).astype(np.int64),
        "categories_sizes": np.array(sizes, dtype=np.int64),
        "default_left": parts["default_left"].astype(np.uint8),
        "id": 0,
        "left_children": _i32(parts["left"]),
        "loss_changes": f32["gain"],
        "parents": _i32(parts["parent"]),
        "right_children": _i32(parts["right"]),
        "split_conditions": f32["condition"],
        "split_indices": _i32(parts["feature"]),
        "split_type": kinds,
        "sum_hessian": f32["hess"],
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(kinds)),
            "size_leaf_vector": "1",
        },
    }


def less_than(threshold: F64) -> F64:
    """A float32 is less than this, a float32 too, iff it is at most the threshold."""
    below = as_float32(threshold)
    with np.errstate(over="ignore"):  # after the largest float32 comes infinity
        below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
        return np.nextafter(below, np.float32(np.inf)).astype(np.float64)
