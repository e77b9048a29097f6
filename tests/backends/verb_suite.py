"""One suite of tests for the verbs of every backend: each must give the reference's bits.

A test module makes a fixture `backend` and a class that inherits from VerbSuite. Gradients and
magnitudes are tested with the objectives.
"""

from __future__ import annotations

from verbs_of_data import ColumnVerbs, CopyVerbs, RowVerbs
from verbs_of_growth import GrowthVerbs
from verbs_of_histograms import FindVerbs, HistogramVerbs, MessageVerbs
from verbs_of_leaves import DivideVerbs, LeafVerbs


class VerbSuite(
    ColumnVerbs,
    CopyVerbs,
    RowVerbs,
    HistogramVerbs,
    FindVerbs,
    MessageVerbs,
    DivideVerbs,
    LeafVerbs,
    GrowthVerbs,
):
    """All verbs."""
