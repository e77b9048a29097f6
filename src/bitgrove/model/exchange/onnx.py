"""ONNX: one TreeEnsemble (ai.onnx.ml, version 5) in float64, and the link after it.

Splits compare as ours do and sets of levels are members of a list; the base score is a tree without
splits for each output. Runtimes add the trees in an order of their own where they use several
threads, else scores are equal bit for bit.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bitgrove.errors import ParameterError
from bitgrove.model.exchange.formats import Format, register
from bitgrove.model.exchange.outgoing import Outgoing
from bitgrove.model.exchange.protobuf import Message, Packed, each, encode
from bitgrove.model.tree import Tree
from bitgrove.version import __version__

_IR_VERSION, _OPSET, _ML_OPSET = 9, 18, 5
_FLOAT64, _INT64, _UINT8, _STRING, _BOOL = 11, 7, 2, 8, 9  # TensorProto.DataType
_INT, _TENSOR, _INTS = 2, 4, 7  # AttributeProto.AttributeType
_LEQ, _LT, _MEMBER = 0, 1, 6  # modes of nodes
_DTYPES = {_FLOAT64: "<f8", _INT64: "<i8", _UINT8: "|u1", _BOOL: "|b1"}


@register
class Onnx(Format):
    name = "onnx"
    extensions = (".onnx",)
    can_read = False

    def write(self, model: Outgoing) -> bytes:
        own = model.model
        graph = _Graph(model)
        graph.trees()
        graph.outputs(graph.link())
        levels = {
            own.feature_names[f]: dict(
                zip(map(str, v.values.tolist()), model.cells[f].tolist(), strict=True)
            )
            for f, v in sorted(model.levels.items())
        }
        notes = {"feature_names": own.feature_names, "levels": levels, "objective": own.objective}
        properties = [[(1, key), (2, json.dumps(value))] for key, value in notes.items()]
        return encode([
            (1, _IR_VERSION),
            (2, "bitgrove"),
            (3, __version__),
            *each(8, [[(1, ""), (2, _OPSET)], [(1, "ai.onnx.ml"), (2, _ML_OPSET)]]),
            (7, graph.message()),
            *each(14, properties),
        ])  # fmt: skip


class _Graph:
    """Collects nodes, constants and outputs."""

    def __init__(self, model: Outgoing) -> None:
        self.model = model
        self.nodes: list[Message] = []
        self.constants: list[Message] = []
        self.results: list[Message] = []

    def message(self) -> Message:
        rows = _value("X", _FLOAT64, [None, self.model.model.n_features])
        parts = [*each(1, self.nodes), (2, "bitgrove"), *each(5, self.constants)]
        return [*parts, (11, rows), *each(12, self.results)]

    def add(self, op: str, inputs: list[str], output: str, domain: str = "", **given: Any) -> str:
        """A node with one output that matters, which is returned."""
        attributes = [_attribute(name, value) for name, value in given.items()]
        outputs = [output, f"{output}_places"] if op == "TopK" else [output]
        names = each(1, inputs) + each(2, outputs)
        more = [(7, domain)] if domain else []
        self.nodes.append([*names, (4, op), *each(5, attributes), *more])
        return output

    def constant(self, name: str, values: Any, kind: int) -> str:
        self.constants.append(_tensor(values, kind, name))
        return name

    def trees(self) -> None:
        k, parts = self.model.n_outputs, _Trees(self.model)
        for output, base in enumerate(self.model.base_score.tolist()):
            parts.add_leaf(output, base)
        for number, tree in enumerate(self.model.trees):
            parts.add(number % k, tree)
        self.add("TreeEnsemble", ["X"], "scores", "ai.onnx.ml", n_targets=k, **parts.attributes())

    def link(self) -> str:
        """Appends what the link does; returns the name of the predictions."""
        link, scores = self.model.link, "scores"
        steps = _LINKS.get(link.kernel)
        if steps is None:
            raise ParameterError(f"onnx: the link {type(link).__name__} cannot be written")
        if link.slope != 1.0:
            slope = self.constant("slope", [link.slope], _FLOAT64)
            scores = self.add("Mul", [scores, slope], "log_odds")
        return str(steps(self, scores))

    def outputs(self, predictions: str) -> None:
        """Classifiers say label and probabilities, all others what `Model.predict` says."""
        model, k = self.model.model, self.model.n_outputs
        is_one = k == 1 or model.n_classes == k
        if model.classes is None or self.model.raw_score or not is_one:
            if k == 1:
                shape = self.constant("flat", [-1], _INT64)
                self.add("Reshape", [predictions, shape], "prediction")
            else:
                self.add("Identity", [predictions], "prediction")
            self.results.append(_value("prediction", _FLOAT64, [None] if k == 1 else [None, k]))
            return
        if k == 1:
            one = self.constant("one", [1.0], _FLOAT64)
            other = self.add("Sub", [one, predictions], "other")
            predictions = self.add("Concat", [other, predictions], "both", axis=1)
        kind = {str: _STRING, int: _INT64, float: _FLOAT64, bool: _BOOL}[type(model.classes[0])]
        classes = self.constant("classes", model.classes, kind)
        best = self.add("ArgMax", [predictions], "best", axis=1, keepdims=0)
        self.add("Gather", [classes, best], "label", axis=0)
        self.add("Identity", [predictions], "probabilities")
        self.results.append(_value("label", kind, [None]))
        self.results.append(_value("probabilities", _FLOAT64, [None, len(model.classes)]))

    def shares(self, parts: str) -> str:
        """Each row's parts of their sum."""
        axis = self.constant("axis", [1], _INT64)
        return self.add("Div", [parts, self.add("ReduceSum", [parts, axis], "sum")], "shares")

    def ascending(self, scores: str) -> str:
        n = self.constant("n_outputs", [self.model.n_outputs], _INT64)
        return self.add("TopK", [scores, n], "ascending", axis=1, largest=0, sorted=1)


