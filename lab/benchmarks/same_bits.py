"""The same bits everywhere: one model, trained in many ways, must have one digest.

Each case (an objective with its data and gradient bits) is trained by the NumPy
reference and by the C++ core with other thread counts, frontier sizes, layouts,
instruction sets, memory limits and numbers of ranks. The table shows the first
12 digits of each model's sha256; the exit status is 1 if any of them differs.

    python -m lab bench same_bits
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from tqdm import tqdm

import bitgrove
from bitgrove.distributed import ThreadComm, run_threads
from lab import benchmarks
from lab.datasets.simple import make_multiclass_like, make_ranking_like, make_regression_like
from lab.datasets.task import Rows
from lab.internals import make_higgs_like, simd_level
from lab.reporting import machine, markdown_table

_CASES_PER_TABLE = 6  # a digest is 12 characters wide


@dataclass(frozen=True)
class Case:
    """What is trained: data, parameters and, for early stopping, validation rows."""

    rows: Callable[[], Rows]
    params: dict[str, Any]
    valid: Callable[[], Rows] | None = None


@dataclass(frozen=True)
class Way:
    """How it is trained; none of this may change the model."""

    params: dict[str, Any] = field(default_factory=dict)
    simd: str | None = None
    n_ranks: int | None = None


@cache
def binary_rows(seed: int = 0, missing: bool = False, n_rows: int = 4000) -> Rows:
    X, y = make_higgs_like(n_rows, seed)
    if missing:
        X = X.copy()
        X[np.random.default_rng(seed).random(X.shape) < 0.1] = np.nan
    return Rows(X, y)


@cache
def regression_rows(seed: int = 0, weighted: bool = False) -> Rows:
    X, y = make_regression_like(4000, 20, seed)
    weight = np.random.default_rng(seed).gamma(2.0, size=len(y)).astype(np.float32)
    return Rows(X, y, weight if weighted else None)


@cache
def heavy_tailed_rows() -> Rows:
    rows = regression_rows()
    return Rows(rows.X, np.sinh(rows.y / 3).astype(np.float32))


@cache
def multiclass_rows() -> Rows:
    return Rows(*make_multiclass_like(3000, 4, 0))


@cache
def ranking_rows(seed: int = 0) -> Rows:
    X, y, group = make_ranking_like(120, seed)
    return Rows(X, y, group=group)


def cases() -> dict[str, Case]:
    """Every objective, every kind of gradient width, and what else touches the rows."""
    several = {"num_leaves": 63, "n_estimators": 4}
    sampled = {"subsample": 0.7, "colsample_bytree": 0.6, "random_state": 9}
    stopped = {"n_estimators": 40, "early_stopping_rounds": 2, "learning_rate": 0.5}
    plain: dict[str, Case] = {}
    for bits in (2, 3, 5, 8, None):
        params = {"objective": "binary", "gradient_bits": bits, **several}
        plain[f"binary {bits or 'full'}"] = Case(binary_rows, params)

    def case(rows: Callable[[], Rows], objective: str, bits: int | None, **more: Any) -> Case:
        common = {"objective": objective, "gradient_bits": bits}
        return Case(rows, {**common, **several, **more})

    # Enough rows that every thread has several blocks of them.
    many = {"num_leaves": 255, "n_estimators": 2}
    return plain | {
        "many rows 2": case(lambda: binary_rows(n_rows=100_000), "binary", 2, **many),
        "many rows full": case(lambda: binary_rows(n_rows=100_000), "binary", None, **many),
        "missing 3": case(lambda: binary_rows(0, True), "binary", 3),
        "sampled 3": case(lambda: binary_rows(0, True), "binary", 3, **sampled),
        "regression 3": case(regression_rows, "regression", 3),
        "regression full": case(regression_rows, "regression", None),
        "weighted 5": case(lambda: regression_rows(0, True), "regression", 5),
        "heavy tail 3": case(heavy_tailed_rows, "regression", 3, gradient_scale="robust"),
        "nearest 3": case(binary_rows, "binary", 3, rounding="nearest", refit_leaves=False),
        "multiclass 4": case(multiclass_rows, "multiclass", 4, num_class=4),
        "multiclass full": case(multiclass_rows, "multiclass", None, num_class=4, **sampled),
        "lambdarank 5": case(ranking_rows, "lambdarank", 5),
        "lambdarank full": case(ranking_rows, "lambdarank", None),
        "stopped 4": Case(
            binary_rows,
            {"objective": "binary", "gradient_bits": 4, **several, **stopped},
            valid=lambda: binary_rows(1),
        ),
    }


def ways() -> dict[str, Way]:
    """The first one is what the others are compared with."""
    return {
        "reference": Way({"device": "reference"}),
        **{f"threads {n}": Way({"n_jobs": n}) for n in (1, 2, 4)},
        **{f"frontier {alpha}": Way({"frontier_alpha": alpha}) for alpha in (0.25, 0.5, 1.0)},
        "not packed": Way({"packed": False}),
        "small pool": Way({"histogram_pool_mb": 1}),
        **{level: Way(simd=level) for level in ("scalar", "avx2", "avx512")},
        **{f"ranks {n}": Way({"n_jobs": 1}, n_ranks=n) for n in (1, 2, 3, 5)},
    }


def digest(case: Case, way: Way) -> str:
    """The sha256 of the model of this case trained in this way."""
    params = {**case.params, **way.params}
    with _instruction_set(way.simd):
        if way.n_ranks is None:
            return _train(case, params, 0, 1, None)
        found: list[str] = run_threads(
            way.n_ranks, lambda comm: _train(case, params, comm.rank, comm.size, comm)
        )
    if len(set(found)) > 1:
        raise AssertionError(f"the ranks hold different models: {found}")
    return found[0]


def _train(
    case: Case, params: dict[str, Any], rank: int, size: int, comm: ThreadComm | None
) -> str:
    rows = case.rows().shard(rank, size).dataset()
    valid = case.valid().shard(rank, size).dataset() if case.valid else None
    return str(bitgrove.train(params, rows, valid_sets=valid, comm=comm).digest())


@contextmanager
def _instruction_set(level: str | None) -> Iterator[None]:
    """Lowers the core's instruction set; the core asks the environment at each training."""
    before = os.environ.get("BITGROVE_SIMD")
    if level is not None:
        os.environ["BITGROVE_SIMD"] = level
    try:
        yield
    finally:
        os.environ.pop("BITGROVE_SIMD", None)
        if before is not None:
            os.environ["BITGROVE_SIMD"] = before


