"""`bitgrove explain`: what each feature adds to the score of each row (Shapley values)."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from bitgrove.cli import files, tables
from bitgrove.cli.failures import printable
from bitgrove.cli.model_rows import TABLE_FORMATS, output_names, read_for
from bitgrove.errors import DataError
from bitgrove.model.model import Model, load


def run_explain(args: argparse.Namespace) -> None:
    """Prints the features that matter most; with --out writes the contributions of every row."""
    if args.out:
        files.check_output(args.out, [*args.data, args.model], TABLE_FORMATS)
    elif args.keep:
        raise DataError("--keep: columns are copied to a file; give --out FILE")
    model = load(args.model)
    table, rows = read_for(model, args.data, args.delimiter)
    values = model.shap_values(rows, n_jobs=args.n_jobs)
    kept = {name: tables.column(table, name) for name in tables.named(table, args.keep)}
    found = _columns(model, values) if args.out else {}
    if clash := sorted(kept.keys() & found.keys()):
        raise DataError(f"--keep {clash[0]}: a column of contributions has the same name")
    sizes = np.abs(values).mean(axis=0)
    sizes = sizes if sizes.ndim == 1 else sizes.sum(axis=1)
    print(f"{table.num_rows:,} rows; mean size of what a feature adds to a score")
    for f in np.argsort(-sizes, kind="stable")[: args.top]:
        print(f"  {printable(model.feature_names[f]):<30}{sizes[f]:.6g}")
    if args.out:
        files.write_table({**kept, **found}, args.out)
        print(f"written to {args.out}; a row's columns add up to its raw score")


def _columns(model: Model, values: Any) -> dict[str, Any]:
    """One column per feature (and output), and what a row of which nothing is known gets."""
    parts = values[:, :, None] if model.n_outputs == 1 else values
    ends = [""] if model.n_outputs == 1 else [f"_{name}" for name in output_names(model)]
    expected = np.atleast_1d(model.expected_value())
    found: dict[str, Any] = {}
    for k, end in enumerate(ends):
        columns = [*parts[:, :, k].T, np.full(len(values), expected[k])]
        for name, column in zip((*model.feature_names, "expected_value"), columns, strict=True):
            if f"{name}{end}" in found:
                raise DataError(f"--out: two columns would be called {name + end!r}")
            found[f"{name}{end}"] = column
    return found
