"""What the ranks of one training must have in common, checked before any work.

Receives this rank's parameters and Dataset; every rank sees every rank's facts, so that all of them
raise the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bitgrove.data.dataset import Dataset
from bitgrove.distributed.comm import Comm, gather_facts
from bitgrove.errors import DataError, ParameterError, TrainingError, everywhere
from bitgrove.model.model import Model
from bitgrove.params import TrainParams, plain

# They change neither the model nor the order of the collectives: each rank may have its own.
_OWN_PARAMETERS = {"n_jobs", "device", "verbosity", "progress"}
_PARTS = ("label", "weight", "group", "init_score")


def agree(comm: Comm, params: TrainParams, train_set: Dataset) -> Dataset:
    """This rank's training rows; a shard without rows gets the parts that the others have.

    DataError or ParameterError, the same on all ranks, names the first rank that differs.
    """
    if comm.size == 1 and train_set.n_rows:
        return train_set
    facts = gather_facts(comm, _facts(params, train_set))
    if sum(f["n_rows"] for f in facts) == 0:
        raise everywhere(DataError, "X has 0 sample(s) while a minimum of 1 is required.")
    for rank, other in enumerate(facts):
        if other["bins"] != facts[0]["bins"]:
            raise everywhere(
                DataError,
                f"X: rank 0 has {facts[0]['bins']}, rank {rank} {other['bins']}; all ranks need "
                "rows in memory, or streams, or bins of the same edges",
            )
        _check_parameters(rank, facts[0]["params"], other["params"])
        _check_columns(rank, facts[0]["features"], other["features"])
    filled = [rank for rank, f in enumerate(facts) if f["n_rows"]]
    for what in _PARTS:
        for rank in filled:
            _check_given(what, filled[0], rank, facts)
    if train_set.n_rows:
        return train_set
    shapes = {what: facts[filled[0]][what] for what in _PARTS}
    return train_set.with_empty_parts(
        {w: shape for w, shape in shapes.items() if shape is not None}
    )


def agree_on(comm: Comm, what: str, value: Any) -> None:
    """DataError on all ranks unless they have equal (JSON) values."""
    everyone = gather_facts(comm, value)
    for rank, other in enumerate(everyone):
        if other != everyone[0]:
            raise everywhere(
                DataError, f"{what}: rank 0 has {everyone[0]} but rank {rank} has {other}"
            )


def check_same_model(comm: Comm, model: Model) -> None:
    """TrainingError on all ranks if one of them ended with other bytes: it must never happen."""
    if comm.size == 1:
        return
    digests = gather_facts(comm, model.digest())
    for rank, digest in enumerate(digests):
        if digest != digests[0]:
            raise everywhere(
                TrainingError,
                f"rank {rank} ended with another model than rank 0; are the ranks' software "
                "versions and callbacks the same?",
            )


def _facts(params: TrainParams, train_set: Dataset) -> dict[str, Any]:
    shared = {k: v for k, v in vars(params).items() if k not in _OWN_PARAMETERS}
    if params.device == "reference":  # it grows one leaf at a time, so its plans are different
        shared["device"] = "reference"
    return {
        "n_rows": train_set.n_rows,
        "params": {k: plain(v) for k, v in shared.items()},
        "features": train_set.feature_names,
        "bins": train_set.kind_of_rows(),
        **{what: _row_shape(getattr(train_set, what)) for what in _PARTS},
    }


def _row_shape(part: Any) -> list[int] | None:
    """The shape of a row: [] is one number; None where the part was not given."""
    return None if part is None else list(part.shape[1:])


def _check_parameters(rank: int, expected: dict[str, Any], found: dict[str, Any]) -> None:
    for name in sorted(expected.keys() | found.keys()):
        value = expected.get(name)
        if found.get(name) != value:
            raise everywhere(
                ParameterError,
                f"{name}: rank 0 has {value!r} but rank {rank} has {found.get(name)!r}; "
                "all ranks need the same parameters",
            )


def _check_columns(rank: int, expected: list[str], found: list[str]) -> None:
    if len(found) != len(expected):
        raise everywhere(
            DataError,
            f"X: rank 0 has {len(expected)} features but rank {rank} has {len(found)}; "
            "all shards need the same columns",
        )
    for position, (name, other) in enumerate(zip(expected, found, strict=True)):
        if name != other:
            raise everywhere(
                DataError,
                f"X: column {position} is {name!r} on rank 0 but {other!r} on rank {rank}; "
                "all shards need the same columns in the same order",
            )


def _check_given(what: str, first: int, rank: int, facts: Sequence[dict[str, Any]]) -> None:
    mine, theirs = facts[first][what], facts[rank][what]
    if mine == theirs:
        return
    if mine is None or theirs is None:
        without, having = (rank, first) if theirs is None else (first, rank)
        raise everywhere(DataError, f"{what}: rank {having} has one but rank {without} has none")
    columns = [(shape or [1])[0] for shape in (mine, theirs)]
    raise everywhere(
        DataError,
        f"{what}: rank {first} has {columns[0]} columns but rank {rank} has {columns[1]}",
    )
