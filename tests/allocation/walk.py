"""python walk.py WORK [STEP]: the k-th allocation of the core fails, for k = 1, 2, ... to the last.

Runs under the library of failing_new.cpp (make test-allocation). Each time the work must end in a
MemoryError, or in the right result where there is a way without; and right afterwards it must give
the right result.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bitgrove as bg
from bitgrove.distributed.threads import run_threads

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 5)).round(1)
X[:, 4] = rng.integers(0, 9, 600)
X[rng.random(X.shape) < 0.05] = np.nan
Y = np.nan_to_num(X[:, 0] * X[:, 1]) + rng.normal(size=600)
MANY = np.tile(X, (40, 1))  # rows for several threads
PATH = Path(tempfile.mkdtemp()) / "data.bins"


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def trained(rows: Any = X, labels: Any = Y, **params: Any) -> bg.Model:
    own = {"objective": "regression", "n_estimators": 3, "num_leaves": 8, "n_jobs": 2, **params}
    return bg.train(own, bg.Dataset(rows, labels, categorical_feature=[4]))


MODEL = trained(n_jobs=1)


def _train() -> str:
    return trained().digest()


def _train_features() -> str:
    labels = np.abs(Y)
    params = {"objective": "poisson", "boosting_type": "dart", "subsample": 0.7,
              "monotone_constraints": [1, 0, 0, 0, 0], "colsample_bynode": 0.5,
              "extra_trees": True}  # fmt: skip
    return trained(X, labels, **params).digest()


def _train_ranking() -> str:
    group, labels = np.full(60, 10), (np.arange(600) % 4).astype(float)
    params = {"objective": "lambdarank", "n_estimators": 2, "num_leaves": 4, "n_jobs": 2}
    data = bg.Dataset(X, labels, group=group)
    return bg.train(params, data, valid_sets=data).digest()


def _bin() -> str:
    data = bg.Dataset(MANY, np.tile(Y, 40))
    data.save(PATH, {"n_jobs": 2})
    return digest(*bg.open_dataset(PATH).columns)


def _train_threads() -> str:
    """Enough rows for two threads in every verb."""
    rows, labels = np.tile(X[:, :2], (90, 1)), np.tile(Y, 90)
    params = {"objective": "regression", "n_estimators": 1, "num_leaves": 4, "n_jobs": 2}
    return bg.train(params, bg.Dataset(rows, labels)).digest()


def _predict() -> str:
    return digest(MODEL.predict(MANY, n_jobs=2), MODEL.predict(MANY[:7], pred_leaf=True))


def _explain() -> str:
    copy = bg.Model.from_bytes(MODEL.to_bytes())
    return digest(copy.predict(MANY[:300], pred_contrib=True, n_jobs=2))


def _ranks() -> str:
    """Histograms as messages between two ranks."""

    def one(comm: Any) -> str:
        half = slice(comm.rank * 300, comm.rank * 300 + 300)
        params = {"objective": "regression", "n_estimators": 2, "num_leaves": 8, "n_jobs": 1}
        return bg.train(params, bg.Dataset(X[half], Y[half]), comm=comm).digest()

    (found,) = set(run_threads(2, one))
    return found


WORKS: dict[str, Callable[[], str]] = {
    "bin": _bin,
    "train": _train,
    "train_threads": _train_threads,
    "train_features": _train_features,
    "train_ranking": _train_ranking,
    "predict": _predict,
    "explain": _explain,
    "ranks": _ranks,
}


def in_thread(work: Callable[[], str]) -> str | BaseException:
    """In a thread of its own: what the core keeps for each thread is made anew."""
    found: list[str | BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def is_memory(error: BaseException | None) -> bool:
    """Also where another rank had it: an error of ours that is about it."""
    return isinstance(error, MemoryError) or (
        error is not None and (is_memory(error.__cause__) or is_memory(error.__context__))
    )


def main(name: str, step: int = 1) -> None:
    warnings.simplefilter("ignore")
    hook: Any = ctypes.CDLL(None).fail_allocation
    hook.argtypes, hook.restype = [ctypes.c_long], ctypes.c_long
    work = WORKS[name]
    expected = in_thread(work)
    if isinstance(expected, BaseException):
        raise expected
    k, n_errors = 1, 0
    while True:
        print(f"{name} {k}", flush=True)
        hook(k)
        found = in_thread(work)
        n_seen = hook(0)
        if isinstance(found, BaseException):
            n_errors += 1
            assert is_memory(found), repr(found)
        else:
            assert found == expected, "another result"
        assert in_thread(work) == expected, "another result afterwards"
        if n_seen < k:
            break
        k += step
    print(f"{name}: {k - 1} allocations, {n_errors} errors")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
