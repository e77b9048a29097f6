"""LightGBM's text format, version 4.

A split compares as ours does, and leaf values are added in the order of the trees, in float64: raw
scores are equal bit for bit. The base score is a first iteration of trees without splits. A line
`bitgrove=`, which LightGBM skips, holds what the format has no place for: names of classes, levels
and parameters as we know them, so that a file that we wrote comes back as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.levels import Levels
from bitgrove.errors import ModelFormatError, ParameterError
from bitgrove.model.exchange.formats import Format, register
from bitgrove.model.exchange.incoming import Category, Found, LevelSet, model_of
from bitgrove.model.exchange.outgoing import (
    Outgoing,
    Subset,
    cells_of,
    is_own_cell,
    node_values,
)
from bitgrove.model.forest_checks import refuse
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.objectives import OBJECTIVES, SYNONYMS
from bitgrove.params import BY_NAME, CANONICAL, changed_params, plain
from bitgrove.params.parameter import checked

_CATEGORICAL, _DEFAULT_LEFT, _MISSING_SHIFT = 1, 2, 2  # bits of decision_type
_MISSING_NONE, _MISSING_ZERO, _MISSING_NAN = 0, 1, 2
_ZERO = 1.0000000180025095e-35  # LightGBM takes smaller values for zero
_DTYPES = {"text": "O", "integer": "i8", "real": "f8"}


@register
class LightGBM(Format):
    name = "lightgbm"
    extensions = (".txt", ".lgb", ".lightgbm")

    def recognises(self, data: bytes) -> bool:
        return data[:5] in (b"tree\n", b"tree\r")

    def write(self, model: Outgoing) -> bytes:
        writer = _Writer(model)
        trees = list(writer.trees())
        importances = model.model.feature_importance("split")
        used = [f"{name}={int(n)}" for name, n in zip(writer.names, importances, strict=True) if n]
        parts = [
            *writer.header(),
            f"tree_sizes={' '.join(str(len(text)) for text in trees)}",
            "",
            "".join(trees) + "end of trees",
            "",
            "feature_importances:",
            *used,
            "",
            "parameters:",
            "[boosting: gbdt]",
            f"[objective: {writer.objective}]",
            "",
            "end of parameters",
            "",
            f"pandas_categorical:{writer.pandas_categorical()}",
            "",
        ]
        return "\n".join(parts).encode()

    def read(self, data: bytes) -> Model:
        return model_of(_Reader(data.decode("utf-8", "replace")).found())


class _Writer:
    def __init__(self, model: Outgoing) -> None:
        self.model, self.objective = model, model.peer_objective("lightgbm")
        self.names = _plain_names(model.model.feature_names)

    def header(self) -> list[str]:
        model, k = self.model, self.model.n_outputs
        words = [self.objective]
        if k > 1 and self.objective != "custom":
            words.append(f"num_class:{k}")
        if model.link.slope != 1.0 or self.objective in ("binary", "multiclassova"):
            words.append(f"sigmoid:{model.link.slope!r}")
        return [
            "tree",
            "version=v4",
            f"num_class={k}",
            f"num_tree_per_iteration={k}",
            "label_index=0",
            f"max_feature_idx={len(self.names) - 1}",
            f"objective={' '.join(words)}",
            f"feature_names={' '.join(self.names)}",
            f"feature_infos={' '.join(self._infos())}",
            f"bitgrove={_note(model)}",
        ]

    def _infos(self) -> Iterator[str]:
        """The range of thresholds of a number, the cells of a category."""
        n_features = len(self.names)
        low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        for tree in self.model.trees:
            feature = self.model.features(tree)
            np.minimum.at(low, feature, tree.threshold)
            np.maximum.at(high, feature, tree.threshold)
        for f in range(n_features):
            if f in self.model.cells:
                yield ":".join(map(str, [-1, *self.model.cells[f].tolist()]))
            else:
                yield f"[{low[f]!r}:{high[f]!r}]" if low[f] <= high[f] else "none"

    def pandas_categorical(self) -> str:
        """The levels that stand as their numbers in a table, for LightGBM's Python package."""
        named = [v for _, v in sorted(self.model.levels.items()) if not is_own_cell(v)]
        return json.dumps([levels.values.tolist() for levels in named] if named else None)

    def trees(self) -> Iterator[str]:
        base = self.model.base_score.tolist()
        number = 0
        if any(base) or not self.model.trees:
            for value in base:
                yield _block(number, {"num_leaves": [1], "num_cat": [0], "leaf_value": [value]})
                number += 1
        for tree in self.model.trees:
            yield _block(number, self._fields(tree, number))
            number += 1

    def _fields(self, tree: Tree, number: int) -> dict[str, Sequence[Any]]:
        if tree.n_splits == 0:
            return {"num_leaves": [1], "num_cat": [0], "leaf_value": tree.leaf_value.tolist()}
        left, right = tree.left.copy(), tree.right.copy()
        threshold = tree.threshold.copy()
        decision = tree.default_left * _DEFAULT_LEFT + (_MISSING_NAN << _MISSING_SHIFT)
        subsets, words, ends = self.model.subsets(tree), [], [0]
        feature = self.model.features(tree)
        for index, (i, subset) in enumerate(subsets.items()):
            goes_left = _without_others(subset, number, self.names[feature[i]])
            if subset.unseen_left:  # what is not in LightGBM's set goes right
                left[i], right[i] = tree.right[i], tree.left[i]
            words += _words(self.model.cells[int(feature[i])][goes_left])
            ends.append(len(words))
            threshold[i], decision[i] = index, _CATEGORICAL
        cats = {"cat_boundaries": ends, "cat_threshold": words} if subsets else {}
        return {
            "num_leaves": [tree.n_leaves],
            "num_cat": [len(subsets)],
            "split_feature": feature.tolist(),
            "split_gain": tree.gain.tolist(),
            "threshold": threshold.tolist(),
            "decision_type": decision.tolist(),
            "left_child": left.tolist(),
            "right_child": right.tolist(),
            "leaf_value": tree.leaf_value.tolist(),
            "leaf_weight": tree.leaf_hess.tolist(),
            "leaf_count": tree.leaf_rows.tolist(),
            "internal_value": node_values(tree).tolist(),
            "internal_weight": tree.split_hess.tolist(),
            "internal_count": tree.split_rows.tolist(),
            **cats,
            "split_bin": tree.split_bin.tolist(),
            "exchanged": [i for i, subset in subsets.items() if subset.unseen_left],
        }


