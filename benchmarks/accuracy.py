"""Does integer training cost accuracy? Every system on every dataset, over several seeds.

Each seed draws its own rows (80% per tree) and features (90% per tree), so that
full precision has a spread of its own to be measured against. A second pass
without sampling shows quantization alone. Results are appended to a JSONL cache
as they come: stop at any time and start again with the same options.

    python benchmarks/accuracy.py --data-dir DIR
    python benchmarks/accuracy.py --quick          # generated tables, a few minutes
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

import tasks
from bitgrove.paper.peers import system
from bitgrove.paper.systems import Prepared, Settings, System
from reporting import machine, markdown_table, n_cores, write_json
from scoring import HIGHER_IS_BETTER, score
from tasks import Task

SYSTEMS = (
    "bitgrove", "bitgrove-2", "bitgrove-3", "bitgrove-4", "bitgrove-5",
    "lightgbm", "lightgbm-2", "lightgbm-3", "lightgbm-4", "lightgbm-5", "xgboost", "catboost",
)  # fmt: skip
SAMPLING: dict[str, dict[str, Any]] = {
    "sampled": {"subsample": 0.8, "colsample": 0.9},
    "whole": {},
}
TOLERANCE = 0.001  # of the metric: what quantization may cost
_UNSAMPLED_SEEDS = 3  # without sampling the seed only moves the rounding


@dataclass(frozen=True)
class Run:
    """One training: everything its result depends on."""

    dataset: str
    shape: str
    system: str
    version: str
    sampling: str
    seed: int
    settings: dict[str, Any]

    @property
    def key(self) -> str:
        # Threads are left out: a benchmark moved to another machine keeps its results.
        settings = {k: v for k, v in self.settings.items() if k != "n_threads"}
        return json.dumps({**asdict(self), "settings": settings}, sort_keys=True)


@dataclass(frozen=True)
class Spread:
    """A metric over the seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def squared_error(self) -> float:
        return self.std**2 / len(self.values)

    def __str__(self) -> str:
        spread = f" ± {self.std:.5f}" if len(self.values) > 1 else ""
        return f"{self.mean:.5f}{spread}"


def welch(one: Spread, other: Spread) -> float:
    """Standard error of the difference of two means."""
    return float((one.squared_error + other.squared_error) ** 0.5)


class Cache:
    """Results by run, kept in a JSONL file that only grows; the last line of a key counts."""

    def __init__(self, path: Path, forget: Sequence[str]) -> None:
        self.path = path
        self.results: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if not any(record["run"]["system"].startswith(prefix) for prefix in forget):
                    self.results[Run(**record["run"]).key] = record["result"]

    def add(self, run: Run, result: dict[str, Any]) -> None:
        self.results[run.key] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"run": asdict(run), "result": result}) + "\n")


def main() -> int:
    options = parse()
    data_dir = tasks.data_dir_from(options.data_dir)
    names = options.datasets or tasks.available(data_dir)
    systems = [system(name) for name in options.systems]
    cache = Cache(options.cache, options.again)
    print(f"machine: {machine()}\nthreads: {options.threads}, {options.trees} trees\n")
    reports, records, broken = [], [], False
    for name in names:
        task = tasks.load(name, data_dir, options.max_rows)
        runs = list(plan(task, systems, options))
        carry_out(task, runs, {s.name: s for s in systems}, cache)
        for sampling in options.sampling:
            chosen = [run for run in runs if run.sampling == sampling]
            report = Report(task, sampling, chosen, cache)
            print(report.text(), flush=True)
            reports.append(report)
        records += [{"run": asdict(run), "result": cache.results[run.key]} for run in runs]
        broken |= any(
            run.system.startswith("bitgrove") and "error" in cache.results[run.key] for run in runs
        )
    print(summary(reports))
    if options.json:
        write_json(options.json, {"machine": machine(), "runs": records})
    return int(broken)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, help="folder of parquet files (or BITGROVE_DATA)")
    parser.add_argument("--datasets", nargs="+", help="names; all that are there when not given")
    parser.add_argument("--systems", nargs="+", default=SYSTEMS)
    parser.add_argument("--sampling", nargs="+", choices=list(SAMPLING), default=list(SAMPLING))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--max-rows", type=int, default=300_000, help="of train and test together")
    parser.add_argument("--threads", type=int, default=n_cores())
    parser.add_argument("--cache", type=Path, default=Path("accuracy_runs.jsonl"))
    parser.add_argument("--again", nargs="+", default=(), metavar="SYSTEM",
                        help="forget the cached results of systems that begin so")  # fmt: skip
    parser.add_argument("--json", type=Path, help="write all results here")
    parser.add_argument("--quick", action="store_true", help="20,000 rows, 20 trees, 2 seeds")
    options = parser.parse_args()
    if options.quick:
        options.max_rows, options.trees, options.seeds = 20_000, 20, 2
    return options


