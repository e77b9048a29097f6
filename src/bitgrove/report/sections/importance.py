"""Which features the model uses, and how much."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.report.figures import shorts, text
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_MOST_FEATURES = 500


class Importance(Section):
    kind = "importance"
    title = "Feature importance"
    lead = (
        "Gain is how much the splits of a feature reduced the loss in training, splits is how "
        "often it was asked, cover how many training rows it was asked of. SHAP is how far it "
        "moves a prediction, on average over the rows shown."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        model = subject.model
        gain = model.feature_importance("gain")
        if not gain.any():
            return None
        kinds = {
            "gain": gain,
            "splits": model.feature_importance("split"),
            "cover": model.feature_importance("cover"),
        }
        if subject.explains:
            kinds["SHAP"] = np.abs(subject.contributions[:, :, :-1]).mean(axis=0).sum(axis=0)
        kept = np.argsort(-gain, kind="stable")[:_MOST_FEATURES]
        return {
            "names": [text(model.feature_names[f]) for f in kept],
            "n_features": model.n_features,
            "kinds": [
                {"name": name, "values": shorts(values[kept]), "total": shorts([values.sum()])[0]}
                for name, values in kinds.items()
            ],
        }
