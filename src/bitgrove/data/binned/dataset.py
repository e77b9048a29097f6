"""Datasets written as bins to a file, and opened from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bitgrove.data.binned import file
from bitgrove.data.binning import Binning
from bitgrove.data.dataset import Dataset
from bitgrove.data.row_ids import one_run
from bitgrove.data.tables import Columns
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import DataError
from bitgrove.machine.files import PathLike
from bitgrove.params import resolve


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
    binning = origin.binning or Binning(
        checked.max_bin, checked.bin_sample_rows, checked.random_state, origin.n_rows
    )
    parts = (rows.label, rows.weight, rows.group, rows.init_score)
    file.write(
        path,
        file.Parts(
            Columns(made.columns, made.feature_names, dict(made.levels)),
            made.edges,
            binning,
            *parts,
        ),
    )


def open_dataset(path: PathLike) -> Dataset:
    """A Dataset that `Dataset.save` wrote, mapped into memory; see docs/streams.md.

    Several processes that open one file share its pages. The file is checked before it is used.
    """
    parts = file.read(path)
    dataset = Dataset.of_columns(parts.table, parts.edges)
    dataset.binning = parts.binning
    dataset.label, dataset.weight = parts.label, parts.weight
    dataset.group, dataset.init_score = parts.group, parts.init_score
    return dataset
