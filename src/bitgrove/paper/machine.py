"""What the benchmarks say about themselves and how they print.

This room owns the description of the machine, Markdown tables and the JSON
file. It receives rows of text or plain records; it returns text or writes a file.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path


@cache
def machine(device: str = "cpu") -> str:
    """CPU model, cores this process may use, GPU if it is used, system and Python version."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    parts = [model, f"{n_cores()} cores", platform.system(), f"Python {platform.python_version()}"]
    return ", ".join([*([_gpu()] if device == "cuda" else []), *parts])


def _gpu() -> str:
    from bitgrove.machine.gpu import import_cupy

    name: bytes = import_cupy().cuda.runtime.getDeviceProperties(0)["name"]
    return name.decode()


def n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up; every column but the first is right-aligned."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    lines = []
    for row in [cells[0], rule, *cells[1:]]:
        padded = [row[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("| " + " | ".join(padded) + " |")
    return "\n".join(lines)


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
