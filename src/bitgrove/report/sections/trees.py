"""The trees themselves, and the way of some rows through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.data.device_tables import on_host
from bitgrove.model.tree import Tree
from bitgrove.report.figures import I64, short, shorts, text, thinned
from bitgrove.report.sections.base import Section
from bitgrove.report.sections.contributions import row_text
from bitgrove.report.subject import Subject

# What fits into a page that opens at once; of more trees, some are shown.
_MOST_LEAVES, _MOST_STEPS, _MOST_ROWS = 60_000, 60_000, 40


class Trees(Section):
    kind = "trees"
    title = "The trees"
    lead = (
        "Every prediction is the sum of one leaf of each tree and a constant. Choose a row to see "
        "its way. Drag to move, use the buttons or the + and - keys to zoom."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        model = subject.model
        if not model.trees:
            return None
        shown = _shown(model.trees)
        used = np.unique(np.concatenate([model.trees[t].feature for t in shown]))
        encoder = model.encoder
        sources = np.arange(model.n_features) if encoder is None else encoder.sources
        levels = {} if encoder is None else encoder.n_levels
        return {
            "n_trees": len(model.trees),
            "n_outputs": model.n_outputs,
            "outputs": [text(name) for name in subject.output_names],
            "base": shorts(model.base_score),
            "shown": shown.tolist(),
            "columns": _column_names(subject),
            "sources": sources.tolist(),
            "levels": {
                str(f): [text(value) for value in encoder.levels[int(f)].values.tolist()]
                for f in used
                if encoder is not None and int(f) in levels
            },
            "trees": [_compact(model.trees[t]) for t in shown],
            **({} if subject.rows is None else {"rows": _rows(subject, shown, sources[used])}),
        }


def _shown(trees: list[Tree]) -> I64:
    """All trees, or as many as fit, evenly spaced."""
    average = sum(tree.n_leaves for tree in trees) / len(trees)
    return thinned(len(trees), max(2, int(_MOST_LEAVES / average)))


def _column_names(subject: Subject) -> list[str]:
    """Of what trees split on: features, and the numbers that stand for levels of a category."""
    encoder, features = subject.model.encoder, subject.model.feature_names
    names = [text(name) for name in features]
    if encoder is None:
        return names
    names += [text(features[f]) for f in encoder.sources[len(features) :]]
    for column, (_, number) in encoder.places.items():
        names[column] += " (worth, further)" if number else " (worth)"
    return names


def _compact(tree: Tree) -> list[Any]:
    """feature, threshold, left, right, gain, rows, missing left; values and rows of leaves; sets.

    Children as in Tree: >= 0 is a split, < 0 is ~leaf. A set is the levels that go left.
    """
    sets = {str(split): _members(tree.left_bins[split]) for split in np.flatnonzero(tree.by_subset)}
    return [
        tree.feature.tolist(),
        shorts(tree.threshold, 6),
        tree.left.tolist(),
        tree.right.tolist(),
        shorts(tree.gain, 3),
        tree.split_rows.tolist(),
        "".join(map(str, tree.default_left.tolist())),
        shorts(tree.leaf_value, 4),
        tree.leaf_rows.tolist(),
        *([sets] if sets else []),
    ]


def _members(words: Any) -> str:
    """The set as hexadecimal bytes, the bit of level 0 lowest in the first; zeros at the end go."""
    return words.astype("<u8").tobytes().hex().rstrip("0")


def _rows(subject: Subject, shown: I64, features: I64) -> dict[str, Any]:
    """Rows whose way can be shown: the leaf of each in every tree, and the values they have."""
    n_rows = max(3, min(_MOST_ROWS, _MOST_STEPS // len(shown)))
    rows = subject.sampled(n_rows)
    assert subject.rows is not None
    sample = subject.rows.subset(rows)
    leaves = on_host(subject.model.predict_leaf(sample, num_iteration=-1))[:, shown]
    values = {str(f): _values(subject, int(f), rows) for f in np.unique(features)}
    return {
        "numbers": rows.tolist(),
        "said": [row_text(subject, int(row)) for row in rows],
        "leaves": leaves.tolist(),
        "values": values,
    }


def _values(subject: Subject, feature: int, rows: I64) -> list[Any]:
    values = subject.shown_values(feature, rows)
    return [text(v) if isinstance(v, str) else None if v is None else short(v, 6) for v in values]
