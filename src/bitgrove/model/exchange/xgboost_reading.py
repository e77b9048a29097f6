"""The reading half of XGBoost's formats: a document becomes trees, sets of levels and parameters.

Arrays are checked as a whole: lengths, children, segments of sets. Sums of float32 become sums of
float64 here; thresholds are such that float64 rows go where they would go as float32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.model.exchange.incoming import Category, Found, LevelSet, with_note
from bitgrove.model.forest_checks import refuse
from bitgrove.model.tree import Tree
from bitgrove.objectives import OBJECTIVES, SYNONYMS, Custom

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
# Objectives of theirs that need a place for their parameters, and ours that go there.
PARAMETERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "count:poisson": ("poisson_regression_param", ()),
    "reg:tweedie": ("tweedie_regression_param", ("tweedie_variance_power",)),
    "reg:quantileerror": ("quantile_loss_param", ("quantile_alpha",)),
    "multi:softprob": ("softmax_multiclass_param", ()),
}
_SCORES = ("binary:logitraw", "reg:squaredlogerror")  # their predictions are the scores
_LEAST_FEATURES = 1 << 16  # what a small file may say without naming them


class XGBoostDocument:
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
        attributes = learner.get("attributes") or {}
        self.note = json.loads(attributes["bitgrove"]) if "bitgrove" in attributes else None
        self.types = learner.get("feature_types") or ()

    def found(self) -> Found:
        trees, sets = self._in_order(*self._trees())
        if self.n_outputs > max(len(trees), 1):
            refuse(f"{self.n_outputs} outputs, but there are {len(trees)} trees")
        objective, params = self._objective()
        found = Found(objective, trees, self._base(objective, params), self.names, params)
        found.sets = {number: of_tree for number, of_tree in enumerate(sets) if of_tree}
        if self.note is not None:
            return with_note(found, self.note)
        found.categories = self._categories(trees, sets)
        return found

    def _objective(self) -> tuple[str, dict[str, Any]]:
        given = self.learner["objective"]
        name = str(given["name"])
        ours = Custom.name if name in _SCORES else SYNONYMS.get(name)
        if ours is None:
            refuse(f"objective {name[:60]!r} has no counterpart here")
        kind = OBJECTIVES[ours]
        params: dict[str, Any] = kind.class_settings(self.n_outputs)
        place, names = PARAMETERS.get(name, ("", ()))
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
        trees: list[Tree] = []
        sets: list[dict[int, LevelSet]] = []
        outputs: list[int] = []
        for number, one in enumerate(given):
            weight = 1.0 if self.weights is None else float(self.weights[number])
            # XGBoost takes no unseen levels; what we write sends them left on purpose.
            made, of_tree = _read_tree(one, weight, None if self.note is None else True)
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
            texts = [content[a:b].decode() for a, b in pairwise(ends)]
            return Category.of_list(self.names[f], texts)
        if len(values):
            return Category.of_list(self.names[f], values.tolist())
        # How many levels there are is not said: as many as a set can tell apart.
        usual = np.arange(255)
        return Category.of_numbers(np.concatenate([usual, *cells]))


def _read_tree(
    given: Mapping[str, Any], weight: float, unseen_left: bool | None
) -> tuple[list[Tree], dict[int, LevelSet]]:
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
    unknown = np.zeros(n_nodes, dtype=np.int64)  # counts of rows: the file has none
    found = _read_sets(given, is_split)
    sets = {
        int(number[node]): LevelSet(cells, bool(default_left[node]), unseen_left, others=True)
        for node, cells in found.items()
    }
    shared = Tree(
        feature=feature[splits].astype(np.int32),
        split_bin=np.zeros(len(splits), dtype=np.uint8),
        threshold=at_most(condition[splits]),
        default_left=(default_left[splits] != 0).astype(np.uint8),
        left=number[left[splits]].astype(np.int32),
        right=number[right[splits]].astype(np.int32),
        gain=np.nan_to_num(gain[splits]).clip(0.0),
        split_rows=unknown[splits],
        split_hess=hess[splits],
        leaf_value=values[:, 0],
        leaf_rows=unknown[leaves],
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
    given: Mapping[str, Any], is_split: NDArray[np.bool_]
) -> dict[int, NDArray[np.int64]]:
    """The cells that go right, by node."""
    names = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    nodes, starts, sizes, cells = (_ints(given.get(name, ())) for name in names)
    if not len(nodes) == len(starts) == len(sizes) or len(set(nodes.tolist())) != len(nodes):
        refuse("the sets of a tree have parts of different lengths, or one node has two")
    if len(sizes) and (sizes.min() < 0 or starts.min() < 0 or int(sizes.sum()) > len(cells)):
        refuse("the sets of a tree hold more levels than there are")
    kinds = _ints(given.get("split_type", ()))
    if not np.array_equal(np.flatnonzero(kinds), np.sort(nodes)):
        refuse("a split is by a set, but has none")
    found = {}
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        if start + size > len(cells) or not is_split[node]:
            refuse("a set has levels that there are not, or belongs to a leaf")
        found[node] = cells[start : start + size]
    return found


def _floats(values: Any) -> F64:
    """Of float32, whichever way they are written."""
    return as_float32(np.array(values, dtype=np.float64).reshape(-1)).astype(np.float64)


def _ints(values: Any) -> NDArray[np.int64]:
    """Whole numbers, also where they are written as floats or booleans."""
    # Looked at first: an array of text would be as wide as the longest.
    if not isinstance(values, np.ndarray) and not {type(v) for v in values} <= {int, float, bool}:
        refuse("a list of numbers holds something else")
    found = np.array(values)
    whole = found.astype(np.int64)
    if (whole != found).any():
        refuse("a whole number was expected")
    return whole


def as_float32(values: F64) -> F32:
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


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
