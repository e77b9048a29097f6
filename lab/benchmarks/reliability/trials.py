"""One attempt in a process of its own, with limits of time and memory, and what became of it.

The process is a fork of one that has imported the library and never called it, so that an attempt
costs milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

SECONDS, N_BYTES = 20.0, 4 << 30
_BEGUN = b"!"


@dataclass(frozen=True)
class Outcome:
    """kind: done, refused (an exception), crash (a signal, or an exit), hang.

    value: what was returned (JSON), the words of the exception, or the signal.
    printed: what the library wrote to the terminal."""

    kind: str
    value: Any = None
    printed: str = ""


class Attempt:
    """A process that does the work; `answer` is read once."""

    def __init__(self, work: Callable[[], Any], n_bytes: int = N_BYTES) -> None:
        self._read, write = os.pipe()
        self._printed = open(os.memfd_create("printed"), "w+", errors="replace")  # noqa: SIM115
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)
            _in_child(work, write, self._printed, n_bytes)
        os.close(write)

    def wait_until_begun(self, seconds: float) -> bool:
        """For work that says begun(): whether it did."""
        return (
            bool(select.select([self._read], [], [], seconds)[0])
            and os.read(self._read, 1) == _BEGUN
        )

    def answer(self, seconds: float = SECONDS) -> Outcome:
        until, text = time.monotonic() + seconds, b""
        ended = False
        while not ended and (left := until - time.monotonic()) > 0:
            if select.select([self._read], [], [], left)[0]:
                part = os.read(self._read, 1 << 16)
                text, ended = text + part, not part
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        os.close(self._read)
        self._printed.seek(0)
        printed = self._printed.read()[-4000:]
        self._printed.close()
        if not ended:
            return Outcome("hang", printed=printed)
        if not text:
            name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"
            return Outcome("crash", name, printed)
        kind, value = json.loads(text)
        return Outcome(kind, value, printed)


def attempt(work: Callable[[], Any], seconds: float = SECONDS) -> Outcome:
    return Attempt(work).answer(seconds)


def begun() -> None:
    """Said by work that is to be disturbed from now on."""
    assert _said_here is not None
    os.write(_said_here, _BEGUN)


_said_here: int | None = None


def _in_child(work: Callable[[], Any], write: int, printed: IO[str], n_bytes: int) -> None:
    """Never returns."""
    global _said_here
    _said_here = write
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        outcome = "done", work()
    except BaseException as error:
        outcome = "refused", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        os.write(write, json.dumps(outcome).encode())
    os._exit(0)
