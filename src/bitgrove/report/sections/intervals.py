"""Quantiles: whether as many rows lie below them as should."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from bitgrove.report.figures import F64, equal_parts, mean, short, shorts
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_N_PARTS, _MOST_POINTS = 10, 250


class Coverage(Section):
    kind = "coverage"
    title = "Coverage of the quantiles"
    lead = (
        "Of a 90\u00a0% quantile, 90\u00a0% of the true values should lie below it: overall, and "
        "for low predictions as well as for high ones."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        levels = subject.objective.quantile_levels
        if not levels or subject.label is None:
            return None
        label, weight = subject.label, subject.weight
        below = [(label <= subject.output(k)).astype(np.float64) for k in range(len(levels))]
        rows = subject.sampled(_MOST_POINTS)
        middle = subject.output(int(np.argmin(np.abs(np.array(levels) - 0.5))))
        order = rows[np.argsort(middle[rows], kind="stable")]
        return {
            "levels": shorts(levels),
            "observed": shorts(mean(part, weight) for part in below),
            "by_size": [_by_size(subject.output(k), below[k], weight) for k in range(len(levels))],
            "intervals": [_interval(subject, pair) for pair in combinations(range(len(levels)), 2)],
            "rows": order.tolist(),
            "true": shorts(label[order]),
            "said": [shorts(subject.output(k)[order]) for k in range(len(levels))],
        }


def _by_size(said: F64, below: F64, weight: F64) -> list[list[Any]]:
    """Mean prediction, share below, rows: for predictions of increasing size."""
    return [
        [*shorts((mean(said[part], weight[part]), mean(below[part], weight[part]))), len(part)]
        for part in equal_parts(said, _N_PARTS)
    ]


def _interval(subject: Subject, pair: tuple[int, int]) -> dict[str, Any]:
    levels = subject.objective.quantile_levels
    low, high = sorted(pair, key=lambda k: levels[k])
    lower, upper, label = subject.output(low), subject.output(high), subject.label
    assert label is not None
    inside = ((lower <= label) & (label <= upper)).astype(np.float64)
    return {
        "low": short(levels[low]),
        "high": short(levels[high]),
        "observed": short(mean(inside, subject.weight), 4),
        "width": short(mean(upper - lower, subject.weight), 4),
        "crossed": short(mean((lower > upper).astype(np.float64), subject.weight), 4),
    }
