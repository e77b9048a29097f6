"""A record that is being made: at once, or by a thread while trees grow on a device.

Owns RecordMaking. Receives what makes the record; returns it, and how long training waited for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from bitgrove.provenance.record import TrainingRecord


class RecordMaking:
    """seconds: what training waited for so far."""

    def __init__(self, make: Callable[[], TrainingRecord], in_background: bool) -> None:
        self.seconds = 0.0
        self._made: Future[TrainingRecord] = Future()
        if in_background:
            worker = ThreadPoolExecutor(1, "bitgrove-fingerprint")
            self._made = worker.submit(make)
            worker.shutdown(wait=False)
        else:
            began = time.perf_counter()
            self._made.set_result(make())
            self.seconds = time.perf_counter() - began

    def result(self) -> TrainingRecord:
        began = time.perf_counter()
        made = self._made.result()
        self.seconds += time.perf_counter() - began
        return made
