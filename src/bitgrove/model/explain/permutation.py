"""How much worse a model becomes when a feature's values are dealt to other rows.

Owns PermutationImportance. Receives a Model, rows with labels and a metric; returns what each
feature is worth to it. The fields have scikit-learn's names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.device_tables import on_host
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.errors import DataError, ParameterError
from bitgrove.model.explain.importance import importance_of
from bitgrove.model.explain.values import players
from bitgrove.model.judged import GivenRows, judged_rows, objective_of, predicted, score
from bitgrove.objectives import Objective
from bitgrove.objectives.metrics import judged_by, make_metric
from bitgrove.params import BY_NAME
from bitgrove.params.parameter import NO_METRIC, checked

if TYPE_CHECKING:
    from bitgrove.model.model import Model

F64 = NDArray[np.float64]


_METRIC = replace(BY_NAME["eval_metric"], name="metric")


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """How much worse the metric is with a feature's values shuffled; 0: the same, or unused.

    `importances` is (n_features, n_repeats); `score` is the metric of the rows as they are.
    """

    metric: str
    score: float
    importances: F64

    @property
    def importances_mean(self) -> F64:
        return np.asarray(self.importances.mean(axis=1))

    @property
    def importances_std(self) -> F64:
        return np.asarray(self.importances.std(axis=1))


def permuted_importance(
    model: Model, given: GivenRows, metric: Any, n_repeats: int, seed: int, n_jobs: int | None
) -> PermutationImportance:
    """Repeat k of feature f deals its values by default_rng((seed, f, k)).permutation."""
    objective = objective_of(model)
    wanted = _name_of_metric(objective, metric)
    rows = judged_rows(model, given)
    if rows.label is None:
        raise DataError("permutation_importance needs the true labels y")
    found = rows_for_prediction(rows, model.feature_names, model.encoder, dense=True)
    table = on_host(found)

    def judged(values: NDArray[Any]) -> tuple[Any, float]:
        return score(objective, wanted, rows, predicted(model, rows, n_jobs, values))

    judge, whole = judged(table)
    dealt, found = table.copy(), np.zeros((model.n_features, n_repeats))
    worse = -1.0 if judge.higher_is_better else 1.0
    for feature in np.flatnonzero(importance_of(model, "split", model._n_used(None))):
        columns = np.flatnonzero(players(model) == feature)
        for k in range(n_repeats):
            order = np.random.default_rng((seed, int(feature), k)).permutation(len(table))
            dealt[:, columns] = table[np.ix_(order, columns)]
            found[feature, k] = worse * (judged(dealt)[1] - whole)
        dealt[:, columns] = table[:, columns]
    return PermutationImportance(judge.name, whole, found)


def _name_of_metric(objective: Objective, given: Any) -> str:
    """The objective's own where none is given; ParameterError for one that cannot judge it."""
    names: Any = (objective.default_metric,) if given is None else checked(_METRIC, given)
    if len(names) != 1 or not isinstance(names[0], str) or names == NO_METRIC:
        raise ParameterError(f"metric={given!r}: name one, for objective={objective.name!r}")
    if objective.name not in judged_by(make_metric(names[0])):
        raise ParameterError(f"metric={given!r} cannot judge objective={objective.name!r}")
    return str(names[0])
