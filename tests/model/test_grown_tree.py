"""A tree of which only the leaf values are known writes the rest down when somebody looks."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from bitgrove.model.tree import Tree

VALUES = np.array([0.5, -0.5])
REST: dict[str, Any] = {
    "feature": np.array([3], dtype=np.int32),
    "split_bin": np.array([1], dtype=np.uint8),
    "threshold": np.array([0.25]),
    "default_left": np.array([1], dtype=np.uint8),
    "left": np.array([-1], dtype=np.int32),
    "right": np.array([-2], dtype=np.int32),
    "gain": np.array([2.0]),
    "split_rows": np.array([9]),
    "split_hess": np.array([4.0]),
    "leaf_rows": np.array([5, 4]),
    "leaf_hess": np.array([2.5, 1.5]),
    "left_bins": np.zeros((0, 4), dtype=np.uint64),
}


def grown() -> tuple[Tree, list[str]]:
    """A tree, and a word for each time that it was written down."""
    written: list[str] = []

    def rest() -> dict[str, Any]:
        written.append("once")
        return REST

    return Tree.grown(VALUES, rest), written


def test_its_values_are_there_before_the_rest() -> None:
    tree, written = grown()
    assert tree.leaf_value is VALUES and tree.n_leaves == 2 and written == []
    assert tree.n_splits == 1 and tree.threshold is REST["threshold"]
    tree.write_down()
    assert tree.binned_splits(np.array([9, 9, 9, 7]))["missing_bin"].tolist() == [7]
    assert written == ["once"]


def test_it_is_the_tree_of_all_fields() -> None:
    whole, (tree, _) = Tree(leaf_value=VALUES, **REST), grown()
    for field in fields(Tree):
        assert getattr(tree, field.name) is getattr(whole, field.name)


@pytest.mark.parametrize("looked", [False, True])
def test_what_it_never_has_is_an_attribute_error(looked: bool) -> None:
    tree, written = grown()
    if looked:
        tree.write_down()
    with pytest.raises(AttributeError, match="'leafs'"):
        _ = tree.leafs  # type: ignore[attr-defined]
    assert not hasattr(tree, "__array__") and written == ["once"]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_written_down_it_can_be_copied(copied: Any) -> None:
    tree, _ = grown()
    tree.write_down()
    twin = copied(tree)
    assert twin.leaf_value.tolist() == [0.5, -0.5] and twin.gain.tolist() == [2.0]


def test_an_error_on_the_way_is_seen_and_tried_again() -> None:
    answers = [KeyError("not yet"), REST]

    def rest() -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, KeyError):
            raise answer
        return answer

    tree = Tree.grown(VALUES, rest)
    with pytest.raises(KeyError, match="not yet"):
        tree.write_down()
    assert tree.gain.tolist() == [2.0]
