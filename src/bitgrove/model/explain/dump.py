"""A model as text, as nested dictionaries and as a table: for people and for other programs.

Receives a Model; returns strings, plain dictionaries (JSON's types alone) or a pandas DataFrame,
with the names that LightGBM has for the same things. The nodes come from nodes.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bitgrove.errors import DataError
from bitgrove.model.explain.nodes import Node, node_name, nodes_of
from bitgrove.version import __version__

if TYPE_CHECKING:
    from bitgrove.model.model import Model

_LARGEST = sys.float_info.max  # stands for infinity, which JSON does not have
_COLUMNS = (
    "tree_index", "node_depth", "node_index", "left_child", "right_child", "parent_index",
    "split_feature", "split_gain", "threshold", "decision_type", "missing_direction",
    "missing_type", "value", "weight", "count",
)  # fmt: skip


def condition(model: Model, node: Node, precision: int = 6) -> str:
    """What sends a row of a split left, in words."""
    assert node.feature is not None
    name = model.feature_names[node.feature]
    if node.left_levels is not None:
        return f"{name} in {{{', '.join(map(str, node.left_levels))}}}"
    encoder = model.encoder
    if encoder is not None and node.feature in encoder.statistics:
        name = f"target statistic of {name}"
    return f"{name} <= {node.threshold:.{precision}g}"


def to_text(model: Model, n_iterations: int) -> str:
    """All trees, a line for every node, indented by depth."""
    lines = [
        f"objective: {model.objective}",
        f"base score: {', '.join(f'{score:.17g}' for score in model.base_score)}",
    ]
    for tree in range(n_iterations * model.n_outputs):
        of_output = f", output {tree % model.n_outputs}" if model.n_outputs > 1 else ""
        lines += ["", f"tree {tree}{of_output}"]
        lines += [_line(model, node) for node in nodes_of(model, tree)]
    return "\n".join(lines) + "\n"


def _line(model: Model, node: Node) -> str:
    indent = "  " * node.depth
    if node.is_leaf:
        return f"{indent}leaf {node.number}: {node.value:.17g} ({node.rows} rows)"
    way = "left" if node.missing_left else "right"
    return (
        f"{indent}split {node.number}: {condition(model, node, 17)}, missing goes {way} "
        f"(gain {node.gain:.6g}, {node.rows} rows)"
    )


def to_dict(model: Model, n_iterations: int) -> dict[str, Any]:
    """The whole forest, nested as LightGBM's dump_model() nests it."""
    n_trees = n_iterations * model.n_outputs
    names = model.feature_names
    gains = model.feature_importance("gain", num_iteration=n_iterations)
    return {
        "name": "tree",
        "version": f"bitgrove {__version__}",
        "num_class": max(model.n_classes, 1) if model.n_outputs > 1 else 1,
        "num_tree_per_iteration": model.n_outputs,
        "max_feature_idx": model.n_features - 1,
        "objective": model.objective,
        "average_output": False,
        "base_score": [float(score) for score in model.base_score],
        "feature_names": list(names),
        "feature_importances": {
            name: float(gain) for name, gain in zip(names, gains, strict=True) if gain > 0
        },
        "tree_info": [_tree(model, tree) for tree in range(n_trees)],
    }


def _tree(model: Model, tree: int) -> dict[str, Any]:
    made: dict[int, dict[str, Any]] = {}
    parents: list[tuple[Node, dict[str, Any]]] = []
    for node in nodes_of(model, tree):
        entry = _entry(node)
        made[~node.number if node.is_leaf else node.number] = entry
        if not node.is_leaf:
            parents.append((node, entry))
    for node, entry in parents:
        entry["left_child"], entry["right_child"] = made[node.left], made[node.right]
    record = model.trees[tree]
    return {
        "tree_index": tree,
        "num_leaves": record.n_leaves,
        "num_cat": int(record.by_subset.sum()),
        "tree_structure": made[0 if record.n_splits else ~0],
    }


def _entry(node: Node) -> dict[str, Any]:
    if node.is_leaf:
        return {
            "leaf_index": node.number,
            "leaf_value": node.value,
            "leaf_weight": node.hess,
            "leaf_count": node.rows,
        }
    return {
        "split_index": node.number,
        "split_feature": node.feature,
        "split_gain": node.gain,
        "threshold": _threshold(node),
        "decision_type": "<=" if node.left_levels is None else "==",
        "default_left": node.missing_left,
        "missing_type": "NaN",
        "internal_value": node.value,
        "internal_weight": node.hess,
        "internal_count": node.rows,
    }


def _threshold(node: Node) -> float | str:
    """A number; levels as LightGBM joins them."""
    if node.left_levels is not None:
        return "||".join(map(str, node.left_levels))
    assert node.threshold is not None
    return min(max(node.threshold, -_LARGEST), _LARGEST)


def to_dataframe(model: Model, n_iterations: int) -> Any:
    """A pandas DataFrame with a line for every node."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("trees_to_dataframe needs pandas: pip install pandas") from error
    lines = [
        _record(model, node)
        for tree in range(n_iterations * model.n_outputs)
        for node in nodes_of(model, tree)
    ]
    if not lines:
        raise DataError("the model has no trees")
    return pd.DataFrame(lines, columns=list(_COLUMNS))


def _record(model: Model, node: Node) -> Mapping[str, Any]:
    line: dict[str, Any] = dict.fromkeys(_COLUMNS)
    line |= {
        "tree_index": node.tree,
        "node_depth": node.depth,
        "node_index": node.name,
        "parent_index": None if node.parent is None else node_name(node.tree, node.parent),
        "value": node.value,
        "weight": node.hess,
        "count": node.rows,
    }
    if node.feature is not None:
        line |= {
            "left_child": node_name(node.tree, node.left),
            "right_child": node_name(node.tree, node.right),
            "split_feature": model.feature_names[node.feature],
            "split_gain": node.gain,
            "threshold": _threshold(node),
            "decision_type": "<=" if node.left_levels is None else "==",
            "missing_direction": "left" if node.missing_left else "right",
            "missing_type": "NaN",
        }
    return line
