"""Sparse tables beside other libraries: seconds of fit and prediction, peak memory, accuracy.

Every figure is of a process of its own, the systems in turn; of repeated ones the smallest. Fit is
timed by the clock on the wall and by that of all threads, which other load on the machine disturbs
less. Memory is what the process grew by at its highest, the given table and labels included, over
the bytes of that table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lab.benchmarks import again, parser
from lab.benchmarks.measures import CLOCKS, peak_mb, resident_mb
from lab.reporting import machine, markdown_table
from lab.systems.base import Settings
from lab.systems.lineup import system

Rows = tuple[Any, Any]  # a CSR matrix of float64, and labels of two classes


def text_like(n_rows: int, n_columns: int = 50_000, per_row: int = 100) -> Rows:
    """Words drawn by Zipf's law, worth term frequency times rarity, rows of length one."""
    rng = np.random.default_rng(0)
    chance = 1.0 / np.arange(1, n_columns + 1)
    ends = np.cumsum(chance / chance.sum())
    words = np.searchsorted(ends, rng.random((n_rows, per_row))).clip(max=n_columns - 1)
    counts = sparse.csr_matrix(
        (np.ones(n_rows * per_row), words.ravel(), np.arange(0, n_rows * per_row + 1, per_row)),
        shape=(n_rows, n_columns),
    )
    counts.sum_duplicates()
    rarity = np.log(n_rows / (1.0 + np.bincount(counts.indices, minlength=n_columns)))
    counts.data *= np.maximum(rarity, 0.1)[counts.indices]
    length = np.sqrt(counts.multiply(counts).sum(axis=1)).A1
    counts.data /= np.repeat(length, np.diff(counts.indptr))
    return counts, _labels(counts, rng)


def click_log(n_rows: int, n_columns: int = 100_000, n_fields: int = 39) -> Rows:
    """One value of each field per row, one-hot; fields of very different numbers of values."""
    rng = np.random.default_rng(1)
    shares = np.geomspace(1, 2000, n_fields)
    sizes = np.maximum(2, (shares / shares.sum() * n_columns).astype(int))
    sizes[-1] += n_columns - sizes.sum()
    firsts = np.cumsum(sizes) - sizes
    indices = np.empty((n_rows, n_fields), dtype=np.int32)
    for field, (first, size) in enumerate(zip(firsts, sizes, strict=True)):
        drawn = np.floor(size ** rng.random(n_rows) - 1.0).astype(np.int32)  # the first most often
        indices[:, field] = first + np.minimum(drawn, size - 1)
    pointers = np.arange(0, n_rows * n_fields + 1, n_fields)
    ones = np.ones(n_rows * n_fields)
    rows = sparse.csr_matrix((ones, indices.ravel(), pointers), shape=(n_rows, n_columns))
    return rows, _labels(rows, rng)


def uniform(n_rows: int, n_columns: int = 5_000, share: float = 0.01) -> Rows:
    """Real numbers at random places."""
    rng = np.random.default_rng(2)
    rows = sparse.random(n_rows, n_columns, share, "csr", random_state=rng)
    return rows, _labels(rows, rng)


def _labels(rows: Any, rng: Any) -> Any:
    worth = rng.normal(size=rows.shape[1]) * (rng.random(rows.shape[1]) < 0.2)
    score = rows @ worth
    score = (score - score.mean()) / max(score.std(), 1e-9)
    return (score + 0.5 * rng.normal(size=len(score)) > 0).astype(np.float64)


TABLES: dict[str, tuple[Callable[[int], Rows], int]] = {
    "text": (text_like, 50_000),
    "clicks": (click_log, 1_000_000),
    "uniform": (uniform, 50_000),
}


def main(words: Sequence[str]) -> int:
    options = parser("sparse")
    options.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    options.add_argument("--scale", type=float, default=1.0, help="of the rows")
    options.add_argument("--systems", nargs="*", default=["bitgrove-3", "lightgbm", "xgboost"])
    options.add_argument("--trees", type=int, default=20)
    options.add_argument("--leaves", type=int, default=31)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.child:
        entry, folder = given.child
        print(json.dumps(_measure(entry, folder, given)))
        return 0
    print(f"machine: {machine()}\n")
    for name in given.tables:
        with tempfile.TemporaryDirectory() as folder:
            _report(name, Path(folder), given)
    return 0


def _report(name: str, folder: Path, given: argparse.Namespace) -> None:
    make, n_rows = TABLES[name]
    rows, y = make(int(n_rows * given.scale))
    held_out = min(len(y) // 5, 50_000)
    sparse.save_npz(folder / "train.npz", rows[held_out:], compressed=False)
    sparse.save_npz(folder / "test.npz", rows[:held_out], compressed=False)
    np.savez(folder / "labels.npz", train=y[held_out:], test=y[:held_out])
    print(f"{name}: {rows.shape[0] - held_out:,} x {rows.shape[1]:,}, {given.leaves} leaves, "
          f"{given.trees} trees, {given.threads} threads")  # fmt: skip
    told = ("trees", "leaves", "threads")
    how = [f"--{word}={getattr(given, word)}" for word in told]
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(given.repeats):
        for entry in given.systems:
            command = again("sparse", *how, "--child", entry, str(folder))
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found.setdefault(entry, []).append(json.loads(answer.splitlines()[-1]))
    names = list(next(iter(found.values()))[0])
    least = [[s, *(f"{min(r[n] for r in runs):.4g}" for n in names)] for s, runs in found.items()]
    print("\n" + markdown_table(["system", *names], least) + "\n", flush=True)


def _measure(entry: str, folder: str, given: argparse.Namespace) -> dict[str, float]:
    """One system, in this process."""
    from sklearn.metrics import roc_auc_score

    settings = Settings(n_trees=given.trees, num_leaves=given.leaves, n_threads=given.threads)
    classifier = system(entry).classifier(settings)
    small = sparse.random(200, 5, 0.5, "csr", random_state=0)
    classifier.fit(small, np.arange(200) % 2)  # what is loaded at first use
    labels = np.load(f"{folder}/labels.npz")
    before = resident_mb()
    rows = sparse.load_npz(f"{folder}/train.npz")
    table_mb = (rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes) / 2**20
    fitted = _seconds(lambda: classifier.fit(rows, labels["train"]))
    peak = peak_mb() - before
    test = sparse.load_npz(f"{folder}/test.npz")
    found: list[Any] = []
    predicted = _seconds(lambda: found.append(classifier.predict_proba(test)[:, 1]))
    return {
        "s to fit": fitted["wall"],
        "of all threads": fitted["cpu"],
        "s to predict": predicted["wall"],
        "MB at peak": peak,
        "of the table": peak / table_mb,
        "AUC": float(roc_auc_score(labels["test"], found[0])),
    }


def _seconds(work: Callable[[], Any]) -> dict[str, float]:
    """By each clock."""
    start = {name: clock() for name, clock in CLOCKS.items()}
    work()
    return {name: clock() - start[name] for name, clock in CLOCKS.items()}
