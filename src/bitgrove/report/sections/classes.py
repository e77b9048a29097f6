"""Several classes: which are taken for which, and how well each is found."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.report.figures import F64, short, shorts, text
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_MOST_CLASSES = 30


class Confusion(Section):
    kind = "confusion"
    title = "Confusion matrix"
    lead = (
        "Rows are the true classes, columns the most probable ones. The diagonal is right; a "
        "strong colour beside it is a pair of classes that the model confuses."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        if subject.objective.predicts != "class probabilities" or subject.label is None:
            return None
        names, n_classes = subject.output_names, subject.model.n_outputs
        true, said = subject.label.astype(np.int64), subject.prediction.argmax(axis=1)
        counts = np.zeros((n_classes, n_classes))
        np.add.at(counts, (true, said), subject.weight)
        # The most frequent ones, in their own order.
        kept = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:_MOST_CLASSES])
        return {
            "names": [text(names[k]) for k in kept],
            "n_classes": n_classes,
            "counts": [shorts(row, 6) for row in counts[np.ix_(kept, kept)]],
            "totals": shorts(counts.sum(axis=1)[kept], 6),
            "each": [_found(counts, int(k)) for k in kept],
        }


def _found(counts: F64, k: int) -> dict[str, Any]:
    hit, said, true = counts[k, k], counts[:, k].sum(), counts[k].sum()
    return {
        "precision": short(hit / said, 4) if said else None,
        "recall": short(hit / true, 4) if true else None,
        "f1": short(2.0 * hit / (said + true), 4) if said + true else None,
        "rows": short(true, 6),
    }
