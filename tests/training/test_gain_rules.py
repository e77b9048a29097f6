"""What makes a split worth taking: rules of the gain, and the least hessian of a child."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bitgrove import Dataset, _core
from bitgrove.backends.reference import ReferenceBackend, output_gradients
from bitgrove.backends.reference.best_first import BestFirst
from bitgrove.distributed import SoloComm
from bitgrove.params import TrainParams, resolve
from bitgrove.training.booster import Booster
from bitgrove.training.grower import Grower, TreeSample, gain_rules, split_params
from bitgrove.training.histograms import WidthPlan
from bitgrove.training.quantize import QuantizedGradients, quantize

PARAMS = {"reg_lambda": 2.0, "reg_alpha": 0.5, "min_split_gain": 3.0, "min_child_weight": 5.0}
FRONTIERS = {"core": _core.Frontier, "reference": BestFirst}


def test_rules_of_parameters() -> None:
    quantized = QuantizedGradients(None, 0.25, 0.5, 7, 14, 100, 100, 0)
    rules = gain_rules(resolve(PARAMS), quantized)
    assert (rules.grad_scale, rules.hess_scale) == (0.25, 0.5)
    assert (rules.reg_lambda, rules.reg_alpha) == (2.0, 0.5)
    # LightGBM and XGBoost leave out the paper's factor 1/2, so their gains are twice as large.
    assert rules.min_gain == 1.5


def test_beside_statistics_every_split_pays_once() -> None:
    quantized = QuantizedGradients(None, 0.25, 0.5, 7, 14, 100, 100, 0)
    params = resolve({**PARAMS, "cat_l2": 3.0})
    rules = [gain_rules(split_params(params, told), quantized) for told in (False, True)]
    assert [(r.reg_lambda, r.cat_l2) for r in rules] == [(2.0, 3.0), (5.0, 0.0)]
    assert rules[0]._replace(reg_lambda=5.0, cat_l2=0.0) == rules[1]


def least_weight_told(params: TrainParams, hess: np.ndarray) -> tuple[float, float]:
    """(what a frontier is told of min_child_weight, the scale of the hessians)."""
    told: list[dict[str, Any]] = []

    class Listening(BestFirst):
        def __init__(self, **rules: Any) -> None:
            told.append(rules)
            super().__init__(**rules)

    class ListeningBackend(ReferenceBackend):
        frontier = Listening

    rng, backend = np.random.default_rng(0), ListeningBackend()
    booster = Booster(params, Dataset(rng.normal(size=(200, 2)), rng.random(200)), SoloComm())
    grad = rng.normal(size=200).astype(np.float32)
    gradients = output_gradients(grad, hess)
    quantized = quantize(backend, gradients, params, 1, booster.runs, SoloComm())
    grower = Grower(backend, booster.matrix, params, SoloComm(), 64)
    sample = TreeSample(np.arange(200, dtype=np.int32), np.ones(2, dtype=np.uint8))
    grower.grow(quantized, sample, WidthPlan(quantized, 200), 200)
    return told[0]["min_child_hess"], quantized.hess_scale


def test_the_least_weight_of_a_child_is_told_in_units_of_the_scale() -> None:
    params = resolve({**PARAMS, "objective": "regression", "device": "reference"})
    hess = np.linspace(1.0, 3.0, 200, dtype=np.float32)
    assert least_weight_told(params, hess) == (5.0 / (3.0 / 14), 3.0 / 14)
    # All hessians are zero: nothing may be split.
    assert least_weight_told(params, np.zeros(200, np.float32)) == (math.inf, 0.0)


@pytest.mark.parametrize("frontier", sorted(FRONTIERS))
@pytest.mark.parametrize(
    ("samples", "least_hess", "n_rows", "hess", "least"),
    [
        (1, 0.0, 100, 100, 1.0),  # at least one unit of hessian
        (20, 0.0, 100, 100, 20.0),  # constant hessian: exactly 20 rows
        (20, 0.0, 100, 300, 59.0),  # a row has 3 units: 19.5 rows, rounded up
        (1, 10.0, 100, 100, 10.0),
        (20, 10.2, 100, 100, 20.0),  # the stricter of both
        (1, 10.2, 100, 100, 11.0),
        (50, 0.0, 100, 100, 50.0),  # just enough for two children
        (51, 0.0, 100, 100, None),
        (1, 50.1, 100, 100, None),
        (1, math.inf, 100, 0, None),
    ],
)
def test_least_integer_hessian(
    frontier: str, samples: int, least_hess: float, n_rows: int, hess: int, least: float | None
) -> None:
    """By weight, and by samples as a share of the node's hessian; None: not worth a search."""
    books = FRONTIERS[frontier](
        n_slots=2,
        num_leaves=31,
        max_depth=-1,
        min_child_samples=samples,
        min_child_hess=least_hess,
        widths=WidthPlan(QuantizedGradients(None, 1.0, 1.0, 1, 1, 0, 0, 0), 1).limits,
    )
    books.start(grad=-7, hess=hess, all_rows=(n_rows - 9, 9), local_rows=(n_rows, 0))
    plan = books.next_search()
    if least is None:
        assert plan is None
    else:
        assert plan.nodes[["grad", "hess", "min_hess"]].tolist() == [(-7.0, hess, least)]
