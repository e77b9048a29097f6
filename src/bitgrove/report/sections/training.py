"""What training measured: integers, rounding, rounds and time."""

from __future__ import annotations

from typing import Any

from bitgrove.report.figures import short, shorts, thinned
from bitgrove.report.sections.base import Section
from bitgrove.report.subject import Subject

_MOST_POINTS = 500


class Training(Section):
    kind = "training"
    title = "Integers and time"
    lead = (
        "The model was trained in integers: each row's gradient was rounded to a few bits, and "
        "histograms are sums in the narrowest integers that provably cannot overflow."
    )

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        model, info = subject.model, subject.model.info
        if info is None or not (info.rounds_per_tree or info.seconds):
            return None
        at = thinned(len(info.rounds_per_tree), _MOST_POINTS)
        widths = sorted((int(width), n) for width, n in info.accumulator_widths.items())
        return {
            "bits": model.params.get("gradient_bits"),
            "rounding": model.params.get("rounding"),
            "scale": model.params.get("gradient_scale"),
            "device": info.device,
            "widths": widths,
            "trees": (at + 1).tolist(),
            "noise": shorts((info.rounding_noise[i] for i in at), 4),
            "rounds": [info.rounds_per_tree[i] for i in at],
            "zero_rows": [info.zero_rows[i] for i in at],
            "n_trees": len(info.rounds_per_tree),
            "seconds": [[stage, short(took, 4)] for stage, took in info.seconds.items()],
        }
