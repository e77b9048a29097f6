"""Metrics over the iterations of the training."""

from __future__ import annotations

from typing import Any

from bitgrove.objectives.metrics import make_metric
from bitgrove.report.figures import shorts, text, thinned
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_MOST_POINTS = 600


class Curves(Section):
    kind = "curves"
    title = "Learning curves"
    lead = (
        "Each metric after every iteration. Lines that part say that the model learns its training "
        "rows by heart; a flat end says that more trees would add little."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        if not subject.evals_result:
            return None
        metrics: dict[str, list[dict[str, Any]]] = {}
        for set_name, curves in subject.evals_result.items():
            for metric, values in curves.items():
                at = thinned(len(values), _MOST_POINTS)
                line = {
                    "name": text(set_name),
                    "x": (at + 1).tolist(),
                    "y": shorts(values[i] for i in at),
                }
                metrics.setdefault(metric, []).append(line)
        return {
            "best": subject.model.best_iteration,
            "metrics": [
                {"name": text(name), "better": _better(name), "lines": lines}
                for name, lines in metrics.items()
            ],
        }


def _better(name: str) -> str:
    try:
        return "higher" if make_metric(name).higher_is_better else "lower"
    except KeyError:  # a function of the user's
        return ""
