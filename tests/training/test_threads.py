"""Threads: how many, and no waiting for ever after fork()."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.machine.threads import MOST_THREADS, available_cores, resolve_threads

FORK_AFTER_TRAINING = """
import multiprocessing, numpy as np, bitgrove as bg
X = np.random.default_rng(0).normal(size=(40000, 6))
y = (X[:, 0] > 0).astype(float)
params = {"objective": "binary", "n_estimators": 3, "n_jobs": 4}

def digest():
    model = bg.train(params, bg.Dataset(X, y))
    model.predict(X, n_jobs=4)
    return model.digest()

def child(results):
    results.put(digest())

before = digest()
context = multiprocessing.get_context("fork")
results = context.Queue()
process = context.Process(target=child, args=(results,))
process.start()
assert results.get(timeout=60) == before
process.join(60)
assert digest() == before
print("equal")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
def test_training_in_a_forked_process_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_AFTER_TRAINING],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "equal", done.stderr


def test_environment_limits_the_default_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_cores() == 1
    assert resolve_threads(None) == resolve_threads(-1) == 1
    assert resolve_threads(3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert available_cores() >= 1


@pytest.mark.parametrize("asked", [MOST_THREADS + 1, 100_000, 2**31 - 1, 2**70])
def test_more_threads_than_any_machine_has_are_cut_with_a_warning(asked: int) -> None:
    with pytest.warns(bg.BitgroveWarning, match="at most 1024 threads"):
        assert resolve_threads(asked) == MOST_THREADS
    assert resolve_threads(MOST_THREADS) == MOST_THREADS
    assert resolve_threads(-asked) == 1


def test_predictions_with_more_threads_than_a_stack_holds() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 2))
    model = bg.train({"objective": "regression", "n_estimators": 2}, bg.Dataset(X, X[:, 0]))
    with pytest.warns(bg.BitgroveWarning, match="n_jobs=100000"):
        many = model.predict(X, n_jobs=100_000)
    assert many.tobytes() == model.predict(X, n_jobs=1).tobytes()
