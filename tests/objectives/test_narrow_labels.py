"""Labels are kept in the narrowest type that holds them exactly, and no bit depends on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import bitgrove as bg
from bitgrove.backends.base import make_targets
from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.data.given_values import narrowest, widened
from bitgrove.data.row_ids import one_run
from bitgrove.objectives import OBJECTIVES
from objective_cases import check_gradients, make_case, make_objective

COMMON = [0.0, 1.0, 255.0, 256.0, -1.0, -0.0, 0.5, 0.1, 1e38, 1e-45, 1e-300, 2.0**24 + 1]


@settings(deadline=None)
@given(arrays(np.float64, st.integers(0, 40), elements=st.sampled_from(COMMON) | st.floats()))
def test_nothing_is_lost(values: Any) -> None:
    if np.isnan(values).any():  # labels are numbers
        values = values[~np.isnan(values)]
    assert widened(narrowest(values)).tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, 1, 255], np.uint8),
        ([0, 256], np.float32),
        ([1, -1], np.float32),
        ([1.0, -0.0], np.float32),
        ([0.5], np.float32),
        ([0.1], np.float64),
        ([1e-300], np.float64),
        ([[1, 2], [3, 4]], np.uint8),
        ([], np.uint8),
    ],
)
def test_the_narrowest_type(values: Any, dtype: Any) -> None:
    assert narrowest(np.array(values, dtype=np.float64)).dtype == dtype


def test_a_late_row_decides() -> None:
    values = np.zeros(200_000)
    values[-1] = 0.1
    assert narrowest(values) is values


@pytest.mark.parametrize("simd", ["avx512", "avx2", "scalar"])
@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_gradients_of_float32_labels(name: str, simd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other types are those of the registry's own cases."""
    monkeypatch.setenv("BITGROVE_SIMD", simd)
    whole = make_case(make_objective(name), weighted=False, n_rows=3001)
    label = whole.label.astype(np.float32).astype(np.float64)
    case = replace(whole, label=label)
    check_gradients(CpuBackend(2), case, case.gradients(ReferenceBackend()))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_keys_of_residuals(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    label, scores = rng.integers(0, 200, size=10_001).astype(dtype), rng.normal(size=10_001)
    expected = ReferenceBackend().residual_keys(scores, label.astype(np.float64))
    np.testing.assert_array_equal(CpuBackend(2).residual_keys(scores, label), expected)


def test_a_dataset_shows_float64() -> None:
    data = bg.Dataset(np.zeros((3, 1)), [0, 1, 2])
    assert data.narrow_label is not None and data.narrow_label.dtype == np.uint8
    assert data.label is not None and data.label.dtype == np.float64
    data.set_label([0.1, 1, 2])
    np.testing.assert_array_equal(data.label, [0.1, 1, 2])


def test_classes_one_by_one_take_a_byte_each() -> None:
    objective = make_objective("multiclassova")
    label = make_case(objective, weighted=False, n_rows=50).label
    targets = make_targets(CpuBackend(1), objective, label, None, None, one_run(50))
    assert targets.label.dtype == np.uint8
    assert targets.label.shape == (objective.n_outputs, 50)


def test_labels_that_are_shown_are_not_written_to() -> None:
    data = bg.Dataset(np.zeros((3, 1)), np.array([0.0, 1.0, 1.0]))
    assert data.label is not None
    with pytest.raises(ValueError, match="read-only"):
        data.label[0] = 5.0
    data.set_label([5.0, 1.0, 1.0])
    assert data.label.tolist() == [5.0, 1.0, 1.0]
