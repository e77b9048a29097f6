"""Table 2 at the paper's own size, and what the same runs say to Table 3 and Figures 5 and 8.

Rows are made on the device (lab.full_size). Each cell trains once; the test metric is taken at the
iteration that a validation part chose, with a bootstrap over the test rows whose draws are the same
for all runs, so that differences from full precision are paired. The first pass runs every set with
one seed, later passes add seeds: --seconds may end it anywhere.
"""

from __future__ import annotations

from typing import Any

from lab.full_size.report import report
from lab.full_size.training import FullBench, fingerprint, run, size_of
from lab.running.experiment import Cell, Experiment, Report, Result, Results
from lab.running.study import Bench, Study
from lab.systems import lineup

DEFAULT = "default"  # what users get who say nothing about bits


def parameters(label: str) -> dict[str, Any]:
    """What a system is told beyond the set's settings."""
    if label == DEFAULT:
        return {}
    system = lineup.ours(label)
    return {"gradient_bits": system.bits, **system.more}


class FullSize(Experiment):
    name = "full_size"
    summary = "the paper's sets at the paper's size: accuracy, GPU time, widths, hessians"
    devices = ("cpu", "cuda")
    timed = True
    may_fail = True
    reports_parts = True

    def __init__(self) -> None:
        self._bench: FullBench | None = None

    def plan(self, study: Study) -> list[Cell]:
        """Bits with one seed, the other ways of rounding, then the other seeds."""
        names = study.names()

        def cells(variant: str, seed: int) -> list[Cell]:
            return [Cell(n, lineup.quantized(b, variant), seed) for n in names for b in study.bits]

        first = [
            Cell(name, label)
            for name in names
            for label in (lineup.FULL, *map(lineup.quantized, study.bits), DEFAULT)
        ]
        others = [cell for variant in lineup.VARIANTS if variant != "SR refit"
                  for cell in cells(variant, 0)]  # fmt: skip
        seeds = range(1, study.seeds)
        more = [cell for seed in seeds for cell in cells("SR refit", seed)]
        return [*first, *more[: len(more) // 2], *_by_set(others, names), *more[len(more) // 2 :],
                *(cell for seed in seeds for cell in cells("SR no refit", seed))]  # fmt: skip

    def fingerprint(self, cell: Cell, bench: Bench) -> str:
        return fingerprint(cell.dataset, size_of(bench.study))

    def measure(self, cell: Cell, bench: Bench) -> Result:
        size = size_of(bench.study)
        if self._bench is None or self._bench.size != size:
            self._bench = FullBench(size)
        print(f"\n{cell.system}: ", end="", flush=True)
        return run(self._bench, cell.dataset, parameters(cell.system), cell.seed)

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        return report(results)


def _by_set(cells: list[Cell], names: list[str]) -> list[Cell]:
    """All cells of a set after each other."""
    return [cell for name in names for cell in cells if cell.dataset == name]
