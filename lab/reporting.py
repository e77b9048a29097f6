"""What the lab says about the machine it runs on, and how it prints.

This room owns the description of the machine, Markdown tables and the JSON
file. It receives rows of text or plain records; it returns text or writes a file.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from lab.internals import import_cupy


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


def deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def mean_text(values: Sequence[float], digits: int = 5) -> str:
    """The mean, with its standard deviation where the values differ; empty without values."""
    if not values:
        return ""
    spread = f" ± {deviation(values):.{digits}f}" if len(set(values)) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}"


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
