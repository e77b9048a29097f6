"""A model in a few lines of HTML, for notebooks: facts, the curve of a metric, the top features.

Receives a Model; returns a piece of HTML that needs neither scripts nor network. Names come from
users' tables, so all text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.report.figures import text, thinned

if TYPE_CHECKING:
    from bitgrove.model.model import Model

_TOP = 5
_WIDTH, _HEIGHT, _MOST_POINTS = 240, 48, 240
_TRAINING = ("training", "train", "training_0", "validation_0")  # sets shown only if alone


def model_html(model: Model) -> str:
    """What a notebook shows of a model."""
    rows = "".join(
        f'<tr><th style="text-align:left;padding-right:1em">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in _facts(model).items()
    )
    parts = [
        f"<strong>{escape(type(model).__module__.partition('.')[0])}.Model</strong> "
        f"<code>{escape(model.objective)}</code>",
        f"<table>{rows}</table>",
        _curve(model),
        _top_features(model),
    ]
    return f'<div style="font-family:sans-serif;font-size:90%">{"".join(parts)}</div>'


def _facts(model: Model) -> dict[str, str]:
    n_leaves = sum(tree.n_leaves for tree in model.trees)
    iterations = f"{model.n_iterations:,}"
    if model.best_iteration is not None:
        iterations += f" (best {model.best_iteration:,})"
    facts = {
        "iterations": iterations,
        "trees": f"{len(model.trees):,} with {n_leaves:,} leaves",
        "features": f"{model.n_features:,}",
    }
    if model.classes is not None:
        shown = ", ".join(text(label) for label in model.classes[:8])
        more = f" and {len(model.classes) - 8} more" if len(model.classes) > 8 else ""
        facts["classes"] = shown + more
    if model.info is not None and model.info.seconds:
        facts["time"] = f"{sum(model.info.seconds.values()):.3g} s on {model.info.device}"
    facts["digest"] = model.digest()[:16]
    if model.record is not None:
        facts["rows (sha256)"] = model.record.rows[:16]
    return facts


def _curve(model: Model) -> str:
    """A sparkline of the first metric of a validation set; nothing for a loaded model."""
    found = {} if model.info is None else model.info.evals_result
    chosen = _chosen(found)
    if chosen is None:
        return ""
    name, metric, values = chosen
    last = len(values) - 1 if model.best_iteration is None else model.best_iteration - 1
    last = min(max(last, 0), len(values) - 1)
    label = escape(f"{text(name)} {text(metric)}: {values[last]:.5g}")
    return f'<div style="margin:.4em 0">{sparkline(values, last)}<br><small>{label}</small></div>'


def _chosen(
    found: Mapping[str, Mapping[str, Sequence[float]]],
) -> tuple[str, str, Sequence[float]] | None:
    judged = [name for name in found if name not in _TRAINING] or list(found)
    for name in judged:
        for metric, values in found[name].items():
            if len(values) > 1:
                return name, metric, values
    return None


def sparkline(values: Sequence[float], marked: int) -> str:
    """The values as a small line, one of them with a dot."""
    series = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(series)
    low = float(series[finite].min()) if finite.any() else 0.0
    high = float(series[finite].max()) if finite.any() else 0.0
    span = (high - low) or 1.0
    last = max(len(series) - 1, 1)

    def point(i: Any) -> tuple[float, float]:
        share = (series[i] - low) / span if finite[i] else 0.0
        return 3 + (_WIDTH - 6) * i / last, 3 + (_HEIGHT - 6) * (1.0 - share)

    kept = [int(i) for i in thinned(len(series), _MOST_POINTS) if finite[i]]
    line = " ".join("{:.1f},{:.1f}".format(*point(i)) for i in kept)
    x, y = point(marked)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="curve of the metric"><polyline points="{line}" fill="none" '
        f'stroke="currentColor" stroke-width="1.5"/><circle cx="{x:.1f}" cy="{y:.1f}" r="3" '
        'fill="#d95f02"/></svg>'
    )


def _top_features(model: Model) -> str:
    gain = np.asarray(model.feature_importance("gain"), dtype=np.float64)
    total = float(gain.sum())
    if total <= 0.0:
        return ""
    lines = [
        f'<tr><td style="text-align:left">{escape(text(model.feature_names[f]))}</td>'
        f'<td style="text-align:right">{gain[f] / total:.1%}</td></tr>'
        for f in np.argsort(-gain, kind="stable")[:_TOP]
        if gain[f] > 0.0
    ]
    head = '<tr><th style="text-align:left">feature</th><th>gain</th></tr>'
    return f"<table>{head}{''.join(lines)}</table>"
