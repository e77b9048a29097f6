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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import ParameterError
from bitgrove.model.exchange.formats import Format, register
from bitgrove.model.exchange.incoming import model_of
from bitgrove.model.exchange.lightgbm_reading import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_SHIFT,
    LightGBMText,
)
from bitgrove.model.exchange.outgoing import Outgoing, is_own_cell, node_values, with_counts
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree


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
        return model_of(LightGBMText(data.decode("utf-8", "replace")).found())


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
            f"bitgrove={_escaped(model.note(exact=True))}",
        ]

    def _infos(self) -> Iterator[str]:
        """The range of a number's thresholds, the cells of a category."""
        n_features = len(self.names)
        low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        for tree in self.model.trees:
            finite = np.isfinite(tree.threshold)
            feature, threshold = self.model.features(tree)[finite], tree.threshold[finite]
            np.minimum.at(low, feature, threshold)
            np.maximum.at(high, feature, threshold)
        for f, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            if f in self.model.cells:
                yield ":".join(map(str, [-1, *self.model.cells[f].tolist()]))
            else:
                yield f"[{a!r}:{b!r}]" if a <= b else "none"

    def pandas_categorical(self) -> str:
        """The levels that stand as their numbers in a table, for LightGBM's Python package."""
        named = [v for _, v in sorted(self.model.levels.items()) if not is_own_cell(v)]
        return json.dumps([levels.values.tolist() for levels in named] if named else None)

    def trees(self) -> Iterator[str]:
        base = self.model.base_score.tolist() if self.model.needs_base_trees else []
        for number, value in enumerate(base):
            yield _block(number, {"num_leaves": [1], "num_cat": [0], "leaf_value": [value]})
        for number, tree in enumerate(self.model.trees, len(base)):
            yield _block(number, self._fields(tree))

    def _fields(self, grown: Tree) -> dict[str, Sequence[Any]]:
        if grown.n_splits == 0:
            return {
                "num_leaves": [1],
                "num_cat": [0],
                "leaf_value": grown.leaf_value.tolist(),
                "leaf_weight": grown.leaf_hess.tolist(),
                "leaf_count": grown.leaf_rows.tolist(),
            }
        tree, subsets = self.model.missing_first(with_counts(grown))
        left, right = tree.left.copy(), tree.right.copy()
        threshold, feature = tree.threshold.copy(), self.model.features(tree)
        decision = tree.default_left * DEFAULT_LEFT + (MISSING_NAN << MISSING_SHIFT)
        words: list[int] = []
        ends = [0]
        for index, (i, subset) in enumerate(subsets.items()):
            goes_left = subset.left
            if subset.unseen_left:  # what is not in LightGBM's set goes right, missing values too
                left[i], right[i], goes_left = tree.right[i], tree.left[i], ~subset.left
            words += _words(self.model.cells[int(feature[i])][goes_left])
            ends.append(len(words))
            threshold[i], decision[i] = index, CATEGORICAL
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


def _words(cells: NDArray[np.int64]) -> list[int]:
    """A set of bits in 32-bit words; at least one."""
    bits = np.zeros((int(cells.max(initial=0)) // 32 + 1) * 32, dtype=np.bool_)
    bits[cells] = True
    return np.packbits(bits, bitorder="little").view("<u4").tolist()


def _plain_names(names: Sequence[str]) -> list[str]:
    """Names are separated by spaces and go into JSON unquoted: other signs become underscores."""
    plain: dict[str, None] = {}
    for number, name in enumerate(names):
        found = re.sub(r'[\s\x00-\x1f"\\\[\]{}:,]', "_", name) or "_"
        plain[found if found not in plain else f"{found}_{number}"] = None
    if len(plain) != len(names):
        raise ParameterError("lightgbm: features have names that it cannot tell apart")
    return list(plain)


def _escaped(text: str) -> str:
    """JSON without an equals sign, at which LightGBM cuts lines."""
    return text.replace("=", "\\u003d")
