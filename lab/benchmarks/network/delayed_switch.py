"""A switch in user space: every frame comes out a fixed time after it went in, at the link's rate.

    python -m lab.benchmarks.network.delayed_switch SECONDS GBIT NAMESPACE...  # GBIT 0: no limit

For kernels without tc's netem. Makes a TAP interface eth0 in each of the namespaces, whose last
byte of the hardware address is its number, says "ready" and forwards until it is ended. What goes
out of an interface is shaped there by tc; here, what comes in. Frames keep their offload headers,
so that TCP's segments of 64 KB pass whole.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
CHECKSUM, TSO4 = 0x01, 0x02
CLONE_NEWNET = 0x40000000
HEADER, LARGEST = 10, 70_000  # the offload header before each frame; bytes of a frame


def open_tap(namespace: str) -> int:
    """A new interface eth0 of the namespace; the file its frames are read from and written to."""
    libc = ctypes.CDLL(None, use_errno=True)
    home, there = (
        os.open(p, os.O_RDONLY) for p in ("/proc/self/ns/net", f"/run/netns/{namespace}")
    )
    if libc.setns(there, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(tap, TUNSETOFFLOAD, CHECKSUM | TSO4)
    libc.setns(home, CLONE_NEWNET)
    os.close(home)
    os.close(there)
    return tap


def forward(taps: list[int], delay: float, seconds_per_byte: float) -> None:
    """Frames by destination, each with the time at which it is due there."""
    numbers = {tap: number for number, tap in enumerate(taps)}
    waiting: list[deque[tuple[float, bytes]]] = [deque() for _ in taps]
    free = [0.0] * len(taps)  # when the link to this one has passed what it was given
    while True:
        dues = [queue[0][0] for queue in waiting if queue]
        timeout = max(min(dues) - time.perf_counter(), 0.0) if dues else None
        for tap in select.select(taps, [], [], timeout)[0]:
            frame = os.read(tap, LARGEST)
            to_all = frame[HEADER] & 1
            targets = set(numbers.values()) - {numbers[tap]} if to_all else {frame[HEADER + 5]}
            for target in targets:
                due = max(time.perf_counter() + delay, free[target])
                free[target] = due + len(frame) * seconds_per_byte
                waiting[target].append((due, frame))
        now = time.perf_counter()
        for tap, queue in zip(taps, waiting, strict=True):
            while queue and queue[0][0] <= now:
                frame = queue.popleft()[1]
                with suppress(OSError):  # lost, as on a link that is down
                    os.write(tap, frame)


def main() -> None:
    delay, gbit, namespaces = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    taps = [open_tap(name) for name in namespaces]
    # Frames must not wait for ranks that compute: this process goes first.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    gc.disable()
    print("ready", flush=True)
    forward(taps, delay, 8e-9 / gbit if gbit else 0.0)


if __name__ == "__main__":
    main()
