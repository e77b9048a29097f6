"""The explaining methods of a Model: what they accept and return, in the shapes people know.

Owns the surface alone; values.py, importance.py, permutation.py and dump.py do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from bitgrove.data.device_tables import on_host
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.errors import ParameterError, UnknownParameterError
from bitgrove.model.explain import dump, values
from bitgrove.model.explain.explanation import make_explanation, rows_as_given
from bitgrove.model.explain.importance import importance_of, thresholds_of
from bitgrove.model.explain.permutation import PermutationImportance, permuted_importance
from bitgrove.model.judged import GivenRows
from bitgrove.model.predict import as_int, checked_n_jobs, choose_gpu

if TYPE_CHECKING:
    from bitgrove.model.model import Model

F64 = npt.NDArray[np.float64]
_PERTURBATIONS = ("auto", "tree_path_dependent", "interventional")
# To explain a row in a tree takes as long as so many predictions of it.
_WALKS_PER_TREE = 50


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
        self._refuse_device("interactions", device)
        rows = on_host(_dense_rows(self._whole, X))
        found = values.interactions(part, rows, n_used, checked_n_jobs(n_jobs))
        return found if self._whole.n_outputs > 1 else found[:, 0]

    def shap_values(
        self,
        X: Any,
        *,
        feature_perturbation: str = "auto",
        background: Any = None,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> Any:
        """Shapley values of the raw scores, in the shapes of the package shap.

        (n_rows, n_features); with several outputs (n_rows, n_features, n_outputs). What is left of
        the raw score is `expected_value`. `feature_perturbation` says what happens to features that
        are not known: "tree_path_dependent" goes both ways at their splits, in the shares of the
        training rows; "interventional" takes them from each row of the table `background` (some
        hundred rows; time grows with their number) and averages. "auto" is the second where there
        is a background, else the first.
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
        feature_perturbation: str = "auto",
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

    def explain(
        self,
        X: Any,
        *,
        feature_perturbation: str = "auto",
        background: Any = None,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> Any:
        """Shapley values with the rows they are about, for `shap.plots`; arguments: `shap_values`.

        A `shap.Explanation` where the package shap is installed, else a record of the same fields.
        """
        model = self._whole
        part, n_used = model._part(start_iteration, num_iteration)
        given = self._background(feature_perturbation, background)
        found = on_host(part._contributions(X, n_used, n_jobs, device, given)).transpose(0, 2, 1)
        rows = on_host(_dense_rows(model, X))
        several = model.n_outputs > 1
        return make_explanation(
            values=found[:, :-1] if several else found[:, :-1, 0],
            base_values=found[:, -1] if several else found[:, -1, 0],
            data=rows[:, : model.n_features],
            display_data=None if model.encoder is None else rows_as_given(X),
            feature_names=list(model.feature_names),
            output_names=_output_names(model),
        )

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

    def permutation_importance(
        self,
        X: Any,
        y: Any = None,
        *,
        metric: str | None = None,
        n_repeats: int = 5,
        random_state: int = 0,
        sample_weight: Any = None,
        group: Any = None,
        qid: Any = None,
        n_jobs: int | None = None,
    ) -> PermutationImportance:
        """How much worse a metric is when the values of one feature are dealt to other rows.

        Best asked of rows that the training did not see. scikit-learn's function of this name does
        the same for estimators, with its own scorers.

        Parameters
        ----------
        X : table or Dataset
            The rows; a Dataset has its own label, weight and group.
        y : array, optional
            The true labels, in the words of the model's classes.
        metric : str, optional
            A name that `eval_metric` takes. None: the objective's own.
        n_repeats : int
            How often each feature is shuffled.
        random_state : int
            The seed of the shuffles.
        sample_weight, group, qid : array, optional
            What each row counts; the queries of a ranking.
        n_jobs : int, optional
            Threads, as in `predict`.

        Returns
        -------
        PermutationImportance
            `importances_mean`, `importances_std` and `importances` (n_features, n_repeats), as in
            scikit-learn; the `metric` and its `score` for the rows as they are.

        Examples
        --------
        >>> import numpy as np, bitgrove
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> model = bitgrove.train({"objective": "regression"}, bitgrove.Dataset(X, X[:, 0]))
        >>> found = model.permutation_importance(X, X[:, 0])
        >>> found.metric, bool(found.importances_mean[0] > 10 * found.importances_mean[1])
        ('rmse', True)
        """
        repeats, seed = as_int("n_repeats", n_repeats), as_int("random_state", random_state)
        if repeats < 1 or seed < 0:
            raise ParameterError(f"n_repeats={n_repeats}, random_state={random_state}: must be at "
                                 "least 1 and 0")  # fmt: skip
        given = GivenRows(X, y, sample_weight, group, qid)
        return permuted_importance(
            self._whole, given, metric, repeats, seed, checked_n_jobs(n_jobs)
        )

    def trees_to_dataframe(self, *, num_iteration: int | None = None) -> Any:
        """A pandas DataFrame with a line for every node, in LightGBM's columns."""
        return dump.to_dataframe(self._whole, self._whole._n_used(num_iteration))

    def dump_model(self, num_iteration: int | None = None, **more: Any) -> dict[str, Any]:
        """The forest as nested dictionaries, with LightGBM's names; json.dumps takes them.

        Levels that go left are joined by "||"; infinite thresholds are the largest number."""
        if more or isinstance(num_iteration, (str, Path)):  # XGBoost's writes a file
            raise UnknownParameterError(
                "dump_model: returns dictionaries and takes num_iteration alone; to_text() is a "
                "text of all trees, save(path) and export(path) write files"
            )
        return dump.to_dict(self._whole, self._whole._n_used(num_iteration))

    def to_text(self, *, num_iteration: int | None = None) -> str:
        """The trees to read: a line for every node, indented by depth."""
        return dump.to_text(self._whole, self._whole._n_used(num_iteration))

    def get_split_value_histogram(
        self, feature: str | int, bins: Any = None, *, num_iteration: int | None = None
    ) -> tuple[npt.NDArray[np.int64], F64]:
        """Counts and edges, as np.histogram has them, of the thresholds at a feature's splits."""
        used = self._whole._n_used(num_iteration)
        found = thresholds_of(self._whole, feature, used)
        n_bins = max(1, len(np.unique(found))) if bins is None else bins
        counts, edges = np.histogram(found, bins=n_bins)
        return counts, edges

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
            allowed = ", ".join(map(repr, _PERTURBATIONS))
            raise ParameterError(f"feature_perturbation={perturbation!r}: allowed are {allowed}")
        fits = (perturbation == "interventional") == (background is not None)
        if perturbation != "auto" and not fits:
            raise ParameterError(
                f"feature_perturbation={perturbation!r} with background="
                f"{'None' if background is None else 'a table'}: 'interventional' needs "
                "background, a table of rows; the other takes none"
            )
        if background is None:
            return None
        found = _dense_rows(self._whole, background)
        rows: npt.NDArray[Any] = on_host(found)
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
        model = self._whole
        work = n_used * model.n_outputs * _WALKS_PER_TREE
        gpu = choose_gpu(X, device, model._trained_on, work)
        rows = _dense_rows(model, X)
        n_threads = checked_n_jobs(n_jobs)
        if background is not None:
            self._refuse_device("values beside a background", device)
            return values.interventional(model, on_host(rows), background, n_used, n_threads)
        if gpu is not None:
            return values.contributions_on(model, gpu, rows, n_used)
        return values.contributions(model, rows, n_used, n_threads)

    def _refuse_device(self, what: str, device: str | None) -> None:
        if device not in (None, "cpu", "auto"):
            raise ParameterError(f"device={device!r}: {what} are computed on the CPU")


def _dense_rows(model: Model, X: Any) -> Any:
    """Contributions have a number for every feature: they are as wide as dense rows."""
    return rows_for_prediction(X, model.feature_names, model.encoder, dense=True)


def _output_names(model: Model) -> list[str] | None:
    if model.n_outputs == 1:
        return None
    labels = model.classes if model.n_classes == model.n_outputs else None
    return [str(label) for label in labels or range(model.n_outputs)]
