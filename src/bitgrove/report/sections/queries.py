"""Rankings: how good the order is, query by query."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.objectives.metrics import EvalData, make_metric
from bitgrove.objectives.metrics.queries import QueryMetric
from bitgrove.report.figures import equal_parts, short, shorts
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_N_BARS, _N_PARTS, _N_WORST = 20, 8, 12


class Queries(Section):
    kind = "queries"
    title = "The order within queries"
    lead = (
        "NDCG@10 of every query: 1 is the best order its rows can have, and what a query without "
        "relevant rows counts. The mean hides queries that go wrong; this does not."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        if not subject.objective.needs_queries or subject.label is None:
            return None
        assert subject.rows is not None and subject.rows.group is not None
        sizes = subject.rows.group
        metric = make_metric("ndcg@10")
        assert isinstance(metric, QueryMetric)
        data = EvalData(
            subject.prediction, subject.label, subject.weight, sizes, subject.objective.gains
        )
        found = metric.of_queries(data)
        edges = np.linspace(0.0, 1.0, _N_BARS + 1)
        worst = np.argsort(found, kind="stable")[:_N_WORST]
        return {
            "metric": metric.name,
            "n_queries": len(sizes),
            "mean": short(found.mean()),
            "middle": short(np.median(found)),
            "edges": shorts(edges),
            "counts": np.histogram(np.clip(found, 0.0, 1.0), bins=edges)[0].tolist(),
            "by_size": [
                [short(sizes[part].mean()), *shorts(np.quantile(found[part], (0.25, 0.5, 0.75))),
                 len(part)]
                for part in equal_parts(sizes.astype(np.float64), _N_PARTS)
            ],
            "worst": [[int(q) + 1, int(sizes[q]), short(found[q], 4)] for q in worst],
        }  # fmt: skip
