"""The report: one HTML page about a model and what it says of some rows.

Owns Reported, the method `report` of models. subject.py holds the model and the rows, sections/
gathers what is worth showing as plain values, page.py makes one file of it that needs no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bitgrove.machine.files import PathLike, write_atomically

if TYPE_CHECKING:
    from bitgrove.model.model import Model

Curves = Mapping[str, Mapping[str, Sequence[float]]]  # of sets, of metrics


class Reported:
    """What can be shown on a page."""

    def report(
        self: Any,
        path: PathLike,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        group: Any = None,
        qid: Any = None,
        title: str | None = None,
        evals_result: Curves | None = None,
    ) -> None:
        """Write an HTML page about the model, and about its predictions for the rows of X.

        X is a table or a Dataset, best of rows that the training did not see; without it the page
        shows the model alone. y are the true labels, in the words of the model's classes; without
        them the sections that compare are left out. `group` (rows of each query) or `qid` (a query
        id per row) are for ranking. `title` is the headline. `evals_result` has the learning curves
        of a model that was loaded from a file, which does not keep them. The page is one file that
        needs no network; docs/report.md shows one.
        """
        from bitgrove.report.page import html_page
        from bitgrove.report.sections import gather
        from bitgrove.report.subject import GivenRows, Subject

        model: Model = self
        given = GivenRows(X, y, sample_weight, group, qid)
        subject = Subject.of(model, given, title, evals_result)
        write_atomically(path, html_page(gather(subject)))