def plan(task: Task, systems: list[System], options: argparse.Namespace) -> Iterator[Run]:
    """The runs of one dataset; systems side by side, so that a stopped benchmark is of use."""
    for sampling in options.sampling:
        settings = Settings(n_trees=options.trees, n_threads=options.threads, **SAMPLING[sampling])
        for entry in (e for e in systems if e.supports(task)):
            n_seeds = options.seeds
            if sampling == "whole":  # full precision has no use for a seed
                n_seeds = 1 if entry.bits is None else min(n_seeds, _UNSAMPLED_SEEDS)
            for seed in range(n_seeds):
                yield Run(
                    task.name, task.shape, entry.name, entry.version,
                    sampling, seed, asdict(settings),
                )  # fmt: skip


def carry_out(task: Task, runs: list[Run], systems: dict[str, System], cache: Cache) -> None:
    """Train what the cache does not hold yet."""
    missing = [run for run in runs if run.key not in cache.results]
    prepared: dict[tuple[str, str], Prepared] = {}
    for run in tqdm(missing, desc=task.name, unit="run", disable=not missing):
        entry, settings = systems[run.system], Settings(**run.settings)
        slot = (run.system, run.sampling)
        if slot not in prepared:
            prepared = {slot: entry.prepare(task, settings)}  # one binned table at a time
        start = time.perf_counter()
        try:
            model = entry.train(prepared[slot], settings, run.seed).model
        except Exception as error:  # a peer's crash is a result, not the end of the benchmark
            cache.add(run, {"error": f"{type(error).__name__}: {error}".splitlines()[0]})
            continue
        seconds = time.perf_counter() - start
        prediction = entry.predictor(model, task, settings.n_threads)(task.X_test)
        cache.add(run, {"metrics": score(task, prediction), "seconds": seconds})


