"""Cases on Dask: a scheduler, three workers and a client, each a process of this machine.

The client trains and writes what it got; `run` starts all of them and returns the Outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from distributed import Client

import bitgrove as bg
import bitgrove.dask as bgd
from lab.benchmarks.faults.cases import (
    N_FEATURES,
    N_RANKS,
    N_ROWS,
    PARAMS,
    TIMEOUT,
    VICTIM,
    Case,
    Outcome,
    rows,
)
from lab.benchmarks.faults.deeds import MARK, do
from lab.benchmarks.faults.internals import n_running, plant, uproot
from lab.benchmarks.network.shaped_network import address, detach_words, enter, network

_PATIENCE = 240.0  # seconds after which a run is a hang
_N_BLOCKS = 2 * N_RANKS


# ---------------------------------------------------------------- the client


def make_block(i: int, how: dict[str, Any]) -> tuple[Any, Any]:
    """Rows and labels; a bad block, or a deed while it is computed, where the case wants it."""
    X, y = (np.array_split(part, _N_BLOCKS)[i] for part in rows())
    if i != 2 * VICTIM:
        return X, y
    if how["when"] == "computing" and not (Path(how["folder"]) / MARK).exists():
        do(how)
    if how["deed"] == "other columns":
        X = X[:, :-1]
    if how["deed"] == "a negative label":
        y = np.where(np.arange(len(y)) == 7, -1.0, y)
    return X, y


def _collections(client: Any, how: dict[str, Any]) -> tuple[Any, Any]:
    """Two blocks on each worker, so that the worker of that name is that rank."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    names = {str(worker["name"]): place for place, worker in workers.items()}
    Xs, ys = [], []
    for i in range(_N_BLOCKS):
        there = [names[str(i // 2)]] if str(i // 2) in names else None
        free = how["when"] == "computing" and there is not None
        block = client.submit(
            make_block, i, how, workers=there, allow_other_workers=free, pure=False
        )
        n_rows = N_ROWS // _N_BLOCKS
        pair = delayed(block, nout=2)
        Xs.append(da.from_delayed(pair[0], (n_rows, N_FEATURES), dtype=float))
        ys.append(da.from_delayed(pair[1], (n_rows,), dtype=float))
    return da.concatenate(Xs), da.concatenate(ys)


def _fit(client: Any, how: dict[str, Any]) -> str:
    settings = {k: v for k, v in PARAMS.items() if k != "n_jobs"}
    regressor = bgd.BitGroveRegressor(**settings, client=client, distributed_timeout=TIMEOUT)
    return str(regressor.fit(*_collections(client, how)).model_.digest())


def client(how: dict[str, Any]) -> None:
    """Fits with the deed, waits until the workers have ended, and fits again."""
    facts: dict[str, Any] = {}
    quiet = {"deed": "nothing", "when": "never", "folder": how["folder"]}
    how["pid"] = os.getpid() if how["pid"] == -1 else how["pid"]
    with Client(how["scheduler"], timeout=60) as client:
        client.wait_for_workers(N_RANKS, timeout=60)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if how["deed"] == "nothing":
            client.run(uproot)
        else:
            for place, worker in workers.items():
                mine = how if str(worker["name"]) == str(VICTIM) else None
                client.run(plant, mine, workers=[place])
        facts["started"] = time.time()
        try:
            facts |= {"kind": "model", "message": _fit(client, how)}
        except BaseException as error:
            facts |= {"kind": type(error).__name__, "message": str(error)}
        facts |= {"at": time.time(), "solo": bg.train(PARAMS, bg.Dataset(*rows())).digest()}
        _write(how, facts)
        if how["pid"] or how["deed"] in ("nothing", "cut off"):
            return
        victim = [place for place, worker in workers.items() if str(worker["name"]) == str(VICTIM)]
        others = [place for place in workers if place not in victim]
        while sum(client.run(n_running, workers=others).values()):
            time.sleep(0.1)
        facts["at"] = time.time()
        if how["deed"] in ("stopped", "out of memory"):
            os.kill(how["victim_pid"], signal.SIGKILL)
            time.sleep(1.0)
        client.run(uproot)
        facts["again"] = _fit(client, quiet)
        _write(how, facts)


def _write(how: dict[str, Any], facts: dict[str, Any]) -> None:
    (Path(how["folder"]) / "client.json").write_text(json.dumps(facts))


# ---------------------------------------------------------------- all of them


async def _scheduler(host: str, file: Path) -> None:
    from distributed import Scheduler

    async with Scheduler(host=host, port=0, dashboard=False) as scheduler:
        file.with_suffix(".new").write_text(scheduler.address)
        file.with_suffix(".new").rename(file)
        await scheduler.finished()


def _work(host: str, scheduler: str, name: str) -> None:
    asyncio.run(_worker(host, scheduler, name))


async def _worker(host: str, scheduler: str, name: str) -> None:
    from distributed import Worker

    async with Worker(scheduler, host=host, nthreads=1, name=name, dashboard=False) as worker:
        await worker.finished()


class Cluster:
    """The processes of a case: forks of this one, which has imported all that they need."""

    def __init__(self, folder: Path, apart: bool) -> None:
        self._folder, self._apart, self._stack = folder, apart, contextlib.ExitStack()

    def start(self, who: str, host: int, work: Callable[[], Any]) -> Any:
        def run() -> None:
            log = os.open(self._folder / f"{who}.log", os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if self._apart:
                enter(host)
            work()

        process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
        process.start()
        self._stack.callback(process.join)
        self._stack.callback(process.kill)
        return process

    def _host(self, number: int) -> str:
        return address(number) if self._apart else "127.0.0.1"

    def __enter__(self) -> Cluster:
        if self._apart:
            self._stack.enter_context(network(N_RANKS + 1, None))
        file, host = self._folder / "scheduler", self._host(N_RANKS)
        self.scheduler = self.start(
            "scheduler", N_RANKS, lambda: asyncio.run(_scheduler(host, file))
        )
        while not file.exists():
            time.sleep(0.05)
        self.address = file.read_text()
        self.workers = [
            self.start(f"worker-{n}", n,
                       partial(_work, self._host(n), self.address, str(n)))
            for n in range(N_RANKS)
        ]  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def run(case: Case) -> Outcome:
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name), case.apart) as cluster:
        how = {"folder": name, "scheduler": cluster.address, "deed": case.deed, "pid": 0,
               "when": case.when, "words": detach_words(VICTIM),
               "victim_pid": cluster.workers[VICTIM].pid, **case.more}  # fmt: skip
        if case.deed == "the scheduler killed":
            how |= {"deed": "killed", "pid": cluster.scheduler.pid}
        if case.deed == "the client killed":
            how |= {"deed": "killed", "pid": -1}
        facts = _facts(cluster, how)
        started = facts["started"]
        if (Path(name) / MARK).exists():
            started = json.loads((Path(name) / MARK).read_text())["at"]
        if case.deed == "the scheduler killed":
            for worker in cluster.workers:
                worker.join(_PATIENCE)
            facts["at"] = time.time()
    kind, message = facts["kind"], facts["message"]
    if kind == "model":
        kind, message = "the same model" if message == facts["solo"] else "another model", ""
    again = None if "again" not in facts else facts["again"] == facts["solo"]
    return Outcome(kind, message, facts["at"] - started, again)


def _facts(cluster: Cluster, how: dict[str, Any]) -> dict[str, Any]:
    """What the client wrote; of one that is killed, what the next one wrote."""
    quiet = {**how, "deed": "nothing", "when": "never", "pid": 0}
    for who, deeds in (("client", how), ("next", quiet)):
        process = cluster.start(who, N_RANKS, partial(client, deeds))
        process.join(_PATIENCE)
        if process.is_alive():
            raise subprocess.TimeoutExpired(who, _PATIENCE)
        if how["pid"] != -1:
            break
    facts: dict[str, Any] = json.loads((Path(how["folder"]) / "client.json").read_text())
    return facts
