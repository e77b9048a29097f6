"""Experiments as tables of cells: each cell is one run, kept on disk as soon as it is done.

Owns Cell, Report, the contract of an Experiment and the store of finished cells. Cells are measured
in workers, and what they say together is written in runs.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.internals import write_atomically
from lab.running.study import Bench, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run: a system (by its label) on a dataset, with a seed or the number of a repeat."""

    dataset: str
    system: str
    seed: int = 0


Results = list[tuple[Cell, Result]]


class Measured(NamedTuple):
    result: Result
    machine: str


@dataclass(frozen=True)
class Report:
    """What an experiment says: rows for the CSV file, a page, and how to draw its picture."""

    rows: Sequence[dict[str, Any]]
    page: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (9.0, 4.5)


class Experiment(ABC):
    """A table or a figure: one class, one instance of it in lab.experiments."""

    name: str
    summary: str
    timed = False  # do its results depend on the machine?
    devices: tuple[str, ...] = ("cpu",)
    may_fail = False  # a run of ours that fails is a result, as one of another library is
    reports_parts = False  # says something also when --seconds ended it early

    def fingerprint(self, cell: Cell, bench: Bench) -> str:
        """Changes with everything the cell's result depends on, but for its system and seed."""
        return bench.fingerprint(cell.dataset, self.timed)

    @abstractmethod
    def plan(self, study: Study) -> list[Cell]:
        """The cells, in the order in which they are measured."""

    @abstractmethod
    def measure(self, cell: Cell, bench: Bench) -> Result:
        """One cell's result: plain numbers, text and lists of them."""

    @abstractmethod
    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        """What all cells say together."""


class Store:
    """Finished cells, one JSON file each, with the machine that each ran on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, cell: Cell, fingerprint: str) -> Path:
        words = (cell.dataset, cell.system, str(cell.seed), fingerprint)
        return self.folder / f"{'-'.join(re.sub(r'[^A-Za-z0-9.]+', '_', w) for w in words)}.json"

    def get(self, cell: Cell, fingerprint: str) -> Measured | None:
        try:
            content = json.loads(self._path(cell, fingerprint).read_text(encoding="utf-8"))
            return Measured(content["result"], content["machine"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # absent, or damaged: measured again

    def put(self, cell: Cell, fingerprint: str, measured: Measured) -> None:
        content = {"cell": asdict(cell), **measured._asdict()}
        path = self._path(cell, fingerprint)
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def by_system(results: Iterable[tuple[Cell, Result]], key: str) -> dict[tuple[str, str], list[Any]]:
    """The values of one key over the seeds, by (dataset, system)."""
    values: dict[tuple[str, str], list[Any]] = {}
    for cell, result in results:
        values.setdefault((cell.dataset, cell.system), []).append(result[key])
    return values


def csv_rows(results: Iterable[tuple[Cell, Result]], seed: str = "seed") -> list[dict[str, Any]]:
    """A row per cell; seed: what the number of the run is called."""
    return [{"dataset": c.dataset, "system": c.system, seed: c.seed, **r} for c, r in results]


def finished(results: Iterable[tuple[Cell, Result]]) -> Results:
    return [(cell, result) for cell, result in results if "failed" not in result]


def failures(results: Iterable[tuple[Cell, Result]]) -> str:
    """A paragraph on what failed; empty if nothing did."""
    found: dict[tuple[str, str], str] = {}
    for cell, result in results:
        if "failed" in result:
            found.setdefault((cell.system, cell.dataset), result["failed"])
    lines = [f"- {system} on {name}: {text}" for (system, name), text in found.items()]
    return "\n\nRuns that failed:\n\n" + "\n".join(lines) if lines else ""