class Report:
    """The systems of one dataset under one sampling, compared with bitgrove's full precision."""

    def __init__(self, task: Task, sampling: str, runs: list[Run], cache: Cache) -> None:
        self.task, self.sampling = task, sampling
        self.systems = list(dict.fromkeys(run.system for run in runs))
        self.results = {
            name: [cache.results[run.key] for run in runs if run.system == name]
            for name in self.systems
        }
        done = [r for results in self.results.values() for r in results if "metrics" in r]
        self.metrics = list(done[0]["metrics"]) if done else []

    def spread(self, name: str, metric: str) -> Spread | None:
        """None where the system was left out or any of its runs failed."""
        results = self.results.get(name, [])
        if not results or any("error" in result for result in results):
            return None
        return Spread(tuple(result["metrics"][metric] for result in results))

    def text(self) -> str:
        title = f"## {self.task.name}, {self.sampling} ({self.task.shape}; {self.task.note})"
        columns = ["system"]
        for metric in self.metrics:
            columns += [metric, "better than full, %"]
        table = markdown_table([*columns, "s per run"], [self._row(n) for n in self.systems])
        lines = [self.versus_lightgbm(), *self.bits_verdicts().values()]
        return "\n".join([title, "", table, "", *[f"- {line}" for line in lines if line], ""])

    def _row(self, name: str) -> list[str]:
        failed = [result["error"] for result in self.results[name] if "error" in result]
        if failed:
            cells = [f"{len(failed)} of {len(self.results[name])} failed", ""]
            return [name, *cells, *[""] * (2 * len(self.metrics) - 2), ""]
        cells = []
        for metric in self.metrics:
            spread = self.spread(name, metric)
            difference = self.better_than_full(name, metric)
            cells += [str(spread), "" if difference is None else f"{difference:+.3f}"]
        seconds = statistics.fmean(result["seconds"] for result in self.results[name])
        return [name, *cells, f"{seconds:.2f}"]

    def better_than_full(self, name: str, metric: str) -> float | None:
        """Percent by which the mean is better (+) or worse (-) than bitgrove's full precision."""
        full, spread = self.spread("bitgrove", metric), self.spread(name, metric)
        if name == "bitgrove" or full is None or spread is None:
            return None
        sign = 1 if HIGHER_IS_BETTER[metric] else -1
        return sign * 100 * (spread.mean - full.mean) / abs(full.mean)

    def versus_lightgbm(self) -> str:
        """Is full precision as good as LightGBM's?"""
        if not self.metrics:
            return ""
        ours, theirs = (self.spread(n, self.metrics[0]) for n in ("bitgrove", "lightgbm"))
        if ours is None or theirs is None:
            return ""
        gap, error = ours.mean - theirs.mean, welch(ours, theirs)
        text = f"full precision - LightGBM = {gap:+.5f} {self.metrics[0]}"
        if error == 0:
            return text
        inside = "yes" if abs(gap) <= 2 * theirs.std else "no"
        return (
            f"{text} ± {error:.5f}; within LightGBM's spread (2 std {2 * theirs.std:.5f}): {inside}"
        )

    def bits_verdicts(self) -> dict[str, str]:
        """Per bitgrove system with few bits: is it within the tolerance of full precision?"""
        verdicts = {}
        for name in self.systems:
            library, _, bits = name.partition("-")
            if library != "bitgrove" or not bits or not self.metrics:
                continue
            difference = self.better_than_full(name, self.metrics[0])
            full, spread = (self.spread(n, self.metrics[0]) for n in ("bitgrove", name))
            if difference is None or full is None or spread is None or len(full.values) < 2:
                continue  # one run of full precision has no spread to judge by
            noise = 100 * welch(full, spread) / abs(full.mean)
            verdict = "yes" if difference >= -100 * TOLERANCE else "no"
            if abs(difference + 100 * TOLERANCE) < 2 * noise:
                verdict += ", but the noise could hide the opposite"
            verdicts[name] = (
                f"{bits} bits: {difference:+.3f}% ± {noise:.3f}% of full precision; "
                f"at most {TOLERANCE:.1%} worse: {verdict}"
            )
        return verdicts


def summary(reports: list[Report]) -> str:
    """One line per dataset: the main metric of full precision and how each system differs."""
    names = list(dict.fromkeys(name for report in reports for name in report.systems))
    others = [name for name in names if name != "bitgrove"]
    rows = []
    for report in reports:
        if not report.metrics:
            continue
        metric = report.metrics[0]
        full = report.spread("bitgrove", metric)
        cells = [report.better_than_full(name, metric) for name in others]
        rows.append([
            f"{report.task.name}, {report.sampling}", metric, str(full or ""),
            *["" if cell is None else f"{cell:+.2f}%" for cell in cells],
        ])  # fmt: skip
    heading = "## Summary: main metric, and how much better (+) or worse (-) than full precision"
    return f"{heading}\n\n{markdown_table(['dataset', 'metric', 'bitgrove', *others], rows)}\n"


if __name__ == "__main__":
    raise SystemExit(main())
