"""The same model bytes from every place: reference, threads, SIMD, rounds, packing, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove import _core
from bitgrove.training import grower
from cases import CASES, Case

SIMD = [
    name for level, name in enumerate(("scalar", "avx2", "avx512")) if level <= _core.best_simd()
]


def test_reference_and_threads(case: Case) -> None:
    digest = case.train(device="reference").digest()
    for n_jobs in (1, 2, 4):
        assert case.train(n_jobs=n_jobs).digest() == digest, f"{n_jobs} threads"


def test_frontier_alpha(case: Case) -> None:
    model = case.train(frontier_alpha=0.75)
    for alpha in (0.01, 0.3, 1.0):
        other = case.train(frontier_alpha=alpha)
        assert other.digest() == model.digest(), f"alpha {alpha}"


def test_packed_or_not(case: Case) -> None:
    assert case.train(packed=False).digest() == case.train(packed=True).digest()


@pytest.mark.parametrize("simd", SIMD)
def test_simd(case: Case, simd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = case.train().digest()
    monkeypatch.setenv("BITGROVE_SIMD", simd)
    assert case.train().digest() == digest


def test_repeated_training(case: Case) -> None:
    assert case.train().to_bytes() == case.train().to_bytes()


@pytest.mark.parametrize(
    "name",
    ["binary 2 bits", "wide", "multiclass", "binary full precision", "monotone intermediate"],
)
def test_small_histogram_pool(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two histograms only, nodes are rebuilt instead of subtracted."""
    case = CASES[name]()
    digest = case.train().digest()
    used = []
    for n_slots in (2, 3, 7):

        def few_slots(backend: Any, matrix: Any, half_bits: int, *_: int, n: int = n_slots) -> Any:
            used.append(n)
            return backend.new_pool(matrix, n, half_bits)

        monkeypatch.setattr(grower, "new_pool", few_slots)
        assert case.train().digest() == digest, f"{n_slots} slots"
    assert set(used) == {2, 3, 7}


def test_predictions_equal_training_scores(case: Case) -> None:
    """Raw predictions are the scores training ended with, to the last bit.

    Nearly so where older trees were changed on the way: their scores are changed, too.
    """
    from bitgrove.data.dataset import Dataset
    from bitgrove.params import resolve
    from bitgrove.training.booster import Booster

    params = {k: v for k, v in case.params.items() if k != "early_stopping_rounds"}
    dataset = Dataset(case.X, case.y, weight=case.weight, group=case.group)
    from bitgrove.distributed import SoloComm

    booster = Booster(resolve(params), dataset, SoloComm())
    for iteration in range(3):
        booster.boost(iteration)
    raw = booster.model(None).predict_raw(case.X)
    scores = booster.scores.T
    if booster.params.boosting_type == "gbdt":
        np.testing.assert_array_equal(raw.reshape(scores.shape), scores)
    np.testing.assert_allclose(raw.reshape(scores.shape), scores, rtol=1e-13, atol=1e-13)


def test_seed_changes_the_model() -> None:
    """The comparison above can fail: another seed is another model."""
    case = CASES["binary 2 bits"]()
    assert case.train(random_state=8).digest() != case.train().digest()
