"""In company: threads that train at once, spawned processes, libraries with their own threads."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import bitgrove as bg

X = np.random.default_rng(0).normal(size=(20_000, 5))
Y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(float)
PARAMS: dict[str, Any] = {"objective": "binary", "n_estimators": 4, "num_leaves": 15, "n_jobs": 2}


def test_threads_that_train_and_predict_at_once() -> None:
    expected = bg.train(PARAMS, bg.Dataset(X, Y))
    scores = expected.predict(X)

    def work(number: int) -> bool:
        model = bg.train(PARAMS, bg.Dataset(X, Y))
        same = np.array_equal(expected.predict(X, n_jobs=2), scores)  # one model, many threads
        return same and model == expected

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_processes_of_joblib() -> None:
    """Spawned, with all their threads, and the model pickled on its way back."""
    joblib = pytest.importorskip("joblib")
    train = joblib.delayed(bg.train)
    models = joblib.Parallel(n_jobs=2)(train(PARAMS, bg.Dataset(X, Y)) for _ in range(2))
    assert [model.digest() for model in models] == [bg.train(PARAMS, bg.Dataset(X, Y)).digest()] * 2


# What each does with threads of its own, before and after ours.
COMPANY = {
    "sklearn": """
from sklearn.ensemble import HistGradientBoostingClassifier
def work(): HistGradientBoostingClassifier(max_iter=3).fit(X, Y).predict(X)
""",
    "lightgbm": """
import lightgbm
def work(): lightgbm.LGBMClassifier(n_estimators=3, n_jobs=2, verbosity=-1).fit(X, Y).predict(X)
""",
    "numba": """
import numba
@numba.njit(parallel=True)
def total(values):
    found = 0.0
    for i in numba.prange(len(values)):
        found += values[i]
    return found
def work(): assert abs(total(X[:, 0]) - X[:, 0].sum()) < 1e-6
""",
    "torch": """
import torch
torch.set_num_threads(2)
def work(): (torch.from_numpy(X).T @ torch.from_numpy(X)).exp().sum()
""",
}
PROGRAM = """
import numpy as np, warnings
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(20_000, 5))
Y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(float)
{company}
work()
import bitgrove as bg
params = {params!r}
for _ in range(2):
    model = bg.train(params, bg.Dataset(X, Y))
    assert model.predict(X, n_jobs=2).shape == (20_000,)
    work()
print(model.digest())
"""


@pytest.mark.parametrize("library", COMPANY)
def test_beside_libraries_with_threads_of_their_own(library: str) -> None:
    """They are loaded first, and with them their OpenMP or other pool."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    program = PROGRAM.format(company=COMPANY[library], params=PARAMS)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert done.stdout.split()[-1] == bg.train(PARAMS, bg.Dataset(X, Y)).digest()
