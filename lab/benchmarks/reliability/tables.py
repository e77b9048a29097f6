"""What was found, as the Markdown tables of docs/reliability.md."""

from __future__ import annotations

from typing import Any

from lab.benchmarks.reliability.files import OUTCOMES
from lab.reporting import markdown_table


def of(section: str, found: dict[str, Any]) -> str:
    """found: what each library's run() returned, by its label."""
    return str(
        {"files": _files, "inputs": _inputs, "saving": _saving, "interrupts": _interrupts}[section](
            found
        )
    )


def _files(found: dict[str, Any]) -> str:
    lines = [
        [label, record["format"], *(str(record.get(outcome, 0)) for outcome in OUTCOMES)]
        for label, records in found.items()
        for record in records
    ]
    return markdown_table(["library", "format", *OUTCOMES], lines)


def _inputs(found: dict[str, Any]) -> str:
    names = list(next(iter(found.values())))
    lines = [[name, *(found[label][name][0] for label in found)] for name in names]
    refused = [sum(word == "refused" for word, _ in found[label].values()) for label in found]
    lines.append(["refused", *(f"{n} of {len(names)}" for n in refused)])
    return markdown_table(["case", *found], lines)


def _saving(found: dict[str, Any]) -> str:
    lines = [
        [label, f"{record['bytes'] >> 10:,}", f"{record['whole']} of {record['kills']}",
         record["full"], "yes" if record["full whole"] else "NO"]
        for label, record in found.items()
    ]  # fmt: skip
    header = ["library", "KB", "whole after kill -9", "no room", "old file whole"]
    return markdown_table(header, lines)


def _interrupts(found: dict[str, Any]) -> str:
    moments = list(next(iter(found.values())))
    lines = [
        [label, *(f"{seconds:.1f} s, {how}" for seconds, how in (record[m] for m in moments))]
        for label, record in found.items()
    ]
    return markdown_table(["library", *moments], lines)
