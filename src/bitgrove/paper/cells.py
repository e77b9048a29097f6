"""Experiments as tables of cells: each cell is one run, kept on disk as soon as it is done.

Owns Cell, Experiment, the store of finished cells and run(), which measures what is missing with a
progress bar and writes CSV, Markdown and a picture. Stopped at any time, the same command goes on
where it was.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from bitgrove.files import write_atomically
from bitgrove.paper.machine import machine
from bitgrove.paper.study import Bench, Study

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


@dataclass(frozen=True)
class Report:
    """What an experiment says: rows for the CSV file, a page, and how to draw its picture."""

    rows: Sequence[dict[str, Any]]
    page: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (9.0, 4.5)


@dataclass(frozen=True)
class Experiment:
    """A table or a figure. measure() must return plain numbers, text and lists of them."""

    name: str
    summary: str
    plan: Callable[[Study], list[Cell]]
    measure: Callable[[Cell, Bench], Result]
    report: Callable[[Study, Bench, Results], Report]
    timed: bool = False  # do its results depend on the machine?
    bench: Callable[[Study], Bench] = Bench


class Store:
    """Finished cells, one JSON file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, cell: Cell, fingerprint: str) -> Path:
        words = (cell.dataset, cell.system, str(cell.seed), fingerprint)
        return self.folder / f"{'-'.join(re.sub(r'[^A-Za-z0-9.]+', '_', w) for w in words)}.json"

    def get(self, cell: Cell, fingerprint: str) -> Result | None:
        try:
            content = json.loads(self._path(cell, fingerprint).read_text(encoding="utf-8"))
            found: Result = content["result"]
        except (OSError, ValueError, KeyError, TypeError):
            return None  # absent, or damaged: measured again
        return found

    def put(self, cell: Cell, fingerprint: str, result: Result) -> None:
        content = {"cell": asdict(cell), "result": result}
        path = self._path(cell, fingerprint)
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def run(experiment: Experiment, study: Study) -> list[Path]:
    """Measures the cells that are not on disk yet; returns the files written."""
    folder = study.out / experiment.name
    store, bench = Store(folder / "cells"), experiment.bench(study)
    cells = experiment.plan(study)
    results: Results = []
    with tqdm(total=len(cells), desc=experiment.name, unit="run", file=sys.stderr) as bar:
        for cell in cells:
            bar.set_postfix_str(f"{cell.dataset}, {cell.system}")
            fingerprint = bench.fingerprint(cell.dataset, experiment.timed)
            result = store.get(cell, fingerprint)
            if result is None:
                result = _measured(experiment, cell, bench)
                store.put(cell, fingerprint, result)
            results.append((cell, result))
            bar.update()
    report = experiment.report(study, bench, results)
    return _write(folder, experiment, report)


def _measured(experiment: Experiment, cell: Cell, bench: Bench) -> Result:
    """A run of another library that fails is a result, too; ours must not fail."""
    try:
        return experiment.measure(cell, bench)
    except Exception as error:
        if not cell.system.startswith(("LightGBM", "XGBoost", "CatBoost")):
            raise
        text = str(error).strip() or type(error).__name__
        return {"failed": text.splitlines()[0][:200]}


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


def _write(folder: Path, experiment: Experiment, report: Report) -> list[Path]:
    table = io.StringIO()
    header = list(dict.fromkeys(key for row in report.rows for key in row))
    writer = csv.DictWriter(table, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(report.rows)
    page = f"# {experiment.name}: {experiment.summary}\n\n{report.page}\n\nMachine: {machine()}\n"
    written = [folder / f"{experiment.name}.csv", folder / f"{experiment.name}.md"]
    write_atomically(written[0], table.getvalue().encode())
    write_atomically(written[1], page.encode())
    picture = _draw(report)
    if picture is not None:
        written.append(folder / f"{experiment.name}.png")
        write_atomically(written[-1], picture)
    else:
        print("no picture: pip install bitgrove[plot]", file=sys.stderr)
    return written


def _draw(report: Report) -> bytes | None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=report.size, layout="constrained")
    report.draw(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=130)
    return content.getvalue()
