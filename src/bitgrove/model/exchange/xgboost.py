"""XGBoost's JSON and UBJSON, as versions 2 and 3 write them.

XGBoost compares float32 values by `<` and adds float32 leaf values: thresholds are rounded so that
every float32 row goes the way it goes here, and scores agree up to the rounding of their sums
(docs/export.md states the bound). The base score is a first iteration of trees without splits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.levels import TEXT
from bitgrove.model.exchange.documents import read_json, read_ubjson, write_json, write_ubjson
from bitgrove.model.exchange.formats import Format, register
from bitgrove.model.exchange.incoming import Category, Found, LevelSet, model_of
from bitgrove.model.exchange.outgoing import Outgoing, node_values
from bitgrove.model.forest_checks import refuse
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.objectives import OBJECTIVES, SYNONYMS

F32, F64 = NDArray[np.float32], NDArray[np.float64]
_NO_PARENT = 2147483647
# Objectives of theirs that need a place for their parameters, and ours that go there.
_PARAMETERS = {
    "count:poisson": ("poisson_regression_param", ()),
    "reg:tweedie": ("tweedie_regression_param", ("tweedie_variance_power",)),
    "reg:quantileerror": ("quantile_loss_param", ("quantile_alpha",)),
    "multi:softprob": ("softmax_multiclass_param", ()),
}
_SCORES = ("binary:logitraw", "reg:squaredlogerror")  # their predictions are the scores
_LEAST_FEATURES = 1 << 16  # what a small file may say without naming them


class _XGBoost(Format):
    library = "xgboost"

    def write(self, model: Outgoing) -> bytes:
        return self.packed(_document(model))

    def read(self, data: bytes) -> Model:
        return model_of(_Reader(self.unpacked(data), len(data)).found())

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


# ---------------------------------------------------------------- out


def _document(model: Outgoing) -> dict[str, Any]:
    name, k = model.peer_objective("xgboost"), model.n_outputs
    n_features, slope = model.model.n_features, model.link.slope
    first = [_leaf(n_features, base * slope) for base in model.base_score.tolist()]
    if not any(model.base_score) and model.trees:
        first = []
    trees = first + [_tree(model, tree, slope) for tree in model.trees]
    for number, tree in enumerate(trees):
        tree["id"] = number
    is_softmax = name == "multi:softprob"
    zero = "5E-1" if name in ("binary:logistic", "reg:logistic") else "0E0"
    if model.link.is_logarithm and not is_softmax and zero == "0E0":
        zero = "1E0"  # the prediction whose score is zero
    n_iterations = len(trees) // k
    return {
        "learner": {
            "attributes": {},
            "feature_names": list(model.model.feature_names),
            "feature_types": ["c" if f in model.levels else "float" for f in range(n_features)],
            "gradient_booster": {
                "model": {
                    "cats": _levels_out(model),
                    "gbtree_model_param": {
                        "num_parallel_tree": "1",
                        "num_trees": str(len(trees)),
                    },
                    "iteration_indptr": [i * k for i in range(n_iterations + 1)],
                    "tree_info": [number % k for number in range(len(trees))],
                    "trees": trees,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": f"[{','.join([zero] * k)}]",
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
    place, names = _PARAMETERS.get(name, ("reg_loss_param", ()))
    values = {key: _parameter_text(model.model.params[key]) for key in names}
    if name == "multi:softprob":
        values["num_class"] = str(model.n_outputs)
    return {"name": name, place: values}


def _parameter_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else repr(value)


def _levels_out(model: Outgoing) -> dict[str, Any]:
    """Text that stands as its number in a table; XGBoost finds it in columns of pandas by this."""
    entries: list[dict[str, Any]] = []
    sizes, order = [0], []
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
    n, leaves = tree.n_splits, tree.leaf_value * slope
    if n == 0:
        return _leaf(model.model.n_features, float(leaves[0]))
    left_of, right_of = tree.left.copy(), tree.right.copy()
    default_left = tree.default_left.copy()
    feature, condition = model.features(tree), less_than(tree.threshold)
    sets: dict[int, NDArray[np.int64]] = {}
    for i, subset in model.subsets(tree).items():
        goes_right, default_left[i] = ~subset.left, subset.missing_left
        if not subset.unseen_left:  # what is not in XGBoost's set goes left
            left_of[i], right_of[i] = tree.right[i], tree.left[i]
            goes_right, default_left[i] = subset.left, not subset.missing_left
        cells = model.cells[int(feature[i])][goes_right]
        condition[i] = np.inf if len(cells) == 0 else 0.0  # all but missing ones go left
        if len(cells):
            sets[i] = cells
    node = np.zeros(n, dtype=np.int64)
    node_of_leaf = np.zeros(n + 1, dtype=np.int64)
    parent = np.full(2 * n + 1, _NO_PARENT)
    for side, child in ((1, left_of), (2, right_of)):
        place, is_leaf = 2 * np.arange(n) + side, child < 0
        node[child[~is_leaf]] = place[~is_leaf]
        node_of_leaf[~child[is_leaf]] = place[is_leaf]
    parent[1::2] = parent[2::2] = node
    whole = lambda dtype=np.float64, fill=0: np.full(2 * n + 1, fill, dtype=dtype)  # noqa: E731
    parts = {"left": whole(fill=-1), "right": whole(fill=-1), "feature": whole(),
             "condition": whole(), "value": whole(), "default_left": whole(), "gain": whole(),
             "hess": whole()}  # fmt: skip
    of_splits = {"left": 2 * np.arange(n) + 1, "right": 2 * np.arange(n) + 2, "feature": feature,
                 "condition": condition, "default_left": default_left, "gain": tree.gain,
                 "hess": tree.split_hess, "value": node_values(tree) * slope}  # fmt: skip
    of_leaves = {"condition": leaves, "value": leaves, "hess": tree.leaf_hess}
    for name, values in of_splits.items():
        parts[name][node] = values
    for name, values in of_leaves.items():
        parts[name][node_of_leaf] = values
    by_node = {int(node[i]): cells for i, cells in sets.items()}
    return _nodes(
        model.model.n_features, parent=parent, sets=dict(sorted(by_node.items())), **parts
    )


def _nodes(n_features: int, sets: Mapping[int, NDArray[np.int64]], **parts: Any) -> dict[str, Any]:
    sizes = [len(cells) for cells in sets.values()]
    kinds = np.zeros(len(parts["left"]), dtype=np.uint8)
    kinds[list(sets)] = 1
    f32 = {name: _f32(parts[name]) for name in ("value", "gain", "condition", "hess")}
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


def _f32(values: F64) -> F32:
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


def less_than(threshold: F64) -> F64:
    """A float32 is less than this, a float32 too, iff it is at most the threshold."""
    below = _f32(threshold)
    with np.errstate(over="ignore"):  # after the largest float32 comes infinity
        below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
        return np.nextafter(below, np.float32(np.inf)).astype(np.float64)


def at_most(condition: F32) -> F64:
    """A float64 that is at most this becomes, as float32, less than the condition; others not.

    It is the middle between the condition and the float32 before it, or just below: values in the
    middle become the one of the two whose last bit is zero.
    """
    with np.errstate(over="ignore"):
        before = np.nextafter(condition, np.float32(-np.inf))
    high = np.where(np.isposinf(condition), 2.0**128, condition.astype(np.float64))
    low = np.where(np.isneginf(before), -(2.0**128), before.astype(np.float64))
    middle = low / 2 + high / 2
    even = before.view(np.uint32) % 2 == 0
    return np.where(even, middle, np.nextafter(middle, -np.inf))


# ---------------------------------------------------------------- in


class _Reader:
    def __init__(self, document: Any, n_bytes: int) -> None:
        learner = document["learner"]
        self.learner, booster = learner, learner["gradient_booster"]
        if booster["name"] not in ("gbtree", "dart"):
            refuse(f"booster {str(booster['name'])[:20]!r} has no trees")
        self.model = (booster if booster["name"] == "gbtree" else booster["gbtree"])["model"]
        self.weights = _floats(booster["weight_drop"]) if booster["name"] == "dart" else None
        settings = learner["learner_model_param"]
        self.n_features = int(settings["num_feature"])
        if not 1 <= self.n_features <= max(n_bytes, _LEAST_FEATURES):
            refuse(f"{self.n_features} features")
        self.n_outputs = max(int(settings["num_class"]), int(settings.get("num_target", 1)), 1)
        self.names = list(map(str, learner.get("feature_names") or ()))
        if not self.names:
            self.names = [f"f{i}" for i in range(self.n_features)]
        if len(self.names) != self.n_features:
            refuse(f"{len(self.names)} feature names for {self.n_features} features")
        self.types = learner.get("feature_types") or ()

    def found(self) -> Found:
        trees, sets = self._in_order(*self._trees())
        if self.n_outputs > max(len(trees), 1):
            refuse(f"{self.n_outputs} outputs, but there are {len(trees)} trees")
        objective, params = self._objective()
        found = Found(objective, trees, self._base(objective, params), self.names, params)
        found.sets = {number: of_tree for number, of_tree in enumerate(sets) if of_tree}
        found.categories = self._categories(trees, sets)
        return found

    def _objective(self) -> tuple[str, dict[str, Any]]:
        given = self.learner["objective"]
        name = str(given["name"])
        ours = "custom" if name in _SCORES else SYNONYMS.get(name)
        if ours is None:
            refuse(f"objective {name[:60]!r} has no counterpart here")
        kind = OBJECTIVES[ours]
        params: dict[str, Any] = kind.class_settings(self.n_outputs)
        place, names = _PARAMETERS.get(name, ("", ()))
        for key in names:
            value = json.loads(str(given[place][key]))
            params[key] = value
        return ours, params

    def _base(self, objective: str, params: Mapping[str, Any]) -> list[float]:
        """Base scores are predictions there; the first tree may hold them instead."""
        given = json.loads(str(self.learner["learner_model_param"]["base_score"]))
        values = [float(v) for v in given] if isinstance(given, list) else [float(given)]
        if len(values) == 1:
            values *= self.n_outputs
        if len(values) != self.n_outputs:
            refuse(f"{len(values)} base scores for {self.n_outputs} outputs")
        link = OBJECTIVES[objective].for_model(params, self.n_outputs).link
        return [link.score(value) for value in values]

    def _trees(self) -> tuple[list[Tree], list[dict[int, LevelSet]], list[int]]:
        """All trees, their sets and their outputs; one of vectors becomes one for each output."""
        given, info = self.model["trees"], _ints(self.model["tree_info"]).tolist()
        if len(info) != len(given):
            refuse(f"{len(given)} trees, but outputs of {len(info)}")
        trees, sets, outputs = [], [], []
        for number, one in enumerate(given):
            weight = 1.0 if self.weights is None else float(self.weights[number])
            made, of_tree = _read_tree(one, weight)
            trees += made
            sets += [of_tree] * len(made)
            outputs += [info[number]] if len(made) == 1 else range(len(made))
        return trees, sets, outputs

    def _in_order(
        self, trees: list[Tree], sets: list[dict[int, LevelSet]], outputs: list[int]
    ) -> tuple[list[Tree], list[dict[int, LevelSet]]]:
        """The trees of all outputs in turns; those of one output keep their order."""
        k = self.n_outputs
        queues: list[list[int]] = [[] for _ in range(min(k, max(len(trees), 1)))]
        for number, output in enumerate(outputs):
            if not 0 <= output < len(queues):
                refuse(f"tree {number} adds to output {output}")
            queues[output].append(number)
        if len({len(queue) for queue in queues}) > 1:
            refuse("outputs have different numbers of trees")
        order = [number for turn in zip(*queues, strict=True) for number in turn]
        return [trees[i] for i in order], [sets[i] for i in order]

    def _categories(
        self, trees: list[Tree], sets: list[dict[int, LevelSet]]
    ) -> dict[int, Category]:
        seen: dict[int, list[NDArray[np.int64]]] = {
            f: [] for f, kind in enumerate(self.types) if kind == "c"
        }
        for tree, of_tree in zip(trees, sets, strict=True):
            for i, found in of_tree.items():
                seen.setdefault(int(tree.feature[i]), []).append(found.cells)
        listed = (self.model.get("cats") or {}).get("enc") or ()
        if seen and max(seen) >= self.n_features:
            refuse("a category is none of the features")
        return {f: self._category(f, listed, cells) for f, cells in sorted(seen.items())}

    def _category(self, f: int, listed: Any, cells: list[NDArray[np.int64]]) -> Category:
        entry = listed[f] if f < len(listed) else {}
        values = _ints(entry.get("values", ()))
        if "offsets" in entry and len(entry["offsets"]):
            content = (values % 256).astype(np.uint8).tobytes()
            ends = _ints(entry["offsets"]).tolist()
            if min(ends) < 0 or sorted(ends) != ends or ends[-1] > len(content):
                refuse("the ends of texts do not increase")
            texts = [content[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)]
            return Category.of_list(self.names[f], texts)
        if len(values):
            return Category.of_list(self.names[f], values.tolist())
        # How many levels there are is not said: as many as a set can tell apart.
        usual = np.arange(255)
        return Category.of_numbers(np.concatenate([usual, *cells]))


def _read_tree(given: Mapping[str, Any], weight: float) -> tuple[list[Tree], dict[int, LevelSet]]:
    left, right = _ints(given["left_children"]), _ints(given["right_children"])
    n_nodes, condition = len(left), _floats(given["split_conditions"]).astype(np.float32)
    hess, gain = _floats(given["sum_hessian"]), _floats(given["loss_changes"])
    default_left = _ints(given["default_left"])
    feature = _ints(given["split_indices"])
    arrays = (right, condition, hess, gain, default_left, feature)
    if n_nodes == 0 or any(len(array) != n_nodes for array in arrays):
        refuse("the nodes of a tree have parts of different lengths")
    is_split = left != -1
    splits = np.flatnonzero(is_split)
    splits = splits[np.argsort(left[splits], kind="stable")]  # in the order of their growth
    children = np.concatenate([left[splits], right[splits]])
    if len(children) and not (children.min() > 0 and children.max() < n_nodes):
        refuse("a child is none of the nodes")
    leaves = np.flatnonzero(~is_split)
    leaves = leaves[np.isin(leaves, children)] if len(splits) else leaves[:1]  # others were pruned
    number = np.zeros(n_nodes, dtype=np.int64)
    number[splits], number[leaves] = np.arange(len(splits)), ~np.arange(len(leaves))
    if len(splits) and number[0] != 0:
        refuse("the root of a tree is the child of another node")
    values = _leaf_values(given, condition, right, leaves) * weight
    rows = np.rint(hess).clip(1.0, 2.0**53).astype(np.int64)  # the file has no counts
    sets = _read_sets(given, number, is_split, default_left)
    shared = Tree(
        feature=feature[splits].astype(np.int32),
        split_bin=np.zeros(len(splits), dtype=np.uint8),
        threshold=at_most(condition[splits]),
        default_left=(default_left[splits] != 0).astype(np.uint8),
        left=number[left[splits]].astype(np.int32),
        right=number[right[splits]].astype(np.int32),
        gain=np.nan_to_num(gain[splits]).clip(0.0),
        split_rows=rows[splits],
        split_hess=hess[splits],
        leaf_value=values[:, 0],
        leaf_rows=rows[leaves],
        leaf_hess=hess[leaves],
    )
    return [replace(shared, leaf_value=column) for column in values.T], sets


def _leaf_values(
    given: Mapping[str, Any], condition: F32, right: NDArray[np.int64], leaves: NDArray[np.intp]
) -> F64:
    """(n_leaves, n_outputs)."""
    size = int(given["tree_param"].get("size_leaf_vector", 1))
    if size <= 1:
        return condition[leaves].astype(np.float64)[:, None]
    if "leaf_weights" not in given:
        refuse("leaves of vectors without leaf_weights: save the model with a newer XGBoost")
    weights = _floats(given["leaf_weights"])
    at = right[leaves]
    if len(weights) % size or len(leaves) == 0 or at.min() < 0 or at.max() >= len(weights) // size:
        refuse("a leaf's vector is none of the leaf_weights")
    return weights.reshape(-1, size)[at]


def _read_sets(
    given: Mapping[str, Any],
    number: NDArray[np.int64],
    is_split: NDArray[np.bool_],
    default_left: NDArray[np.int64],
) -> dict[int, LevelSet]:
    names = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    nodes, starts, sizes, cells = (_ints(given.get(name, ())) for name in names)
    if not len(nodes) == len(starts) == len(sizes) or len(set(nodes.tolist())) != len(nodes):
        refuse("the sets of a tree have parts of different lengths, or one node has two")
    if len(sizes) and (sizes.min() < 0 or starts.min() < 0 or int(sizes.sum()) > len(cells)):
        refuse("the sets of a tree hold more levels than there are")
    kinds = _ints(given.get("split_type", ()))
    if (
        (np.flatnonzero(kinds) != np.sort(nodes)).any()
        if np.count_nonzero(kinds) == len(nodes)
        else True
    ):
        refuse("a split is by a set, but has none")
    found = {}
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        if start + size > len(cells) or not is_split[node]:
            refuse("a set has levels that there are not, or belongs to a leaf")
        members = cells[start : start + size]
        missing_left = bool(default_left[node])
        found[int(number[node])] = LevelSet(members, missing_left, True, others=True)
    return found


def _floats(values: Any) -> F64:
    """Of float32, whichever way they are written."""
    return _f32(np.array(values, dtype=np.float64).reshape(-1)).astype(np.float64)


def _ints(values: Any) -> NDArray[np.int64]:
    """Whole numbers, also where they are written as floats or booleans."""
    found = np.array(values)
    if len(found) and found.dtype.kind not in "biuf":
        refuse("a list of numbers holds something else")
    whole = found.astype(np.int64)
    if (whole != found).any():
        refuse("a whole number was expected")
    return whole