def main(words: Sequence[str]) -> int:
    parser = benchmarks.parser("same_bits")
    parser.add_argument("--cases", nargs="+", choices=list(cases()), default=list(cases()))
    parser.add_argument("--ways", nargs="+", choices=list(ways()), default=list(ways()))
    options = parser.parse_args(words)
    best = ("scalar", "avx2", "avx512")[simd_level()]
    print(f"machine: {machine()}; widest instruction set: {best}\n")
    found: dict[tuple[str, str], str] = {}
    pairs = [(case, way) for case in options.cases for way in options.ways]
    for case, way in tqdm(pairs, unit="model", leave=False):
        found[case, way] = digest(cases()[case], ways()[way])
    for start in range(0, len(options.cases), _CASES_PER_TABLE):
        shown = options.cases[start : start + _CASES_PER_TABLE]
        rows = [[way, *[found[case, way][:12] for case in shown]] for way in options.ways]
        print(markdown_table(["way", *shown], rows) + "\n")
    unequal = [case for case in options.cases if len({found[case, w] for w in options.ways}) > 1]
    for case in unequal:
        odd = [way for way in options.ways if found[case, way] != found[case, options.ways[0]]]
        print(f"{case}: differs from {options.ways[0]}: {', '.join(odd)}")
    print(f"all equal: {'no' if unequal else 'yes'}")
    return int(bool(unequal))
