"""The launcher's word that a process has died: a signal, listened to while there are communicators.

Owns the handler of SIGUSR1, which MPICH's launcher Hydra sends to the processes that are left and
which would end them. The handler that was there before is called as well, and comes back when the
last communicator is gone.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from typing import Any

_SIGNAL: int | None = getattr(signal, "SIGUSR1", None)  # Windows has none


class DeathWatch:
    """Counts the deaths that were told; `hold` keeps it listening as long as its owner lives."""

    def __init__(self) -> None:
        self.n_deaths = 0
        self._n_owners = 0
        self._is_listening = False
        self._is_passing_on = False
        self._before: Any = None
        # Python may collect an owner, and so call _release, in the middle of hold.
        self._lock = threading.RLock()

    def hold(self, owner: object) -> None:
        """Listens until the owner is collected. Only the main thread can begin to."""
        with self._lock:
            self._n_owners += 1
            # Not at exit: a signal in MPI_Finalize would end this process before the others.
            weakref.finalize(owner, self._release).atexit = False
            if _SIGNAL is None or self._is_listening:
                return
            before = signal.getsignal(_SIGNAL)
            if _set_handler(self._remember):
                self._before, self._is_listening = before, True

    def _release(self) -> None:
        with self._lock:
            self._n_owners -= 1
            if self._n_owners == 0:
                self._stop()

    def _stop(self) -> bool:
        """Puts the old handler back; False if it was not set in Python, or ours was replaced."""
        if not self._is_listening or self._before is None or _SIGNAL is None:
            return False
        if signal.getsignal(_SIGNAL) != self._remember:
            self._is_listening = False  # a handler set after ours stays, and may call ours
            return False
        self._is_listening = not _set_handler(self._before)
        return not self._is_listening

    def _remember(self, number: int, frame: Any) -> None:
        # The last owner may have been collected on a thread that could not put the handler back.
        if self._n_owners == 0 and self._stop():
            os.kill(os.getpid(), number)
            return
        self.n_deaths += self._n_owners > 0
        if callable(self._before) and not self._is_passing_on:
            self._is_passing_on = True  # the one before may have been set later, and call ours
            try:
                self._before(number, frame)
            finally:
                self._is_passing_on = False


def _set_handler(handler: Any) -> bool:
    """Whether this thread may set handlers; if so it has done it."""
    assert _SIGNAL is not None
    try:
        signal.signal(_SIGNAL, handler)
    except ValueError:  # not the main thread of the main interpreter
        return False
    return True
