"""Every registered objective on the GPU: the body of tests/objectives/test_registry.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove.objectives import OBJECTIVES
from objective_cases import (
    check_gradients,
    evaluations,
    few_rows,
    known_case,
    scores_with,
    train_on,
)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_the_gpu_has_the_bits_of_the_oracle(backend: Any, name: str, weighted: bool) -> None:
    check_gradients(backend, *known_case(name, weighted))


@pytest.mark.parametrize("n_rows", [0, 1, 7])
@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_few_rows(backend: Any, name: str, n_rows: int) -> None:
    check_gradients(backend, *few_rows(name, n_rows))


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_above_all_numbers(backend: Any, bad: float) -> None:
    assert scores_with(bad).gradients(backend).magnitudes["grad_top"][0] >= 0x7F800000


def test_magnitudes_may_be_read_when_the_next_are_on_their_way(backend: Any) -> None:
    first, second = (scores_with(value).gradients(backend) for value in (2.0, -8.0))
    tops = [found.magnitudes["grad_top"].view(np.float32)[0] for found in (first, second)]
    assert (
        tops
        == [2.0, 8.0]
        == [found.magnitudes["grad_top"].view(np.float32)[0] for found in (first, second)]
    )


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_training_gives_one_model(backend: Any, name: str) -> None:
    expected, found = train_on("cpu", name), train_on("cuda", name)
    assert found.digest() == expected.digest()
    assert evaluations(found) == evaluations(expected)
