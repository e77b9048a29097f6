"""Every registered metric on the core: the bits of the NumPy oracle, on any threads and ranks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitgrove import _core
from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.distributed import run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.distributed.counting import CountingComm
from bitgrove.objectives.links import EXP
from bitgrove.objectives.metrics import METRICS, make_metric
from bitgrove.objectives.metrics.base import RowMetric
from bitgrove.objectives.metrics.order import (
    NUMPY_ORDER,
    Around,
    OrderSums,
    core_order,
    range_sums,
)
from bitgrove.objectives.metrics.queries import QueryMetric
from kernel_cases import SIMD, cpu
from panel_cases import KINDS, SIZES, WEIGHTS, Judged, check_panel, judge, judged_sets, part

ORACLE = ReferenceBackend()


def test_every_kernel_is_listed_and_used() -> None:
    wanted: set[str] = set()
    for metric in METRICS.values():
        if issubclass(metric, RowMetric):
            kernels = {metric.kernel, metric.class_kernel} - {None}
            assert kernels, f"{metric.base_name} has no kernel"
            wanted |= {kernel for kernel in kernels if kernel}
        elif issubclass(metric, QueryMetric):
            wanted.add(metric.kernel)
    assert wanted == set(_core.metric_kernels())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("n_rows", SIZES)
def test_the_core_has_the_bits_of_the_oracle(n_rows: int, weight: str, kind: str) -> None:
    check_panel(cpu(2, SIMD[-1]), ORACLE, n_rows, weight, kind)


@pytest.mark.parametrize("simd", SIMD)
def test_instruction_sets(simd: int) -> None:
    check_panel(cpu(1, simd), ORACLE, 700, "fractions", "one")


def test_all_threads_sort() -> None:
    """So many rows that ranges of predictions are sorted by several threads."""
    names = ("auc", "average_precision", "ndcg")
    asked = [make_metric(name) for name in names]
    for kind in ("one", "ties"):
        *_, ranking = judged_sets(60_000, "fractions", kind)
        one = ranking._replace(metrics=asked)
        assert judge(cpu(4, SIMD[-1]), [one]) == judge(ORACLE, [one])


def test_several_sets_at_once() -> None:
    first, *_ = judged_sets(300, "none", "one", seed=1)
    second, *_ = judged_sets(500, "fractions", "ties", seed=2)
    for backend in (ORACLE, CpuBackend(2)):
        alone = [judge(backend, [one])[0] for one in (first, second)]
        assert judge(backend, [first, second]) == alone


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_on_different_backends(kind: str) -> None:
    """One is empty, and each has its own device: the messages are the same."""
    for one in judged_sets(400, "fractions", kind):
        wanted = judge(ORACLE, [one])
        for size in (2, 3, 5):

            def work(comm: Comm, one: Judged = one) -> list[list[float]]:
                backend = ORACLE if comm.rank % 2 else CpuBackend(2)
                return judge(backend, [part(one, comm.rank, comm.size)], comm)

            assert run_threads(size, work) == [wanted] * size


def test_no_rank_gets_all_rows() -> None:
    """What a rank sends for AUC does not grow with the number of ranks; and messages are few."""
    rng = np.random.default_rng(3)
    n, size = 24_000, 4
    score, label = rng.normal(size=n), rng.integers(0, 2, n)
    sides = (label, 1 - label)

    def work(comm: Comm) -> tuple[int, int]:
        counting = CountingComm(comm)
        rows = np.array_split(np.arange(n), comm.size)[comm.rank]
        mine = (side[rows] for side in sides)
        range_sums(score[rows], *mine, counting, core_order(1))
        return sum(counting.sent_bytes.values()), sum(counting.calls.values())

    for sent, calls in run_threads(size, work):
        assert sent < 24 * (n / size) + 64 * 8 * size * 2  # its own steps, and samples
        assert calls == 3


weights_of = st.lists(
    st.tuples(
        st.sampled_from([-1.5, -0.0, 0.0, 2.0, 3e-310]), st.integers(0, 2**50), st.booleans()
    ),
    min_size=1,
    max_size=200,
)


@given(weights_of)
def test_steps_and_sums(rows: list[tuple[float, int, bool]]) -> None:
    values = np.array([value for value, _, _ in rows])
    weight = np.array([w for _, w, _ in rows], dtype=np.int64)
    is_positive = np.array([side for _, _, side in rows])
    sides = (np.where(is_positive, weight, 0), np.where(is_positive, 0, weight))
    core = core_order(2)
    for a, b in zip(
        NUMPY_ORDER.steps_of(values, *sides), core.steps_of(values, *sides), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    around = Around(2**58, 12345, 2**57)
    found = core.sums_of(values, *sides, around)
    np.testing.assert_array_equal(NUMPY_ORDER.sums_of(values, *sides, around), found)
    sums = OrderSums.of(core.sums_of(values, *sides, Around(0, 0, 0)))
    pairs = 0
    for value, w, side in rows:
        for other, v, other_side in rows:
            if side and not other_side:
                pairs += w * v * (2 * (other < value) + (other == value))
    assert sums.area == pairs


@pytest.mark.filterwarnings("ignore:overflow encountered in square")
def test_what_is_not_finite_stays_so() -> None:
    one = next(s for s in judged_sets(50, "none", "one") if s.given.link is EXP)
    one.scores[0, 3] = 700.0  # its exponential, squared, is beyond all numbers
    asked = one._replace(metrics=[make_metric("mse"), make_metric("rmse"), make_metric("mae")])
    for backend in (ORACLE, CpuBackend(2)):
        mse, rmse, mae = judge(backend, [asked])[0]
        assert mse == rmse == math.inf and mae < math.inf


def test_wrong_calls_are_errors() -> None:
    prediction, label = np.zeros((4, 2)), np.zeros((4, 1))
    out, setting = np.zeros(4), np.zeros(2)
    how = {"n_threads": 1, "simd": 0}

    def terms(**changed: object) -> None:
        asked = {"kernel": "squared", "prediction": prediction, "label": label, "weight": None,
                 "setting": setting, "outputs": (0, 2), "out": out}  # fmt: skip
        _core.metric_terms(**{**asked, **changed}, **how)  # type: ignore[arg-type]

    terms()
    wrong = [
        {"kernel": "no such"}, {"label": np.zeros((3, 1))}, {"label": np.zeros((4, 3))},
        {"outputs": (1, 3)}, {"outputs": (1, 1)}, {"out": np.zeros(3)}, {"setting": np.zeros(1)},
        {"weight": np.zeros(5)},
    ]  # fmt: skip
    for changed in wrong:
        with pytest.raises(ValueError, match="bitgrove core"):
            terms(**changed)
    whole = np.zeros(4, dtype=np.int64)
    with pytest.raises(ValueError, match="differ in length"):
        _core.order_steps(np.zeros(3), whole, whole, 1)
    with pytest.raises(ValueError, match="cover the rows"):
        tables = (np.zeros(4), np.array([0, 3]), np.ones(4), np.ones(1))
        _core.metric_of_queries("ndcg", np.zeros(4), *tables, 10, np.zeros(1), 1)