def _block(number: int, fields: Mapping[str, Sequence[Any]]) -> str:
    lines = [f"{key}={' '.join(map(repr, values))}" for key, values in fields.items()]
    return "\n".join([f"Tree={number}", *lines, "is_linear=0", "shrinkage=1", "", "", ""])


def _without_others(subset: Subset, tree: int, name: str) -> NDArray[np.bool_]:
    """The levels that are to go left, where all others, missing ones too, go right."""
    if subset.missing_left != subset.unseen_left:
        raise ParameterError(
            f"lightgbm: tree {tree} sends missing values of {name!r} another way than levels that "
            "training has not seen; LightGBM cannot tell them apart"
        )
    return ~subset.left if subset.unseen_left else subset.left


def _words(cells: NDArray[np.int64]) -> list[int]:
    """A set of bits in 32-bit words; at least one."""
    bits = np.zeros((int(cells.max(initial=0)) // 32 + 1) * 32, dtype=np.bool_)
    bits[cells] = True
    return np.packbits(bits, bitorder="little").view("<u4").tolist()


def _plain_names(names: Sequence[str]) -> list[str]:
    """Names are separated by spaces: what is white becomes an underscore."""
    plain = [re.sub(r"\s", "_", name) or "_" for name in names]
    if len(set(plain)) != len(plain):
        twice = next(name for name in plain if plain.count(name) > 1)
        raise ParameterError(f"lightgbm: two features would be called {twice!r}; rename one")
    return plain


def _note(model: Outgoing) -> str:
    """What only we know, as JSON without an equals sign, at which LightGBM cuts lines."""
    own = model.model
    note = {
        "best_iteration": own.best_iteration,
        "classes": None if model.raw_score else own.classes,
        "classes_dtype": None if model.raw_score else own.classes_dtype,
        "feature_names": own.feature_names,
        "levels": {str(f): [v.kind, v.values.tolist()] for f, v in model.levels.items()},
        "objective": "custom" if model.raw_score else own.objective,
        "params": {} if model.raw_score else changed_params(own.params),
    }
    return json.dumps(note, sort_keys=True).replace("=", "\\u003d")


class _Reader:
    """A file in parts: header, trees and what follows; every line is gone through once."""

    def __init__(self, text: str) -> None:
        self.header: dict[str, str] = {}
        self.trees: list[dict[str, str]] = []
        self.settings: dict[str, str] = {}
        self.pandas: list[Any] | None = None
        part = self.header
        for line in map(str.rstrip, text.split("\n")):
            key, _, value = line.partition("=")
            if key == "Tree":
                part = {}
                self.trees.append(part)
            elif line == "end of trees":
                part = {}  # importances, which splits tell as well
            elif line.startswith("[") and line.endswith("]"):
                name, _, setting = line[1:-1].partition(": ")
                self.settings[name] = setting
            elif line.startswith("pandas_categorical:"):
                self.pandas = _json(line.partition(":")[2])
            elif line:
                part[key] = value
        self.note: Any = _json(self.header["bitgrove"]) if "bitgrove" in self.header else None

    def found(self) -> Found:
        objective, params = self._objective()
        k = int(self.header["num_tree_per_iteration"])
        if not 1 <= k <= max(len(self.trees), 1):
            refuse(f"{k} trees in each iteration, but there are {len(self.trees)}")
        names = self.header["feature_names"].split()
        if len(names) != int(self.header["max_feature_idx"]) + 1:
            refuse(f"{len(names)} feature names, but the last feature has another number")
        read = [_read_tree(fields) for fields in self.trees]
        trees, sets = [tree for tree, _ in read], [of_tree for _, of_tree in read]
        if "average_output" in self.header:
            share = max(len(trees) // k, 1)
            trees = [replace(tree, leaf_value=tree.leaf_value / share) for tree in trees]
            params = {**params, "boosting_type": "rf"}
        found = Found(objective, trees, np.zeros(k), names, params)
        found.sets = {number: of_tree for number, of_tree in enumerate(sets) if of_tree}
        if self.note is not None:
            found.feature_names, found.params = self.note["feature_names"], self.note["params"]
            found.best_iteration = self.note["best_iteration"]
            found.classes = self.note["classes"]
            found.classes_dtype = self.note["classes_dtype"]
        found.categories = self._categories(names, trees, sets)
        return found

    def _objective(self) -> tuple[str, dict[str, Any]]:
        """Our objective, and those of its parameters that the file knows."""
        if self.note is not None:
            return str(self.note["objective"]), {}
        name, *words = self.header.get("objective", "custom").split() or ["custom"]
        ours = SYNONYMS.get(name, name)
        if ours not in OBJECTIVES or "sqrt" in words:
            refuse(f"objective {' '.join([name, *words])[:60]!r} has no counterpart here")
        kind, params = OBJECTIVES[ours], {}
        told = {**self.settings, **dict(word.partition(":")[::2] for word in words)}
        for key, text in told.items():
            own = kind.spellings.get(key, CANONICAL.get(key, key))
            if own in kind.parameters() and own in BY_NAME:
                with suppress(ValueError):
                    number: float | int = int(text) if text.isdigit() else float(text)
                    params[own] = plain(checked(BY_NAME[own], number))
        return ours, params

    def _categories(
        self, names: list[str], trees: list[Tree], sets: list[dict[int, LevelSet]]
    ) -> dict[int, Category]:
        if self.note is not None:
            given = {int(f): Levels(kind, np.array(values, dtype=_DTYPES[kind]))
                     for f, (kind, values) in self.note["levels"].items()}  # fmt: skip
            return {f: Category.of_levels(v, cells_of(v)) for f, v in given.items()}
        infos = self.header.get("feature_infos", "").split()
        known = {f: info for f, info in enumerate(infos) if re.fullmatch(r"-?\d+(:-?\d+)*", info)}
        seen: dict[int, list[NDArray[np.int64]]] = {f: [] for f in known}
        for tree, of_tree in zip(trees, sets, strict=True):
            for i, found in of_tree.items():
                seen.setdefault(int(tree.feature[i]), []).append(found.cells)
        if self.pandas:
            return self._named(names, sorted(seen), infos)
        for f, info in known.items():
            cells = np.array(info.split(":"), dtype=np.int64)
            seen[f].append(cells[cells >= 0])
        return {f: Category.of_numbers(np.concatenate(v)) for f, v in sorted(seen.items())}

    def _named(self, names: list[str], known: list[int], infos: list[str]) -> dict[int, Category]:
        """Levels in the order of the columns that pandas says are categories."""
        assert self.pandas is not None
        if len(known) != len(self.pandas):  # some may have one level only, which no tree uses
            known = sorted({*known, *(f for f, info in enumerate(infos) if info == "none")})
        if len(known) != len(self.pandas):
            refuse(
                f"pandas_categorical lists the levels of {len(self.pandas)} columns, but other "
                "columns are categories too; the file does not say which is which"
            )
        pairs = zip(known, self.pandas, strict=True)
        return {f: Category.of_list(names[f], values) for f, values in pairs}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"a line is not JSON: {error}") from None


def _read_tree(fields: Mapping[str, str]) -> tuple[Tree, dict[int, LevelSet]]:
    value = _floats(fields, "leaf_value")
    n_leaves, n_splits = len(value), len(value) - 1
    if int(fields["num_leaves"]) != n_leaves or n_leaves == 0:
        refuse(f"a tree has {n_leaves} leaf values, but says {fields['num_leaves'][:20]}")
    if fields.get("is_linear", "0") != "0":
        refuse("trees with linear leaves (linear_tree) have no counterpart here")
    decision = _ints(fields, "decision_type", n_splits, 0, 255)
    threshold = _floats(fields, "threshold", n_splits)
    is_set = (decision & _CATEGORICAL) > 0
    default_left = ((decision & _DEFAULT_LEFT) > 0) & ~is_set
    missing = decision >> _MISSING_SHIFT
    default_left = np.where(missing == _MISSING_NONE, threshold >= 0.0, default_left)
    by_zero = (missing == _MISSING_ZERO) & ~is_set
    if (by_zero & np.where(default_left, threshold < _ZERO, threshold >= -_ZERO)).any():
        refuse("a split sends zeros another way than their value (zero_as_missing)")
    sets = _read_sets(fields, np.flatnonzero(is_set), threshold)
    left, right = (
        _ints(fields, f"{s}_child", n_splits, -n_leaves, n_splits) for s in ("left", "right")
    )
    exchanged = _ints(fields, "exchanged", None, 0, n_splits - 1) if "exchanged" in fields else []
    for i in exchanged:
        left[i], right[i] = right[i], left[i]
        sets[i] = sets[i].exchanged()
    tree = Tree(
        feature=_ints(fields, "split_feature", n_splits, 0, 2**31 - 1).astype(np.int32),
        split_bin=_ints(fields, "split_bin", n_splits, 0, 255, missing=True).astype(np.uint8),
        threshold=np.where(is_set, 0.0, threshold),
        default_left=np.where(is_set, 0, default_left).astype(np.uint8),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        gain=np.nan_to_num(_floats(fields, "split_gain", n_splits)).clip(0.0),
        split_rows=_ints(fields, "internal_count", n_splits, 0, 2**62, missing=True),
        split_hess=_floats(fields, "internal_weight", n_splits, missing=True),
        leaf_value=value,
        leaf_rows=_ints(fields, "leaf_count", n_leaves, 0, 2**62, missing=True),
        leaf_hess=_floats(fields, "leaf_weight", n_leaves, missing=True),
    )
    return tree, sets


def _read_sets(
    fields: Mapping[str, str], splits: NDArray[np.intp], threshold: NDArray[np.float64]
) -> dict[int, LevelSet]:
    """The cells that go left in each split of a category; no set is used twice."""
    if len(splits) == 0:
        return {}
    words = _ints(fields, "cat_threshold", None, 0, 2**32 - 1).astype("<u4")
    ends = _ints(fields, "cat_boundaries", None, 0, len(words))
    number = threshold[splits].astype(np.int64)
    if (number < 0).any() or (number >= len(ends) - 1).any() or len(set(number)) != len(number):
        refuse("a split has a set of levels that there is not, or that of another split")
    if (np.diff(ends) < 0).any():
        refuse("cat_boundaries do not increase")
    found = {}
    for i, k in zip(splits.tolist(), number.tolist(), strict=True):
        bits = np.unpackbits(words[ends[k] : ends[k + 1]].view(np.uint8), bitorder="little")
        found[i] = LevelSet(np.flatnonzero(bits), False, False)
    return found


def _floats(
    fields: Mapping[str, str], key: str, n: int | None = None, missing: bool = False
) -> NDArray[np.float64]:
    """The numbers of a line; missing: zeros stand for a line that is not there."""
    if n == 0 or (missing and not fields.get(key)):
        return np.zeros(n or 0)
    found = np.array(fields[key].split(), dtype=np.float64)
    if n is not None and len(found) != n:
        refuse(f"{key} has {len(found)} values, expected {n}")
    return found


def _ints(
    fields: Mapping[str, str], key: str, n: int | None, low: int, high: int, missing: bool = False
) -> NDArray[np.int64]:
    if n == 0 or (missing and not fields.get(key)):
        return np.zeros(n or 0, dtype=np.int64)
    found = np.array(fields[key].split(), dtype=np.int64)
    if n is not None and len(found) != n:
        refuse(f"{key} has {len(found)} values, expected {n}")
    if len(found) and (found.min() < low or found.max() > high):
        refuse(f"{key}: a value is not in {low}..{high}")
    return found
