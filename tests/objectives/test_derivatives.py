"""Gradients and hessians of every registered loss, from its formula as textbooks have it.

A new loss fails until its formula is written here, without a look at its class. Losses of queries,
which come in pairs or lists, have a test of their own elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bitgrove.objectives import OBJECTIVES, Objective
from objective_cases import make_labels, settings_of

F64 = NDArray[np.float64]
N_ROWS = 400


def sigmoid(x: F64) -> F64:
    return 1.0 / (1.0 + np.exp(-x))


def logistic(score: F64, y: F64, slope: float = 1.0) -> F64:
    """-y log(p) - (1 - y) log(1 - p), where p = sigmoid(slope * score)."""
    return y * np.log1p(np.exp(-slope * score)) + (1 - y) * np.log1p(np.exp(slope * score))


def binary(s: F64, y: F64, sigmoid: float = 1.0, scale_pos_weight: float = 1.0) -> F64:
    return np.where(y == 1, scale_pos_weight, 1.0) * logistic(s[0], y, sigmoid)


def focal(s: F64, y: F64, focal_gamma: float, focal_alpha: float) -> F64:
    p = np.where(y == 1, sigmoid(s[0]), sigmoid(-s[0]))  # of the row's own class
    alpha = np.where(y == 1, focal_alpha, 1 - focal_alpha)
    return -alpha * (1 - p) ** focal_gamma * np.log(p)


def softmax(s: F64, y: F64, num_class: int) -> F64:
    p = np.exp(s) / np.exp(s).sum(axis=0)
    return -np.log(p[y.astype(int), np.arange(len(y))])


def one_against_all(s: F64, y: F64, num_class: int, sigmoid: float) -> F64:
    return sum(logistic(s[k], (y == k) * 1.0, sigmoid) for k in range(num_class))


def huber(s: F64, y: F64, huber_delta: float) -> F64:
    gap = np.abs(y - s[0])
    return np.where(gap <= huber_delta, gap**2 / 2, huber_delta * (gap - huber_delta / 2))


def pinball(s: F64, y: F64, quantile_alpha: tuple[float, ...]) -> F64:
    gaps = [(y - score, level) for score, level in zip(s, quantile_alpha, strict=True)]
    return sum(np.where(gap > 0, level * gap, (level - 1) * gap) for gap, level in gaps)


def tweedie(s: F64, y: F64, tweedie_variance_power: float) -> F64:
    mean, power = np.exp(s[0]), tweedie_variance_power
    return mean ** (2 - power) / (2 - power) - y * mean ** (1 - power) / (1 - power)


def fair(s: F64, y: F64, fair_c: float) -> F64:
    gap = np.abs(y - s[0]) / fair_c
    return fair_c**2 * (gap - np.log(1 + gap))


def expectile(s: F64, y: F64, expectile_alpha: float) -> F64:
    return np.where(y > s[0], expectile_alpha, 1 - expectile_alpha) * (y - s[0]) ** 2


def pseudo_huber(s: F64, y: F64, huber_delta: float) -> F64:
    return huber_delta**2 * (np.sqrt(1 + ((y - s[0]) / huber_delta) ** 2) - 1)


@dataclass(frozen=True)
class Formula:
    """loss: of scores (n_outputs, n_rows), labels and the settings, by row.

    hessian: of score, label, slope and curve (first and second derivative), where a loss claims
    another hessian than the curve.
    """

    loss: Callable[..., Any]
    settings: dict[str, Any]
    hessian: Callable[[F64, F64, F64, F64], Any] = lambda s, y, slope, curve: curve


def ones(s: F64, y: F64, slope: F64, curve: F64) -> F64:
    return np.ones_like(y)


def parabola(s: F64, y: F64, slope: F64, curve: F64) -> F64:
    """Of the parabola on the loss, which is least at the label."""
    return slope / (s - y)


FORMULAS = {
    "binary": [
        Formula(binary, {}),
        Formula(binary, {"sigmoid": 0.3}),
        Formula(binary, {"sigmoid": 4.0, "scale_pos_weight": 2.5}),
    ],
    "cross_entropy": [Formula(lambda s, y: logistic(s[0], y), {})],
    # Its curve is below zero for rows that are far off: the size of the slope times p stays above.
    "focal": [
        Formula(focal, {"focal_gamma": gamma, "focal_alpha": 0.3},
                lambda s, y, slope, curve: np.abs(slope) * sigmoid(np.where(y == 1, s, -s)))
        for gamma in (0.5, 2.0)
    ],
    # With K / (K - 1) two classes are the logistic loss.
    "multiclass": [Formula(softmax, {"num_class": 5}, lambda s, y, slope, curve: curve * 5 / 4)],
    "multiclassova": [Formula(one_against_all, {"num_class": 5, "sigmoid": 0.7})],
    "regression": [Formula(lambda s, y: (y - s[0]) ** 2 / 2, {})],
    "mae": [Formula(lambda s, y: np.abs(y - s[0]), {}, ones)],
    "mape": [
        Formula(lambda s, y: np.abs(y - s[0]) / np.maximum(1, np.abs(y)), {},
                lambda s, y, slope, curve: 1 / np.maximum(1, np.abs(y)))
    ],
    "quantile": [
        Formula(pinball, {"quantile_alpha": (0.2,)}, ones),
        Formula(pinball, {"quantile_alpha": (0.1, 0.5, 0.8)}, ones),
    ],
    "huber": [Formula(huber, {"huber_delta": 0.7}, parabola)],
    "pseudo_huber": [Formula(pseudo_huber, {"huber_delta": 0.7}, parabola)],
    "fair": [Formula(fair, {"fair_c": 2.0}, parabola)],
    "log_cosh": [Formula(lambda s, y: np.log(np.cosh(y - s[0])), {}, parabola)],
    "expectile": [Formula(expectile, {"expectile_alpha": 0.8})],
    "poisson": [
        Formula(lambda s, y, poisson_max_delta_step: np.exp(s[0]) - y * s[0],
                {"poisson_max_delta_step": step},
                lambda s, y, slope, curve, step=step: curve * np.exp(step))
        for step in (0.0, 0.7)
    ],
    "gamma": [Formula(lambda s, y: y / np.exp(s[0]) + s[0], {})],
    "tweedie": [Formula(tweedie, {"tweedie_variance_power": power}) for power in (1.2, 1.7)],
}  # fmt: skip
OF_QUERIES = {
    "lambdarank": "test_objectives.py test_lambdas_are_derivatives_of_the_pairwise_loss",
    "rank_pairwise": "test_losses.py test_pairs_pull_by_the_derivative_of_their_loss",
    "rank_map": "test_ranking.py test_map_pulls_by_what_an_exchange_changes",
    "rank_xendcg": "test_ranking.py test_xendcg_is_lightgbms",
    "custom": "test_custom.py test_a_function_is_as_good_as_the_loss_itself",
}


def test_every_loss_has_its_formula() -> None:
    assert FORMULAS.keys() | OF_QUERIES.keys() == OBJECTIVES.keys()
    for place in OF_QUERIES.values():
        file, test = place.split()
        assert f"def {test}(" in (Path(__file__).parent / file).read_text(), place


def gradients(
    objective: Objective, scores: F64, label: F64, weight: NDArray[np.float32] | None
) -> tuple[F64, F64]:
    """What a training asks for, as float64; a hessian that is left out is one."""
    labels, weights = objective.output_labels(label), objective.row_weights(label, weight)
    grad, hess = objective.gradients(scores, labels, weights, ())
    found = np.ones_like(scores) if hess is None else hess.astype(np.float64)
    return grad.astype(np.float64), found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "formula"), [(name, one) for name, many in FORMULAS.items() for one in many]
)
def test_gradients_are_derivatives(name: str, formula: Formula, weighted: bool) -> None:
    rng, settings = np.random.default_rng(4), formula.settings
    objective = OBJECTIVES[name].from_settings({**settings_of(name), **settings})
    label = make_labels(objective, rng.normal(size=N_ROWS))
    scores = rng.uniform(-3.0, 3.0, size=(objective.n_outputs, N_ROWS))
    weight = rng.uniform(0.1, 9.0, N_ROWS).astype(np.float32) if weighted else None
    w = 1.0 if weight is None else weight.astype(np.float64)
    grad, hess = gradients(objective, scores, label, weight)
    for k in range(objective.n_outputs):

        def loss(step: float, output: int = k) -> F64:
            moved = scores + step * (np.arange(len(scores)) == output)[:, None]
            return formula.loss(moved, label, **settings)

        slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
        curve = (loss(1e-3) - 2 * loss(0.0) + loss(-1e-3)) / 1e-6
        smooth = np.abs(scores[k] - label) > 2e-3  # away from a kink
        hessian = np.asarray(formula.hessian(scores[k], label, slope, curve))
        np.testing.assert_allclose(grad[k][smooth], (w * slope)[smooth], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(hess[k][smooth], (w * hessian)[smooth], rtol=1e-3, atol=1e-5)
