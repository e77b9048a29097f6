"""How much memory of the host this process may still take, as far as the system says."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from bitgrove.errors import HostMemoryError, TrainingError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PROC, _CGROUP = "/proc", "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60
_READ_BYTES = 1 << 16


class Room(NamedTuple):
    """Memory that is free, in bytes; None where nobody says.

    own: for this process alone. shared: for all processes of the same place together. error: what
    is raised where there is too little.
    """

    own: int | None
    shared: int | None
    place: str
    error: type[TrainingError] = HostMemoryError

    @property
    def free(self) -> int | None:
        return min((n for n in (self.own, self.shared) if n is not None), default=None)


def host_room() -> Room:
    """What ulimit leaves to this process, and machine and container to all."""
    shared = [found for found in (_of_machine(), _of_container()) if found is not None]
    return Room(_of_ulimit(), min(shared, default=None), _this_machine())


@cache
def _this_machine() -> str:
    boot = _first_word(f"{_PROC}/sys/kernel/random/boot_id") or ""
    return f"{platform.node()} {boot}"


def free_memory() -> int | None:
    """The least of what machine, container and ulimit leave, in bytes; None where none says."""
    return host_room().free


def _of_machine() -> int | None:
    facts = _text(f"{_PROC}/meminfo")
    available = _fact(facts, "MemAvailable:")
    return None if available is None else 1024 * (available + (_fact(facts, "SwapFree:") or 0))


class _Group(NamedTuple):
    """A control group's files: limit, usage, and what of the usage the system can take back."""

    folder: str
    limit: str
    usage: str
    idle: str

    def free(self) -> int | None:
        most = _number(f"{self.folder}/{self.limit}")
        if most is None or most > _NO_LIMIT:  # what it uses takes long to ask for
            return None
        used = _number(f"{self.folder}/{self.usage}")
        if used is None:
            return None
        idle = _fact(_text(f"{self.folder}/memory.stat"), self.idle) or 0
        return max(0, most - used + idle)


def _of_container() -> int | None:
    """The least of the limits of this process's control groups and of those above them."""
    groups = dict.fromkeys(_groups())
    found = [free for group in groups if (free := group.free()) is not None]
    return min(found, default=None)


def _groups() -> Iterator[_Group]:
    """Of version 1 and 2. In a container the file may name a path that only the host has."""
    for line in ["0::/", "0:memory:/", *_text(f"{_PROC}/self/cgroup").splitlines()]:
        _, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if kinds == "":
            root, files = f"{_CGROUP}", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            root = f"{_CGROUP}/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for n in range(len(parts) + 1):
            yield _Group("/".join([root, *parts[:n]]), *files)


def _of_ulimit() -> int | None:
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    used = _number(f"{_PROC}/self/statm")
    if used is None:
        return None
    return max(0, int(limit) - used * resource.getpagesize())


def _text(path: str) -> str:
    """What is in a file; nothing where it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY)  # an object of Python's takes as long as to read it
        try:
            return b"".join(iter(lambda: os.read(file, _READ_BYTES), b"")).decode()
        finally:
            os.close(file)
    except (OSError, ValueError):
        return ""


def _fact(text: str, name: str) -> int | None:
    """The number that follows a name at the begin of a line. Not every line is taken apart."""
    _, _, rest = f"\n{text}".partition(f"\n{name} ")
    word = next(iter(rest[:40].split()), "")
    return int(word) if word.isdigit() else None


def _first_word(path: str) -> str | None:
    return next(iter(_text(path).split()), None)


def _number(path: str) -> int | None:
    """The first word of a file, if it is a number ("max" is none)."""
    word = _first_word(path)
    return int(word) if word is not None and word.isdigit() else None
