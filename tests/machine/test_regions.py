"""Parallel regions of the core: exceptions leave them whole, threads may be refused, Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import bitgrove as bg

posix = pytest.mark.skipif(os.name != "posix", reason="limits and signals are those of POSIX")
START = """
import os, resource, signal, sys, threading, time
import numpy as np, bitgrove as bg
from bitgrove import _core
"""
# Each task asks for room for the digits of 40,000 leaves, 80 MB, that the process may not have.
NO_MEMORY = """
n_leaves, n_rows = 40_000, 200_000
leaf_of = np.zeros(n_rows, np.uint16)
keys, prefixes = np.zeros(n_rows, np.uint32), np.zeros(n_leaves, np.uint32)
counts = np.zeros((n_leaves, 256), np.int64)
_core.sigmoid(np.zeros(200_000), np.zeros(200_000), 2, 0)  # the threads are there
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 40_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
for n_threads in (1, 2):
    try:
        _core.leaf_digits(leaf_of, n_leaves, keys, None, prefixes, 24, counts, n_threads)
        print("done")
    except MemoryError:
        print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
X = np.arange(400.0)[:, None]
params = {"objective": "regression", "n_estimators": 3, "n_jobs": 2}
print(bg.train(params, bg.Dataset(X, X[:, 0])).digest())
"""
# A user who may have few processes; root may always have more, so somebody else asks.
NO_THREADS = """
X = np.random.default_rng(0).normal(size=(60_000, 3))
params = {"objective": "regression", "n_estimators": 2}
alone = bg.train({**params, "n_jobs": 1}, bg.Dataset(X, X[:, 0]))  # imports all that is needed
alone.predict(X, n_jobs=1)
os.setuid(54321)
resource.setrlimit(resource.RLIMIT_NPROC, (4, 4))
model = bg.train({**params, "n_jobs": 64}, bg.Dataset(X, X[:, 0]))
print(len(model.predict(X, n_jobs=64)), model.digest() == alone.digest())
"""
INTERRUPTED = """
def interrupted(work):
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    started = time.time()
    try:
        while True:
            work()
    except KeyboardInterrupt:
        print(time.time() - started)

X = np.random.default_rng(0).normal(size=(2000, 3))
model = bg.train({"objective": "regression", "n_estimators": 300}, bg.Dataset(X, X[:, 0]))
rows = np.tile(X, (2000, 1))
interrupted(lambda: model.predict(rows, n_jobs=2))
n = 300_000
data = bg.Dataset(np.zeros((n, 1)), np.arange(n) % 3, group=[n])
params = {"objective": "lambdarank", "lambdarank_truncation_level": n, "n_jobs": 2}
interrupted(lambda: bg.train(params, data))
"""


def said(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.split()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="/proc says what is in use")
def test_an_allocation_that_fails_is_an_exception_on_any_number_of_threads() -> None:
    one, two, digest = said(NO_MEMORY)
    assert one == two == "MemoryError"
    X = np.arange(400.0)[:, None]
    params = {"objective": "regression", "n_estimators": 3}
    assert digest == bg.train(params, bg.Dataset(X, X[:, 0])).digest()


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user")
def test_threads_that_the_system_refuses_are_done_without() -> None:
    assert said(NO_THREADS) == ["60000", "True"]


@posix
def test_ctrl_c_is_heard_within_a_prediction_and_a_huge_query() -> None:
    assert all(float(seconds) < 20 for seconds in said(INTERRUPTED))  # to the end: minutes


def test_the_same_gradients_however_many_threads_share_a_huge_query() -> None:
    n = 9000  # pairs: more than 2^26, from which on threads share a query
    rng = np.random.default_rng(5)
    data = bg.Dataset(rng.normal(size=(n, 2)), rng.integers(0, 3, n), group=[n - 500, 500])
    params = {"objective": "lambdarank", "lambdarank_truncation_level": n, "n_estimators": 1}
    one, three = (bg.train({**params, "n_jobs": n_jobs}, data) for n_jobs in (1, 3))
    assert one.digest() == three.digest()


EXIT = """
import atexit, sys, threading, time
import numpy as np
X = np.random.default_rng(0).normal(size=(20_000, 10))
def last():  # also what runs after the library's own end
    params = {"objective": "regression", "n_estimators": 2}
    print(bg.train(params, bg.Dataset(X, X[:, 0])).n_iterations)
atexit.register(last)
import bitgrove as bg
model = bg.train({"objective": "regression", "n_estimators": 5}, bg.Dataset(X, X[:, 0]))
def train():
    bg.train({"objective": "regression", "n_jobs": 2}, bg.Dataset(X, X[:, 0]), 1_000_000)
def predict():
    while True:
        model.predict(X)
def explain():
    while True:
        model.shap_values(X[:500])
threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
time.sleep(0.7)
"""


@pytest.mark.parametrize("work", ["train", "predict", "explain"])
def test_a_program_ends_while_a_daemon_thread_works(work: str) -> None:
    done = subprocess.run([sys.executable, "-c", EXIT, work], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [b"2"], b"")