# What a link does, by the name that kernels know it by.
_LINKS: dict[str | None, Any] = {
    None: lambda graph, scores: scores,
    "sigmoid_scores": lambda graph, scores: graph.add("Sigmoid", [scores], "chances"),
    "exp_scores": lambda graph, scores: graph.add("Exp", [scores], "means"),
    "sort_scores": lambda graph, scores: graph.ascending(scores),
    "softmax_scores": lambda graph, scores: graph.add("Softmax", [scores], "chances", axis=1),
    "one_vs_all_scores": lambda graph, scores: graph.shares(
        graph.add("Sigmoid", [scores], "chances")
    ),
}


class _Trees:
    """The attributes of a TreeEnsemble: nodes and leaves of all trees, end to end."""

    def __init__(self, model: Outgoing) -> None:
        self.model = model
        self.nodes: dict[str, list[int]] = {
            name: [] for name in ("nodes_featureids", "nodes_truenodeids", "nodes_trueleafs",
                                  "nodes_falsenodeids", "nodes_falseleafs",
                                  "nodes_missing_value_tracks_true", "leaf_targetids",
                                  "tree_roots")
        }  # fmt: skip
        self.modes: list[int] = []
        self.splits: list[float] = []
        self.members: list[float] = []
        self.weights: list[float] = []

    def add_leaf(self, output: int, value: float) -> None:
        """A tree without splits is a node whose branches are the same leaf."""
        self.nodes["tree_roots"].append(len(self.modes))
        self._node(0, _LEQ, 0.0, (len(self.weights), True), (len(self.weights), True), False)
        self._leaves(output, [value])

    def add(self, output: int, tree: Tree) -> None:
        if tree.n_splits == 0:
            self.add_leaf(output, float(tree.leaf_value[0]))
            return
        first, first_leaf = len(self.modes), len(self.weights)
        self.nodes["tree_roots"].append(first)

        def place(child: int) -> tuple[int, bool]:
            return (first_leaf + ~child, True) if child < 0 else (first + child, False)

        feature, subsets = self.model.features(tree).tolist(), self.model.subsets(tree)
        columns = (tree.threshold, tree.left, tree.right, tree.default_left)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for i, (threshold, left, right, default) in enumerate(rows):
            subset = subsets.get(i)
            if subset is None:
                self._node(feature[i], _LEQ, threshold, place(left), place(right), bool(default))
                continue
            goes, sides, missing = subset.left, (left, right), subset.missing_left
            if subset.unseen_left:  # what is no member takes the false branch
                goes, sides, missing = ~goes, (right, left), not missing
            cells = self.model.cells[feature[i]][goes]
            self.members += [*cells.tolist(), np.nan] if len(cells) else []
            mode, split = (_MEMBER, 0.0) if len(cells) else (_LT, -np.inf)
            self._node(feature[i], mode, split, place(sides[0]), place(sides[1]), missing)
        self._leaves(output, tree.leaf_value.tolist())

    def _node(
        self,
        feature: int,
        mode: int,
        split: float,
        if_true: tuple[int, bool],
        if_false: tuple[int, bool],
        missing_true: bool,
    ) -> None:
        self.modes.append(mode)
        self.splits.append(split)
        values = (feature, *if_true, *if_false, missing_true)
        for name, value in zip(list(self.nodes)[: len(values)], values, strict=True):
            self.nodes[name].append(int(value))

    def _leaves(self, output: int, values: list[float]) -> None:
        self.nodes["leaf_targetids"] += [output] * len(values)
        self.weights += values

    def attributes(self) -> dict[str, Any]:
        tensors = {
            "nodes_modes": _tensor(self.modes, _UINT8),
            "nodes_splits": _tensor(self.splits, _FLOAT64),
            "leaf_weights": _tensor(self.weights, _FLOAT64),
        }
        if self.members:
            tensors["membership_values"] = _tensor(self.members, _FLOAT64)
        return {**self.nodes, **tensors}


class _Tensor(list[tuple[int, Any]]):
    """A message, told from lists of numbers."""


def _tensor(values: Any, kind: int, name: str = "t") -> _Tensor:
    head = [(1, len(values)), (2, kind), (8, name)]
    if kind == _STRING:
        return _Tensor([*head, *each(6, [text.encode() for text in values])])
    return _Tensor([*head, (9, np.asarray(values, dtype=_DTYPES[kind]).tobytes())])


def _attribute(name: str, value: Any) -> Message:
    if isinstance(value, _Tensor):
        return [(1, name), (5, value), (20, _TENSOR)]
    if isinstance(value, list):
        return [(1, name), (8, Packed(value)), (20, _INTS)]
    return [(1, name), (3, value), (20, _INT)]


def _value(name: str, kind: int, shape: list[int | None]) -> Message:
    """An input or output; None: as many as there are rows."""
    sizes = [[(2, "n_rows")] if size is None else [(1, size)] for size in shape]
    return [(1, name), (2, [(1, [(1, kind), (2, each(1, sizes))])])]
