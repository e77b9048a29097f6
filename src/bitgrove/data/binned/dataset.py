"""Datasets of bins: their values are not there any more.

Owns BinnedDataset, which a file or a stream becomes, and the way into a file and back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.binned import file
from bitgrove.data.binning import BinMapper, Binning
from bitgrove.data.dataset import Dataset
from bitgrove.data.encoder import Encoder
from bitgrove.data.levels import Levels, missing_code
from bitgrove.data.row_ids import RowRuns, one_run
from bitgrove.data.tables import Column, Columns, default_names
from bitgrove.distributed.comm import Comm, SoloComm
from bitgrove.errors import DataError
from bitgrove.machine.files import PathLike
from bitgrove.machine.threads import resolve_threads
from bitgrove.params import TrainParams, resolve
from bitgrove.provenance.fingerprint import table_fingerprint

Edges = NDArray[np.float64]


class BinnedDataset(Dataset):
    """Numbers as bins of these edges, categories as unsigned codes.

    binning: how they were made, if a file says so. digest: the fingerprint of the values.
    """

    def __init__(
        self,
        table: Columns,
        edges: Mapping[int, Edges],
        binning: Binning | None = None,
        digest: str | None = None,
    ) -> None:
        self._settle(None)
        self.columns, self.levels, self.edges = table.values, table.levels, edges
        self.feature_names = table.names or default_names(len(table.values))
        self.binning, self._digest = binning, digest
        self.label = self.weight = self.group = self.init_score = None

    def require_values(self, what: str) -> None:
        raise DataError(f"{what} needs the values of the rows, but this Dataset holds bins")

    def kind_of_rows(self) -> str:
        edges = [np.zeros(0), *(np.append(self.edges[f], np.nan) for f in sorted(self.edges))]
        digest = hashlib.sha256(np.concatenate(edges).tobytes()).hexdigest()
        return f"bins of the edges {digest[:12]}"

    def fingerprint(self, runs: RowRuns, comm: Comm, n_threads: int) -> str:
        """Of the values, where a file knows it of all its rows; else of the bins."""
        if self._digest is not None and comm.size == 1:
            return self._digest
        columns = [column.astype(np.float64) for column in self.columns]
        return table_fingerprint(columns, runs, comm, levels=self.levels, n_threads=n_threads)

    def in_bins(self, params: TrainParams, runs: RowRuns, comm: Comm) -> Dataset:
        if self.binning is not None:
            self.binning.check(params)
        return self

    def host_edges(self, params: TrainParams, runs: RowRuns, comm: Comm) -> Mapping[int, Edges]:
        self.in_bins(params, runs, comm)
        return self.edges

    def with_edges(self, edges: Mapping[int, Edges], n_jobs: int | None) -> Dataset:
        self._check_edges(edges)
        return self

    def encoded(self, encoder: Encoder, mapper: BinMapper, n_jobs: int | None) -> Sequence[Column]:
        self._check_edges({f: mapper.edges_of(f) for f in self.edges if f not in encoder.levels})
        return super().encoded(encoder, mapper, n_jobs)

    def _check_edges(self, wanted: Mapping[int, Edges]) -> None:
        for f, edges in self.edges.items():
            if f not in wanted or not np.array_equal(edges, wanted[f]):
                raise DataError(
                    f"column {self.feature_names[f]!r} was binned with other edges than those of "
                    "the training set: bin it with reference=, or keep its values"
                )

    def is_missing(self, feature: int) -> bool:
        missing = len(self.edges.get(feature, ())) + 1
        if feature in self.levels:
            missing = missing_code(len(self.levels[feature]))
        return bool((self.columns[feature] == missing).all())

    def with_levels(self, levels: Mapping[int, Levels]) -> Dataset:
        other = super().with_levels(levels)
        if other is not self and isinstance(other, BinnedDataset):
            other._digest = None
        return other

    def _with_rows(self, columns: Sequence[Column]) -> Dataset:
        other = super()._with_rows(columns)
        if isinstance(other, BinnedDataset):
            other._digest = None
        return other


def save_dataset(dataset: Dataset, path: PathLike, params: Mapping[str, Any] | None) -> None:
    """What Dataset.save does."""
    rows, checked = dataset.without_zero_weights(), resolve(params)
    origin = (dataset.reference or dataset).without_zero_weights()
    for f in sorted(origin.levels.keys() ^ rows.levels.keys()):
        raise DataError(
            f"column {rows.feature_names[f]!r} is a category of the Dataset or of its reference, "
            "and not of the other: name it in categorical_feature"
        )
    edges = origin.host_edges(checked, one_run(origin.n_rows), SoloComm())
    made = rows.with_edges(edges, checked.n_jobs)
    n_threads = resolve_threads(checked.n_jobs)
    digest = rows.fingerprint(one_run(rows.n_rows), SoloComm(), n_threads)
    binning = getattr(origin, "binning", None) or Binning(
        checked.max_bin, checked.bin_sample_rows, checked.random_state, origin.n_rows
    )
    parts = (rows.label, rows.weight, rows.group, rows.init_score)
    table = Columns(made.columns, made.feature_names, dict(made.levels))
    file.write(path, file.Parts(table, made.edges, binning, digest, *parts))


def open_dataset(path: PathLike) -> Dataset:
    """A Dataset that `Dataset.save` wrote, mapped into memory; see docs/streams.md.

    Several processes that open one file share its pages. The file is checked before it is used.
    """
    parts = file.read(path)
    dataset = BinnedDataset(parts.table, parts.edges, parts.binning, parts.digest)
    dataset.label, dataset.weight = parts.label, parts.weight
    dataset.group, dataset.init_score = parts.group, parts.init_score
    return dataset
