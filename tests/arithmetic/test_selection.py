"""Quantiles by selection: NumPy's value, whatever the order of rows and the number of ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bitgrove.arithmetic.selection import float32_keys, float32_of_keys, weighted_quantile
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.distributed.comm import Comm

values = hnp.arrays(
    np.float64, st.integers(1, 40), elements=st.floats(-1e30, 1e30) | st.sampled_from([0.0, -0.0])
)


@settings(max_examples=60, deadline=None)
@given(values, st.sampled_from([0.5, 0.1, 0.25, 0.9, 0.001]), st.integers(0, 2**32 - 1))
def test_numpy_has_the_same_quantile(values: np.ndarray, level: float, seed: int) -> None:
    found = weighted_quantile(values, None, level, SoloComm())
    expected = np.quantile(values, level, method="averaged_inverted_cdf")
    assert found == pytest.approx(expected, rel=1e-12)
    shuffled = np.random.default_rng(seed).permutation(values)

    def work(comm: Comm) -> float:
        part = np.array_split(shuffled, comm.size)[comm.rank]
        return weighted_quantile(part, None, level, comm)

    assert run_threads(3, work) == [found] * 3


@settings(max_examples=60, deadline=None)
@given(values, st.sampled_from([0.5, 0.2, 0.75]), st.integers(0, 2**32 - 1))
def test_weights_are_repetitions(values: np.ndarray, level: float, seed: int) -> None:
    weight = np.random.default_rng(seed).integers(1, 6, len(values))
    repeated = weighted_quantile(np.repeat(values, weight), None, level, SoloComm())
    for unit in (1.0, 0.25, 2.0**100):
        scaled = (unit * weight).astype(np.float32)
        assert weighted_quantile(values, scaled, level, SoloComm()) == repeated


@given(
    hnp.arrays(np.float32, st.integers(2, 50), elements=st.floats(-(2.0**126), 2.0**126, width=32))
)
def test_keys_have_the_order_of_their_numbers(values: np.ndarray) -> None:
    keys = float32_keys(values)
    np.testing.assert_array_equal(float32_of_keys(keys), values)
    np.testing.assert_array_equal(keys[:-1] < keys[1:], values[:-1] < values[1:])
