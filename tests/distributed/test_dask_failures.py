"""Failing well on Dask: real processes die, hang and raise; fit says who, the next one works."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, get_worker, wait

import bitgrove as bg
import bitgrove.dask as bgd
from bitgrove.callbacks import checkpoint
from bitgrove.errors import DataError, TrainingError
from dask_cases import cluster_of, in_blocks

N_WORKERS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """Three worker processes with nannies, which restart a worker that dies."""
    with cluster_of(N_WORKERS, processes=True) as client:
        yield client


@pytest.fixture
def client(cluster: Client) -> Client:
    cluster.wait_for_workers(N_WORKERS, timeout=60)
    return cluster


def rows(client: Client) -> tuple[da.Array, da.Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = X[:, 0] - X[:, 1] ** 2
    borders = range(0, 3000, 250)
    persisted = client.persist([in_blocks(X, borders), in_blocks(y, borders)])
    wait(persisted)
    return persisted


def fits(client: Client) -> None:
    """The cluster still trains, and the model is right."""
    client.wait_for_workers(N_WORKERS, timeout=60)
    X, y = rows(client)
    fitted = bgd.BitGroveRegressor(n_estimators=3, client=client).fit(X, y)
    solo = bg.BitGroveRegressor(n_estimators=3).fit(X.compute(), y.compute())
    assert fitted.model_.digest() == solo.model_.digest()


def strike(victim: str, action: str, state: Any) -> None:
    """A callback that does its worst on one worker, at the second iteration."""
    if state.iteration != 2 or get_worker().address != victim:
        return
    if action == "raise":
        raise RuntimeError("the disk is on fire")
    if action == "sleep":
        time.sleep(12)
    else:
        os.kill(os.getpid(), getattr(signal, action))


def victim_of(client: Client, X: da.Array) -> tuple[str, int]:
    """Address and process id of a worker that holds rows."""
    address = max(holder for holders in client.who_has(X).values() for holder in holders)
    return address, client.run(os.getpid)[address]


@pytest.mark.parametrize("action", ["SIGKILL", "raise", "sleep", "SIGSTOP"])
def test_one_worker_ends_all(client: Client, action: str) -> None:
    X, y = rows(client)
    victim, pid = victim_of(client, X)
    timeout = 6.0 if action in ("sleep", "SIGSTOP") else 60.0
    regressor = bgd.BitGroveRegressor(n_estimators=100, client=client, distributed_timeout=timeout)
    started = time.monotonic()
    try:
        with pytest.raises(TrainingError, match=f"worker {victim}") as caught:
            regressor.fit(X, y, callbacks=[partial(strike, victim, action)])
    finally:
        if action == "SIGSTOP":
            os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - started < 30
    expected = {
        "SIGKILL": "died",
        "raise": "the disk is on fire",
        "sleep": "no word from it for 6 s",
        "SIGSTOP": "no word from it for 6 s",
    }[action]
    assert expected in str(caught.value)
    assert not hasattr(regressor, "model_")
    fits(client)


def test_training_goes_on_from_a_checkpoint(client: Client, tmp_path: Path) -> None:
    X, y = rows(client)
    path = tmp_path / "checkpoint.bitgrove"
    victim, _ = victim_of(client, X)
    regressor = bgd.BitGroveRegressor(n_estimators=6, client=client)
    save = checkpoint(path, every=1)
    with pytest.raises(TrainingError, match=f"worker {victim}"):
        regressor.fit(X, y, callbacks=[save, partial(strike, victim, "SIGKILL")])
    assert 1 <= bg.load(path).n_iterations <= 2
    client.wait_for_workers(N_WORKERS, timeout=60)
    regressor.fit(X, y, resume_from=path)
    solo = bg.BitGroveRegressor(n_estimators=6).fit(X.compute(), y.compute())
    assert regressor.model_.digest() == solo.model_.digest()


def test_a_worker_that_died_before_training(client: Client) -> None:
    """Dask computes its partitions again, elsewhere."""
    X, y = rows(client)
    _, pid = victim_of(client, X)
    os.kill(pid, signal.SIGKILL)
    solo = bg.BitGroveRegressor(n_estimators=2)
    fitted = bgd.BitGroveRegressor(n_estimators=2, client=client).fit(X, y)
    client.wait_for_workers(N_WORKERS, timeout=60)
    assert fitted.model_.digest() == solo.fit(X.compute(), y.compute()).model_.digest()


def test_a_bad_partition(client: Client) -> None:
    X, y = rows(client)
    broken = X.map_blocks(
        lambda block, block_info=None: block[:, :4] if block_info[0]["chunk-location"][0] == 7
        else block, dtype=float, chunks=X.chunks,
    )  # fmt: skip
    with pytest.raises(DataError, match=r"partition 7 \(on worker tcp://.*4 features"):
        bgd.BitGroveRegressor(n_estimators=3, client=client).fit(broken, y)
    fits(client)


def test_a_partition_that_cannot_be_computed(client: Client) -> None:
    X, y = rows(client)

    def fail(block: Any) -> Any:
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        bgd.BitGroveRegressor(client=client).fit(X.map_blocks(fail, dtype=float), y)
    fits(client)


def test_two_fits_at_once(client: Client) -> None:
    """They take turns: one waiting for the other's workers would never end."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: fits(client), range(2)))
