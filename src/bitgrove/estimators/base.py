"""What the estimators share in fitting.

Owns scikit-learn's conventions of fit: checks of X and y and of parameters. Receives tables and
targets; returns fitted estimators whose `model_` is the Model that `train` returns. Arguments and
docstrings of the classes are made from the table of parameters (signature.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d

from bitgrove.callbacks import Callback
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import on_host
from bitgrove.data.given_rows import Rows, either, pairs_of, same_rows, with_each
from bitgrove.data.given_values import as_stored, not_masked
from bitgrove.errors import DataError, ParameterError, Problems, UnknownParameterError
from bitgrove.estimators.fitted import Array, Fitted
from bitgrove.estimators.signature import OF_ALL, docstring, main_names, make_init, table_of
from bitgrove.machine.files import PathLike
from bitgrove.model.model import Model
from bitgrove.objectives import OBJECTIVES, Custom, Objective
from bitgrove.params import BY_NAME, Parameter, TrainParams, resolve
from bitgrove.params.parameter import checked
from bitgrove.params.resolve import with_shorthands
from bitgrove.training.train import train

if TYPE_CHECKING:
    from typing_extensions import Self


class Estimator(Fitted):
    """From tables and targets to a model and its fitted attributes."""

    own_parameters: ClassVar[tuple[Parameter, ...]] = OF_ALL
    # Whether y may have several columns, which are learnt side by side.
    takes_columns: ClassVar[bool] = False

    objective: str | None
    warm_start: bool
    validation_fraction: float | None
    random_state: Any

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if cls.__name__.startswith("_"):
            return
        taken = [objective for objective in OBJECTIVES.values() if cls.takes(objective)]
        cls.parameters = table_of(taken, cls.own_parameters)
        cls.__init__ = make_init(cls.parameters)  # type: ignore[method-assign]
        cls.__doc__ = docstring(cls.__doc__ or "", cls.parameters)

    def set_params(self, **params: Any) -> Self:
        """As scikit-learn has it; parameters may have any of their names."""
        nested = {name: value for name, value in params.items() if "__" in name}
        mine = {name: value for name, value in params.items() if name not in nested}
        with suppress(UnknownParameterError):  # scikit-learn has its own words for these
            mine = main_names(type(self).__name__, self.parameters, mine)
        super().set_params(**mine, **nested)
        return self

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        init_score: Any = None,
        eval_set: Any = None,
        eval_sample_weight: Any = None,
        eval_init_score: Any = None,
        eval_names: Sequence[str] | None = None,
        feature_name: Sequence[str] | None = None,
        callbacks: Sequence[Callback] | None = None,
        init_model: Model | PathLike | Estimator | None = None,
        resume_from: Model | PathLike | None = None,
        **more: Any,
    ) -> Self:
        """Train on X (any table; NaN is a missing value) and y, with optional row weights.

        `eval_set` is one (X, y) or a list of them, judged after each iteration and used for early
        stopping; `eval_sample_weight` and `eval_names` hold one weight array and one name each.
        `init_score` (XGBoost `base_margin`) holds the scores that training starts from, which
        predictions do not hold; `eval_init_score` those of each eval set.
        The training data among them is judged but does not stop anything. `feature_name` names the
        features of a table without names. `init_model` is a model to go on from, `resume_from` a
        checkpoint of the same fit, see `train`. Parameters such as `eval_metric`,
        `early_stopping_rounds` or `verbose` may be given here for this fit, too.
        """
        eval_weights, more = either(eval_sample_weight, "eval_sample_weight", more)
        scores, more = either(init_score, "init_score", more)
        eval_scores, more = either(eval_init_score, "eval_init_score", more)
        each = with_each(
            pairs_of(eval_set), eval_sample_weight=eval_weights, eval_init_score=eval_scores
        )
        valid = [Rows(pair[0], pair[1], weight, init_score=start) for pair, weight, start in each]
        model, more = either(init_model, "init_model", more)
        how = {"valid_names": eval_names, "callbacks": callbacks, "resume_from": resume_from,
               "init_model": model}  # fmt: skip
        rows = Rows(X, y, sample_weight, names=feature_name, init_score=scores)
        return self._fit(rows, valid, how, more)

    def _fit(
        self, rows: Rows, valid: Sequence[Rows], how: dict[str, Any], more: Mapping[str, Any]
    ) -> Self:
        """`how` are arguments of train(), `more` parameters for this fit alone."""
        more = dict(more)
        listed = more.pop("categorical_feature", None)  # LightGBM's fit has it
        rows = rows._replace(categories=listed)
        valid = [others._replace(categories=listed) for others in valid]
        problems = Problems()
        given: dict[str, Any] = {}
        with problems.collect():
            given = self._checked(more)
        valid_sets: list[Dataset] = []
        with problems.collect():
            train_set = self._dataset(rows)
            for others in valid:
                mine = same_rows(others, rows)
                names = train_set.feature_names
                valid_sets.append(train_set if mine else self._dataset(others, names))
        problems.report()
        if self.validation_fraction is not None and not valid_sets:
            train_set, held = self._held_out(train_set)
            valid_sets.append(held)
        params = self._params(given, has_valid=bool(valid_sets))
        n_left, how = self._going_on(params, how)
        if n_left > 0:
            if n_left < params.n_estimators:
                rate = params.learning_rate
                rate = rate[-n_left:] if isinstance(rate, tuple) else rate
                params = replace(params, n_estimators=n_left, learning_rate=rate)
            self._keep(train(params, train_set, valid_sets=valid_sets, **how))
        return self

    def _held_out(self, dataset: Dataset) -> tuple[Dataset, Dataset]:
        """The rows to train on, and those that `validation_fraction` keeps away."""
        sizes, label = dataset.group, dataset.label
        by_class = hasattr(self, "classes_") and label is not None and label.ndim == 1
        # Queries stay whole; without queries every row is one of its own.
        owner = np.arange(dataset.n_rows)
        owner = owner if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
        try:
            _, held = train_test_split(
                np.unique(owner),
                test_size=self.validation_fraction,
                random_state=_seed(self.random_state),
                stratify=label if by_class else None,
            )
        except ValueError as error:
            raise DataError(f"validation_fraction={self.validation_fraction}: {error}") from None
        judged = np.isin(owner, held)
        return dataset.subset(~judged), dataset.subset(judged)

    def _going_on(self, params: TrainParams, how: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The iterations that are still to do: with warm_start, after those of the last fit."""
        if not self.warm_start or not hasattr(self, "model_"):
            return params.n_estimators, how
        if how["init_model"] is not None:
            raise ParameterError("init_model and warm_start exclude each other")
        n_left = params.n_estimators - self.n_iter_
        if n_left < 0:
            raise ParameterError(
                f"n_estimators={params.n_estimators}: the last fit, from which warm_start goes on, "
                f"has {self.n_iter_}"
            )
        if n_left == 0:
            warnings.warn("warm_start without a larger n_estimators fits nothing", stacklevel=4)
        return n_left, {**how, "init_model": self.model_}

    def _checked(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that train() knows, `more` before those of __init__; all are checked."""
        for_fit = main_names(f"{type(self).__name__}.fit", self.parameters, more)
        mine = {name: getattr(self, name) for name in self.parameters}
        given = {**mine, **for_fit, "random_state": _seed(self.random_state)}
        problems = Problems()
        for own in self.own_parameters:
            with problems.collect():
                checked(own, given[own.name])
        known = {name: value for name, value in given.items() if name in BY_NAME}
        with problems.collect():
            known = with_shorthands(known)
        with problems.collect():
            resolve({**known, "objective": None})
        with problems.collect():
            self._given_objective(known)
        problems.report()
        return known

    def _params(self, given: Mapping[str, Any], *, has_valid: bool) -> TrainParams:
        """What was `_checked`, for the classes that were learnt."""
        params = resolve({**given, **self._objective(given)})
        if params.early_stopping_rounds is not None and not has_valid:
            raise ParameterError(
                f"early_stopping_rounds={params.early_stopping_rounds} needs validation data: "
                "give fit an eval_set=(X, y), or set validation_fraction"
            )
        return params

    def _given_objective(self, given: Mapping[str, Any]) -> type[Objective] | None:
        """The objective that the user named, if any."""
        own = given["objective"]
        name = Custom.name if callable(own) else checked(BY_NAME["objective"], own)
        if name is None:
            return None
        objective = OBJECTIVES[str(name)]
        if not self.takes(objective):
            taken = [known for known, one in OBJECTIVES.items() if self.takes(one)]
            raise ParameterError(
                f"objective={name!r}: {type(self).__name__} takes {', '.join(map(repr, taken))}"
            )
        return objective

    def _objective(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The objective, and the parameters that tell it what was learnt from y."""
        objective = self._given_objective(given) or self._own_objective()
        return {"objective": self._spelled(objective, given)}

    def _spelled(self, objective: type[Objective], given: Mapping[str, Any]) -> Any:
        """The objective's name, or the user's function."""
        return given["objective"] if objective is Custom else objective.name

    def _own_objective(self) -> type[Objective]:
        """What it trains with when the user names none."""
        raise NotImplementedError

    def _dataset(self, rows: Rows, names: list[str] | None = None) -> Dataset:
        """The training data, or with the `names` of its features: validation data."""
        problems = Problems()
        with problems.collect():
            table = self._table(rows.X, self._categories(rows), reset=names is None)
        with problems.collect():
            assert_all_finite(target := self._target(on_host(rows.y)), input_name="y")
            weight = None
            if rows.weight is not None:
                weight = column_or_1d(not_masked("sample_weight", on_host(rows.weight)))
            if weight is not None and weight.dtype.kind not in "biuf":
                raise DataError(f"sample_weight must hold numbers, got {weight.dtype}")
            if weight is not None and (weight < 0).any():
                raise DataError(f"sample_weight must not be negative, got {weight.min():g}")
        problems.report()
        # A weight per query is an error of the Dataset, which says so.
        check_consistent_length(table, target, weight if rows.queries is None else None)
        label = self._label(target) if names else self._learn_label(target, weight)
        group = None if rows.queries is None else rows.queries.sizes(target)
        return Dataset(
            table,
            label,
            weight=weight,
            group=group,
            init_score=rows.init_score,
            feature_names=names or rows.names,
            categorical_feature=self._categories(rows),
        )

    def _target(self, y: Any) -> Array:
        y = as_stored(not_masked("y", y))
        target = np.asarray(y)
        several = self.takes_columns and target.ndim == 2 and target.shape[1] > 1
        is_vector = target.ndim == 1 and target.dtype.kind in "biuf"
        return target if several or is_vector else np.asarray(column_or_1d(y, warn=True))

    def _categories(self, rows: Rows) -> Any:
        return self.categorical_features if rows.categories is None else rows.categories

    def _learn_label(self, target: Array, weight: Array | None) -> Array:
        return self._label(target)

    def _label(self, target: Array) -> Array:
        if target.dtype.kind not in "biufO":
            raise DataError(f"y must hold numbers, got {target.dtype}")
        try:
            return target.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"y must hold numbers: {error}") from None


def _seed(random_state: Any) -> Any:
    """A seed drawn from a generator; anything else is left for `resolve` to judge."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state
