"""The explaining methods of a Model: what they accept and return, in the shapes people know.

Owns the surface alone; values.py, importance.py, dump.py and frame.py do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.errors import ParameterError
from bitgrove.model.explain import values
from bitgrove.model.explain.importance import importance_of
from bitgrove.model.predict import checked_n_jobs

if TYPE_CHECKING:
    from bitgrove.model.model import Model

F64 = npt.NDArray[np.float64]
_PERTURBATIONS = ("tree_path_dependent", "interventional")


class Explains:
    """What a model says about itself and about its predictions; a part of Model."""

    @property
    def _whole(self) -> Model:
        return cast("Model", self)

    def predict_contrib(
        self,
        X: Any,
        *,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> Any:
        """What each feature adds to the raw score of each row, in LightGBM's shape.

        (n_rows, n_features + 1), the expected score last; with several outputs
        (n_rows, n_outputs * (n_features + 1)), output after output. These are exact Shapley values,
        of the trees and the training rows in their leaves: the sum of a row is its raw score.
        Columns that a category became count as that category.
        """
        part, n_used = self._whole._part(start_iteration, num_iteration)
        found = part._contributions(X, n_used, n_jobs, device)
        return found.reshape(len(found), self._whole.n_outputs * (self._whole.n_features + 1))

    def predict_interactions(
        self,
        X: Any,
        *,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> F64:
        """What each pair of features adds to the raw score of each row, in XGBoost's shape.

        (n_rows, n_features + 1, n_features + 1), the expected score in the last corner; with
        several outputs (n_rows, n_outputs, n_features + 1, n_features + 1). A row of a matrix sums
        to the feature's contribution; each of a pair has half of what they add together. On the
        CPU.
        """
        part, n_used = self._whole._part(start_iteration, num_iteration)
        if device not in (None, "cpu", "auto"):
            raise ParameterError(f"device={device!r}: interactions are computed on the CPU")
        rows = rows_for_prediction(X, self._whole.feature_names, self._whole.encoder)
        found = values.interactions(part, rows, n_used, checked_n_jobs(n_jobs))
        return found if self._whole.n_outputs > 1 else found[:, 0]

    def shap_values(
        self,
        X: Any,
        *,
        feature_perturbation: str = "tree_path_dependent",
        background: Any = None,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> Any:
        """Shapley values of the raw scores, in the shapes of the package shap.

        (n_rows, n_features); with several outputs (n_rows, n_features, n_outputs). What is left of
        the raw score is `expected_value`. `feature_perturbation` says what happens to features that
        are not known: "tree_path_dependent", the default, goes both ways at their splits, in the
        shares of the training rows; "interventional" takes them from each row of the table
        `background` (some hundred rows; time grows with their number) and averages.
        """
        part, n_used = self._whole._part(start_iteration, num_iteration)
        given = self._background(feature_perturbation, background)
        found = part._contributions(X, n_used, n_jobs, device, given)
        return (
            found[:, 0, :-1] if self._whole.n_outputs == 1 else found[:, :, :-1].transpose(0, 2, 1)
        )

    def expected_value(
        self,
        *,
        feature_perturbation: str = "tree_path_dependent",
        background: Any = None,
        start_iteration: int = 0,
        num_iteration: int | None = None,
    ) -> Any:
        """The raw score of a row of which nothing is known: a float, or one for each output."""
        part, n_used = self._whole._part(start_iteration, num_iteration)
        given = self._background(feature_perturbation, background)
        if given is None:
            expected = values.expected_scores(part, n_used)
        else:
            expected = values.background_scores(part, given, n_used, None)
        return expected if self._whole.n_outputs > 1 else float(expected[0])

    def shap_interaction_values(
        self,
        X: Any,
        *,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
    ) -> F64:
        """Interactions in the shapes of the package shap: (n_rows, n_features, n_features), with
        several outputs a last dimension for them; see `predict_interactions`."""
        found = self.predict_interactions(
            X, start_iteration=start_iteration, num_iteration=num_iteration, n_jobs=n_jobs
        )[..., :-1, :-1]
        return found if self._whole.n_outputs == 1 else np.moveaxis(found, 1, -1)

    def feature_importance(
        self,
        kind: str = "gain",
        *,
        num_iteration: int | None = None,
        importance_type: str | None = None,
    ) -> F64:
        """Per feature: the total gain of its splits ("gain"), their number ("split"), or the number
        of training rows that they divided ("cover").

        `importance_type` is LightGBM's name of `kind`.
        """
        kind = kind if importance_type is None else importance_type
        return importance_of(self._whole, kind, self._whole._n_used(num_iteration))

    def _answer_for(self, asked: Sequence[str]) -> Callable[..., Any]:
        """The method behind a `pred_` switch of `predict`."""
        if len(asked) > 1:
            raise ParameterError(f"{' and '.join(asked)} exclude each other")
        answers: dict[str, Callable[..., Any]] = {
            "pred_leaf": self._whole.predict_leaf,
            "pred_contrib": self.predict_contrib,
            "pred_interactions": self.predict_interactions,
        }
        return answers[asked[0]]

    def _background(self, perturbation: str, background: Any) -> npt.NDArray[Any] | None:
        """Its rows as the forest reads them; None: the training rows in the leaves."""
        if perturbation not in _PERTURBATIONS:
            allowed = " and ".join(map(repr, _PERTURBATIONS))
            raise ParameterError(f"feature_perturbation={perturbation!r}: allowed are {allowed}")
        if (perturbation == "interventional") != (background is not None):
            raise ParameterError(
                f"feature_perturbation={perturbation!r} with background="
                f"{'None' if background is None else 'a table'}: 'interventional' needs "
                "background, a table of rows; the other takes none"
            )
        if background is None:
            return None
        rows = rows_for_prediction(background, self._whole.feature_names, self._whole.encoder)
        if len(rows) == 0:
            raise ParameterError("background has no rows")
        return rows

    def _contributions(
        self,
        X: Any,
        n_used: int,
        n_jobs: int | None,
        device: str | None,
        background: npt.NDArray[Any] | None = None,
    ) -> Any:
        """(n_rows, n_outputs, n_features + 1) of the first iterations."""
        rows = rows_for_prediction(X, self._whole.feature_names, self._whole.encoder)
        n_threads = checked_n_jobs(n_jobs)
        if background is not None:
            return values.interventional(self._whole, rows, background, n_used, n_threads)
        return values.contributions(self._whole, rows, n_used, n_threads)
