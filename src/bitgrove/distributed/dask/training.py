"""Training on a Dask cluster: one task per worker that holds rows, watched by the client.

Owns the tasks and what the client does while they run: it opens the post offices, submits a rank to
each worker, shows progress, and ends everything with one error when a worker dies, falls silent or
raises. Receives Parts; returns the Model. What a rank computes is bitgrove.train.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from distributed import Client, Future, Lock, get_worker, wait

from bitgrove.callbacks import Evaluation, TrainingState, log_evaluation, progress_bar
from bitgrove.data.dataset import Dataset
from bitgrove.distributed.comm import fails_together
from bitgrove.distributed.dask.comm import DaskComm, end_training, open_post_office
from bitgrove.distributed.dask.data import Bundle, Part, make_shard
from bitgrove.errors import BitgroveError, RankFailure, TrainingError
from bitgrove.model.model import Model
from bitgrove.params import TrainParams
from bitgrove.training.booster import TrainInfo
from bitgrove.training.train import train
from bitgrove.version import __version__

_TICK = 1.0  # seconds between two looks at the workers
_GRACE = 5.0  # seconds for the other ranks to end after a failure
_LOOK = 0.1  # seconds between two looks at whether it is this training's turn
_KEY = "bitgrove-train-"  # of the tasks that are ranks
_GOODBYE = 1.0  # seconds for workers to hear that a training is over; the message is sent anyway


@dataclass(frozen=True, eq=False)
class Job:
    """What every rank needs besides its rows.

    dataset_of: checks and encodes one bundle. prepared: what becomes of the shard that is trained
    on. how: further arguments of train(). valid: which of the tables each validation set is; 0 is
    the training set itself.
    """

    params: TrainParams
    feature_names: list[str]
    dataset_of: Callable[[Bundle], Dataset]
    prepared: Callable[[Dataset], Dataset]
    how: dict[str, Any]
    valid: Sequence[int] = ()


def train_on_workers(client: Client, job: Job, tables: Sequence[Sequence[Part]]) -> Model:
    """The model of the first table's rows; job.valid says which are validation sets.

    One training at a time on a cluster: two that wait for each other's workers would never end.
    """
    training, timeout = uuid.uuid4().hex, job.params.distributed_timeout
    addresses = list(dict.fromkeys(part.worker for table in tables for part in table))

    def submit() -> list[Future]:
        _open_post_offices(client, addresses, timeout)
        return [
            client.submit(
                train_rank,
                job,
                (training, rank, addresses),
                [_held_by(address, table) for table in tables],
                workers=[address],
                allow_other_workers=False,
                key=f"{_KEY}{training}-{rank}",
                retries=0,
            )
            for rank, address in enumerate(addresses)
        ]

    with _progress(client, training, job.params):  # before the first tree can be reported
        ranks = _in_turn(client, submit, addresses)
        try:
            model, info = _watch(client, ranks, addresses, timeout)
        finally:
            if _is_connected(client):  # else Dask would wait for the scheduler to come back
                client.cancel(ranks, force=True)
                alive = _workers(client)
                left = [address for address in addresses if address in alive]
                _ask(client, partial(end_training, training), left, _GOODBYE)
    model.info = info
    return model


def _in_turn(
    client: Client, submit: Callable[[], list[Future]], addresses: Sequence[str]
) -> list[Future]:
    """Submits the ranks once no other training has any, and returns when the scheduler knows them.

    The lock is held for that moment only: what a killed client was training ends at once, but a
    lock that it holds is taken back by Dask after half a minute.
    """
    while True:
        with Lock("bitgrove", scheduler_rpc=client.scheduler, loop=client.loop):
            if not any(key.startswith(_KEY) for key in _keys_at_work(client)):
                ranks = submit()
                while not _are_known(client, ranks) and _workers(client).keys() >= set(addresses):
                    time.sleep(_LOOK)
                return ranks
        time.sleep(_LOOK)


def _are_known(client: Client, ranks: Sequence[Future]) -> bool:
    at_work = _keys_at_work(client)
    return all(rank.key in at_work or rank.status != "pending" for rank in ranks)


def _keys_at_work(client: Client) -> set[str]:
    """Of the tasks that workers have been given."""
    return {str(key) for keys in client.processing().values() for key in keys}


def _held_by(address: str, table: Sequence[Part]) -> tuple[list[Future], list[int]]:
    mine = [part for part in table if part.worker == address]
    return [part.bundle for part in mine], [part.position for part in mine]


def train_rank(
    job: Job, place: tuple[str, int, list[str]], tables: list[tuple[list[Bundle], list[int]]]
) -> tuple[Model, TrainInfo] | None:
    """The task of one worker: its bundles become a shard of each table, and are trained on."""
    training, rank, addresses = place
    params, callbacks = job.params, list(job.how["callbacks"] or [])
    with DaskComm(training, rank, addresses, params.distributed_timeout) as comm:
        with fails_together(comm):
            shards = [
                make_shard(bundles, positions, job.dataset_of, job.feature_names)
                for bundles, positions in tables
            ]
            shards[0] = job.prepared(shards[0])
        comm.meet()
        if rank == 0 and (params.progress or params.verbosity >= 1):
            callbacks.append(partial(_report, training))
        n_jobs = get_worker().state.nthreads if params.n_jobs is None else params.n_jobs
        model = train(
            replace(params, n_jobs=n_jobs, progress=False, verbosity=min(params.verbosity, 0)),
            shards[0],
            valid_sets=[shards[table] for table in job.valid],
            comm=comm,
            **{**job.how, "callbacks": callbacks},
        )
    return (model, model.info or TrainInfo()) if rank == 0 else None


def _report(training: str, state: TrainingState) -> None:
    """Tells the client about an iteration."""
    evaluations = [(e.data, e.metric, e.value, e.higher_is_better) for e in state.evaluations]
    facts = {"iteration": state.iteration, "n_estimators": state.n_estimators}
    get_worker().log_event(training, {**facts, "evaluations": evaluations})


@contextmanager
def _progress(client: Client, training: str, params: TrainParams) -> Iterator[None]:
    """Prints and draws at the client what rank 0 reports."""
    callbacks: list[Any] = [log_evaluation()] if params.verbosity >= 1 else []
    callbacks += [progress_bar()] if params.progress else []

    def show(event: tuple[float, dict[str, Any]]) -> None:
        facts = event[1]
        evaluations = [Evaluation(*e) for e in facts["evaluations"]]
        for callback in callbacks:
            callback(TrainingState(facts["iteration"], facts["n_estimators"], evaluations))

    if not callbacks:
        yield
        return
    client.subscribe_topic(training, show)
    try:
        yield
    finally:
        client.unsubscribe_topic(training)
        for callback in callbacks:
            if hasattr(callback, "close"):
                callback.close()


def _watch(client: Client, ranks: list[Future], addresses: list[str], timeout: float) -> Any:
    """Rank 0's result once all ranks have ended well; else one error that names a worker."""
    heartbeats = _Heartbeats(client, addresses, timeout)
    running = list(ranks)
    while running:
        try:
            wait(running, timeout=_TICK, return_when="FIRST_COMPLETED")
        except asyncio.TimeoutError:
            heartbeats.check()
        except CancelledError:
            if _is_connected(client):
                raise TrainingError("the training was cancelled") from None
            raise TrainingError(
                "the connection to the scheduler broke: it died or is out of reach"
            ) from None
        if any(rank.status not in ("pending", "finished") for rank in running):
            _raise_failure(_ended(client, ranks, addresses), addresses)
        running = [rank for rank in running if rank.status == "pending"]
    return ranks[0].result()


