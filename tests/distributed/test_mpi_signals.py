"""The handler of SIGUSR1: there while communicators live, polite to the one before it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from bitgrove.distributed.mpi import comm as mpi_comm
from bitgrove.distributed.mpi.deaths import DeathWatch

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")


class Owner:
    """What a DeathWatch listens for."""


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that a handler of the user's own got."""
    found: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGUSR1, before)


def tell() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def in_thread(function: Any) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert not errors


def test_the_old_handler_is_called_and_comes_back(heard: list[int]) -> None:
    own, watch = signal.getsignal(signal.SIGUSR1), DeathWatch()
    first, second = Owner(), Owner()
    watch.hold(first)
    watch.hold(second)
    tell()
    assert (watch.n_deaths, len(heard)) == (1, 1)
    del first
    tell()
    assert (watch.n_deaths, len(heard)) == (2, 2)
    del second
    assert signal.getsignal(signal.SIGUSR1) is own
    tell()
    assert (watch.n_deaths, len(heard)) == (2, 3)
    watch.hold(third := Owner())
    tell()
    assert (watch.n_deaths, len(heard), third is not None) == (3, 4, True)


def test_a_later_handler_stays(heard: list[int]) -> None:
    watch, owner = DeathWatch(), Owner()
    watch.hold(owner)
    later: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: later.append(number))
    del owner
    tell()
    assert len(later) == 1 and not heard and watch.n_deaths == 0


def test_a_later_handler_may_call_ours(heard: list[int]) -> None:
    watch, owners, later = DeathWatch(), [Owner()], []
    watch.hold(owners[0])
    ours: Any = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda *signaled: (later.append(1), ours(*signaled)))
    tell()
    assert (watch.n_deaths, len(later), len(heard)) == (1, 1, 1)
    owners.clear()
    tell()
    assert (watch.n_deaths, len(later), len(heard)) == (1, 2, 2)
    owners.append(Owner())
    watch.hold(owners[0])  # now each of the two handlers came before the other
    tell()
    assert len(later) == 3 and watch.n_deaths > 1


def test_other_threads_set_no_handler(heard: list[int]) -> None:
    own, watch, owners = signal.getsignal(signal.SIGUSR1), DeathWatch(), [Owner()]
    in_thread(lambda: watch.hold(owners[0]))
    assert signal.getsignal(signal.SIGUSR1) is own
    owners.append(Owner())
    watch.hold(owners[1])  # the main thread makes up for it
    tell()
    assert watch.n_deaths == 1


def test_owners_that_another_thread_lets_go(heard: list[int]) -> None:
    own, watch, owners = signal.getsignal(signal.SIGUSR1), DeathWatch(), [Owner()]
    watch.hold(owners[0])
    in_thread(owners.clear)
    tell()  # not for the watch: it steps aside and passes it on
    assert watch.n_deaths == 0 and len(heard) == 1
    assert signal.getsignal(signal.SIGUSR1) is own


def test_the_signal_ends_a_process_that_listens_no_more() -> None:
    program = (
        "import os, signal, threading\n"
        "from bitgrove.distributed.mpi.deaths import DeathWatch\n"
        "class Owner: pass\n"
        "watch, owners = DeathWatch(), [Owner()]\n"
        "watch.hold(owners[0])\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "print(watch.n_deaths, flush=True)\n"
        "thread = threading.Thread(target=owners.clear)\n"
        "thread.start(); thread.join()\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "print('alive', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGUSR1, done.stderr
    assert done.stdout == "1\n"


def test_communicators_hold_the_watch(heard: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(COMM_TYPE_SHARED=0)
    neighbours = SimpleNamespace(size=1, Free=lambda: None)
    world = SimpleNamespace(rank=0, size=1, Split_type=lambda kind: neighbours, Dup=lambda: None)
    watch = DeathWatch()
    monkeypatch.setattr(mpi_comm, "_library", lambda: library)
    monkeypatch.setattr(mpi_comm, "_deaths", watch)
    own = signal.getsignal(signal.SIGUSR1)
    comm = mpi_comm.MpiComm(world)
    tell()
    assert watch.n_deaths == 1
    del comm
    assert signal.getsignal(signal.SIGUSR1) is own
    in_thread(lambda: mpi_comm.MpiComm(world))
