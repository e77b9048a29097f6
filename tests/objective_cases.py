"""Data for any registered objective, and the comparisons that every backend must pass with it.

Labels follow the objective's own rules, so a new objective is tested without being named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove.backends.base import make_targets
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.backends.told import Gradients
from bitgrove.data.row_ids import one_run
from bitgrove.errors import DataError
from bitgrove.objectives import OBJECTIVES, Objective, Regression
from cases import signal, table

F64 = NDArray[np.float64]
N_CLASSES = 5  # of objectives that take any number
N_ROWS = 50_000  # enough that several threads share them


def cubed_gap(label: F64, score: F64) -> tuple[F64, F64]:
    """A user's objective, of operations that are rounded equally everywhere."""
    gap = score - label
    return gap * abs(gap), 2.0 * abs(gap) + 0.125


def settings_of(name: str) -> dict[str, Any]:
    """What the objective cannot do without."""
    kind = OBJECTIVES[name]
    own = {"objective_function": cubed_gap} if "objective_function" in kind.parameters() else {}
    return {**kind.class_settings(N_CLASSES), **own}


def make_objective(name: str) -> Objective:
    objective = OBJECTIVES[name].from_settings(settings_of(name))
    objective.check_settings()
    return objective


def make_labels(objective: Objective, values: F64) -> F64:
    """Labels that rise with the values, of the first kind that the objective takes."""
    top = objective.top_label
    if top is not None:
        n_labels = min(top + 1, N_CLASSES)
        borders = np.quantile(values, np.arange(1, n_labels) / n_labels)
        return np.digitize(values, borders).astype(np.float64)
    positive = values - values.min()
    share = positive / positive.max(initial=1e-9)
    for label in (values, positive, positive + 1.0, share, np.floor(positive)):
        try:
            objective.check_labels(label)
        except DataError:
            continue
        return label
    raise AssertionError(f"no labels fit objective {objective.name!r}")


def make_group(n_rows: int, seed: int = 0) -> NDArray[np.int64]:
    """Queries of up to 30 rows."""
    sizes = np.random.default_rng(seed).integers(1, 31, size=n_rows)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), n_rows))]
    return np.append(sizes, n_rows - sizes.sum()).astype(np.int64)


@dataclass
class ObjectiveCase:
    objective: Objective
    scores: F64
    label: F64
    weight: NDArray[np.float32] | None
    group: NDArray[np.int64]

    def gradients(self, backend: Any) -> Gradients:
        data = (self.label, self.weight, self.group)
        targets = make_targets(backend, self.objective, *data, one_run(len(self.label), 5))
        scores = backend.upload(self.scores)
        return backend.gradients(self.objective, scores, targets)


def make_case(objective: Objective, weighted: bool, n_rows: int = N_ROWS) -> ObjectiveCase:
    rng = np.random.default_rng(1)
    scale = rng.choice([1e-3, 1.0, 300.0], size=n_rows)
    scores = rng.normal(size=(objective.n_outputs, n_rows)) * scale
    scores[:, ::3] = np.round(scores[:, ::3] * 4) / 4  # equal scores
    weight = rng.uniform(0.1, 9, n_rows).astype(np.float32) if weighted else None
    label = make_labels(objective, rng.normal(size=n_rows))
    objective.check_labels(label)
    return ObjectiveCase(objective, scores, label, weight, make_group(n_rows))


@cache
def known_case(name: str, weighted: bool) -> tuple[ObjectiveCase, Gradients]:
    """A case and what the oracle says about it."""
    case = make_case(make_objective(name), weighted)
    return case, case.gradients(ReferenceBackend())


def few_rows(name: str, n_rows: int) -> tuple[ObjectiveCase, Gradients]:
    """Up to 7 rows in one query; a shard may have none."""
    whole = make_case(make_objective(name), weighted=True, n_rows=7)
    assert whole.weight is not None
    group = np.array([n_rows] if n_rows else [], dtype=np.int64)
    part = (whole.scores[:, :n_rows].copy(), whole.label[:n_rows], whole.weight[:n_rows])
    case = ObjectiveCase(whole.objective, *part, group)
    return case, case.gradients(ReferenceBackend())


def scores_with(bad: float) -> ObjectiveCase:
    """Squared error, whose gradients are the scores here."""
    return ObjectiveCase(
        Regression(), np.array([[1.0, bad]]), np.zeros(2), None, np.array([2], dtype=np.int64)
    )


def check_gradients(backend: Any, case: ObjectiveCase, expected: Gradients) -> None:
    """Gradients, and their magnitudes: the bits of the oracle."""
    found = case.gradients(backend)
    assert backend.download(found.grad).tobytes() == expected.grad.tobytes()
    assert (found.hess is None) == (expected.hess is None)
    if expected.hess is not None:
        assert backend.download(found.hess).tobytes() == expected.hess.tobytes()
    np.testing.assert_array_equal(found.magnitudes, expected.magnitudes)
    last = found.output(case.objective.n_outputs - 1)
    assert backend.download(last.grad).tobytes() == expected.grad[-1].tobytes()


def train_on(device: str, name: str, **params: Any) -> bg.Model:
    """A small training of the objective, with a validation set."""
    objective = make_objective(name)
    X = table(700, 5, 2, missing=0.05)
    label = make_labels(objective, signal(X, 2))
    weight = np.random.default_rng(3).integers(1, 1000, size=700) / 256
    metric = {} if objective.default_metric else {"metric": "rmse"}
    given = {
        **settings_of(name), **metric, "objective": name,
        "n_estimators": 4, "num_leaves": 9, "min_child_samples": 5, "device": device, **params,
    }  # fmt: skip
    rows = bg.Dataset(X[:500], label[:500], weight=weight[:500], group=make_group(500))
    valid = bg.Dataset(X[500:], label[500:], group=make_group(200))
    return bg.train(given, rows, valid_sets=valid)


def evaluations(model: bg.Model) -> dict[str, list[float]]:
    assert model.info is not None
    return model.info.evals_result["valid_0"]
