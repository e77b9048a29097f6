"""`bitgrove report`: from a model file, and rows of table files, to an HTML page."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from bitgrove.cli import files, tables
from bitgrove.cli.model_rows import categories_of_model, read_for
from bitgrove.data.dataset import Dataset
from bitgrove.errors import ParameterError
from bitgrove.model.model import Model, load
from bitgrove.objectives import OBJECTIVES


def run_report(args: argparse.Namespace) -> None:
    """Without --data the page shows the model alone, without --label no comparisons."""
    for name in ("label", "weight", "group"):
        if getattr(args, name) is not None and not args.data:
            raise ParameterError(f"--{name} is a column of rows: give --data FILE, too")
    files.check_output(args.out, [*(args.data or []), args.model], (".html", ".htm"))
    model = load(args.model)
    rows = rows_of_files(model, args.data, args) if args.data else None
    model.report(args.out, rows, title=args.title)
    print(f"Written to {args.out} ({os.path.getsize(args.out):,} bytes). Open it in any browser.")


def rows_of_files(model: Model, patterns: Sequence[str], args: argparse.Namespace) -> Dataset:
    """The rows that a model is shown with, in memory; the options say what their columns are."""
    table, features = read_for(model, patterns, args.delimiter, args.group)
    return Dataset(
        features,
        _labels(table, args.label, model) if args.label else None,
        weight=tables.numbers(table, args.weight) if args.weight else None,
        group=tables.group_sizes(table, args.group) if args.group else None,
        categorical_feature=list(categories_of_model(model)),
    )


def _labels(table: Any, name: str, model: Model) -> Any:
    classes = model.class_labels()
    if classes is None or not OBJECTIVES[model.objective].is_classifier:
        return tables.numbers(table, name)
    return tables.class_codes(table, name, classes)[0]
