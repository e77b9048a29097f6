"""The first training and the first prediction of a process: with an empty cache, then a warm one.

Each line is a fresh process; the cache is a temporary folder (CUPY_CACHE_DIR).

    python -m lab bench calls first_use --device cuda
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

import bitgrove as bg
from lab.benchmarks.calls import parser
from lab.reporting import machine, markdown_table

STEPS = ("first fit", "second fit", "first predict", "second predict")


def run_steps(device: str, n_rows: int) -> list[float]:
    """Seconds of each of STEPS, in this process."""
    X = np.random.default_rng(0).standard_normal((n_rows, 28), dtype=np.float32)
    y = (X[:, 0] > 0).astype(float)
    params = {"objective": "binary", "device": device, "n_estimators": 10, "verbosity": 1}
    clock = [time.perf_counter()]
    for _ in range(2):
        model = bg.train(params, bg.Dataset(X, y))
        clock.append(time.perf_counter())
    for _ in range(2):
        model.predict(X, device=device)
        clock.append(time.perf_counter())
    return list(np.diff(clock))


def main(words: Sequence[str]) -> int:
    options = parser("first_use")
    options.add_argument("--device", default="cuda")
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--here", action="store_true", help="in this process; prints JSON")
    given = options.parse_args(words)
    if given.here:
        print(json.dumps(run_steps(given.device, given.rows)))
        return 0
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "warm", "warm"):
            how = ["--device", given.device, "--rows", str(given.rows), "--here"]
            command = [sys.executable, "-m", "lab", "bench", "calls", "first_use", *how]
            environment = {**os.environ, "CUPY_CACHE_DIR": folder}
            ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
            if ran.returncode:
                return ran.returncode
            lines.append([cache, *(f"{seconds:.3f}" for seconds in json.loads(ran.stdout))])
            print("  " + ", ".join(lines[-1]), flush=True)
    print(f"machine: {machine(given.device)}\n\n" + markdown_table(["cache", *STEPS], lines))
    return 0
