"""How much memory of the host this process may still take, as far as the system says."""

from __future__ import annotations

from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
# Of cgroups, version 2 and 1: limit, usage, and what of the usage the system can take back.
_CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
     "total_inactive_file"),
)  # fmt: skip


def free_memory() -> int | None:
    """The least of what machine, container and ulimit leave, in bytes; None where none says."""
    known = [found for found in (_of_machine(), _of_container(), _of_ulimit()) if found is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    facts = _facts(_PROC / "meminfo")
    available = facts.get("MemAvailable:")
    return None if available is None else 1024 * (available + facts.get("SwapFree:", 0))


def _of_container() -> int | None:
    for limit, usage, stat, idle in _CGROUP_FILES:
        most, used = _number(_CGROUP / limit), _number(_CGROUP / usage)
        if most is not None and used is not None:
            return max(0, most - used + _facts(_CGROUP / stat).get(idle, 0))
    return None


def _of_ulimit() -> int | None:
    if resource is None:
        return None
    limit, used = resource.getrlimit(resource.RLIMIT_AS)[0], _number(_PROC / "self" / "statm")
    if limit == resource.RLIM_INFINITY or used is None:
        return None
    return max(0, int(limit) - used * resource.getpagesize())


def _facts(path: Path) -> dict[str, int]:
    """The lines of a file that begin with a name and a number."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _number(path: Path) -> int | None:
    """The first word of a file, if it is a number ("max" is none)."""
    try:
        word = path.read_text().split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return int(word) if word.isdigit() else None