class _Heartbeats:
    """When the scheduler last heard of each worker."""

    def __init__(self, client: Client, addresses: Sequence[str], timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self._seen = {address: (0.0, time.monotonic()) for address in addresses}

    def check(self) -> None:
        """TrainingError if a worker has left the cluster or was silent for too long."""
        now, workers = time.monotonic(), _workers(self.client)
        for rank, (address, (beat, since)) in enumerate(self._seen.items()):
            if address not in workers:
                raise TrainingError(f"worker {address} (rank {rank}): it died or left the cluster")
            latest = workers[address]["last_seen"]
            if latest != beat:
                self._seen[address] = latest, now
            elif now - since > self.timeout:
                raise TrainingError(
                    f"worker {address} (rank {rank}): no word from it for {self.timeout:g} s"
                )


def _ended(client: Client, ranks: Sequence[Future], addresses: Sequence[str]) -> dict[int, Any]:
    """The errors of the ranks, after a while for those that have not ended yet to do so.

    The one that the others blame may be about to say why itself, or silent for good."""
    started = time.monotonic()
    while True:
        errors = {i: rank.exception() for i, rank in enumerate(ranks) if rank.status == "error"}
        blamed = {error.rank for error in errors.values() if isinstance(error, RankFailure)}
        alive = _workers(client)
        running = {
            i for i, r in enumerate(ranks) if r.status == "pending" and addresses[i] in alive
        }
        patience = _GOODBYE if running <= blamed else _GRACE
        if not running or time.monotonic() - started > patience:
            return errors
        time.sleep(_GRACE / 50)


def _raise_failure(errors: dict[int, Any], addresses: Sequence[str]) -> NoReturn:
    """Of all the ranks' errors, the one that the others follow from."""
    causes = {i: error for i, error in errors.items() if not isinstance(error, RankFailure)}
    for rank, error in causes.items():
        if getattr(error, "everywhere", False):
            raise error
        kind = type(error) if isinstance(error, BitgroveError) else TrainingError
        raise kind(f"worker {addresses[rank]} (rank {rank}): {error}") from error
    for error in errors.values():
        message = f"worker {addresses[error.rank]} (rank {error.rank}): {error.reason}"
        raise TrainingError(message) from error
    raise TrainingError("the training was cancelled")


def _is_connected(client: Client) -> bool:
    return bool(client.status == "running")


def _workers(client: Client) -> dict[str, Any]:
    """What the scheduler knows of each worker that is there.

    Not by client.scheduler_info(): what it returns may be overwritten meanwhile, by the same
    without workers, and each of them would seem to have died.
    """
    return dict(client.sync(client.scheduler.identity, n_workers=-1)["workers"])


def _open_post_offices(client: Client, addresses: Sequence[str], timeout: float) -> None:
    answers = _ask(client, open_post_office, addresses, timeout)
    for address in addresses:
        answer = answers.get(address)
        if answer is None:
            raise TrainingError(f"worker {address} did not answer within {timeout:g} s")
        if isinstance(answer, ModuleNotFoundError):
            raise TrainingError(f"worker {address}: bitgrove[dask] is not installed: {answer}")
        if isinstance(answer, BaseException):
            raise TrainingError(f"worker {address}: {answer}") from answer
        if answer != __version__:
            raise TrainingError(f"worker {address} has bitgrove {answer}, the client {__version__}")


def _ask(
    client: Client, function: Callable[..., Any], addresses: Sequence[str], timeout: float
) -> dict[str, Any]:
    """Each worker's answer, or error; workers that say nothing in time are left out."""

    async def ask_all() -> dict[str, Any]:
        questions = {
            address: asyncio.ensure_future(
                client.run(function, workers=[address], on_error="return")
            )
            for address in addresses
        }
        await asyncio.wait(questions.values(), timeout=timeout)
        answers: dict[str, Any] = {}
        for address, question in questions.items():
            if not question.done():
                question.cancel()
            elif question.exception() is not None:
                answers[address] = question.exception()
            else:
                answers.update(question.result())
        return answers

    return dict(client.sync(ask_all))
