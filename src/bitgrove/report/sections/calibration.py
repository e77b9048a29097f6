"""Whether predicted probabilities are as frequent as they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.report.figures import F64, equal_parts, mean, short, shorts, text
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_N_PARTS, _N_BARS, _MOST_OUTPUTS = 12, 25, 30


class Calibration(Section):
    kind = "calibration"
    title = "Calibration"
    lead = (
        "Of the rows that the model gives 30\u00a0%, do 30\u00a0% turn out positive? Points on the "
        "diagonal say yes. The bars behind each point show what chance alone could do (95\u00a0%)."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        predicts, label = subject.objective.predicts, subject.label
        if label is None or predicts not in ("probability", "class probabilities"):
            return None
        several = predicts == "class probabilities"
        names = subject.output_names[:_MOST_OUTPUTS]
        outputs = []
        for k, name in enumerate(names):
            happened = (label == k).astype(np.float64) if several else subject.label_of(k)
            found = _calibrated(happened, subject.output(k), subject.weight)
            outputs.append({"name": text(name), **found})
        return {"outputs": outputs}


def _calibrated(happened: F64, prediction: F64, weight: F64) -> dict[str, Any]:
    points, gap = [], 0.0
    for part in equal_parts(prediction, _N_PARTS):
        p, y, w = mean(prediction[part], weight[part]), mean(happened[part], weight[part]), weight
        n_effective = w[part].sum() ** 2 / np.square(w[part]).sum()
        spread = 1.96 * np.sqrt(max(p * (1.0 - p), 1e-12) / n_effective)
        low, high = max(p - spread, 0.0), min(p + spread, 1.0)
        points.append([*shorts((p, y, low, high)), len(part)])
        gap += abs(p - y) * float(w[part].sum())
    edges = np.linspace(0.0, 1.0, _N_BARS + 1)
    sides = [
        shorts(np.histogram(prediction, bins=edges, weights=weight * share)[0])
        for share in (1.0 - happened, happened)
    ]
    return {
        "points": points,
        "error": short(gap / weight.sum(), 3),
        "edges": shorts(edges),
        "others": sides[0],
        "positives": sides[1],
    }
