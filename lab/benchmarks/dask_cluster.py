"""What does training on Dask cost? Time, bytes and messages per tree, beside LightGBM's Dask.

    pip install -e '.[dask,peers]'
    python -m lab bench dask_cluster --rows 200000 --workers 1 2 3

All workers are processes of this machine with one thread each. The time per tree is the difference
between a long and a short fit, divided by the difference in trees; runs of the libraries take
turns, the best of --repeats counts. Bytes and messages are those that a rank sends, the mean over
ranks. With more workers than cores the times say little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, get_worker, wait

import bitgrove.dask
from lab import benchmarks
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table

_TOPIC = "bitgrove-benchmark"


def count_traffic(state: Any) -> None:
    """A callback: what this rank has sent so far."""
    comm = state.booster.comm
    sent = {"rank": comm.rank, "bytes": comm.n_bytes, "messages": comm.n_messages}
    get_worker().log_event(_TOPIC, {"iteration": state.iteration, **sent})


def make_bitgrove(options: argparse.Namespace) -> Callable[[int], Any]:
    return lambda trees: bitgrove.dask.BitGroveClassifier(
        n_estimators=trees,
        num_leaves=options.leaves,
        gradient_bits=options.bits,
        min_child_weight=100.0,
    )


def make_lightgbm(options: argparse.Namespace) -> Callable[[int], Any]:
    import lightgbm

    return lambda trees: lightgbm.DaskLGBMClassifier(
        n_estimators=trees,
        num_leaves=options.leaves,
        min_child_weight=100.0,
        use_quantized_grad=True,
        num_grad_quant_bins=2**options.bits - 2,
        quant_train_renew_leaf=True,
        tree_learner="data",
        verbosity=-1,
    )


def seconds_of(fit: Callable[[], Any]) -> float:
    started = time.perf_counter()
    fit()
    return time.perf_counter() - started


def time_per_tree(
    makers: dict[str, Callable[[int], Any]], X: Any, y: Any, options: argparse.Namespace
) -> dict[str, float]:
    """Best milliseconds per tree of each library."""
    best = {name: {"short": float("inf"), "long": float("inf")} for name in makers}
    lengths = {"short": options.trees // 5, "long": options.trees}
    for _ in range(options.repeats):
        for name, make in makers.items():
            for length, trees in lengths.items():
                estimator = make(trees)
                seconds = seconds_of(partial(estimator.fit, X, y))
                best[name][length] = min(best[name][length], seconds)
    n_trees = lengths["long"] - lengths["short"]
    return {name: (t["long"] - t["short"]) / n_trees * 1e3 for name, t in best.items()}


def traffic_per_tree(client: Client, make: Callable[[int], Any], X: Any, y: Any) -> list[float]:
    """Bytes and messages that a rank sends for a tree: from the second of four to the last."""
    model = make(4).fit(X, y, callbacks=[count_traffic]).model_
    events = [event for _, event in client.get_events(_TOPIC)][-4 * len(client.nthreads()) :]
    total = np.zeros(2)
    for event in events:
        sign = {1: -1, 4: 1}.get(event["iteration"], 0)
        total += sign * np.array([event["bytes"], event["messages"]])
    n_ranks = len({event["rank"] for event in events})
    return [*(total / n_ranks / 3), float(np.mean(model.info.rounds_per_tree))]


def measure(n_workers: int, options: argparse.Namespace) -> list[str]:
    X, y = make_higgs_like(options.rows, 0)
    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        chunk = -(-options.rows // (4 * n_workers))
        lazy = [da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk)]
        lazy_X, lazy_y = client.persist(lazy)
        wait([lazy_X, lazy_y])
        client.rebalance()
        makers = {"bitgrove": make_bitgrove(options), "lightgbm": make_lightgbm(options)}
        n_bytes, messages, rounds = traffic_per_tree(client, makers["bitgrove"], lazy_X, lazy_y)
        times = time_per_tree(makers, lazy_X, lazy_y, options)
    ratio = times["lightgbm"] / times["bitgrove"]
    facts = [times["bitgrove"], times["lightgbm"], ratio, n_bytes / 1e3, messages, rounds]
    formats = [".0f", ".0f", ".2f", ",.0f", ".0f", ".1f"]
    return [str(n_workers), *(format(x, f) for x, f in zip(facts, formats, strict=True))]


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("dask_cluster")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--trees", type=int, default=25)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--bits", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args(words)
    print(machine())
    print(f"\n{options.rows:,} x 28, {options.leaves} leaves, {options.bits} bits\n")
    head = ["workers", "bitgrove, ms per tree", "LightGBM, ms per tree", "LightGBM / bitgrove"]
    head += ["KB sent per rank and tree", "messages per rank and tree", "rounds per tree"]
    print(markdown_table(head, [measure(n, options) for n in options.workers]))
