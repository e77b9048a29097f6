"""Numbers: how far predictions are from the truth, and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.report.figures import F64, I64, equal_parts, histogram, mean, short, shorts, text
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_MOST_POINTS, _N_PARTS, _MOST_OUTPUTS = 1500, 12, 12


class Residuals(Section):
    kind = "residuals"
    title = "Predictions and the truth"
    lead = (
        "A residual is the true value less the prediction. Residuals that lean to one side, or "
        "grow with the prediction, say where the model could still learn."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        if subject.objective.predicts != "value" or subject.label is None:
            return None
        if subject.model.n_outputs > 1 and not subject.objective.takes_columns:
            return None  # several quantiles of one value: see the section of their coverage
        rows = subject.sampled(_MOST_POINTS)
        outputs = [
            {"name": text(name), **_output(subject, k, rows)}
            for k, name in enumerate(subject.output_names[:_MOST_OUTPUTS])
        ]
        return {"outputs": outputs, "rows": rows.tolist()}


def _output(subject: Subject, k: int, rows: I64) -> dict[str, Any]:
    truth, said, weight = subject.label_of(k), subject.output(k), subject.weight
    residual = truth - said
    return {
        "said": shorts(said[rows]),
        "true": shorts(truth[rows]),
        "histogram": histogram(residual, weight),
        "bands": [_band(said, residual, weight, part) for part in equal_parts(said, _N_PARTS)],
        "mean": short(mean(residual, weight)),
        "middle": short(np.median(np.abs(residual))),
    }


def _band(said: F64, residual: F64, weight: F64, part: I64) -> list[Any]:
    """Mean prediction; 10th, 50th and 90th percentile of the residuals; rows."""
    levels = np.quantile(residual[part], (0.1, 0.5, 0.9))
    return [short(mean(said[part], weight[part])), *shorts(levels), len(part)]
