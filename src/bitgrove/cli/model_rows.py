"""Rows of table files for a model that exists: predict, explain and report read them alike.

Receives a Model, files and what is said of their columns; returns the whole table, and of it the
model's features in its own order, with the types of its training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bitgrove.cli import files, tables
from bitgrove.data.levels import TEXT
from bitgrove.model.model import Model

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FORMATS = (".csv", ".tsv", ".parquet", ".pq")


def categories_of_model(model: Model) -> dict[str, bool]:
    """The model's categories by name: whether they are text, whatever a file's values look like."""
    levels = {} if model.encoder is None else model.encoder.levels
    return {model.feature_names[f]: found.kind == TEXT for f, found in levels.items()}


def read_for(
    model: Model, patterns: Sequence[str], delimiter: str | None, group: str | None = None
) -> tuple[pa.Table, pa.Table]:
    """All columns of the files, and the features."""
    categories = categories_of_model(model)
    text = frozenset(name for name, is_text in categories.items() if is_text)
    table = files.read_table(patterns, files.Reading(delimiter, group=group, text=text))
    return table, tables.feature_table(table, model.feature_names, categories)


def output_names(model: Model) -> list[Any]:
    """The classes, or the numbers of the outputs where these are something else."""
    is_class = model.classes is not None and model.n_classes == model.n_outputs
    return list(model.classes or ()) if is_class else list(range(model.n_outputs))
