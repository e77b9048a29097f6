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

    def _repr_html_(self: Any) -> str:
        """What a notebook shows."""
        from bitgrove.report.summary import model_html

        return model_html(self)

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
        """Write an HTML page about the model, and about its predictions for some rows.

        The page is one file that needs no network.

        Parameters
        ----------
        path : str or path
            Where to write it; an old file is replaced at once, or left alone on failure.
        X : table or Dataset, optional
            Rows to show the model with, best such that the training did not see. Without them the
            page shows the model alone.
        y : array, optional
            The true labels, in the words of the model's classes. Without them the sections that
            compare are left out.
        sample_weight : array, optional
            What each row counts.
        group, qid : array, optional
            The rows of each query, or a query id per row: for ranking.
        title : str, optional
            The headline.
        evals_result : dict, optional
            Learning curves of a model that was loaded from a file, which does not keep them.

        Examples
        --------
        >>> import numpy as np, bitgrove
        >>> X = np.arange(200.0).reshape(-1, 2)
        >>> model = bitgrove.train({"objective": "regression"}, bitgrove.Dataset(X, X[:, 0]))
        >>> model.report("report.html", X, X[:, 0])
        """
        from bitgrove.model.judged import GivenRows
        from bitgrove.report.page import html_page
        from bitgrove.report.sections import gather
        from bitgrove.report.subject import Subject

        model: Model = self
        given = GivenRows(X, y, sample_weight, group, qid)
        subject = Subject.of(model, given, title, evals_result)
        write_atomically(path, html_page(gather(subject)))
