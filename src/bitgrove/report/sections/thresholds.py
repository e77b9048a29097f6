"""Two classes: the ROC and precision-recall curves, and the confusion matrix at any threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.report.figures import F64, short, shorts, text, thinned
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_MOST_POINTS, _MOST_OUTPUTS = 250, 12
_N_STEPS = 200  # of the threshold that a reader moves, from 0 to 1: counted exactly


class Thresholds(Section):
    kind = "thresholds"
    title = "Telling the classes apart"
    lead = (
        "Above which probability should a row count as positive? Move the threshold and see what "
        "it costs. A curve near the corner is a model that rarely confuses the two."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        if subject.objective.predicts != "probability" or subject.label is None:
            return None
        if not np.isin(subject.label, (0.0, 1.0)).all():  # shares, not classes
            return None
        outputs = [
            {"name": text(name), **_curve(subject.label_of(k), subject.output(k), subject.weight)}
            for k, name in enumerate(subject.output_names[:_MOST_OUTPUTS])
        ]
        classes = subject.model.classes or [0, 1]
        return {"outputs": outputs, "classes": [text(name) for name in classes]}


def _curve(label: F64, prediction: F64, weight: F64) -> dict[str, Any]:
    """Weights of the positive and negative rows at or above each threshold, falling thresholds."""
    order = np.argsort(-prediction, kind="stable")
    p, hit, w = prediction[order], label[order] > 0, weight[order]
    true, false = np.cumsum(w * hit), np.cumsum(w * ~hit)
    n_above = np.searchsorted(-p, -np.arange(_N_STEPS + 1) / _N_STEPS, side="right")
    steps = [np.append(0.0, sums)[n_above] for sums in (true, false)]
    last = np.flatnonzero(np.append(p[1:] != p[:-1], True))  # of each step of equal predictions
    p, true, false = p[last], true[last], false[last]
    # Evenly along the curve, not along the thresholds: steep parts keep their points.
    length = true / max(true[-1], 1e-300) + false / max(false[-1], 1e-300)
    wanted = np.linspace(0.0, length[-1], _MOST_POINTS)
    at = np.unique(np.append(np.searchsorted(length, wanted), thinned(len(last), 20)))
    at = at[at < len(last)]
    return {
        "threshold": shorts(p[at]),
        "true": shorts(true[at], 7),
        "false": shorts(false[at], 7),
        "steps": [shorts(sums, 7) for sums in steps],
        "positive": short(true[-1], 7),
        "negative": short(false[-1], 7),
        "auc": short(_area(false, true) / (true[-1] * false[-1])) if true[-1] * false[-1] else None,
    }


def _area(x: F64, y: F64) -> float:
    """Under the steps from the origin, by trapezes."""
    x, y = np.append(0.0, x), np.append(0.0, y)
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2.0))
