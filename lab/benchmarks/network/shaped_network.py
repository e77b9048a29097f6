"""A network on one machine: a namespace per rank, joined by a bridge, with links of a given rate.

Needs root. Owns the namespaces while network() is open. What a rank sent is counted by its
interface (COUNTER, seen from inside of its namespace); rates are those of tc's token bucket.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Named by process, so that two benchmarks can run at once.
NAMESPACE, LINK, BRIDGE = (f"bg{os.getpid()}{part}" for part in ("n{}", "v{}", "b"))
NETWORK = "10.77.0.{}"
COUNTER = Path("/sys/class/net/eth0/statistics/tx_bytes")
_CLONE_NEWNET = 0x40000000
MPI_OVER_TCP = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}


def address(rank: int) -> str:
    return NETWORK.format(rank + 1)


def inside(rank: int | str) -> list[str]:
    """The words before a command that run it in the namespace of a rank."""
    return ["ip", "netns", "exec", NAMESPACE.format(rank)]


def enter(rank: int) -> None:
    """This process, from now on, in the namespace of a rank."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{NAMESPACE.format(rank)}") as there:
        if libc.setns(there.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace of rank {rank}")


def detach_words(rank: int) -> list[str]:
    """A command, also from inside of a namespace, after which what the rank sends is lost."""
    home = f"--net=/proc/{os.getpid()}/ns/net"
    return ["nsenter", home, "ip", "link", "set", LINK.format(rank), "nomaster"]


@contextmanager
def network(n: int, gbit: float | None, delay: float = 0.0) -> Iterator[None]:
    """n namespaces; links of `gbit` in both directions if given, `delay` seconds from end to end.

    Without a delay the kernel's bridge joins them, else a switch in user space.
    """
    with ExitStack() as stack:
        stack.callback(_remove, n)
        for i in range(n):
            _sh(f"ip netns add {NAMESPACE.format(i)}")
        if delay:
            switch = _start_switch(n, gbit, delay)
            stack.callback(switch.wait)
            stack.callback(switch.kill)
        else:
            _join_by_bridge(n, gbit)
        for i in range(n):
            name = NAMESPACE.format(i)
            _sh(f"ip -n {name} addr add {address(i)}/24 dev eth0")
            _sh(f"ip -n {name} link set eth0 up && ip -n {name} link set lo up")
            if gbit is not None:
                _sh(f"tc -n {name} qdisc add dev eth0 {_shape(gbit)}")
        yield


def mpi_ranks(n: int, program: list[str], env: dict[str, str], *, apart: bool = True) -> str:
    """Runs the program as n MPI ranks and returns the last line printed.

    apart: each in its namespace, over TCP; else on one machine as MPI likes it.
    """
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    mpiexec = shutil.which("mpiexec", path=folders) or "mpiexec"
    words = " ".join([*(inside("$PMI_RANK") if apart else []), *program])
    network_env = MPI_OVER_TCP if apart else {}
    done = subprocess.run(
        [mpiexec, "-n", str(n), "sh", "-c", f"exec {words}"],
        env={**os.environ, **network_env, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout.strip().splitlines()[-1]


def _join_by_bridge(n: int, gbit: float | None) -> None:
    _sh(f"ip link add {BRIDGE} type bridge && ip link set {BRIDGE} up")
    for i in range(n):
        outside = LINK.format(i)
        _sh(f"ip link add {outside} type veth peer name eth0 netns {NAMESPACE.format(i)}")
        _sh(f"ip link set {outside} master {BRIDGE} up")
        if gbit is not None:
            _sh(f"tc qdisc add dev {outside} {_shape(gbit)}")


def _start_switch(n: int, gbit: float | None, delay: float) -> subprocess.Popen[str]:
    names = [NAMESPACE.format(i) for i in range(n)]
    command = [
        sys.executable,
        "-m",
        "lab.benchmarks.network.delayed_switch",
        str(delay),
        str(gbit or 0),
        *names,
    ]
    switch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert switch.stdout is not None
    if switch.stdout.readline() != "ready\n":
        raise RuntimeError("the switch did not start")
    for i, name in enumerate(names):
        _sh(f"ip -n {name} link set eth0 address 02:00:00:00:00:{i:02x}")
    return switch


def _shape(gbit: float) -> str:
    return f"root tbf rate {round(gbit * 1000)}mbit burst 256kb latency 50ms"


def _sh(command: str) -> None:
    subprocess.run(command, shell=True, check=True, capture_output=True)


def _remove(n: int) -> None:
    for i in range(n):
        # The link first: the kernel removes those of a deleted namespace only a little later.
        subprocess.run(["ip", "link", "del", LINK.format(i)], capture_output=True)
        subprocess.run(["ip", "netns", "del", NAMESPACE.format(i)], capture_output=True)
    subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)
