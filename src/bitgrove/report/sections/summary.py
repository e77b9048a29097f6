"""What the model is, how good it is on the given rows, and its parameters."""

from __future__ import annotations

import json
from typing import Any

from bitgrove.errors import BitgroveError
from bitgrove.params import BY_NAME, changed_params
from bitgrove.report.figures import short, text
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

# By what an objective predicts; its own metric comes first.
_METRICS: dict[str, tuple[str, ...]] = {
    "probability": ("auc", "logloss", "average_precision", "brier", "accuracy"),
    "class probabilities": ("multi_logloss", "accuracy", "balanced_accuracy", "f1", "kappa"),
    "value": ("rmse", "mae", "r2"),
    "ranking score": ("ndcg@5", "ndcg@10", "map@10", "mrr"),
    "score": (),
}


class Summary(Section):
    kind = "summary"
    title = "Summary"
    lead = ""

    def gather(self, subject: Subject) -> dict[str, Any]:
        model = subject.model
        changed = changed_params(model.params)
        return {
            "facts": _facts(subject),
            "scores": [] if subject.label is None else _scores(subject),
            "n_rows": subject.n_rows,
            "digest": model.digest(),
            "params": [
                [name, json.dumps(value), name in changed, _meaning(name)]
                for name, value in sorted(model.params.items())
            ],
        }


def _facts(subject: Subject) -> list[list[Any]]:
    model = subject.model
    bits = model.params.get("gradient_bits")
    facts = [
        ["objective", model.objective],
        ["trees", f"{len(model.trees):,}"],
        ["leaves", f"{sum(tree.n_leaves for tree in model.trees):,}"],
        ["features", f"{model.n_features:,}"],
        ["gradient bits", "full precision" if bits is None else str(bits)],
    ]
    if model.encoder is not None:
        facts.insert(4, ["categories", f"{len(model.encoder.levels):,}"])
    if model.n_classes > 2:
        facts.insert(1, ["classes", f"{model.n_classes:,}"])
    if model.best_iteration is not None:
        facts.append(["best iteration", f"{model.best_iteration:,}"])
    if subject.rows is not None:
        facts.append(["rows shown", f"{subject.n_rows:,}"])
    return facts


def _scores(subject: Subject) -> list[dict[str, Any]]:
    own = subject.objective.default_metric
    # An error of the mean says nothing of quantiles.
    usual = () if subject.objective.quantile_levels else _METRICS[subject.objective.predicts]
    wanted = (*((own,) if own else ()), *usual)
    found: dict[str, dict[str, Any]] = {}
    for name in wanted:
        try:
            metric, value = subject.score(name)
        except BitgroveError:  # one that cannot judge these labels
            continue
        better = "higher" if metric.higher_is_better else "lower"
        found[metric.name] = {"name": metric.name, "value": short(value), "better": better}
    return [score for score in found.values() if score["value"] is not None]


def _meaning(name: str) -> str:
    """The first sentence of its documentation."""
    whole = BY_NAME[name].doc if name in BY_NAME else ""
    return text(whole.partition(". ")[0].replace("`", ""))
