"""Where the cases reach below the library's public names: what a Dask worker will do next."""

from __future__ import annotations

from functools import partial
from typing import Any

from bitgrove.distributed.dask import comm as _dask_comm
from bitgrove.distributed.dask import training as _dask_training
from lab.benchmarks.faults.deeds import do, trained_twice

# Their names are replaced while a case runs.
_comm: Any = _dask_comm
_training: Any = _dask_training
_real = {"train": _training.train, "make_shard": _training.make_shard}


def plant(how: dict[str, Any] | None) -> None:
    """On a worker: its next training is counted, and disturbed if there is something to do."""

    def train(*args: Any, comm: Any, **named: Any) -> Any:
        return trained_twice(partial(_real["train"], *args, **named), comm, how)

    def make_shard(*args: Any) -> Any:
        if how is not None and how["when"] == "joining":
            do(how)
        return _real["make_shard"](*args)

    _training.train, _training.make_shard = train, make_shard
    if how is not None and how["deed"] == "another version":
        _comm.__version__ = "0.0"


def uproot() -> None:
    """On a worker: as it was."""
    vars(_training).update(_real)


def n_running(dask_worker: Any) -> int:
    """Tasks that a worker has not ended."""
    return len(dask_worker.state.executing | dask_worker.state.long_running)
