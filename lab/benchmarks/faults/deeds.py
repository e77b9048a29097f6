"""What one rank does to the others, and when.

Owns the deeds, each a function that never asks where it happens, and the Trap: a Comm that counts
its collectives and does a deed before one of them. The moment of a deed is kept in a file, from
which the seconds of the others are counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bitgrove.distributed import CountingComm

T = TypeVar("T")
MARK = "deed.json"
_hoard: list[bytes] = []
WHEN = ("first", "binning", "trees", "last")


def _signal(number: int) -> Callable[[dict[str, Any]], None]:
    return lambda how: os.kill(how.get("pid") or os.getpid(), number)


def _raise(how: dict[str, Any]) -> None:
    raise OSError("the disk is on fire")


def _sleep(how: dict[str, Any]) -> None:
    time.sleep(how["seconds"])


def _take_memory(how: dict[str, Any]) -> None:
    """From now on this process may have no more than it has, and what it has is taken."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), -1))
    with contextlib.suppress(MemoryError):
        while True:
            _hoard.append(bytes(1 << 15))


def _cut_off(how: dict[str, Any]) -> None:
    """The words take this rank's link from the bridge: packets vanish, no connection breaks."""
    subprocess.run(how["words"], check=True, capture_output=True)


DEEDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "killed": _signal(signal.SIGKILL),
    "stopped": _signal(signal.SIGSTOP),
    "raises": _raise,
    "slow": _sleep,
    "out of memory": _take_memory,
    "cut off": _cut_off,
}


def do(how: dict[str, Any]) -> None:
    """Says when, then does it."""
    (Path(how["folder"]) / MARK).write_text(json.dumps({"at": time.time(), "pid": os.getpid()}))
    DEEDS[how["deed"]](how)


class Trap(CountingComm):
    """Passes everything on; before collective number `at` it does the deed."""

    def __init__(self, comm: Any, at: int | None = None, how: dict[str, Any] | None = None) -> None:
        super().__init__(comm)
        self._at, self._how = at, how or {}
        self.names: list[str] = []

    def _count(self, name: str, n_bytes: float, call: Callable[[], T]) -> T:
        self.names.append(name)
        if len(self.names) == self._at:
            do(self._how)
        return super()._count(name, n_bytes, call)

    def number_of(self, when: str) -> int:
        """Of the collectives of the training that this one has seen to its end."""
        n = len(self.names)
        places = {"first": 1, "binning": 1 + self.names.index("alltoall"), "trees": n // 2}
        return places.get(when, n)


def trained_twice(train: Callable[..., T], comm: Any, how: dict[str, Any] | None) -> T:
    """train(comm=...) undisturbed, to count; then with the deed, where this rank is to do one."""
    counting = Trap(comm)
    train(comm=counting)
    if how is None or how["when"] not in WHEN:
        return train(comm=comm)
    return train(comm=Trap(comm, counting.number_of(how["when"]), how))
