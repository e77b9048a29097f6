"""How long do Shapley values take, beside other libraries, and how exactly do they add up?

    python -m lab bench shap
    python -m lab bench shap --clock cpu --threads 1    # on a busy machine

Each library explains its own model of the same rows, leaves and trees. Libraries are interleaved,
the best of --repeats counts. "adds up to" is the largest distance of a row's sum from its score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import bitgrove as bg
from lab import benchmarks
from lab.benchmarks import measures
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table

Explain = Callable[[], Any]


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("shap")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=list(measures.CLOCKS), default="wall")
    options = parser.parse_args(words)
    clock = measures.CLOCKS[options.clock]
    X, y = make_higgs_like(options.rows, 0)
    X = np.asarray(X, dtype=np.float64)
    size = (options.trees, options.leaves, options.threads)
    made = [make for name, make in SYSTEMS.items() if find_spec(name)]
    systems: dict[str, tuple[Explain, Any]] = {}
    for make in made:
        systems |= make(X, y, *size)
    best = dict.fromkeys(systems, np.inf)
    sums: dict[str, Any] = {}
    for _ in range(options.repeats):
        for name, (explain, _) in systems.items():
            start = clock()
            sums[name] = explain().sum(axis=1)
            best[name] = min(best[name], clock() - start)
    own = best["bitgrove"]
    lines = [
        [name, f"{best[name]:.3f}", f"{best[name] / own:.1f}", f"{_error(sums[name], raw):.1e}"]
        for name, (_, raw) in systems.items()
    ]
    header = ["library", f"seconds ({options.clock})", "beside bitgrove", "adds up to"]
    print(f"{options.rows} rows, {options.trees} trees of {options.leaves} leaves, "
          f"{options.threads} threads")  # fmt: skip
    print(machine(), markdown_table(header, lines), sep="\n\n")


def _error(sums: Any, raw: Any) -> float:
    return float(np.abs(sums - raw).max())


def _bitgrove(X: Any, y: Any, n_trees: int, n_leaves: int, n_threads: int) -> dict[str, Any]:
    params = {"objective": "binary", "n_estimators": n_trees, "num_leaves": n_leaves}
    model = bg.train({**params, "n_jobs": n_threads}, bg.Dataset(X, y))
    explain = lambda: model.predict(X, pred_contrib=True, n_jobs=n_threads)  # noqa: E731
    return {"bitgrove": (explain, model.predict_raw(X))}


def _lightgbm(X: Any, y: Any, n_trees: int, n_leaves: int, n_threads: int) -> dict[str, Any]:
    import lightgbm

    params = {"objective": "binary", "num_leaves": n_leaves, "verbosity": -1,
              "num_threads": n_threads}  # fmt: skip
    model = lightgbm.train(params, lightgbm.Dataset(X, y), n_trees)
    explain = lambda: model.predict(X, pred_contrib=True, num_threads=n_threads)  # noqa: E731
    return {"LightGBM": (explain, model.predict(X, raw_score=True))}


def _xgboost(X: Any, y: Any, n_trees: int, n_leaves: int, n_threads: int) -> dict[str, Any]:
    import xgboost

    params = {"objective": "binary:logistic", "max_leaves": n_leaves, "grow_policy": "lossguide",
              "max_depth": 0, "tree_method": "hist", "nthread": n_threads}  # fmt: skip
    data = xgboost.DMatrix(X, y, nthread=n_threads)
    model = xgboost.train(params, data, n_trees)
    explain = lambda: model.predict(data, pred_contribs=True)  # noqa: E731
    return {"XGBoost": (explain, model.predict(data, output_margin=True))}


SYSTEMS = {"bitgrove": _bitgrove, "lightgbm": _lightgbm, "xgboost": _xgboost}
