"""`import bitgrove` is quick: what is large, or optional, is imported when it is first needed."""

from __future__ import annotations

import subprocess
import sys

LATER = ["sklearn", "scipy", "pandas", "polars", "pyarrow", "matplotlib", "dask", "distributed",
         "cupy", "mpi4py", "tqdm", "asyncio", "multiprocessing"]  # fmt: skip


def test_importing_brings_only_numpy() -> None:
    script = f"import sys, bitgrove; print([name for name in {LATER} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_estimators_are_there_all_the_same() -> None:
    script = (
        "import bitgrove; assert set(bitgrove.__all__) <= set(dir(bitgrove));"
        "from bitgrove import *; print(BitGroveRegressor(n_estimators=3))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "BitGroveRegressor(n_estimators=3)"
