"""The record of a training, which its model keeps: library version and fingerprints of the data.

Owns TrainingRecord and what of a Dataset is fingerprinted. Receives a training's Dataset, or the
header of a model file that nobody vouches for; returns a record, or a ModelFormatError.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.data.dataset import Dataset
from bitgrove.data.row_ids import RowRuns, one_run
from bitgrove.distributed.comm import Comm, SoloComm
from bitgrove.errors import ModelFormatError
from bitgrove.provenance.fingerprint import rows_of_queries, table_fingerprint
from bitgrove.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Self

_HEX = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,64}")
_ROWS = "rows"  # where a Dataset keeps the fingerprint of its rows


@dataclass(frozen=True)
class TrainingRecord:
    """What a model was trained on: sha256 fingerprints, None where the training had no such part.

    Rows of weight zero, which are left out of training, are in none of them; weights of one
    everywhere are as none.
    """

    rows: str
    labels: str
    weights: str | None = None
    groups: str | None = None
    init_scores: str | None = None
    init_model: str | None = None  # the digest of the model that training went on from
    reference: str | None = None  # rows of another Dataset that bins were made of
    version: str = __version__  # of the library

    def facts(self) -> dict[str, str | None]:
        """As JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def differences(self, other: TrainingRecord) -> Iterator[str]:
        """What is not the same in the two, in the order of the fields; the version is not data."""
        for name in PARTS:
            if getattr(self, name) != getattr(other, name):
                yield name

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Self:
        """Out of a model file."""
        names = [field.name for field in fields(cls)]
        if sorted(facts) != sorted(names):
            raise ModelFormatError(f"training: has the keys {reprlib.repr(sorted(facts))}")
        for name, value in facts.items():
            may_lack = name not in ("rows", "labels", "version")
            pattern = _VERSION if name == "version" else _HEX
            is_sound = isinstance(value, str) and pattern.fullmatch(value) is not None
            if not is_sound and not (may_lack and value is None):
                raise ModelFormatError(f"training: {name} is {reprlib.repr(value)}")
        return cls(**facts)


# What a record tells about the data, in the order in which differences are looked for.
PARTS = tuple(field.name for field in fields(TrainingRecord) if field.name != "version")


def record_of(
    dataset: Dataset,
    runs: RowRuns,
    comm: Comm,
    n_threads: int = 1,
    init_model: str | None = None,
    bins_of: Dataset | None = None,
) -> TrainingRecord:
    """Of a training on the rows of all ranks, and on all ranks the same.

    init_model: the digest of the model it goes on from. bins_of: a Dataset whose bins it shares.
    """
    group = None if dataset.group is None else rows_of_queries(dataset.group)
    weight = dataset.weight
    if weight is not None and not comm.allreduce_max(np.array([int((weight != 1.0).any())]))[0]:
        weight = None
    given = {
        "labels": dataset.label,
        "weights": weight,
        "groups": group,
        "init_scores": dataset.init_score,
    }
    found: dict[str, Any] = {"init_model": init_model}
    found["rows"] = _rows_fingerprint(dataset, runs, comm, n_threads)
    if bins_of is not None:
        whole = one_run(bins_of.n_rows)
        found["reference"] = _rows_fingerprint(bins_of, whole, SoloComm(), n_threads)
    for name, values in given.items():
        if values is not None:
            columns = [values] if values.ndim == 1 else list(values.T)
            found[name] = table_fingerprint(columns, runs, comm, n_threads=n_threads)
    return TrainingRecord(**found)


def _rows_fingerprint(dataset: Dataset, runs: RowRuns, comm: Comm, n_threads: int) -> str:
    """Kept beside the bins of a Dataset, which belong to the same values; not that of a shard."""
    kept = dataset.binned if comm.size == 1 else {}
    if _ROWS not in kept:
        kept[_ROWS] = dataset.fingerprint(runs, comm, n_threads)
    return str(kept[_ROWS])
