"""SHAP values of sampled rows: all of them at once, by feature, and row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.report.figures import F64, short, shorts, text
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_MOST_FEATURES, _MOST_OUTPUTS = 16, 12


class Contributions(Section):
    kind = "contributions"
    title = "What moves the predictions"
    lead = (
        "SHAP values share a prediction out among its features: with the average score they add up "
        "to the model's score of a row, before any link function. A point is a row."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        model = subject.model
        if not subject.explains:
            return None
        shap, rows = subject.contributions, subject.explained
        size = np.abs(shap[:, :, :-1]).mean(axis=0).sum(axis=0)
        top = np.argsort(-size, kind="stable")[:_MOST_FEATURES]
        top = top[size[top] > 0.0]
        rest = np.setdiff1d(np.arange(model.n_features), top)
        return {
            "rows": rows.tolist(),
            "predictions": _said(subject, rows),
            "n_rest": len(rest),
            "features": [_feature(subject, int(f), rows) for f in top],
            "outputs": [
                {
                    "name": text(name),
                    "base": short(shap[0, k, -1]),
                    "values": [shorts(shap[:, k, f], 4) for f in top],
                    "rest": shorts(shap[:, k, rest].sum(axis=1), 4),
                }
                for k, name in enumerate(subject.output_names[:_MOST_OUTPUTS])
            ],
        }


def _feature(subject: Subject, f: int, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Its values; `levels` where it is a category, whose values are then positions in that list."""
    values = subject.shown_values(f, rows)
    found: dict[str, Any] = {"name": text(subject.model.feature_names[f])}
    if any(isinstance(value, str) for value in values):
        names = sorted({value for value in values if value is not None})
        found["levels"] = [text(name) for name in names]
        place = {name: number for number, name in enumerate(names)}
        found["values"] = [None if value is None else place[value] for value in values]
    else:
        found["values"] = [None if value is None else short(value) for value in values]
    numbers = np.array([np.nan if value is None else value for value in found["values"]])
    found["shade"] = _shades(numbers)
    return found


def _shades(values: F64) -> list[int | None]:
    """How high each value is among all, 0 to 100; None where it is missing."""
    there = ~np.isnan(values)
    known = np.sort(values[there])
    below = np.searchsorted(known, values, side="left")
    upto = np.searchsorted(known, values, side="right")
    place = 100.0 * (below + upto) / max(2 * len(known), 1)
    return [round(float(p)) if ok else None for p, ok in zip(place, there, strict=True)]


def _said(subject: Subject, rows: NDArray[np.int64]) -> list[str]:
    """What the model says of each row, and what is true, as text for the list of rows."""
    return [row_text(subject, int(row)) for row in rows]


def row_text(subject: Subject, row: int) -> str:
    model, prediction = subject.model, subject.prediction[row]
    classes = model.classes
    if np.ndim(prediction) == 0:
        said = f"predicted {prediction:.4g}"
    elif model.n_classes == model.n_outputs:
        best = int(np.argmax(prediction))
        said = f"predicted {subject.output_names[best]} ({prediction[best]:.3g})"
    else:
        said = "predicted " + ", ".join(f"{value:.3g}" for value in prediction[:4])
    if subject.label is None:
        return text(said)
    label = subject.label[row]
    if np.ndim(label) > 0:
        return text(f"{said}; true {', '.join(f'{value:g}' for value in label[:4])}")
    return text(f"{said}; true {classes[int(label)] if classes else f'{label:.4g}'}")
