"""The sections of a report: one class each, registered once, in the order of the page."""

from __future__ import annotations

from typing import Any

from bitgrove.report.figures import text
from bitgrove.report.sections.base import Section
from bitgrove.report.sections.calibration import Calibration
from bitgrove.report.sections.classes import Confusion
from bitgrove.report.sections.contributions import Contributions
from bitgrove.report.sections.curves import Curves
from bitgrove.report.sections.importance import Importance
from bitgrove.report.sections.intervals import Coverage
from bitgrove.report.sections.queries import Queries
from bitgrove.report.sections.residuals import Residuals
from bitgrove.report.sections.summary import Summary
from bitgrove.report.sections.thresholds import Thresholds
from bitgrove.report.sections.training import Training
from bitgrove.report.sections.trees import Trees
from bitgrove.report.subject import Subject
from bitgrove.version import __version__

SECTIONS: tuple[Section, ...] = (
    Summary(), Curves(), Thresholds(), Confusion(), Calibration(), Residuals(), Coverage(),
    Queries(), Importance(), Contributions(), Trees(), Training(),
)  # fmt: skip


def gather(subject: Subject) -> dict[str, Any]:
    """The whole page as plain values."""
    found = [(section, section.gather(subject)) for section in SECTIONS]
    return {
        "title": text(subject.title),
        "subtitle": _subtitle(subject),
        "version": __version__,
        "sections": [
            {"kind": section.kind, "title": section.title, "lead": section.lead, **content}
            for section, content in found
            if content is not None
        ],
    }


def _subtitle(subject: Subject) -> str:
    model = subject.model
    bits = model.params.get("gradient_bits")
    how = "at full precision" if bits is None else f"with {bits}-bit gradients"
    shown = "" if subject.rows is None else f", shown with {subject.n_rows:,} rows"
    return f"{len(model.trees):,} trees on {model.n_features:,} features, trained {how}{shown}."
