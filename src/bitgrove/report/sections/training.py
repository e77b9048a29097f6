"""What training measured: integers, rounding, rounds and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
        n_trees = len(info.rounds_per_tree)
        at = thinned(n_trees // model.n_outputs, _MOST_POINTS)

        def each(values: Sequence[float]) -> list[Any]:
            """The mean of an iteration's trees."""
            by_iteration = np.asarray(values, np.float64).reshape(-1, model.n_outputs)
            return shorts(by_iteration.mean(axis=1)[at], 4)

        widths = sorted([int(width), n] for width, n in info.accumulator_widths.items())
        return {
            "bits": model.params.get("gradient_bits"),
            "rounding": model.params.get("rounding"),
            "scale": model.params.get("gradient_scale"),
            "device": info.device,
            "widths": widths,
            "iterations": (at + 1).tolist(),
            "noise": each(info.rounding_noise),
            "rounds": each(info.rounds_per_tree),
            "zero_rows": each(info.zero_rows),
            "n_trees": n_trees,
            "seconds": [[stage, short(took, 4)] for stage, took in info.seconds.items()],
        }
