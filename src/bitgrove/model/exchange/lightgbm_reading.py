"""The reading half of LightGBM's text format: lines become trees, sets of levels and parameters.

Every line is gone through once, every length and number is checked, and no set is used twice: time
and memory grow with the size of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import ModelFormatError
from bitgrove.model.exchange.incoming import Category, Found, LevelSet, with_note
from bitgrove.model.forest_checks import refuse
from bitgrove.model.tree import Tree
from bitgrove.objectives import OBJECTIVES, SYNONYMS, Custom
from bitgrove.params import BY_NAME, CANONICAL, plain
from bitgrove.params.parameter import checked

CATEGORICAL, DEFAULT_LEFT, MISSING_SHIFT = 1, 2, 2  # bits of decision_type
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2
_ZERO = 1.0000000180025095e-35  # LightGBM takes smaller values for zero


class LightGBMText:
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
        if "bitgrove" in self.header:
            return with_note(found, _json(self.header["bitgrove"]))
        found.categories = self._categories(names, trees, sets)
        return found

    def _objective(self) -> tuple[str, dict[str, Any]]:
        """Our objective, and those of its parameters that the file knows."""
        if "bitgrove" in self.header:
            return Custom.name, {}  # the note knows better
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
    is_set = (decision & CATEGORICAL) > 0
    default_left = ((decision & DEFAULT_LEFT) > 0) & ~is_set
    missing = decision >> MISSING_SHIFT
    default_left = np.where(missing == MISSING_NONE, threshold >= 0.0, default_left)
    by_zero = (missing == MISSING_ZERO) & ~is_set
    if (by_zero & np.where(default_left, threshold < _ZERO, threshold >= -_ZERO)).any():
        refuse("a split sends zeros another way than their value (zero_as_missing)")
    sets = _read_sets(fields, np.flatnonzero(is_set), threshold)
    left, right = (
        _ints(fields, f"{s}_child", n_splits, -n_leaves, n_splits) for s in ("left", "right")
    )
    for i in _ints(fields, "exchanged", None, 0, n_splits - 1, missing=True).tolist():
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
