"""What makes a split worth taking: rules of the gain, and the least hessian of a child."""

from __future__ import annotations

import math

import pytest
from bitgrove.training.splits import GainRules

from bitgrove import _core
from bitgrove.params import resolve
from bitgrove.training.histograms import WidthPlan
from bitgrove.training.quantize import QuantizedGradients


def test_rules_of_parameters() -> None:
    params = resolve(
        {"reg_lambda": 2.0, "reg_alpha": 0.5, "min_split_gain": 3.0, "min_child_weight": 5.0}
    )
    quantized = QuantizedGradients(None, 0.25, 0.5, 7, 14, 100, 100, 0)
    rules = GainRules.of(params, quantized)
    # LightGBM and XGBoost leave out the paper's factor 1/2, so their gains are twice as large.
    assert rules.as_tuple() == (0.25, 0.5, 2.0, 0.5, 1.5)
    assert rules.min_child_hess == 10.0  # weight in units of the scale
    flat = GainRules.of(params, quantized._replace(hess_scale=0.0))
    assert flat.min_child_hess == math.inf  # all hessians are zero: nothing may be split


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
    samples: int, least_hess: float, n_rows: int, hess: int, least: float | None
) -> None:
    """By weight, and by samples as a share of the node's hessian; None: not worth a search."""
    limits = WidthPlan(QuantizedGradients(None, 1.0, 1.0, 1, 1, 0, 0, 0)).limits
    frontier = _core.make_frontier(2, 31, -1, samples, least_hess, limits)
    frontier.start(-7, hess, (n_rows - 9, 9), (n_rows, 0))
    plan = frontier.next_search()
    if least is None:
        assert plan is None
    else:
        assert plan.sums.tolist() == [[-7.0, hess, least]]
