"""The robust scale: an outlier takes larger integers, and the bulk keeps its bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bitgrove.backends.reference import output_gradients
from bitgrove.data.row_ids import one_run
from bitgrove.distributed import SoloComm
from bitgrove.objectives import OBJECTIVES
from bitgrove.objectives.custom import Custom
from bitgrove.params import resolve
from bitgrove.training.quantize import Side, Traits, quantize, robust_levels, traits_of
from kernel_cases import cpu
from rounding_cases import BITS, example, facts, heavy_tail, limits, run


@pytest.mark.parametrize("bits", [4, 5, 6])
def test_robust_scale_keeps_the_bulk(bits: int) -> None:
    """One outlier: with the plain scale almost all rows are zero, with the robust one fewer are."""
    grad, _ = heavy_tail(5000, 60.0)
    hess = np.full(5000, 0.25, np.float32)
    plain, rough = run(cpu(), grad, hess, bits, "nearest")
    robust, fine = run(cpu(), grad, hess, bits, "nearest", scale="robust")
    assert plain.grad_limit == limits(bits)[0] < robust.grad_limit
    assert (rough[:, 0] == 0).sum() > (fine[:, 0] == 0).sum()
    # As many levels as if the outlier were ten times the geometric mean.
    tail = 60.0 / np.exp(np.log(np.abs(grad)).mean())
    wanted = min(127, limits(bits)[0] * tail / 10)
    assert robust.grad_limit == pytest.approx(wanted, rel=0.15, abs=1)
    # The outlier became a larger integer, not a clipped one.
    assert fine[17, 0] == -robust.grad_limit
    assert robust.grad_limit * robust.grad_scale == pytest.approx(60.0)
    # The hessians have no such tail; theirs is the plain scale.
    assert (robust.hess_scale, robust.hess_limit) == (plain.hess_scale, plain.hess_limit)


def test_a_tail_of_both_halves_is_not_heavy() -> None:
    """Rows of little weight say little: their gradients may round to zero, as they do with max."""
    grad, _ = example(5000)
    weight = np.random.default_rng(1).pareto(1.2, 5000).astype(np.float32) + np.float32(0.01)
    expected, integers = run(cpu(), grad * weight, weight, 4)
    quantized, found = run(cpu(), grad * weight, weight, 4, scale="robust")
    np.testing.assert_array_equal(found, integers)
    assert facts(quantized) == facts(expected)


def test_robust_scale_is_unbiased_for_the_outlier() -> None:
    grad, _ = heavy_tail(2000, 777.7)
    n = 400
    runs = [run(cpu(), grad, None, 2, key=key, scale="robust") for key in range(n)]
    unit = runs[0][0].grad_scale
    mean = np.mean([integers[17, 0] for _, integers in runs])
    assert abs(mean + float(np.float32(777.7)) / unit) <= 6 * 0.5 / math.sqrt(n)


def test_robust_scale_of_an_extreme_outlier() -> None:
    """Rows stay two bytes unless those are far too few."""
    for top, limit, dtype in ((500.0, 127, np.int16), (1e30, 2**15 - 1, np.int32)):
        grad, _ = heavy_tail(5000, top)
        quantized, integers = run(cpu(), grad, None, 4, scale="robust")
        assert quantized.grad_limit == limit
        assert integers[17, 0] == -limit
        assert quantized.packed.values.dtype == dtype


def test_weights_alone_do_not_excuse_a_tail() -> None:
    """One row of huge weight: the hessians of the others stay above zero."""
    weight = np.ones(5000, np.float32)
    weight[17] = 5000.0
    gradients = output_gradients(example(5000)[0] * weight, weight)
    params = resolve({"gradient_bits": 4, "gradient_scale": "robust"})
    found = [
        quantize(cpu(), gradients, params, 1, one_run(5000), SoloComm(), Traits(unit_hessian=unit))
        for unit in (False, True)
    ]
    assert found[0].hess_limit == 14 and found[0].zero_rows > 4900
    assert found[1].hess_limit > 4000 and found[1].zero_rows < 200


@pytest.mark.parametrize("top", [1e-45, 1e-40, 3e38])
def test_robust_scale_at_the_ends_of_float32(top: float) -> None:
    grad, hess = np.full(50, top, np.float32), np.ones(50, np.float32)
    quantized, integers = run(cpu(), grad, hess, 4, scale="robust")
    assert quantized.grad_limit == 7
    assert set(integers[:, 0]) == {7}


@pytest.mark.parametrize("bits", BITS)
def test_robust_scale_is_the_plain_one_without_a_tail(bits: int | None) -> None:
    grad, hess = example(5000)
    expected, integers = run(cpu(), grad, hess, bits)
    quantized, found = run(cpu(), grad, hess, bits, scale="robust")
    np.testing.assert_array_equal(found, integers)
    assert facts(quantized) == facts(expected)


def test_full_precision_ignores_the_robust_scale() -> None:
    grad, hess = heavy_tail(5000, 1e6)
    expected, _ = run(cpu(), grad, hess, None)
    quantized, _ = run(cpu(), grad, hess, None, scale="robust")
    assert facts(quantized) == facts(expected)


@pytest.mark.parametrize(
    ("bits", "n_joint", "expected"),
    [
        (4, 1, (7, 14)),
        (2, 4, (2, 2)),
        (4, 4, (14, 19)),
        (4, 16, (28, 28)),
        (4, 20, (31, 29)),
        (6, 20, (127, 131)),
        (8, 20, (127, 254)),
    ],
)
def test_levels_grow_with_the_number_of_joint_outputs(
    bits: int, n_joint: int, expected: tuple[int, int]
) -> None:
    """With its root, those of hessians with the fourth root, as long as a row takes two bytes."""
    grad, hess = example(5000)
    gradients, plain = output_gradients(grad, hess), (2 ** (bits - 1) - 1, 2**bits - 2)
    for scale, levels in (("robust", expected), ("max", plain)):
        params = resolve({"gradient_bits": bits, "gradient_scale": scale})
        joint = Traits(n_joint=n_joint)
        found = quantize(cpu(), gradients, params, 1, one_run(5000), SoloComm(), joint)
        assert (found.grad_limit, found.hess_limit) == levels


@pytest.mark.parametrize(
    ("top", "n_joint", "expected"),
    [(8.0, 1, 7), (20.0, 1, 14), (500.0, 1, 21), (500.0, 4, 21), (500.0, 16, 28)],
)
def test_a_shared_tail_of_logarithms_counts_three_times(
    top: float, n_joint: int, expected: int
) -> None:
    """Of both halves, as where classes are easy; but not on top of what joint outputs have."""
    sides = [Side(top, 1.0), Side(top, 1.0)]
    for is_log, levels in ((True, expected), (False, 7 * math.isqrt(n_joint))):
        traits = Traits(n_joint=n_joint, is_log=is_log)
        found = robust_levels([7, 14], sides, traits)
        assert found == [levels, robust_levels([7, 14], sides, Traits(n_joint=n_joint))[1]]


def test_scores_that_are_logarithms() -> None:
    for name in ("binary", "cross_entropy", "focal", "multiclassova", "poisson", "tweedie"):
        settings = {"sigmoid": 1.0, "tweedie_variance_power": 1.5}
        assert traits_of(OBJECTIVES[name].for_model(settings, 2), 1).is_log
    for name in ("multiclass", "huber", "regression"):
        assert not traits_of(OBJECTIVES[name].for_model({}, 2), 1).is_log


def test_a_tail_of_hessians_alone_counts() -> None:
    """As of robust means, whose gradients are bounded while most rows are far from their label."""
    for hess_tail, levels in ((10.0, 14), (30.0, 42), (1e9, 254)):
        assert robust_levels([7, 14], [Side(1.0, 1.0), Side(hess_tail, 1.0)], Traits()) == [
            7,
            levels,
        ]
    assert robust_levels([7, 14], [Side(30.0, 1.0), Side(30.0, 1.0)], Traits()) == [7, 14]


def test_outputs_of_classes_are_joint_and_those_of_targets_are_not() -> None:
    """`num_class` makes classes of a function's outputs; several columns of a label are targets."""
    for name, n_joint in (("multiclass", 5), ("multiclassova", 5), ("regression", 1)):
        objective = OBJECTIVES[name].for_model({"sigmoid": 1.0}, 5)
        assert traits_of(objective, 4).n_joint == n_joint
    assert traits_of(Custom(num_class=5), 4).n_joint == 5
    assert traits_of(Custom(n_columns=5), 4).n_joint == 1
