"""Ctrl-C while a library works: seconds until the call has ended, and how it ended."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from lab.benchmarks.reliability.files import rows
from lab.benchmarks.reliability.libraries import Library
from lab.benchmarks.reliability.trials import Attempt, begun

# Seconds of work before the signal: at the start of fit rows are binned, later trees grow.
MOMENTS = {"fit, at once": 0.3, "fit, in the trees": 8.0, "predict": 0.5}
_PATIENCE = 120.0


def _work(library: Library, moment: str, n_rows: int) -> None:
    X, y = rows(n_rows)
    if moment != "predict":
        begun()
        library.estimator("Classifier", n_estimators=5000).fit(X, y)
        return
    fitted = library.estimator("Classifier", n_estimators=300).fit(X[:20_000], y[:20_000])
    begun()
    for _ in range(100):
        fitted.predict_proba(X)


def run(library: Library, n_rows: int, repeats: int) -> dict[str, Any]:
    """By moment: [seconds, how it ended] of the slowest of the repeats."""
    found: dict[str, Any] = {}
    for moment, after in MOMENTS.items():
        slowest: tuple[float, str] = (-1.0, "")
        for _ in range(repeats):
            work = Attempt(lambda moment=moment: _work(library, moment, n_rows), 16 << 30)  # type: ignore[misc]
            if not work.wait_until_begun(_PATIENCE):
                slowest = max(slowest, (_PATIENCE, "did not begin"))
            time.sleep(after)
            os.kill(work.pid, signal.SIGINT)
            struck = time.monotonic()
            outcome = work.answer(_PATIENCE)
            how = outcome.value if outcome.kind in ("refused", "crash") else outcome.kind
            slowest = max(slowest, (time.monotonic() - struck, str(how).partition(":")[0]))
        found[moment] = slowest
    return found
